"""Wordings of refusals, as services and what stands before them write them, and what each may be taken for."""

import json
from itertools import product

import pytest

from payclient import errors
from payclient.errors import classify
from payclient.protocol._refusal import ABSENCES, SUBJECTS, Meaning, meaning, plain
from payclient.protocol._wire import parse_response
from payclient.transports import Response
from support.misses import check_each, check_table

REFERENCE = "T0000000033KGJ0D"

NOT_FOUND = [
    # English
    "Transaction not found",
    "transaction not found.",
    "TRANSACTION NOT FOUND!",
    "The transaction was not found",
    "Transaction could not be found",
    "The requested transaction does not exist.",
    "Transaction doesn't exist",
    "Transaction doesn\u2019t exist",
    "Reference not found",
    "Reference number not found",
    "Transaction reference not found",
    "Payment not found",
    "Unknown reference",
    "Unknown transaction",
    "No such transaction",
    "No such reference",
    "No transaction found",
    "No transaction found with the given reference",
    "No transactions found for this reference",
    "Cannot find transaction",
    "Sorry, transaction data not found",
    "Transaction details not found",
    "The transaction is not registered in our system",
    f"Transaction {REFERENCE} not found",
    f"Transaction with reference '{REFERENCE}' was not found.",
    f'Error: no transaction found for reference "{REFERENCE}"',
    # Names and codes, as programs write them
    "TRANSACTION_NOT_FOUND",
    "transaction-not-found",
    "TransactionNotFoundException",
    "ReferenceNotFoundError",
    # Laravel, Django, Rails
    r"No query results for model [App\Models\Transaction].",
    rf"No query results for model [App\Models\Transaction] {REFERENCE}",
    r"No query results for model [App\Transaction].",
    "No Transaction matches the given query.",
    f"Couldn't find Transaction with 'reference'={REFERENCE}",
    # Indonesian
    "Transaksi tidak ditemukan",
    "Data transaksi tidak ditemukan.",
    "Transaksi dengan nomor referensi tersebut tidak ditemukan",
    f"Transaksi dengan referensi {REFERENCE} tidak dapat ditemukan",
    "Nomor referensi tidak ditemukan",
    "Kode referensi tidak terdaftar",
    "No. referensi tidak ditemukan",
    "Referensi tidak dikenal",
    "Tidak ada transaksi dengan referensi ini",
    "Maaf, transaksi Anda tidak ditemukan di sistem kami",
    "Pembayaran tidak ditemukan",
    "Trx tidak ditemukan",
]
NO_DATA = ["Data not found", "Record not found", "No records found", "Data tidak ditemukan", "Tidak ada data"]
BARE = ["", "Not found", "Not Found.", "NOT_FOUND", "404 Not Found", "Error 404", "Tidak ditemukan", "failed", "E404"]
DOWN = [
    "Service under maintenance, try later",
    "Service Unavailable",
    "The server is temporarily unable to answer",
    "Sistem sedang dalam pemeliharaan",
    "Sedang ada gangguan, coba lagi beberapa saat lagi",
    "Transaction not found: service under maintenance",
    "Transaction not found, please try again later",
    "SQLSTATE[HY000] [2002] Connection refused",
    "SQLSTATE[42S02]: Base table or view not found: 1146 Table 'pay.transactions' doesn't exist",
    "Table 'pay.transactions' doesn't exist",
    'relation "transactions" does not exist',
    "ORA-00942: table or view does not exist",
    "Unknown column 'reference' in 'where clause'",
    "Transaction not found in database",
    "Database not found",
    "Koneksi ke basis data gagal",
    "getaddrinfo ENOTFOUND db.internal",
    "Redis connection [default] not found",
    r'Class "App\Models\Transaction" not found',
    'Undefined array key "reference"',
    "upstream connect error or disconnect/reset before headers",
    "Internal Server Error",
    "Whoops, looks like something went wrong.",
    "Terjadi kesalahan pada server",
    "Payment gateway timed out",
]
ELSEWHERE = [
    "The route api/transaction/detail could not be found.",
    "Route [transaction.detail] not defined.",
    "Route transaction not found",
    "The POST method is not supported for this route. Supported methods: GET, HEAD.",
    "The POST method is not supported for route api/transaction/detail. Supported methods: GET, HEAD.",
    "Method Not Allowed",
    "Cannot POST /api/transaction/detail",
    "No static resource api/transaction/detail.",
    "No handler found for POST /api/transaction/detail",
    "no Route matched with those values",
    "Transaction endpoint not found",
    "Page not found",
    "Halaman tidak ditemukan",
    "The requested URL was not found on this server.",
    "Application not found",
]
DENIED = [
    "Merchant not found",
    "Merchant tidak ditemukan",
    "Merchant is not active",
    "Unknown merchant",
    r"No query results for model [App\Models\Merchant].",
    "API key does not exist",
    "Api-Key tidak ditemukan",
    "Key not found",
    "Kunci API tidak valid",
    "Token not found",
    "Token has expired",
    "Transaction not found for this API key",
    "Signature mismatch",
    "Account not found",
    "User not found",
    "Akses ditolak",
    "IP address 192.0.2.7 is not on the list",
]
REFUSED_KEY = ["Invalid API key", "API key not found", "Unauthenticated.", "Unauthorized", "API Key tidak valid"]
UNKNOWN = [
    "whatever",
    "gone",
    "Invoice not found",
    "Order not found",
    "Payment method not found",
    "Payment channel tidak ditemukan",
    "Transaction T0000000099OTHER not found",
    "Transaction not found or expired",
    "Transaction not found for this merchant",
    "Transaction status not found",
    "Transaction service not found",
    "Reference already exists",
    "Transaksi belum ditemukan",
    "Reference is invalid",
    "Transaction found",
    "Resource not found",
    "File not found",
    "Transaksi sedang diproses",
]

FOUND_OUT = errors.TransactionNotFoundError
KINDS = {
    **{(text, status): (FOUND_OUT, True) for text in NOT_FOUND for status in (200, 400, 404, 410, 422)},
    **{(text, status): (errors.RejectedError, None) for text in NOT_FOUND[:3] for status in (202, 405, 409, 403)},
    **{(text, status): (FOUND_OUT, False) for text in NO_DATA for status in (200, 400, 404, 422)},
    **{(text, 404): (FOUND_OUT, False) for text in BARE},
    **{(text, status): (errors.RejectedError, None) for text in BARE for status in (200, 400, 422)},
    **{(text, status): (errors.ServiceError, None) for text in DOWN for status in (200, 400, 404, 422, 405, 500, 503)},
    **{(text, status): (errors.UnexpectedResponseError, None) for text in ELSEWHERE for status in (200, 404, 405)},
    **{(text, status): (errors.PermissionDeniedError, None) for text in DENIED for status in (200, 400, 404, 422)},
    **{(text, status): (errors.AuthenticationError, None) for text in REFUSED_KEY for status in (200, 400, 404, 401)},
    **{(text, 404): (errors.UnexpectedResponseError, None) for text in UNKNOWN},
    **{(text, status): (errors.RejectedError, None) for text in UNKNOWN for status in (200, 400, 422)},
    **{
        (text, status): (errors.ServiceError, None)
        for text in (*NOT_FOUND[:3], *NO_DATA, *BARE)
        for status in (500, 502, 503, 408, 425)
    },
}


def refused(body, status, reference=REFERENCE, **options):
    """Return the error that an answer means; the transaction, where it is taken for one."""
    try:
        return parse_response(Response(status, {}, json.dumps(body).encode()), reference, **options)
    except errors.ResponseError as error:
        return error


def said(text):
    """Return an envelope with that message."""
    return {"success": False, "message": text} if text else {"success": False}


def test_wording():
    """Each message with each status has one meaning; "not found" needs words about a transaction."""

    def meant(case):
        error = refused(said(case[0]), case[1])
        return type(error), getattr(error, "is_conclusive", None)

    check_each(KINDS, meant)


def test_mixed_words():
    """Words about the service, its address, a key or a merchant are never "not found", even next to "not found"."""
    mixed = ("Transaction not found. {}", "{}: transaction not found", "{} (Not Found)")
    texts = [each.format(text) for text in (*DOWN, *ELSEWHERE, *DENIED) for each in mixed]
    cases = dict.fromkeys(product(texts, (200, 400, 404, 422)), (True, False))

    def refused_otherwise(case):
        error = refused(said(case[0]), case[1])
        return isinstance(error, errors.ResponseError), type(error) is FOUND_OUT

    check_each(cases, refused_otherwise)


def test_several_texts():
    """Of several texts each must mean "not found", or nothing; one that means something else is a doubt."""
    cases = (
        ({"message": "Transaction not found", "error": "Not Found", "status": 404}, True),
        ({"error": {"code": "TRANSACTION_NOT_FOUND", "message": "Transaction not found"}}, True),
        ({"error": {"code": "NOT_FOUND", "message": "Transaction not found"}}, True),
        ({"error": {"code": "E1042", "message": "Transaksi tidak ditemukan"}}, True),
        ({"errors": {"reference": ["Transaction not found"]}}, True),
        ({"message": {"id": "Transaksi tidak ditemukan", "en": "Transaction not found"}}, True),
        ({"message": "Not Found", "error": "404"}, False),
        ({"message": "Data not found", "error": "Not Found"}, False),
        ({"message": "Transaction not found", "detail": "Lorem ipsum"}, None),
        ({"message": "Transaction not found", "error": "SQLSTATE[HY000]"}, None),
        ({"message": "Not Found", "errors": {"route": "transaction"}}, None),
    )
    check_table(cases, lambda body: getattr(refused({"success": False, **body}, 404), "is_conclusive", None))


def test_words_elsewhere():
    """Words count in any field: a refusal has no message only if it has no text at all."""
    cases = (
        ({"msg": "SQLSTATE[HY000]"}, errors.ServiceError),
        ({"data": {"message": "Service under maintenance"}}, errors.ServiceError),
        ({"meta": {"info": ["Merchant not found"]}}, errors.PermissionDeniedError),
        ({"message": "Transaction not found", "code": "ROUTE_NOT_FOUND"}, errors.UnexpectedResponseError),
        ({"message": "Not found", "trace": ["PDOException in Connection.php"]}, errors.ServiceError),
        ({"message": "Transaction not found" + " " * 9000 + "maintenance"}, errors.ServiceError),
        ({"message": "Transaction not found", "errors": [*["Not found"] * 30, "SQLSTATE"]}, errors.ServiceError),
        ({"note": "lorem ipsum"}, errors.UnexpectedResponseError),
        ({"message": "Not Found", "path": "/api/transaction/detail", "timestamp": "2026-11-22T01:00:00Z"}, FOUND_OUT),
        ({"msg": "Transaction not found"}, FOUND_OUT),
        ({"meta": {"text": "Transaction not found"}}, FOUND_OUT),
    )
    check_table(cases, lambda body: type(refused({"success": False, **body}, 404)))


@pytest.mark.parametrize(
    ("text", "fatal"), [("Some new words", False), ("Cannot POST /x", True), ("Merchant not found", False)]
)
def test_one_row_or_all(text, fatal):
    """A 404 in unknown words costs one row; one about the address is the same for every reference."""
    assert classify(refused(said(text), 404)).is_fatal is fatal


def test_unknown_words_name_the_option():
    """The error of a 404 with an unknown message quotes it and names `not_found_messages`."""
    assert refused(said("Kode tak dikenal"), 404).message == (
        'unexpected answer: message: a 404 in words that may not mean "no such transaction": '
        "if they do, pass not_found_messages: Kode tak dikenal (HTTP 404)"
    )


def test_believed_messages(subtests):
    """A message that the caller knows to mean "not found" is believed, in any case, with or without the reference."""
    cases = ("Kode tak dikenal!", f"kode {REFERENCE} tak  DIKENAL", "Transaction not found for this merchant")
    for text, status in product(cases, (200, 404)):
        with subtests.test(text=text, status=status):
            believed = frozenset(map(plain, ("kode tak dikenal", "Transaction not found for this merchant")))
            error = refused(said(text), status, not_found_messages=believed)
            assert (type(error), error.is_conclusive) == (FOUND_OUT, True)


def test_believed_message_beside_others():
    """A message that the caller knows does not make up for another one about the database."""
    body = {"success": False, "message": "Kode tak dikenal", "error": "SQLSTATE[HY000]"}
    assert type(refused(body, 404, not_found_messages=frozenset({"kode tak dikenal"}))) is errors.ServiceError


@pytest.mark.parametrize("reference", ["merchant", "route", "database", "api key"])
def test_reference_that_is_a_word(reference):
    """A reference without a digit may be a word of the message, so it is not taken out of it."""
    assert type(refused(said(f"Reference {reference} not found"), 404, reference)) is not FOUND_OUT


def test_lists():
    """Each word for a transaction with each phrase for its absence means "not found", in either order."""
    pairs = [*product(SUBJECTS, ABSENCES), *product(ABSENCES, SUBJECTS)]
    check_each(dict.fromkeys(map(" ".join, pairs), Meaning.NOT_FOUND), lambda text: meaning([text], "R"))


OTHER_REFERENCE = {
    "data": {"data": {"reference": "T9"}},
    "top": {"reference": "T9"},
    "list": {"data": [{"reference": "T9"}]},
    "nested": {"data": {"transaction": {"reference": "T9"}}},
    "number": {"reference": 9},
    "request": {"request": {"reference": 9}},
    "capital": {"Reference": "T9"},
    "capital inside": {"data": {"Reference": "T9"}},
    "four deep": {"a": {"b": {"c": {"d": {"reference": "T9"}}}}},
    "four lists deep": {"a": [[[{"reference": "T9"}]]]},
}


def test_another_reference():
    """Any refusal that names another reference is the answer to another request."""
    texts, statuses = ("Transaction not found", "Unauthorized", "No", ""), (200, 400, 401, 403, 404, 409, 422)

    def expected(place):
        name = "9" if place in ("number", "request") else "T9"
        return errors.ReferenceMismatchError, f"the answer is about '{name}', asked for '{REFERENCE}'", "once"

    def found(case):
        place, status, text = case
        error = refused({**said(text), **OTHER_REFERENCE[place]}, status)
        return type(error), getattr(error, "problem", None), classify(error).again.value

    check_each({case: expected(case[0]) for case in product(OTHER_REFERENCE, statuses, texts)}, found)


@pytest.mark.parametrize(
    "body", [{"data": {"reference": REFERENCE}}, {"reference": REFERENCE}, {"reference": None}, {"data": []}]
)
def test_own_reference(body):
    """A refusal that names the reference that was sent, or none, is believed by its words."""
    assert type(refused({**said("Transaction not found"), **body}, 404)) is FOUND_OUT


def test_own_number():
    """A reference of digits that a refusal names as a number is the same."""
    assert type(refused({**said("Transaction not found"), "data": {"reference": 7}}, 404, "7")) is FOUND_OUT


def test_our_own_words():
    """The replacement of an echoed key does not count as a word about a key."""
    assert type(refused(said("Bad reference (sent with [api key])"), 400)) is errors.RejectedError


def test_mismatch_without_envelope():
    """A refusal without `success` that names another reference is the answer to another request too."""
    assert type(refused({"message": "bad", "reference": "T9"}, 422)) is errors.ReferenceMismatchError

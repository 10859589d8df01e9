"""The protocol as tables: what is sent, and what each answer means."""

import gzip
import json
import tracemalloc
from datetime import UTC, datetime
from itertools import product

import pytest

from payclient import errors
from payclient.errors import InvalidReferenceError
from payclient.protocol import BODY_LIMIT, Environment, Request, Response, endpoint
from payclient.protocol._wire import check_reference, inflate, parse_response, request_body, request_headers
from payclient.testing import envelope
from support.misses import check_each, check_table, refusal

REFERENCE = "T0000000033KGJ0D"
NOW = datetime(2030, 1, 31, tzinfo=UTC)
PAGE = b"<!DOCTYPE html>\n<html><head><title>Just a moment...</title></head><body>Maintenance</body></html>"
GOOD = envelope(reference=REFERENCE)
HEADERS = request_headers("t")
GOOD_BYTES = json.dumps(GOOD).encode()


NOT_FOLLOWED = ", which is not followed: check base_url"


def parse(body=GOOD_BYTES, status=200, headers=None, **more):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse_response(Response(status, headers or {}, content, **more), REFERENCE, now=lambda: NOW)


def failure(*args, **kwargs):
    """Return the error that an answer means."""
    with pytest.raises(errors.ResponseError) as caught:
        parse(*args, **kwargs)
    return caught.value


def said(text, **more):
    """Return a failure in the service's own envelope."""
    return {"success": False, "message": text, **more}


# Requests


def test_request_body():
    """For any reference, the body is one JSON object with the reference only, without spaces or needless escapes."""
    references = ("R", 'a"b\\c', "référence", "=1+1", "</script>")
    bodies = {each: {"reference": each} for each in references}
    check_each(bodies, lambda reference: json.loads(request_body(reference)))
    assert request_body("référence") == '{"reference":"référence"}'.encode()


def test_request_headers():
    """The request has the documented headers; the key is in none of them, and is added while writing."""
    request = Request("POST", "https://pay.example/x", HEADERS, request_body("R"), lambda: "Bearer k")
    assert request.headers == {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "t",
    }
    assert ("Bearer" in repr(request), request.authorization()) == (False, "Bearer k")


# Transactions


def test_body_that_is_read():
    """A body that just fits, other keys beside `success` and `data`, and any content type are read; a mark is named."""
    cases = ({"body": GOOD_BYTES.ljust(BODY_LIMIT)}, {"body": {"message": "OK", **GOOD}})
    for case in (*cases, {"headers": {"content-type": "text/html; charset=iso-8859-1"}}):
        assert (parse(**case).reference, parse(**case).deviations) == (REFERENCE, ())
    marked = parse(b"\xef\xbb\xbf" + GOOD_BYTES, headers={"x-request-id": "r2"})
    assert (marked.deviations, marked.request_id) == (("body: began with a byte order mark",), "r2")
    assert parse(headers={"x-request-id": "r1"}).request_id == "r1"


# Bodies that are not the documented shape


UNREADABLE = {
    "empty": (b"", "body: empty"),
    "white-space": (b" \r\n", "body: empty"),
    "null": (b"null", "body: null where an object is needed"),
    "list": (b"[]", "body: a list where an object is needed"),
    "text": (b'"ok"', "body: text where an object is needed"),
    "number": (b"1", "body: a number where an object is needed"),
    "true": (b"true", "body: true where an object is needed"),
    "empty-object": (b"{}", "success: absent"),
    "success-absent": ({"data": GOOD["data"]}, "success: absent"),
    "success-as-text": ({**GOOD, "success": "false"}, 'success: "false" is not true or false'),
    "success-as-true-text": ({**GOOD, "success": "true"}, 'success: "true" is not true or false'),
    "success-0": ({**GOOD, "success": 0}, "success: 0 is not true or false"),
    "success-1": ({**GOOD, "success": 1}, "success: 1 is not true or false"),
    "success-1.5": ({**GOOD, "success": 1.5}, 'success: "1.5" is not true or false'),
    "success-null": ({**GOOD, "success": None}, "success: null is not true or false"),
    "success-as-long-text": ({**GOOD, "success": "x" * 60}, f'success: "{"x" * 39} is not true or false'),
    "data-absent": ({"success": True}, "data: absent where an object is needed"),
    "data-null": ({"success": True, "data": None}, "data: null where an object is needed"),
    "data-list": ({"success": True, "data": []}, "data: a list where an object is needed"),
    "data-in": ({"success": True, "data": [GOOD["data"]]}, "data: a list where an object is needed"),
    "data-text": ({"success": True, "data": "x"}, "data: text where an object is needed"),
    "data-empty": ({"success": True, "data": {}}, "data.reference: absent"),
    "html": (PAGE, "body: not JSON: Expecting value at character 0 (a web page)"),
    **{
        start.decode(): (start, "body: not JSON: Expecting value at character 0 (a web page)")
        for start in (b"<html>", b"<HEAD>", b"<?xml version='1.0'?>")
    },
    "html-after-mark": (b"\xef\xbb\xbf<html>", "body: not JSON: Expecting value at character 0 (a web page)"),
    "html-after-space": (b"\r\n\t <html>", "body: not JSON: Expecting value at character 0 (a web page)"),
    "php-warning": (
        b"<br />\n<b>Warning</b>:  Undefined variable $row" + GOOD_BYTES,
        "body: not JSON: Expecting value at character 0 (a PHP message)",
    ),
    "php-error": (b"PHP Fatal error:  Allowed", "body: not JSON: Expecting value at character 0 (a PHP message)"),
    "two-marks": (b"\xef\xbb\xbf" * 2 + GOOD_BYTES, "body: not JSON: Expecting value at character 0"),
    "words": (b"OK", "body: not JSON: Expecting value at character 0"),
    "cut": (GOOD_BYTES[:-1], f"body: not JSON: Expecting ',' delimiter at character {len(GOOD_BYTES) - 1}"),
    "nan": (b'{"a":NaN}', "body: NaN is not JSON"),
    "key-twice": (b'{"a":1,"a":1}', "body: the key 'a' is duplicated in one object"),
    "not-utf-8": (GOOD_BYTES.replace(b"Virtual", b"\xffirtual"), "body: not UTF-8 at byte 142"),
    "too-long": (b"a" * (BODY_LIMIT + 1), f"body: longer than {BODY_LIMIT} bytes"),
}


def test_body(subtests):
    """A body of another shape is never a transaction, and `problem` says what was found and where."""
    for case, (body, problem) in UNREADABLE.items():
        with subtests.test(case):
            error = failure(body)
            assert (type(error), error.problem) == (errors.UnexpectedResponseError, problem)


@pytest.mark.parametrize(
    ("body", "coding"), [(b" ", ""), (b"x", "gzip"), (GOOD_BYTES, "br")], ids=["empty", "not-gzip", "good-but-coded"]
)
def test_no_text(body, coding):
    """A body that is empty or cannot be unpacked has no text to show, and is not read as it is."""
    assert failure(body, headers={"content-encoding": coding}).body == ""


def test_about_the_reference():
    """A field that cannot be read is about the reference if the answer names it."""
    for reference, is_about in ((REFERENCE, True), ("OTHER", False)):
        assert failure(envelope(reference=reference, amount=[])).is_about_reference is is_about


def test_truncated_body():
    """A body truncated at the limit is refused, even if its beginning is valid JSON."""
    assert failure(is_truncated=True).problem == f"body: longer than {BODY_LIMIT} bytes"


@pytest.mark.parametrize(
    "echo",
    [REFERENCE.lower(), f"{REFERENCE} ", f"{REFERENCE}X", "T0000000033KGJ0O", f"\u200b{REFERENCE}"],
    ids=["case", "space", "longer", "letter", "invisible"],
)
def test_mismatch(echo):
    """The transaction of another reference is never returned, however similar it is."""
    assert type(failure(envelope(reference=echo))) is errors.ReferenceMismatchError


@pytest.mark.parametrize(("echo", "shown"), [("OTHER", "OTHER"), ("x" * 90, "x" * 80)], ids=["short", "long"])
def test_mismatch_names_both(echo, shown):
    """The error of a mismatch has both references, shortened."""
    assert failure(envelope(reference=echo)).problem == f"data.reference is '{shown}', asked for '{REFERENCE}'"


def test_number_as_reference():
    """A reference of digits that is echoed as a number is the same reference, and a deviation."""
    response = Response(200, {}, json.dumps(envelope(reference=7)).encode())
    assert parse_response(response, "7").deviations == ("reference: number 7 read as text",)


def test_payment_code_stays_out_of_errors(subtests):
    """The error about an answer that holds a payment code shows it nowhere."""
    cases = {"true": True, "false": False, "text": "yes"}
    for status, (case, success) in product((200, 201, 302, 400, 401, 403, 404, 422, 429, 500), cases.items()):
        with subtests.test(status=status, case=case):
            body = {**envelope(reference="OTHER", payment_code="8812345678901234"), "success": success}
            error = failure(body, status)
            assert "8812345678901234" not in f"{error!r}{error}{vars(error)}"


# Refusals


REFUSALS = (
    # The body decides before the status
    (said(["Transaction not found"]), 200, errors.TransactionNotFoundError),
    (said({"message": "Data not found"}), 200, errors.TransactionNotFoundError),
    ({"success": False, "data": "Data not found"}, 200, errors.TransactionNotFoundError),
    (said("Saldo tidak cukup"), 200, errors.RejectedError),
    ({"success": False}, 200, errors.RejectedError),
    ({**GOOD, "success": False}, 200, errors.RejectedError),
    # Not found, only on evidence
    (PAGE, 404, errors.UnexpectedResponseError),
    (b"", 404, errors.UnexpectedResponseError),
    ({"message": "Transaction not found"}, 404, errors.UnexpectedResponseError),
    ({"success": "false"}, 404, errors.UnexpectedResponseError),
    (GOOD, 404, errors.UnexpectedResponseError),
    ({"message": "Transaction not found"}, 200, errors.UnexpectedResponseError),
    (said("Transaction not found"), 429, errors.RateLimitedError),
    (said("Transaction not found"), 302, errors.UnexpectedResponseError),
    # Status
    (b"", 401, errors.AuthenticationError),
    (said("Transaction not found"), 401, errors.AuthenticationError),
    (said("no such transaction"), 403, errors.RejectedError),
    (said(f"{REFERENCE} is not yours"), 403, errors.RejectedError),
    (said("TRANSAKSI lain"), 403, errors.RejectedError),
    (said("no", errors={"reference": ["no"]}), 403, errors.RejectedError),
    (said("no", errors={"reference": 107}), 403, errors.RejectedError),
    (said("no", errors={"ip": 107}), 403, errors.PermissionDeniedError),
    (said("IP not allowed"), 403, errors.PermissionDeniedError),
    (PAGE, 403, errors.PermissionDeniedError),
    ({"message": "transaction"}, 403, errors.PermissionDeniedError),
    (b"", 429, errors.RateLimitedError),
    (b"error code: 1015", 200, errors.RateLimitedError),
    (b"error code:1015", 403, errors.RateLimitedError),
    (b"error code: 1015", 403, errors.RateLimitedError),
    (b"error code: 1020", 403, errors.PermissionDeniedError),
    (b"<h1>You are being rate limited</h1>", 503, errors.RateLimitedError),
    (b"", 408, errors.ServiceError),
    (b"", 425, errors.ServiceError),
    *((PAGE, status, errors.ServiceError) for status in (500, 502, 503, 504, 520, 524, 529, 599)),
    (GOOD, 500, errors.ServiceError),
    ({"message": "bad", "errors": {"reference": ["x"]}}, 400, errors.RejectedError),
    ({"errors": {"reference": ["x"]}}, 422, errors.RejectedError),
    ({"message": "taken"}, 409, errors.RejectedError),
    ({**GOOD, "message": "OK"}, 400, errors.UnexpectedResponseError),
    (PAGE, 400, errors.UnexpectedResponseError),
    ({}, 422, errors.UnexpectedResponseError),
    (b'{"success":false,"message":"R\xe9f"}', 422, errors.UnexpectedResponseError),
    (b"", 204, errors.UnexpectedResponseError),
    (GOOD, 201, errors.UnexpectedResponseError),
    (GOOD, 206, errors.UnexpectedResponseError),
    (PAGE, 200, errors.UnexpectedResponseError),
    *((b"", status, errors.UnexpectedResponseError) for status in (301, 302, 307, 308)),
    (GOOD, 302, errors.UnexpectedResponseError),
    (b"", 418, errors.UnexpectedResponseError),
    (b"", 600, errors.UnexpectedResponseError),
    (b"", 0, errors.UnexpectedResponseError),
)


def test_refusal(subtests):
    """Body and status together determine the error; "not found" needs the service's own envelope."""
    for body, status, kind in REFUSALS:
        with subtests.test(body=body, status=status):
            error = failure(body, status)
            assert (type(error), error.status_code) == (kind, status)


def test_message(subtests):
    """The message of a refusal has its meaning, the service's message if any, and the status."""
    cases = {
        "429": (b"", 429, "the service asks for fewer requests"),
        "429-words": (said("too fast"), 429, "the service asks for fewer requests: too fast"),
        "401": (b"", 401, "the service refuses the API key"),
        "401-words": (said("who?"), 401, "the service refuses the API key: who?"),
        "500": (b"", 500, "the service cannot answer now"),
        "500-words": (said("oops"), 500, "the service cannot answer now: oops"),
        "404": ({"success": False}, 404, "no such transaction: no message"),
        "404-words": (said("unknown reference"), 404, "no such transaction: unknown reference"),
        "403-words": (said("IP"), 403, "access denied: IP: the key, this IP address or a gateway may be the reason"),
        "403-about-reference": (said("reference"), 403, "the service declined: reference"),
    }
    for case, (body, status, message) in cases.items():
        with subtests.test(case):
            assert failure(body, status).message == f"{message} (HTTP {status})"


def test_unexpected_status():
    """The error for a status that a wrong address would give mentions `base_url`."""
    cases = (
        (302, {"location": "https://a.example/"}, f"redirect to https://a.example/{NOT_FOLLOWED}"),
        (300, {}, f"redirect to nowhere{NOT_FOLLOWED}"),
        (404, {}, "a 404 that is not from the transaction service: check base_url"),
        (418, {}, "body: empty"),
    )
    check_table(cases, lambda status, headers: failure(b"", status, headers).problem)


def test_challenge():
    """A gateway that wants to see a browser refuses the moment, not the caller."""
    error = failure(PAGE, 403, {"cf-mitigated": "challenge"})
    expected = (errors.ServiceError, "a gateway in front of the service challenges this client (HTTP 403)")
    assert (type(error), error.message) == expected


@pytest.mark.parametrize(("success", "status"), [(True, 201), (True, 400), (False, 600)], ids=["201", "400", "600"])
def test_success_with_other_status(success, status):
    """An answer that contradicts its status is not believed."""
    expected = f"success is {str(success).lower()}, but the status is {status}"
    assert failure({**GOOD, "success": success}, status).problem == expected


def test_retry_after(subtests):
    """Every error carries the seconds that the service asked to wait."""
    for status in (200, 401, 403, 404, 422, 429, 503):
        with subtests.test(status=status):
            assert failure(b"", status, {"retry-after": "7"}).retry_after == 7.0


def test_retry_after_date():
    """A `Retry-After` date is measured on the clock that was passed in."""
    assert failure(b"", 503, {"retry-after": "Thu, 31 Jan 2030 00:01:00 GMT"}).retry_after == 60.0


LIMIT = 64 * 1024
PLAIN = b'{"success": true}'


def test_undone(subtests):
    """The coding that a proxy may add is undone."""
    cases = {
        "none": (PLAIN, ""),
        "identity": (PLAIN, "identity"),
        "gzip": (gzip.compress(PLAIN), "gzip"),
        "case-and-space": (gzip.compress(PLAIN), " GZip "),
        "x-gzip": (gzip.compress(PLAIN), "x-gzip"),
    }
    for case, (body, coding) in cases.items():
        with subtests.test(case):
            assert inflate(body, coding, limit=LIMIT) == (PLAIN, "")


def test_refused(subtests):
    """A body that cannot be decompressed is refused with the reason."""
    cases = {
        "unknown": (PLAIN, "br", "unknown content coding 'br'"),
        "unknown-and-long": (PLAIN, "x" * 90, "unknown content coding of 90 characters"),
        "not-gzip": (PLAIN, "gzip", "damaged gzip data"),
        "cut": (gzip.compress(PLAIN)[:-9], "gzip", "gzip data that ends too early"),
        "empty": (b"", "gzip", "gzip data that ends too early"),
        "extra": (gzip.compress(PLAIN) + b"more", "gzip", "bytes after the end of the gzip data"),
        "checksum": (gzip.compress(PLAIN)[:-8] + b"\0" * 8, "gzip", "damaged gzip data"),
        "stacked": (gzip.compress(gzip.compress(PLAIN)), "gzip, gzip", "unknown content coding 'gzip, gzip'"),
    }
    for case, (body, coding, problem) in cases.items():
        with subtests.test(case):
            plain, found = inflate(body, coding, limit=LIMIT)
            assert (plain, found[: len(problem)]) == (b"", problem)


def test_limit_is_inclusive():
    """A body of exactly the limit is whole, and one byte more is too much."""
    assert inflate(gzip.compress(b"a" * LIMIT), "gzip", limit=LIMIT) == (b"a" * LIMIT, "")
    problem = f"gzip data that grows beyond {LIMIT} bytes"
    assert inflate(gzip.compress(b"a" * (LIMIT + 1)), "gzip", limit=LIMIT) == (b"", problem)


def test_bomb():
    """A zip bomb costs less than 1 MiB of memory."""
    bomb = gzip.compress(bytes(32 * 1024 * 1024), 9)
    tracemalloc.start()
    try:
        assert inflate(bomb, "gzip", limit=LIMIT)[0] == b""
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1024 * 1024


STRIP = ": strip it, because a reference is sent exactly as given"


def test_accepted(subtests):
    """A reference that prints is sent as it is: the contract shows no format, and the answer must echo it."""
    cases = {
        "as-documented": "T0000000033KGJ0D",
        "one-character": "x",
        "longest": "x" * 256,
        "space": "R 1",
        "quotes": '"}\\',
        "not-ascii": "référence-№7-😀",
        "formula": "=1+1",
    }
    for case, reference in cases.items():
        with subtests.test(case):
            assert check_reference(reference) is reference


def test_refused_of_reference():
    """An invalid reference is refused, and the message is ASCII and says where the problem is."""
    cases = {
        "empty": ("", "reference is empty"),
        "spaces-only": ("   ", "reference is empty"),
        "white-space-only": ("\t\n", "reference is empty"),
        "too-long": ("x" * 257, "reference must have at most 256 characters, got 257"),
        "none": (None, "reference must be a string, got NoneType"),
        "number": (7, "reference must be a string, got int"),
        "bytes": (b"R", "reference must be a string, got bytes"),
        "blank-before": (" R", f"reference has a blank at position 0{STRIP}"),
        "blank-behind": ("R 1 ", f"reference has a blank at position 3{STRIP}"),
        "blanks-around": (" R ", f"reference has a blank at position 0{STRIP}"),
        "longest": ("R" * 255 + "\n", r"reference has a character at position 255 that does not print ('\n')"),
        "newline": ("R\n", r"reference has a character at position 1 that does not print ('\n')"),
        "nul": ("R\x00", r"reference has a character at position 1 that does not print ('\x00')"),
        "delete": ("\x7fR", r"reference has a character at position 0 that does not print ('\x7f')"),
        "nbsp": ("R\xa0", r"reference has a character at position 1 that does not print ('\xa0')"),
        "zero": ("R\u200b", r"reference has a character at position 1 that does not print ('\u200b')"),
        "bidi": ("R\u202e", r"reference has a character at position 1 that does not print ('\u202e')"),
        "half": ("R\ud800", r"reference has a character at position 1 that does not print ('\ud800')"),
    }
    check_table(cases.values(), lambda reference: refusal(InvalidReferenceError, check_reference, reference))


def test_endpoint():
    """The address is the base URL and the environment's path, with one slash between them."""
    for environment, path in (("live", "api"), ("sandbox", "api-sandbox")):
        for end in ("", "/"):
            url = f"https://pay.example/v/{path}/transaction/detail"
            assert endpoint(f"https://pay.example/v{end}", Environment(environment)) == url

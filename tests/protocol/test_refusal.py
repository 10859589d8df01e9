"""What is kept of an answer that becomes an error: the service's words, cleaned and shortened."""

import json
from datetime import UTC, datetime
from itertools import product

import pytest

from payclient import errors
from payclient.protocol._json import read_json
from payclient.protocol._refusal import _NOT_THE_OPERATION, _UNKNOWN_WORDS, ErrorResponse, _texts, refuse
from support.misses import check_each, check_table

NOW = datetime(2030, 1, 31, tzinfo=UTC)


def refused(value, status=422, headers=None, reference="R-1"):
    """Return the error that a JSON body means."""
    text = json.dumps(value, ensure_ascii=False)
    answer = ErrorResponse(status, headers or {}, text, "", str, lambda: NOW)
    return refuse(answer, read_json(json.dumps(value).encode()), reference)


def test_reference_is_no_word():
    """A reference that reads like a message, in its own field, is no message."""
    body = {"success": False, "message": "Transaction not found", "reference": "MAINTENANCE"}
    error = refused(body, 404, reference="MAINTENANCE")
    assert (type(error), error.is_conclusive) == (errors.TransactionNotFoundError, True)


@pytest.mark.parametrize(
    "fields", [{"a": {"b": {"c": {"d": {"e": {"reference": "R-2"}}}}}}, {"a": [[[[{"reference": "R-2"}]]]]}], ids=str
)
def test_reference_out_of_reach(fields):
    """A reference five levels deep is not looked for: a body may be nested without end."""
    error = refused({"success": False, "message": "Transaction not found", **fields}, 404)
    assert type(error) is errors.TransactionNotFoundError


@pytest.mark.parametrize(
    ("status", "kind"), [(408, errors.ServiceError), (425, errors.ServiceError), (429, errors.RateLimitedError)]
)
def test_status_outweighs_words(status, kind):
    """A status that asks to come back later does so whatever the message says, even of the key."""
    assert type(refused({"success": False, "message": "Unauthorized"}, status)) is kind


@pytest.mark.parametrize("field", ["errors", "error", "detail"])
def test_message_about_the_field(field):
    """What is said of the field `reference` in a message is not a reference."""
    error = refused({"success": False, field: {"reference": "is not valid"}})
    assert type(error) is errors.RejectedError


def test_service_message():
    """`service_message` is the service's message, cleaned; empty for messages of a router or a server."""
    cases = (
        (404, "Transaction not found", "Transaction not found"),
        (404, " what\x1b[2J is\nthis ", "what [2J is this"),
        (422, "bad", "bad"),
        (404, "Cannot POST /x", ""),
        (404, "", ""),
        (503, "Maintenance", ""),
    )
    check_table(cases, lambda status, message: refused({"success": False, "message": message}, status).service_message)


WORDS = {
    "message": ({"message": "bad"}, "bad"),
    "error": ({"error": "bad"}, "bad"),
    "detail": ({"detail": "bad"}, "bad"),
    "data": ({"data": "bad"}, "bad"),
    "list": ({"message": ["a", "b", "a"]}, "a; b"),
    "languages": ({"message": {"id": "buruk", "en": "bad"}}, "id: buruk; en: bad"),
    "nested": ({"error": {"message": "bad", "code": 7}}, "bad"),
    "fields": ({"errors": {"reference": ["is wrong", "is old"]}}, "reference: is wrong; reference: is old"),
    "both": ({"message": "bad", "errors": {"amount": "x"}}, "bad; amount: x"),
    "data-comes-last": ({"message": "bad", "data": "more"}, "bad"),
    "blank": ({"message": " \n", "error": "bad"}, "bad"),
    "control-characters": ({"message": "a\r\n\tb\x00c\x1b[31md"}, "a b c [31md"),
    "direction-characters": ({"message": "a\u202eb\u200bc"}, "a b c"),
    "long": ({"message": "x" * 5000}, "x" * 377 + "…"),
    "long-list": ({"message": [str(i) for i in range(90)]}, "; ".join("0123456789")),
    "long-object": ({"message": {str(i): "x" for i in range(90)}}, "; ".join(f"{i}: x" for i in range(10))),
    "deep-list": ({"message": [[[["bad"]]]]}, "bad"),
    "too-deep-list": ({"message": [[[[["bad"]]]]], "error": "too deep"}, "too deep"),
    "deep-object": ({"message": {"a": {"b": {"c": {"d": "bad"}}}}}, "a: b: c: d: bad"),
    "too-deep-object": ({"message": {"a": {"b": {"c": {"d": {"e": "bad"}}}}}, "error": "too deep"}, "too deep"),
}


def test_words(subtests):
    """The message has the service's words, from wherever services put them, on one line."""
    for case, (body, words) in WORDS.items():
        with subtests.test(case):
            error = refused({"success": False, **body})
            assert error.message == f"the service declined: {words} (HTTP 422)"


def test_words_elsewhere():
    """Words in a field of no message decide what the refusal means, and are not told: they may be data."""
    said = {
        "pay failed": f"unexpected answer: {_UNKNOWN_WORDS}: no message (HTTP 404)",
        "unauthorized": "the service refuses the API key: no message (HTTP 404)",
        "route not found": f"unexpected answer: {_NOT_THE_OPERATION}: no message (HTTP 404)",
    }
    check_each(said, lambda note: refused({"success": False, "note": note}, 404).message)


def test_words_beside_a_status():
    """Where the status is the reason, all messages of the service are told."""
    error = refused({"message": "busy", "detail": "come back later"}, 503)
    assert error.message == "the service cannot answer now: busy; come back later (HTTP 503)"


@pytest.mark.parametrize("status", [408, 425, 429, 503])
def test_name_beside_a_passing_status(status):
    """An answer that only asks to come back later is no answer about another reference."""
    error = refused({"success": False, "data": {"reference": "R-2"}}, status)
    assert not isinstance(error, errors.ReferenceMismatchError)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"errors": {"k" * 200_000: [[["a", "b", "c"] * 3] * 9] * 9}}, id="long-name"),
        pytest.param({"errors": {"k": [str(i) + "x" * 50_000 for i in range(5)]}}, id="long-texts"),
        pytest.param(
            {"errors": [{str(j): [f"{i}{j}{k}" * 9 for i in range(10)] for j in range(10)} for k in range(10)]},
            id="many-texts",
        ),
    ],
)
def test_words_do_not_multiply(body):
    """The messages that are read are limited in length, and do not repeat a long name."""
    assert 0 < len("; ".join(_texts(body))) < 5000


def test_mark_of_an_excerpt():
    """Only a truncated text ends with `…`."""

    def shown(length):
        return refuse(ErrorResponse(500, {}, "x" * length, "", str, lambda: NOW), None, "R-1").body

    check_each({400: "x" * 400, 401: "x" * 399 + "…"}, shown)


def test_headers():
    """The headers about route, body, limits and request id are kept and shortened; cookies and the like are not."""
    kept = (
        *("cf-cache-status", "cf-mitigated", "cf-ray", "date", "location", "server", "via"),
        *("content-encoding", "content-length", "content-type", "retry-after"),
        *("ratelimit", "ratelimit-policy", "ratelimit-reset"),
        *("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"),
        *("request-id", "x-correlation-id", "x-request-id"),
    )
    others = {"set-cookie": "session=1", "authorization": "Bearer k", "x-secret": "1"}
    sent = {**dict.fromkeys(kept, "1"), "server": "nginx\x1b", "cf-ray": "r" * 500}
    expected = {**sent, "server": "nginx", "cf-ray": "r" * 199 + "…"}
    assert refused({}, headers={**sent, **others}).headers == expected


def test_request_id():
    """The service's name for the exchange is found under the usual headers."""
    cases = (
        ({"x-request-id": "a", "cf-ray": "b"}, "a"),
        ({"request-id": "a"}, "a"),
        ({"x-correlation-id": "a"}, "a"),
        ({"x-request-id": " ", "cf-ray": "b"}, "b"),
        ({}, None),
    )
    check_table(cases, lambda headers: refused({}, headers=headers).request_id)


def test_payment_code_is_masked(subtests):
    """The excerpt of a body does not show the payment code that is in it."""
    cases = {
        "text": '"8812345678901234"',
        "quote": '"88123456\\"78901234"',
        "commas": '"8812, 3456}"',
        "number": "8812345678901234",
        "cut": '"8812345678901234',
        "cut-with-commas": '"8812, 34',
    }
    table = {"compact": ":", "spaced": ": ", "wide": " : "}
    for (case, code), (label, colon) in product(cases.items(), table.items()):
        with subtests.test(case=case, label=label):
            answer = ErrorResponse(200, {}, f'{{"data": {{"payment_code"{colon}{code}', "body: cut", str, lambda: NOW)
            assert refuse(answer, None, "R-1").body == f'{{"data": {{"payment_code"{colon}"…"'


def test_client_certificate(subtests):
    """The page by which nginx asks for a client certificate says so; the same words in another place do not."""
    cases = (
        ("<html><head><title>400 No required SSL certificate was sent</title>", 400, errors.PermissionDeniedError),
        ("<html><head><title>400 The SSL certificate error</title>", 400, errors.PermissionDeniedError),
        ("<html>No required SSL certificate was sent", 495, errors.PermissionDeniedError),
        ("<html>No required SSL certificate was sent", 496, errors.PermissionDeniedError),
        ("<html><head><title>400 Bad Request</title>", 400, errors.UnexpectedResponseError),
        ("<html>No required SSL certificate was sent", 200, errors.UnexpectedResponseError),
    )
    for page, status, kind in cases:
        with subtests.test(page=page, status=status):
            answer = ErrorResponse(status, {}, page, "body: not JSON", str, lambda: NOW)
            error = refuse(answer, None, "R-1")
            assert type(error) is kind
            wanted = "the service wants a client certificate that it accepts: pass client_cert and client_key"
            assert (error.message == f"{wanted} (HTTP {status})") == (kind is errors.PermissionDeniedError)

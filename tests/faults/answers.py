"""Faults that the service, or what stands before it, answers with a status of its own."""

import json

from faults.fault import UNCOUNTED, Fault
from faults.stage import FOUND
from payclient import (
    AuthenticationError,
    PermissionDeniedError,
    RateLimitedError,
    ReferenceMismatchError,
    RejectedError,
    ServiceError,
    TransactionNotFoundError,
    UnexpectedResponseError,
)
from payclient.client.policies._retry import Signal
from support.raw_server import http, send

HTML = "Content-Type: text/html; charset=utf-8"
TEXT = "Content-Type: text/plain; charset=utf-8"
PAGE = b"<!DOCTYPE html>\n<html><head><title>%s</title></head><body><center><h1>%s</h1></center></body></html>"
DAY = "Retry-After: 86400"
NOW = "Date: Sat, 21 Nov 2026 10:00:00 GMT"

THROTTLED = {"verdict": RateLimitedError, "signal": Signal.THROTTLED, "attempts": UNCOUNTED}
TOLD_TO_WAIT = {"verdict": RateLimitedError, "signal": Signal.THROTTLED, "attempts": 1}
OVERLOADED = {"verdict": ServiceError, "signal": Signal.OVERLOADED, "attempts": 4}
GARBLED = {"verdict": UnexpectedResponseError, "signal": Signal.OVERLOADED, "attempts": 2}
MISPLACED = {"verdict": UnexpectedResponseError, "signal": Signal.SILENT}
DENIED = {"verdict": PermissionDeniedError, "signal": Signal.SILENT}
REFUSED_KEY = {"verdict": AuthenticationError, "signal": Signal.SILENT}


def page(status, *headers):
    """Return the steps of an answer as web servers write it themselves."""
    title = status.encode()
    return [send(http(PAGE % (title, title), status, HTML, *headers))]


def envelope(status, *headers, **fields):
    """Return the steps of an answer as the service itself may write it when it declines."""
    return [send(http(json.dumps({"success": False, **fields}).encode(), status, *headers))]


def text(status, words, *headers):
    return [send(http(words.encode(), status, TEXT, *headers))]


def limited(*headers):
    return text("429 Too Many Requests", "slow down", *headers)


MISMATCHED = {"verdict": ReferenceMismatchError, "signal": Signal.OVERLOADED, "attempts": 2, "says": "about 'T2'"}
NOT_FOUND = "404 Not Found"
WORDS = (
    Fault("404 and maintenance", envelope(NOT_FOUND, message="Service under maintenance, try later"), **OVERLOADED),
    Fault(
        "404 and a database that is away",
        envelope(NOT_FOUND, message="SQLSTATE[HY000] [2002] Connection refused"),
        **OVERLOADED,
    ),
    Fault(
        "404 and a route",
        envelope(NOT_FOUND, message="The route api/transaction/detail could not be found."),
        says="check base_url",
        **MISPLACED,
    ),
    Fault("404 and a merchant", envelope(NOT_FOUND, message="Merchant not found"), **DENIED),
    *(
        Fault(
            f"{status} that names another reference {place}", envelope(status, message=message, **fields), **MISMATCHED
        )
        for status, message in (
            ("200 OK", "Transaction not found"),
            ("400 Bad Request", "Bad reference"),
            ("401 Unauthorized", "Unauthenticated."),
            ("404 Not Found", "Transaction not found"),
            ("422 Unprocessable Content", "The given data was invalid."),
        )
        for place, fields in (("in data", {"data": {"reference": "T2"}}), ("at the top", {"reference": "T2"}))
    ),
)
REDIRECTS = tuple(
    Fault(f"{status} to {place}", page(status, f"Location: {address}"), says="redirect to .* not followed", **MISPLACED)
    for status in ("301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect")
    for place, address in (("the same origin", "/elsewhere"), ("another", "https://elsewhere.example/"))
)
FAULTS = (
    # Asked for fewer requests
    Fault("429 and nothing else", limited(), **THROTTLED),
    Fault("429 as a web page", page("429 Too Many Requests"), **THROTTLED),
    Fault("429 in the envelope", envelope("429 Too Many Requests", message="Transaction not found"), **THROTTLED),
    Fault("429 with Retry-After: 1", limited("Retry-After: 1"), pause=1, **THROTTLED),
    Fault("429 with Retry-After: 0", limited("Retry-After: 0"), **THROTTLED),
    Fault("429 with Retry-After of a day", limited(DAY), pause=86400, **TOLD_TO_WAIT),
    Fault("429 until a date", limited("Retry-After: Sat, 21 Nov 2026 10:02:00 GMT", NOW), pause=120, **TOLD_TO_WAIT),
    Fault("429 until a date that has passed", limited("Retry-After: Sat, 21 Nov 2020 10:02:00 GMT", NOW), **THROTTLED),
    Fault("429 until the year 99999", limited("Retry-After: Sat, 21 Nov 99999 10:02:00 GMT"), **THROTTLED),
    Fault("429 with Retry-After: nan", limited("Retry-After: nan"), **THROTTLED),
    Fault("429 with Retry-After twice", limited("Retry-After: 1", "Retry-After: 86400"), **THROTTLED),
    Fault("429 with X-RateLimit-Reset in an hour", limited("X-RateLimit-Reset: 3600"), pause=3600, **TOLD_TO_WAIT),
    Fault(
        "429 until a date by a clock that is a day ahead",
        limited("Retry-After: Sun, 22 Nov 2026 10:01:30 GMT", "Date: Sun, 22 Nov 2026 10:00:00 GMT"),
        pause=90,
        **TOLD_TO_WAIT,
    ),
    Fault(
        "503 with Retry-After",
        page("503 Service Unavailable", DAY),
        ServiceError,
        attempts=1,
        signal=Signal.THROTTLED,
        pause=86400,
    ),
    Fault(
        "503 with Retry-After: 0",
        page("503 Service Unavailable", "Retry-After: 0"),
        ServiceError,
        attempts=4,
        signal=Signal.THROTTLED,
    ),
    # Cannot answer now
    *(
        Fault(f"{status} as a web page", page(status), **OVERLOADED)
        for status in (
            "500 Internal Server Error",
            "501 Not Implemented",
            "502 Bad Gateway",
            "503 Service Unavailable",
            "504 Gateway Time-out",
            "507 Insufficient Storage",
            "508 Loop Detected",
            "599 Network Connect Timeout Error",
            "408 Request Timeout",
            "425 Too Early",
        )
    ),
    Fault("500 in the envelope", envelope("500 Oops", message="Transaction not found"), **OVERLOADED),
    Fault("500 with a whole transaction", [send(http(FOUND, "500 Internal Server Error"))], **OVERLOADED),
    Fault("408 in the envelope", envelope("408 Request Timeout", message="Transaction not found"), **OVERLOADED),
    # Will not answer
    Fault("401 in the envelope", envelope("401 Unauthorized", message="Unauthenticated."), **REFUSED_KEY),
    Fault("401 as a web page", page("401 Unauthorized", 'WWW-Authenticate: Basic realm="x"'), **REFUSED_KEY),
    Fault("401 without a body", [send(http(b"", "401 Unauthorized"))], **REFUSED_KEY),
    Fault("403 as a web page", page("403 Forbidden"), says="this IP address or a gateway", **DENIED),
    Fault("403 in the envelope", envelope("403 Forbidden", message="IP 192.0.2.7 is not on the list"), **DENIED),
    Fault(
        "403 about the reference",
        envelope("403 Forbidden", message="This transaction belongs to another merchant"),
        RejectedError,
        says="belongs to another merchant",
    ),
    Fault("404 in the envelope", envelope("404 Not Found", message="No such reference"), TransactionNotFoundError),
    Fault("404 as a web page", page("404 Not Found"), says="check base_url", **MISPLACED),
    Fault("404 as JSON of a gateway", [send(http(b'{"message":"no Route matched"}', "404 X"))], **MISPLACED),
    Fault("404 without a body", [send(http(b"", "404 Not Found"))], **MISPLACED),
    Fault("400 in the envelope", envelope("400 Bad Request", message="Bad reference"), RejectedError, says="Bad ref"),
    Fault(
        "422 with errors by field",
        [send(http(b'{"message":"The given data was invalid.","errors":{"reference":["too short"]}}', "422 No"))],
        RejectedError,
        says="The given data was invalid.; reference: too short",
    ),
    Fault(
        "422 with ten thousand characters that steer a terminal",
        envelope("422 No", message="\x1b[2J\u202e" + "evil " * 2000),
        RejectedError,
        says=r"declined: \[2J evil evil .*…",
    ),
    *WORDS,
    *REDIRECTS,
    Fault("300 without a place to go", page("300 Multiple Choices"), says="redirect to nowhere", **MISPLACED),
    Fault("304 for a POST", [send(http(b"", "304 Not Modified"))], **MISPLACED),
    Fault("415 as JSON", [send(http(b'{"error":"unsupported"}', "415 Unsupported Media Type"))], **MISPLACED),
    # A success that is none
    Fault("204", [send(b"HTTP/1.1 204 No Content\r\n\r\n")], **GARBLED),
    Fault("201 with a whole transaction", [send(http(FOUND, "201 Created"))], says="status is 201", **GARBLED),
    Fault("206 with a whole transaction", [send(http(FOUND, "206 Partial Content"))], says="status is 206", **GARBLED),
    Fault("999 with a whole transaction", [send(http(FOUND, "999 Denied"))], says="status is 999", **GARBLED),
)

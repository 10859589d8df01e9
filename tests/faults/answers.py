"""Faults that the service, or what stands before it, answers with a status of its own."""

import json

from faults.fault import UNCOUNTED, Fault
from faults.stage import FOUND
from payclient import (
    AuthenticationError,
    PermissionDeniedError,
    RateLimitedError,
    RejectedError,
    ServiceError,
    TransactionNotFoundError,
    UnexpectedResponseError,
)
from payclient.errors import Signal
from support.raw_server import http, send

HTML = "Content-Type: text/html; charset=utf-8"
TEXT = "Content-Type: text/plain; charset=utf-8"
PAGE = b"<!DOCTYPE html>\n<html><head><title>%s</title></head><body><center><h1>%s</h1></center></body></html>"
DAY = "Retry-After: 86400"
NOW = "Date: Sat, 21 Nov 2026 10:00:00 GMT"

THROTTLED = {"verdict": RateLimitedError, "signal": Signal.THROTTLED, "attempts": UNCOUNTED}
TOLD_TO_WAIT = {"verdict": RateLimitedError, "signal": Signal.THROTTLED, "attempts": 1}
OVERLOADED = {"verdict": ServiceError, "signal": Signal.OVERLOADED, "attempts": 4}
UNAVAILABLE = {**OVERLOADED, "attempts": UNCOUNTED}
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


NOT_FOUND = "404 Not Found"
WORDS = (
    Fault("404 and maintenance", envelope(NOT_FOUND, message="Service under maintenance, try later"), **OVERLOADED),
    Fault("404 and a merchant", envelope(NOT_FOUND, message="Merchant not found"), **DENIED),
)
REDIRECTS = tuple(
    Fault(f"{status} to {place}", page(status, f"Location: {address}"), says="redirect to .* not followed", **MISPLACED)
    for status in ("301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect")
    for place, address in (("the same origin", "/elsewhere"), ("another", "https://elsewhere.example/"))
)
FAULTS = (
    # Asked for fewer requests
    Fault("429 and nothing else", limited(), **THROTTLED),
    Fault("429 with Retry-After: 1", limited("Retry-After: 1"), pause=1, **THROTTLED),
    Fault("429 with Retry-After of a day", limited(DAY), pause=86400, **TOLD_TO_WAIT),
    Fault("429 until a date", limited("Retry-After: Sat, 21 Nov 2026 10:02:00 GMT", NOW), pause=120, **TOLD_TO_WAIT),
    Fault("429 with Retry-After twice", limited("Retry-After: 1", "Retry-After: 86400"), **THROTTLED),
    Fault("429 with X-RateLimit-Reset in an hour", limited("X-RateLimit-Reset: 3600"), pause=3600, **TOLD_TO_WAIT),
    Fault(
        "503 with Retry-After",
        page("503 Service Unavailable", DAY),
        ServiceError,
        attempts=1,
        signal=Signal.THROTTLED,
        pause=86400,
    ),
    # Cannot answer now
    *(
        Fault(f"{status} as a web page", page(status), **OVERLOADED)
        for status in ("502 Bad Gateway", "408 Request Timeout")
    ),
    Fault("503 as a web page", page("503 Service Unavailable"), **UNAVAILABLE),
    Fault("500 with a whole transaction", [send(http(FOUND, "500 Internal Server Error"))], **OVERLOADED),
    # Will not answer
    Fault("401 in the envelope", envelope("401 Unauthorized", message="Unauthenticated."), **REFUSED_KEY),
    Fault("401 as a web page", page("401 Unauthorized", 'WWW-Authenticate: Basic realm="x"'), **REFUSED_KEY),
    Fault("403 as a web page", page("403 Forbidden"), says="this IP address or a gateway", **DENIED),
    Fault("404 in the envelope", envelope("404 Not Found", message="No such reference"), TransactionNotFoundError),
    Fault("404 as a web page", page("404 Not Found"), says="check base_url", **MISPLACED),
    Fault("400 in the envelope", envelope("400 Bad Request", message="Bad reference"), RejectedError, says="Bad ref"),
    Fault(
        "422 with ten thousand characters that steer a terminal",
        envelope("422 No", message="\x1b[2J\u202e" + "evil " * 2000),
        RejectedError,
        says=r"declined: \[2J evil evil .*…",
    ),
    *WORDS,
    *REDIRECTS,
    Fault("304 for a POST", [send(http(b"", "304 Not Modified"))], **MISPLACED),
    # A success that is none
    Fault("204", [send(b"HTTP/1.1 204 No Content\r\n\r\n")], **GARBLED),
    Fault("206 with a whole transaction", [send(http(FOUND, "206 Partial Content"))], says="status is 206", **GARBLED),
    Fault("999 with a whole transaction", [send(http(FOUND, "999 Denied"))], says="status is 999", **GARBLED),
)

"""Faults of the network: connections that break, stop or crawl."""

from faults.fault import Fault
from faults.stage import FOUND, OK
from payclient import AttemptTimeoutError, ConnectionFailedError, UnexpectedResponseError
from payclient.errors import Signal
from support.raw_server import chunked, close, drip, head, repeat, reset, reset_after, send, stall, truncate

HEAD = OK.index(b"\r\n\r\n") + 4
CHUNKED = head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + chunked(FOUND)
LARGE = head("HTTP/1.1 200 OK", "Content-Length: 300000") + b" " * 300_000
BROKEN = {"verdict": ConnectionFailedError, "signal": Signal.OVERLOADED, "attempts": 4}
TOO_SLOW = {"verdict": AttemptTimeoutError, "signal": Signal.OVERLOADED, "attempts": 4, "options": {"timeout": 0.1}}

FAULTS = (
    Fault("a RST on accept", (), greeting=[reset], **BROKEN),
    Fault("a FIN on accept", (), greeting=[close], **BROKEN),
    Fault("a RST before any byte", [reset], **BROKEN),
    Fault("a FIN before any byte", [close], **BROKEN),
    Fault("a RST in the status line", [reset_after(OK, 7)], **BROKEN),
    Fault("a FIN in the headers", [truncate(OK, HEAD - 10)], **BROKEN),
    Fault("a FIN between head and body", [truncate(OK, HEAD)], **BROKEN),
    Fault("a RST in the body", [reset_after(OK, -20)], **BROKEN),
    Fault("a FIN in the body", [truncate(OK, -20)], says="in the middle of its answer", **BROKEN),
    Fault("a FIN in a chunk", [truncate(CHUNKED, -150)], **BROKEN),
    Fault("a FIN before the last chunk", [truncate(CHUNKED, -5)], **BROKEN),
    Fault(
        "a RST while a body that never ends is sent", [send(CHUNKED[:300]), repeat(b"1\r\nx\r\n", 50), reset], **BROKEN
    ),
    Fault("accepts and never answers", [stall], **TOO_SLOW),
    Fault("accepts and never reads", (), greeting=[stall], **TOO_SLOW),
    Fault("stops in the headers", [send(OK[: HEAD - 10]), stall], **TOO_SLOW),
    Fault("stops in the body", [send(OK[:-20]), stall], **TOO_SLOW),
    Fault("headers at one byte every 50 ms", [drip(OK, 0.05)], **TOO_SLOW),
    Fault("chunks of one byte every 50 ms", [drip(CHUNKED, 0.05)], **TOO_SLOW),
    Fault(
        "300 KB at once",
        [send(LARGE)],
        UnexpectedResponseError,
        signal=Signal.OVERLOADED,
        attempts=2,
        says="longer than 262144 bytes",
    ),
)

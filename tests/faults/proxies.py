"""Faults of a proxy: what it does instead of opening the tunnel, or right behind that."""

from faults.fault import Fault
from payclient import AttemptTimeoutError, ConnectionFailedError, ProxyRefusedError, TLSVerificationError
from payclient.errors import Signal
from support.raw_proxy import OPEN
from support.raw_server import close, drip, head, http, repeat, reset, reset_after, send, stall, truncate

REFUSED = {"verdict": ProxyRefusedError, "signal": Signal.SILENT, "attempts": 1}
BROKEN = {"verdict": ConnectionFailedError, "signal": Signal.OVERLOADED, "attempts": 4}
TOO_SLOW = {"verdict": AttemptTimeoutError, "signal": Signal.OVERLOADED, "attempts": 4, "options": {"timeout": 0.1}}
PAGE = b"<!DOCTYPE html><title>Sign in to the guest network</title>"
HTML = "Content-Type: text/html"


async def hello(connection):
    """Wait for the first message of the TLS handshake."""
    await connection.reader.read(1)


FAULTS = (
    Fault(
        "407 with a challenge",
        [send(http(b"", "407 Proxy Authentication Required", 'Proxy-Authenticate: Basic realm="x"')), close],
        says="refused the tunnel (407 Proxy Authentication Required): check its user and password",
        **REFUSED,
    ),
    Fault(
        "403 with its own page",
        [send(http(PAGE, "403 Forbidden", HTML)), close],
        says="refused the tunnel (403 Forbidden)",
        **REFUSED,
    ),
    Fault("502", [send(http(PAGE, "502 Bad Gateway", HTML)), close], says="the tunnel (502 Bad Gateway)", **BROKEN),
    Fault("429", [send(http(b"", "429 Slow Down")), close], says="the tunnel (429 Too Many Requests)", **BROKEN),
    Fault("silence after CONNECT", [stall], **TOO_SLOW),
    Fault("silence after the 200", [send(OPEN), stall], **TOO_SLOW),
    Fault("a head at one byte every 50 ms", [drip(OPEN, 0.05)], **TOO_SLOW),
    Fault("a RST before any byte", [reset], says="did not open the tunnel", **BROKEN),
    Fault("a FIN before any byte", [close], says="closed the connection before it opened the tunnel", **BROKEN),
    Fault("a RST in the head", [reset_after(OPEN, 20)], says="did not open the tunnel", **BROKEN),
    Fault("a FIN in the head", [truncate(OPEN, 20)], says="closed the connection before", **BROKEN),
    Fault("bytes before the 200", [send(b"\x00\x00" + OPEN), stall], says="something that is not HTTP", **BROKEN),
    Fault("bytes behind the 200", [send(OPEN + b"x"), stall], says="that is not the service's", **BROKEN),
    Fault(
        "200 with its own page",
        [send(http(PAGE, "200 OK", HTML)), stall],
        says="opened the tunnel and sent something through it that is not the service's",
        **BROKEN,
    ),
    Fault(
        "announcements without end",
        [repeat(head("HTTP/1.1 100 Continue"), 2000), close],
        says="a head of more than 16384 bytes",
        **BROKEN,
    ),
    Fault(
        "plain HTTP after the 200",
        [send(OPEN), hello, send(http(PAGE, "400 Bad Request", HTML)), stall],
        TLSVerificationError,
        signal=Signal.SILENT,
        says="does not speak TLS on this port",
    ),
    Fault("a RST after the 200", [send(OPEN), hello, reset], says="through the proxy", **BROKEN),
    Fault("a FIN after the 200", [send(OPEN), hello, close], says="through the proxy", **BROKEN),
)

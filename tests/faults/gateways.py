"""Faults of our own beyond the table: content networks, captive portals and proxies."""

import gzip

from faults.answers import DENIED, HTML, MISPLACED, OVERLOADED, THROTTLED, envelope, page, text
from faults.bodies import body, garbled, tolerated
from faults.fault import Fault
from faults.network import BROKEN, TOO_SLOW
from faults.stage import FOUND, OK, ok
from payclient import ReferenceMismatchError, Transaction
from payclient.errors import Signal
from support.fakes import KEY
from support.raw_server import chunked, close, head, http, repeat, send, stall

UNASKED = {**BROKEN, "options": {}, "says": "not HTTP|unsolicited bytes"}

CLOUDFLARE = ("Server: cloudflare", "CF-RAY: 9a1b2c3d4e5f6a7b-SIN")
CHALLENGE = (
    b"<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>Checking your browser</body></html>"
)
MITIGATED = (HTML, "cf-mitigated: challenge", *CLOUDFLARE)
PORTAL = b"<html><head><meta http-equiv=refresh content='0;url=http://login.wlan.example/'></head></html>"
HEADER = f"Authorization: Bearer {KEY}"

CONTENT_NETWORK = (
    Fault("Cloudflare 520", page("520 Unknown Error", *CLOUDFLARE), says="9a1b2c3d4e5f6a7b-SIN", **OVERLOADED),
    Fault("Cloudflare 1015 with status 200", text("200 OK", "error code: 1015", *CLOUDFLARE), **THROTTLED),
    Fault("Cloudflare 1020 denies access", text("403 Forbidden", "error code: 1020", *CLOUDFLARE), **DENIED),
    Fault("a Cloudflare challenge with status 403", [send(http(CHALLENGE, "403 Forbidden", *MITIGATED))], **OVERLOADED),
)

BEFORE_THE_ANSWER = (
    tolerated("early hints", [send(head("HTTP/1.1 103 Early Hints", "Link: </a.css>; rel=preload")), ok]),
    tolerated("100 Continue that nobody asked for", [send(head("HTTP/1.1 100 Continue")), ok]),
    tolerated("five times 102 Processing", [send(head("HTTP/1.1 102 Processing") * 5), ok]),
    Fault("early hints without end", [repeat(head("HTTP/1.1 103 Early Hints") * 100, seconds=0.01)], **TOO_SLOW),
    Fault(
        "an interim answer with a body",
        [send(head("HTTP/1.1 103 Early Hints", "Content-Length: 5") + b"12345" + OK)],
        **BROKEN,
    ),
    Fault(
        "an interim answer with chunks",
        [send(head("HTTP/1.1 103 Early Hints", "Transfer-Encoding: chunked") + chunked(b"12345") + OK)],
        **BROKEN,
    ),
    Fault("101 Switching Protocols", [send(head("HTTP/1.1 101 Switching Protocols", "Upgrade: h2c"))], **BROKEN),
    Fault(
        "101 and silence", [send(head("HTTP/1.1 101 X", "Upgrade: websocket", "Connection: upgrade")), stall], **BROKEN
    ),
)

PORTALS_AND_PROXIES = (
    garbled("a captive portal with status 200", body(PORTAL, HTML), "a web page"),
    Fault("407 of a proxy in the way", page("407 Proxy Authentication Required", "Via: 1.1 squid"), **MISPLACED),
    Fault("a load balancer's 460", page("460 Client Closed Connection", "Server: awselb/2.0"), **MISPLACED),
    tolerated(
        "a proxy that compresses",
        body(gzip.compress(FOUND), "Content-Encoding: gzip", "Via: 1.1 squid", "Warning: 214 transformed"),
    ),
    garbled(
        "a proxy that has an old answer for another request",
        body(b'{"success":true,"data":{"reference":"","amount":1,"status":"Paid"}}', "Age: 9000", "X-Cache: HIT"),
        "reference: empty text where text is needed",
    ),
)

ECHOES = (
    Fault("an error page that shows the request", text("500 Oops", f"POST / HTTP/1.1\r\n{HEADER}\r\n"), **OVERLOADED),
    Fault(
        "a message with the key as the name of a field",
        envelope("422 No", errors={f"Bearer {KEY}": ["is not allowed"]}),
        says="is not allowed",
        **DENIED,
    ),
    Fault(
        "the key where the reference should be",
        body(f'{{"success":true,"data":{{"reference":"{KEY}","amount":1,"status":"Paid"}}}}'.encode()),
        ReferenceMismatchError,
        attempts=2,
        signal=Signal.OVERLOADED,
    ),
)

LENGTHS = (
    tolerated("HTTP/1.0 that ends by closing", [send(head("HTTP/1.0 200 OK") + FOUND), close]),
    tolerated("HTTP/1.0 with a length", [send(OK.replace(b"HTTP/1.1", b"HTTP/1.0")), close]),
    tolerated("HTTP/1.0 kept alive", [send(http(FOUND, "200 OK", "Connection: keep-alive").replace(b"/1.1", b"/1.0"))]),
    tolerated("no length, ends by closing", [send(head("HTTP/1.1 200 OK", "Content-Type: x") + FOUND), close]),
    Fault("no length, and never closes", [send(head("HTTP/1.1 200 OK") + FOUND), stall], **TOO_SLOW),
    tolerated(
        "a length and chunks at once",
        [send(head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "Content-Length: 5") + chunked(FOUND))],
    ),
    Fault(
        "the same length twice",
        [send(http(FOUND, "200 OK", f"Content-Length: {len(FOUND)}"))],
        says="not HTTP",
        foreign={"verdict": Transaction, "attempts": 1, "signal": Signal.ACCEPTED, "says": ""},
        **BROKEN,
    ),
    Fault("two lengths that differ", [send(http(FOUND, "200 OK", "Content-Length: 5"))], **BROKEN),
    Fault("a negative length", [send(head("HTTP/1.1 200 OK", "Content-Length: -5") + FOUND)], **BROKEN),
    Fault("a length of 5,000 digits", [send(head("HTTP/1.1 200 OK", "Content-Length: " + "9" * 5000))], **BROKEN),
    garbled("a length that is too short", [send(head("HTTP/1.1 200 OK", "Content-Length: 40") + FOUND)], "not JSON"),
    Fault(
        "a length that is too long", [send(head("HTTP/1.1 200 OK", "Content-Length: 999") + FOUND), stall], **TOO_SLOW
    ),
    Fault(
        "a chunk without a size",
        [send(head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + b"\r\n" + FOUND)],
        **BROKEN,
    ),
    Fault(
        "a chunk of more bytes than there are",
        [send(head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + b"f" * 30 + b"\r\n")],
        **BROKEN,
    ),
    tolerated(
        "chunked and blanks behind it",
        [send(head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked \t") + chunked(FOUND))],
    ),
    Fault(
        "a transfer coding of its own", [send(head("HTTP/1.1 200 OK", "Transfer-Encoding: gzip, chunked"))], **BROKEN
    ),
    tolerated(
        "chunks with a trailer",
        [
            send(
                head("HTTP/1.1 200 OK", "Transfer-Encoding: chunked") + chunked(FOUND, trailer=b"Server-Timing: db\r\n")
            )
        ],
    ),
)

HEADS = (
    Fault("a header of 200 KB", [send(http(FOUND, "200 OK", "X-Large: " + "x" * 200_000))], **BROKEN),
    Fault("headers without end", [send(b"HTTP/1.1 200 OK\r\n"), repeat(b"X-More: " + b"x" * 4000 + b"\r\n")], **BROKEN),
    tolerated("a header of 20 KB", [send(http(FOUND, "200 OK", "Set-Cookie: x=" + "x" * 20_000))]),
    tolerated("a folded header", [send(http(FOUND, "200 OK", "X-Folded: one", "  two"))]),
    tolerated("a header in Latin-1", [send(http(FOUND, "200 OK", "X-Name: na\xefve"))]),
    tolerated("names in capitals", [send(http(FOUND).replace(b"Content-Length", b"CONTENT-LENGTH"))]),
    tolerated("lines that end with LF alone", [send(http(FOUND).replace(b"\r\n", b"\n"))]),
    tolerated("no reason at all", [send(http(FOUND, "200"))]),
    Fault("a space before the colon", [send(http(FOUND, "200 OK", "X-Odd : 1"))], **BROKEN),
    Fault("a header without a colon", [send(http(FOUND, "200 OK", "nonsense"))], **BROKEN),
    Fault("a zero byte in a header", [send(http(FOUND, "200 OK", "X-Zero: a\0b"))], **BROKEN),
    Fault("a bare CR in a header", [send(http(FOUND, "200 OK", "X-Odd: a\rb"))], **BROKEN),
    Fault("status 000", [send(http(FOUND, "000 X"))], **BROKEN),
    Fault("a status of two digits", [send(http(FOUND, "20 OK"))], **BROKEN),
    Fault("HTTP/0.9", [send(FOUND), close], **BROKEN),
    Fault(
        "an SSH server on the port",
        (),
        greeting=[send(b"SSH-2.0-OpenSSH_9.6\r\n"), stall],
        foreign={**TOO_SLOW, "says": ""},
        **UNASKED,
    ),
    Fault("a TLS server on the plain port", [send(b"\x15\x03\x01\x00\x02\x02\x46"), close], **BROKEN),
)

ON_THE_WIRE = (*BEFORE_THE_ANSWER, *LENGTHS, *HEADS)
FAULTS = (*CONTENT_NETWORK, *PORTALS_AND_PROXIES, *ECHOES, *ON_THE_WIRE)

"""
An HTTP/1.1 response parser without I/O: received bytes in, one `Response` per request out.

HTTP/1.1 does not number messages. A response belongs to the request before it only if nothing else was sent on the
connection, so the parser knows at each byte whether a request is waiting for it. It has four states:

1.  *Idle.* No request waits. Every byte is unsolicited: `is_awaited` is false, and `feed` must not be called. A
    connection in this state that receives something is closed, because each later response would be matched to the
    wrong request.
2.  *Head.* `begin` was called: a request is on its way. Interim (1xx) responses are skipped without leaving the state.
    A body in one of them is malformed: llhttp and a proxy may disagree on what follows it.
3.  *Body.* The head of the final response is complete: `has_head`. It ends by its length, by its last chunk, at the
    limit of the body, or with the connection (`end`).
4.  *Idle* again, after `feed` or `end` returned the response. `is_reusable` is whether another request may follow:
    the response was complete, allows it, its end was unambiguous, and nothing followed in the same bytes.

A malformed message ends the last exchange of the connection: `feed` raises, and the parser is not used again. If the
response was complete before the malformed bytes, it is returned, and the connection is not reused.

Limits of the strictness:

- Lines that end with LF only and folded headers are accepted, as browsers do: they are not ambiguous.
- A chunked body together with a `Content-Length` is read by its chunks (RFC 9112, section 6.3). An intermediary may
  have read it by its length, so the connection is not reused. The same is true of 204 and 304, behind which some
  services send a body.
- A head that this connection has received before is read without llhttp (`KnownHead`), with the same result.
- Everything received counts against a limit, headers, trailers and framing included, so nothing grows without bound.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Self

import httptools
from attrs import frozen

from payclient.protocol import BODY_LIMIT, Request, Response

_END = b"\r\n\r\n"
_LENGTH = "content-length"
_VARIABLES = {
    **dict.fromkeys((_LENGTH, "date"), b"[0-9]"),
    **dict.fromkeys(("x-request-id", "request-id", "x-correlation-id", "cf-ray"), b"[0-9a-fA-F]"),
}
"""The headers whose digits may differ, each with its kind of digits."""


@frozen(eq=False)
class KnownHead:
    """One head, as llhttp has accepted it."""

    status_code: int
    headers: Mapping[str, str]
    raw_headers: Sequence[tuple[bytes, bytes]]
    variables: Sequence[tuple[str, int]]
    """Name and position of the headers whose digits may differ."""
    pattern: re.Pattern[bytes]
    """Has a group for each of them, and one for the body."""

    @classmethod
    def of(cls, data: bytes, response: Response, raw_headers: Sequence[tuple[bytes, bytes]]) -> Self | None:
        """Return the head of *data*, a reusable *response*. None if its shape is not the plainest one."""
        headers, length = response.headers, str(len(response.body))
        first = data.partition(b"\r\n")[0]
        lines = b"".join(b"\r\n%b: %b" % header for header in raw_headers)
        is_plain = data == first + lines + _END + response.body and first.startswith(b"HTTP/1.1 ")
        if not is_plain or len(headers) != len(raw_headers) or headers.get(_LENGTH) != length:
            return None
        variables: list[tuple[str, int]] = []
        pattern = re.escape(first)
        for place, (name, value) in enumerate(raw_headers):
            shape = re.escape(value)
            if (digits := _VARIABLES.get(key := name.decode("latin-1").lower())) is not None:
                variables.append((key, place))
                shape = b"(%b)" % re.sub(digits, digits, shape)
            pattern += b"\r\n%b: %b" % (re.escape(name), shape)
        compiled = re.compile(pattern + _END + b"(?P<body>(?s:.*))")
        return cls(response.status_code, headers, raw_headers, variables, compiled)

    def find(self, data: bytes | memoryview) -> tuple[dict[str, str], list[tuple[bytes, bytes]], bytes] | None:
        """Return headers and body of *data* if it is one whole response with this head. Otherwise None."""
        if (match := self.pattern.match(bytes(data))) is None:
            return None
        headers, raw_headers, body = dict(self.headers), list(self.raw_headers), match["body"]
        for group, (key, place) in enumerate(self.variables, 1):
            value = match[group]
            headers[key] = value.decode("latin-1")
            raw_headers[place] = (raw_headers[place][0], value)
        return (headers, raw_headers, body) if len(body) == int(headers[_LENGTH]) else None


_LIMIT_OF_WIRE = 2
"""Maximum size of one response on the wire, with head, framing and trailers, as a multiple of its body's limit."""
_MAX_HEAD = 100 * 1024
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_BLANKS_AFTER_CHUNKED = re.compile(rb"(?im)^(transfer-encoding:[ \t]*chunked)[ \t]+(?=\r?$)")
"""White space that RFC 9110 allows. llhttp does not recognise the coding with it."""
_BODILESS = (204, 304)
_MAX_REMEMBERED = 16
"""Maximum of heads that one connection remembers in turn. A service may write a new one each time."""
MIN_PART = 64
"""Minimum size that a part of a body counts as: 256 KiB in parts of one byte would block the event loop for seconds."""


class MalformedError(Exception):
    """The received bytes are not one well-formed response. The text has the reason."""


class ResponseParser:
    """Parses the responses of one connection, one after the other."""

    raw_headers: list[tuple[bytes, bytes]]  # ordered as received, including repeated ones
    _headers: dict[str, str]
    _parts: list[bytes]

    def __init__(self, connection: object = None) -> None:
        self._connection = connection
        self._exchanges = 0
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,  # folded ones. Control characters are refused below
            lenient_chunked_length=True,  # chunks are believed, and the connection is closed
            lenient_optional_cr_before_lf=True,
        )
        self.known_head: KnownHead | None = None
        self._remembered = 0
        self.begin()
        self.is_awaited, self._exchanges = False, 0

    def begin(self, request: Request | None = None) -> None:
        self._limit = BODY_LIMIT if request is None else request.body_limit
        self._headers, self.raw_headers, self._parts = {}, [], []
        self._status_code = self._size = 0
        self.received = 0  # bytes
        self._problem = ""
        self.has_head = self.is_reusable = self._chunked = self._response_is_over = False
        self.is_awaited = True
        self._exchanges += 1

    def feed(self, data: bytes | memoryview) -> Response | None:
        """Parse *data*, and return the response if it is complete."""
        is_first = not self.received
        self.received += len(data)
        is_short = is_first and self.received <= self._limit
        if is_short and (known := self.known_head) is not None and (found := known.find(data)) is not None:
            self._headers, self.raw_headers, body = found
            self._status_code, self._parts = known.status_code, [body]
            self.has_head = self.is_reusable = self._response_is_over = True
            return self._finish()
        try:
            if not self.has_head and b"\t" in (head := bytes(data)):
                data = _BLANKS_AFTER_CHUNKED.sub(rb"\1", head)
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"the response is not HTTP ({error})")
        if self.received > (limit := _LIMIT_OF_WIRE * self._limit):
            self._fail(f"a response of more than {limit} bytes")
        if self._response_is_over:
            response = self._finish()
            if is_first and self.is_reusable and self._remembered < _MAX_REMEMBERED:
                self._remembered += 1
                self.known_head = KnownHead.of(bytes(data), response, self.raw_headers)
            return response
        if self._problem:
            raise MalformedError(self._problem)
        return None

    def end(self) -> Response | None:
        """Return the response that ends with its connection, if there is one."""
        if not self.is_awaited or not self.has_head or self._chunked or "content-length" in self._headers:
            return None
        return self._finish()

    # Called by httptools

    def on_message_begin(self) -> None:
        """Notice a second response after the requested one."""
        if self._response_is_over:
            self.is_reusable = False
            self._problem = self._problem or "a second response"

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header. The values of a repeated one are joined by a comma."""
        if self.has_head:
            return  # a trailer, or of a second response
        self._size += len(name) + len(value)
        if self._size > _MAX_HEAD:
            self._fail(f"headers of more than {_MAX_HEAD} bytes")
        elif _CONTROL.search(value):
            self._fail("a header with a control character")
        self.raw_headers.append((name, value))
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        known = self._headers.get(key)
        self._headers[key] = text if known is None else f"{known}, {text}"

    def on_headers_complete(self) -> None:
        """Process the head of a response. Skip interim (1xx) ones."""
        if self.has_head:
            return
        self._status_code = self._parser.get_status_code()
        if self._status_code < 100:
            self._fail(f"an answer with status {self._status_code:03}")
        if self._status_code < 200:
            self._headers, self.raw_headers = {}, []
            return
        self._size = 0
        self.has_head = True
        coding = self._headers.get("transfer-encoding", "").strip(" ").lower()
        self._chunked = bool(coding)
        if coding not in ("", "chunked"):
            self._fail("an unknown transfer coding")

    def on_body(self, body: bytes) -> None:
        """Store a part of the body, up to the limit."""
        if not self.has_head:
            self._fail("a body in an interim answer")
        if self._response_is_over or self._problem:
            return
        self._parts.append(body)
        self._size += max(len(body), MIN_PART)
        self._response_is_over = self._size > self._limit

    def on_message_complete(self) -> None:
        """End the response, and decide whether the connection can be reused."""
        if self.has_head and not self._response_is_over and not self._problem:
            is_ambiguous = self._status_code in _BODILESS or (self._chunked and "content-length" in self._headers)
            self.is_reusable = self._parser.should_keep_alive() and not is_ambiguous
            self._response_is_over = True

    def _fail(self, problem: str) -> None:
        self._problem = self._problem or problem
        self.is_reusable = False

    def _finish(self) -> Response:
        self.is_awaited = False
        return Response(
            self._status_code,
            self._headers,
            b"".join(self._parts)[: self._limit],
            self._size > self._limit,
            self._connection,
            self._exchanges == 1 and not self._problem,
        )

"""
One HTTP/1.1 connection, used by one exchange at a time and kept between them.

Design rules:

- Unsolicited bytes close the connection: later answers would be matched to the wrong requests.
- A connection is reused only after a complete answer with nothing after it that allows keep-alive.
- Everything received is counted, headers and trailers included, so nothing can grow without limit.
- Framing is as lenient as in browsers where it is not ambiguous: lines that end with LF only, folded headers.
"""

from __future__ import annotations

import asyncio
import re
import select
import ssl
from typing import cast

import httptools

from payclient.protocol import BODY_LIMIT, Response
from payclient.transports._socket import unread
from payclient.transports._tls import TlsSession
from payclient.transports._way import Way

_MAX_BYTES = 2 * BODY_LIMIT
"""Maximum size of one answer on the wire, with head, framing and trailers."""
_BUFFER = 8 * 1024
"""Size of the read buffer in bytes; the documented answer has about 500 with its head."""
_MAX_HEAD = 100 * 1024
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_BLANKS_AFTER_CHUNKED = re.compile(rb"(?im)^(transfer-encoding:[ \t]*chunked)[ \t]+(?=\r?$)")
"""White space that RFC 9110 allows, and with which llhttp does not recognise the coding."""
_BODILESS = (204, 304)
_SMALLEST_PART = 64
"""Minimum size that a chunk counts as: 256 KiB in chunks of one byte would block the event loop for seconds."""


class BrokenError(Exception):
    """
    The connection broke before the answer was complete.

    Attributes:
        reason: What happened, for people.
        answered: Whether the head of an answer had been received.
        silent: Whether no byte of an answer had been received.
    """

    def __init__(self, reason: str, *, answered: bool, silent: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.answered = answered
        self.silent = silent


class Connection(asyncio.BufferedProtocol):
    """
    An asyncio protocol that feeds the HTTP parser; one exchange at a time.

    It has its own read buffer: for other protocols asyncio allocates 256 KiB per read, shrinks and
    frees them, which costs half an exchange.

    Args:
        way: The steps of opening it.
    """

    def __init__(self, way: Way | None = None) -> None:
        self.way = way or Way()
        self.is_usable = False
        """Whether a request may be sent."""
        self.idle_since = 0.0
        self.is_alone = True
        """Whether there was no more than one exchange, and nothing after its answer."""
        self._exchanges = 0
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self.closed: asyncio.Future[None] = self._loop.create_future()
        """Done when the connection is closed."""
        self._transport: asyncio.Transport | None = None
        self._tls: TlsSession | None = None
        self._secured: asyncio.Future[None] | None = None
        self._tls_error: ssl.SSLError | None = None
        self._buffer = memoryview(bytearray(_BUFFER))
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,  # folded ones; control characters are refused below
            lenient_chunked_length=True,  # chunks are believed, and the connection is closed
            lenient_optional_cr_before_lf=True,
        )
        self._readable = select.poll() if hasattr(select, "poll") else None
        self._trouble = "it was closed"
        self._answer: asyncio.Future[Response] | None = None
        self._is_awaited = False  # whether an answer is; cheaper to read than the future
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._begin()

    # Called by the transport

    def exchange(self, message: bytes) -> asyncio.Future[Response]:
        """
        Send a request, and return a future of the answer.

        Raises:
            BrokenError: From the future.
        """
        self._begin()
        self.is_usable = False
        self._is_awaited = True
        self._exchanges += 1
        self.is_alone = self._exchanges == 1
        answer = self._answer = self._loop.create_future()
        if self._transport is None:
            self._break(self._trouble)
        else:
            self._transport.write(message if self._tls is None else self._tls.encrypted(message))
        return answer

    async def secure(self, tls: TlsSession) -> None:
        """
        Do the TLS handshake, before anything else is sent.

        Raises:
            OSError: When the connection breaks, or as `ssl.SSLError` when the handshake fails.
        """
        self._tls, self._secured = tls, self._loop.create_future()
        self._continue_handshake(tls, self._secured)
        await self._secured

    def is_quiet(self) -> bool:
        """Return whether the socket has neither data nor an end that the event loop has not read yet."""
        return self._readable is None or not self._readable.poll(0)

    def abort(self) -> None:
        """Close the connection at once."""
        self.is_usable = False
        if self._transport is None or self._transport.is_closing():
            return
        if self._tls is not None and self._tls.is_established:
            self._transport.write(self._tls.close_notify())
        self._transport.abort()

    def place(self) -> Way:
        """Return the step of the current exchange."""
        if self._is_answered:
            return self.way.at("body")
        is_sending = self._transport is not None and self._transport.get_write_buffer_size() > 0
        return self.way.at("sending" if is_sending else "waiting")

    @property
    def tls(self) -> TlsSession | None:
        """The TLS connection to the service; None without TLS."""
        return self._tls

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Become usable."""
        self._transport = cast("asyncio.Transport", transport)
        if self._readable is not None:
            self._readable.register(transport.get_extra_info("socket"), select.POLLIN)
        self.is_usable = True

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  the shape that asyncio calls
        """Return the read buffer."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Process received bytes, through TLS if it is used."""
        data, tls = self._buffer[:nbytes], self._tls
        if tls is None:
            self._feed(data)
            return
        tls.receive(data)
        if self._secured is not None and not tls.is_established:
            self._continue_handshake(tls, self._secured)
        if tls.is_established:
            self._feed_decrypted(tls)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange; an answer with neither length nor chunks is complete now."""
        if isinstance(exc, ConnectionError) and self._transport is not None:
            self._read_rest(self._transport)
        self._transport = None
        if self._secured is not None and not self._secured.done():
            self._secured.set_exception(exc or ConnectionResetError("the connection was closed in the handshake"))
        if exc is None and self._ends_with_connection():
            self._finish(is_truncated=False)
        self._break(str(exc) if exc else self._trouble)
        if not self.closed.done():
            self.closed.set_result(None)

    def _read_rest(self, transport: asyncio.Transport) -> None:
        for data in unread(transport.get_extra_info("socket")):
            for start in range(0, len(data), _BUFFER):
                part = data[start : start + _BUFFER]
                self._buffer[: len(part)] = part
                self.buffer_updated(len(part))

    def _continue_handshake(self, tls: TlsSession, secured: asyncio.Future[None]) -> None:
        try:
            message = tls.handshake()
        except ssl.SSLError as error:
            if not secured.done():
                secured.set_exception(error)
            self.abort()
            return
        if message and self._transport is not None:
            self._transport.write(message)
        if tls.is_established and not secured.done():
            secured.set_result(None)

    def _feed_decrypted(self, tls: TlsSession) -> None:
        try:
            for plain in tls.decrypted():
                if plain:
                    self._feed(plain)
                else:
                    self.abort()
        except ssl.SSLError as error:
            self._tls_error = error
            self._break(f"TLS failed ({error.reason})")

    def _feed(self, data: bytes | memoryview) -> None:
        """Feed the parser, which calls the methods below."""
        if not self._is_awaited:
            self._trouble = "unsolicited bytes came"
            self.abort()
            return
        self._received += len(data)
        try:
            if not self._is_answered and b"\t" in (head := bytes(data)):
                data = _BLANKS_AFTER_CHUNKED.sub(rb"\1", head)
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._break(f"what came is not HTTP ({error})")
        else:
            if self._received > _MAX_BYTES:
                self._break(f"more than {_MAX_BYTES} bytes came")

    # Called by the parser

    def on_message_begin(self) -> None:
        """Notice a second answer after the requested one."""
        if not self._is_awaited:
            self.is_usable = self.is_alone = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; the values of a repeated one are joined by a comma."""
        if self._is_answered:
            return  # a trailer
        self._size += len(name) + len(value)
        if self._size > _MAX_HEAD:
            self._break(f"headers of more than {_MAX_HEAD} bytes came")
        elif _CONTROL.search(value):
            self._break("a header with a control character came")
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        known = self._headers.get(key)
        self._headers[key] = text if known is None else f"{known}, {text}"

    def on_headers_complete(self) -> None:
        """Process the head of the answer; skip interim (1xx) responses."""
        self._status_code = self._parser.get_status_code()
        if self._status_code < 100:
            self._break(f"an answer with status {self._status_code:03} came")
        if self._status_code < 200:
            self._headers = {}
            return
        self._size = 0
        self._is_answered = True
        self._coding = self._headers.get("transfer-encoding", "").strip(" ").lower()
        if self._coding not in ("", "chunked"):
            self._break("an unknown transfer coding came")

    def on_body(self, body: bytes) -> None:
        """Store a part of the body, up to the limit."""
        if not self._is_answered:
            self._break("a body in an interim answer came")
        self._parts.append(body)
        self._size += max(len(body), _SMALLEST_PART)
        if self._size > BODY_LIMIT:
            self._finish(is_truncated=True)

    def on_message_complete(self) -> None:
        """Deliver the answer, and decide whether the connection can be kept."""
        if self._is_answered and self._is_awaited:
            is_ambiguous = self._status_code in _BODILESS or (self._coding and "content-length" in self._headers)
            self.is_usable = self._parser.should_keep_alive() and not is_ambiguous
            self._finish(is_truncated=False)

    def _begin(self) -> None:
        self._headers, self._parts = {}, []
        self._status_code = 0
        self._size = self._received = 0
        self._is_answered = False
        self._coding = ""

    def _ends_with_connection(self) -> bool:
        return self._is_answered and not self._coding and "content-length" not in self._headers

    def _finish(self, *, is_truncated: bool) -> None:
        self._is_awaited = False
        if self._answer is not None and not self._answer.done():  # done: the waiting lookup was cancelled
            body = b"".join(self._parts)[:BODY_LIMIT]
            self._answer.set_result(Response(self._status_code, self._headers, body, is_truncated, self))

    def _break(self, reason: str) -> None:
        self._is_awaited = self.is_alone = False
        if self._answer is not None and not self._answer.done():
            failure = BrokenError(reason, answered=self._is_answered, silent=not self._received)
            failure.__cause__ = self._tls_error
            self._answer.set_exception(failure)
        self.abort()

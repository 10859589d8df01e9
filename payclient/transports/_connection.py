"""
One connection: an asyncio protocol around the response parser, used by one exchange at a time and kept between them.

Its states:

1.  *Opening*: from the constructor to `connection_made`. Nothing can be sent.
2.  *Handshake*, only with TLS: during `secure`. Received bytes go to the TLS session, and none to the parser.
3.  *Idle*: `is_usable`. A byte that comes now is unsolicited and closes the connection, because each later response
    would be matched to the wrong request. The event loop may not have read it yet, so the pool asks `unread` too.
4.  *Exchange*: from `exchange` until its future is done. A complete response leads back to *idle*, if the parser finds
    that the next one cannot be confused with it. Anything else leads to *closed*.
5.  *Closed*: `abort` was called, or the peer has closed. `closed` is done when the event loop has noticed. The
    future of `exchange` gets a `BrokenError` with the reason.

A cancelled exchange does not end the state, because the response may still come: its caller calls `read_on` or `abort`.
"""

import asyncio
import select
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from payclient.protocol import Response
from payclient.transports._failures import Progress
from payclient.transports._parser import MalformedError, ResponseParser
from payclient.transports._tls import TlsSession

_BUFFER = 8 * 1024
"""Size of the read buffer in bytes. A documented response is about 500 bytes, headers included."""
_MAX_SILENCE = 1.0
"""Seconds. Most responses begin sooner, and those that do not cost a handshake."""
_CLOSED_IN_HANDSHAKE = "the connection was closed in the handshake"


class BrokenError(Exception):
    def __init__(self, reason: str, *, answered: bool, silent: bool) -> None:
        super().__init__(reason)
        self.answered = answered
        self.silent = silent


class Connection(asyncio.BufferedProtocol):
    """An asyncio protocol that feeds the HTTP parser. One exchange at a time."""

    # It has its own read buffer: for other protocols asyncio allocates 256 KiB per read, shrinks and frees them,
    # which costs half an exchange.

    def __init__(self, progress: Progress | None = None, tls: TlsSession | None = None) -> None:
        self.progress = progress or Progress()
        self.is_usable = False  # True while it can take a request
        self.on_close: Callable[[Connection], None] | None = None  # called by `abort`
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self.tls = tls
        self._secured: asyncio.Future[None] | None = None
        self._tls_error: ssl.SSLError | None = None
        self._buffer = memoryview(bytearray(_BUFFER))
        self._parser = ResponseParser(self)
        self._readable = select.poll() if hasattr(select, "poll") else None
        self.unread: Callable[[int], object] = bool if self._readable is None else self._readable.poll
        """Called with 0: what the socket has, data or its end, that the event loop has not read yet."""
        self._close_reason = "it was closed"
        self._response: asyncio.Future[Response] | None = None
        self.raw_headers: list[tuple[bytes, bytes]] = []  # the last response's, including repeated ones

    # Called by the transport

    def exchange(self, message: bytes) -> asyncio.Future[Response]:
        self._parser.begin()
        self.is_usable = False
        response = self._response = self._loop.create_future()
        if self._transport is None:
            self._break(self._close_reason)
        else:
            try:
                self._transport.write(message if self.tls is None else self.tls.encrypted(message))
            except ssl.SSLError as error:  # such as a renegotiation that is not over
                self._fail_tls(self._tls_error or error)
        return response

    def read_on(self) -> asyncio.Future[Response] | None:
        """Return a future of the response whose caller has left. None if the request is not sent as a whole."""
        is_sent = self._transport is not None and not self._transport.get_write_buffer_size()
        if not is_sent or not self._parser.is_awaited:
            return None
        self._response = self._loop.create_future()
        return self._response

    async def secure(self) -> None:
        """Do the TLS handshake. Under uvloop, its first bytes may have arrived already."""
        if self.tls is None:
            return
        self._secured = self._loop.create_future()
        self._continue_handshake(self.tls, self._secured)
        if self._transport is None and not self._secured.done():
            self._secured.set_exception(ConnectionResetError(_CLOSED_IN_HANDSHAKE))
        await self._secured

    def is_silent_since(self, began: float) -> bool:
        """Return whether nothing was received in an exchange that *began* more than a second ago."""
        return self._parser.is_awaited and not self._parser.received and self.now() - began > _MAX_SILENCE

    def abort(self) -> None:
        self.is_usable = False
        if self.on_close is not None:
            self.on_close(self)
        if self._transport is None or self._transport.is_closing():
            return
        if self.tls is not None and self.tls.is_established:
            self._transport.write(self.tls.close_notify())
        self._transport.abort()

    def current(self) -> Progress:
        if self._parser.has_head:
            return self.progress.with_step("body")
        is_sending = self._transport is not None and self._transport.get_write_buffer_size() > 0
        return self.progress.with_step("sending" if is_sending else "waiting")

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._readable is not None:
            self._readable.register(transport.get_extra_info("socket"), select.POLLIN)
        self.is_usable = True

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  the shape that asyncio calls
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Process received bytes, through TLS if it is used."""
        data, tls = self._buffer[:nbytes], self.tls
        if tls is None:
            self._feed(data)
            return
        tls.receive(data)
        if self._secured is not None and not tls.is_established:
            self._continue_handshake(tls, self._secured)
        if tls.is_established:
            self._feed_decrypted(tls)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange. A response with neither length nor chunks is complete now."""
        if isinstance(exc, ConnectionError) and self._transport is not None:
            self._read_rest(self._transport)
        self._transport = None
        if self._secured is not None and not self._secured.done():
            self._secured.set_exception(exc or ConnectionResetError(_CLOSED_IN_HANDSHAKE))
        if exc is None and (response := self._parser.end()) is not None:
            self._finish(response)
        self._break(str(exc) if exc else self._close_reason)
        if not self.closed.done():
            self.closed.set_result(None)

    def _read_rest(self, transport: asyncio.Transport) -> None:
        """Read the unread bytes of a lost connection."""
        # When a write fails, asyncio closes the connection without reading. What was not read may hold the reason: in
        # TLS 1.3, the alert of a service that demands a client certificate comes while the request is sent.
        lost: Any = transport.get_extra_info("socket")
        with suppress(OSError, TypeError), lost.dup() as own:  # uvloop's cannot be duplicated
            while data := own.recv(_BUFFER):
                self._buffer[: len(data)] = data
                self.buffer_updated(len(data))

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
            if self._transport is not None and (answer := tls.pending()):  # a renegotiation, or a new key
                self._transport.write(answer)
        except ssl.SSLError as error:
            self._fail_tls(error)

    def _fail_tls(self, error: ssl.SSLError) -> None:
        self._tls_error = error.with_traceback(None)  # whose frames contain the request
        self._break(f"TLS failed ({error.reason or type(error).__name__})")

    def _feed(self, data: bytes | memoryview) -> None:
        if not self._parser.is_awaited:
            self._close_reason = "unsolicited bytes came"
            self.abort()
            return
        try:
            response = self._parser.feed(data)
        except MalformedError as error:
            self._break(str(error))
            return
        if response is not None:
            self._finish(response)

    def _finish(self, response: Response) -> None:
        self.raw_headers = self._parser.raw_headers
        if self._response is not None and not self._response.done():  # done: the waiting lookup was cancelled
            self._response.set_result(response)
        self.is_usable = self._parser.is_reusable

    def _break(self, reason: str) -> None:
        self._parser.is_awaited = False
        if self._response is not None and not self._response.done():
            failure = BrokenError(reason, answered=self._parser.has_head, silent=not self._parser.received)
            failure.__cause__ = self._tls_error
            self._response.set_exception(failure)
        self.abort()

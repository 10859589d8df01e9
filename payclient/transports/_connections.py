"""The connections of one transport: how each is opened, a pool for each host, and the exchanges over them."""

import asyncio
import math
import select
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import cache, partial
from ipaddress import ip_address
from typing import Any, TypeVar, cast

import aiohappyeyeballs

from payclient._shared.logger import logger
from payclient._shared.until_done import in_new_thread, until_done
from payclient.errors import ClientClosedError, ConfigurationError, PayClientError
from payclient.protocol import Request, Response
from payclient.transports._failures import Progress, address_in_words, broken, not_connected
from payclient.transports._network import Network, Origin, Proxy, TunnelError, default_context, opens_tunnel
from payclient.transports._parser import MalformedError, ResponseParser

_BUFFER = 8 * 1024
"""Size of the read buffer in bytes. A documented response is about 500 bytes, headers included."""
_MAX_SILENCE = 1.0
"""Seconds. Most responses begin sooner, and a later one costs a handshake."""


class TlsSession:
    """The client side of a TLS connection without I/O: received bytes in, bytes to send out."""

    # asyncio's own TLS transport serves any protocol, and takes twice as long per message as the encryption. This one
    # relies on messages being small and sent at once.

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl = context.wrap_bio(self.incoming, self.outgoing, server_hostname=host)
        self.is_established = False

    def handshake(self) -> bytes:
        """Return what TLS itself wants to send."""
        with suppress(ssl.SSLWantReadError):
            self.ssl.do_handshake()
            self.is_established = True
        return self.outgoing.read()

    def encrypted(self, plain: bytes) -> bytes:
        self.ssl.write(plain)
        return self.outgoing.read()

    def close_notify(self) -> bytes:
        with suppress(ssl.SSLError):  # the peer's close_notify is not waited for
            self.ssl.unwrap()
        return self.outgoing.read()

    def decrypted(self) -> Iterator[bytes]:
        """Yield the received data as far as its records are complete. `b""` is the peer's close_notify."""
        while size := self.incoming.pending or self.ssl.pending():
            try:
                plain = self.ssl.read(size)  # a full record would allocate 16 KiB
            except ssl.SSLWantReadError:
                return
            except ssl.SSLZeroReturnError:
                plain = b""
            yield plain
            if not plain:
                return


class BrokenError(Exception):
    """The connection ended an exchange. `Connection.parser` has how far the response had come."""


class Connection(asyncio.BufferedProtocol):
    """
    An asyncio protocol around the response parser, used by one exchange at a time and kept between them.

    Its states:

    1.  *Opening*: from the constructor to `connection_made`. Nothing can be sent.
    2.  *Idle*: `is_usable`. A byte received now is unsolicited and closes the connection, because each later response
        would be matched to the wrong request. The event loop may not have read it yet, so the pool asks `unread` too.
    3.  *Exchange*: from `exchange` until its future is done. A complete response leads back to *idle*, if the parser
        finds that the next one cannot be confused with it. Anything else leads to *closed*.
    4.  *Closed*: `abort` was called, or the peer has closed. `closed` is done when the event loop has noticed. The
        future of `exchange` gets a `BrokenError` with the reason.

    A cancelled exchange does not end the state, because the response may still arrive: its caller calls `read_on` or
    `abort`.
    """

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
        self._tls_error: ssl.SSLError | None = None
        self._buffer = memoryview(bytearray(_BUFFER))
        self.parser = ResponseParser(self)
        self._readable = select.poll() if hasattr(select, "poll") else None
        self.unread: Callable[[int], object] = bool if self._readable is None else self._readable.poll
        """Called with 0: what the socket has, data or its end, that the event loop has not read yet."""
        self._close_reason = "it was closed"
        self._response: asyncio.Future[Response] | None = None

    # Called by the transport

    def exchange(self, message: bytes, request: Request | None = None) -> asyncio.Future[Response]:
        self.parser.begin(request)
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
        if not is_sent or not self.parser.is_awaited:
            return None
        self._response = self._loop.create_future()
        return self._response

    def is_silent_since(self, began: float) -> bool:
        """Return whether an exchange that *began* more than a second ago has not received a byte."""
        return self.parser.is_awaited and not self.parser.received and self.now() - began > _MAX_SILENCE

    def abort(self) -> None:
        self.is_usable = False
        if self.on_close is not None:
            self.on_close(self)
        if self._transport is None or self._transport.is_closing():
            return
        if self.tls is not None:
            self._transport.write(self.tls.close_notify())
        self._transport.abort()

    def current(self) -> Progress:
        if self.parser.has_head:
            return self.progress.with_step("body")
        is_sending = self._transport is not None and self._transport.get_write_buffer_size() > 0
        return self.progress.with_step("sending" if is_sending else "waiting")

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._readable is not None:
            self._readable.register(transport.get_extra_info("socket"), select.POLLIN)
        self.is_usable = True
        if self.tls is not None:  # bytes may have arrived behind the handshake
            self._feed_decrypted(self.tls)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  the shape that asyncio calls
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Process received bytes, through TLS if it is used."""
        data, tls = self._buffer[:nbytes], self.tls
        if tls is None:
            self._feed(data)
        else:
            tls.incoming.write(data)
            self._feed_decrypted(tls)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange. A response with neither length nor chunks is complete now."""
        if isinstance(exc, ConnectionError) and self._transport is not None:
            # When a write fails, asyncio closes the connection without reading. The unread bytes may give the reason:
            # in TLS 1.3, a service that demands a client certificate sends its alert during the request.
            lost: Any = self._transport.get_extra_info("socket")
            with suppress(OSError, TypeError), lost.dup() as own:  # uvloop's cannot be duplicated
                while data := own.recv(_BUFFER):
                    self._buffer[: len(data)] = data
                    self.buffer_updated(len(data))
        self._transport = None
        if exc is None and (response := self.parser.end()) is not None:
            self._finish(response)
        self._break(str(exc) if exc else self._close_reason)
        if not self.closed.done():
            self.closed.set_result(None)

    def _feed_decrypted(self, tls: TlsSession) -> None:
        try:
            for plain in tls.decrypted():
                if plain:
                    self._feed(plain)
                else:
                    self.abort()
            if self._transport is not None and (answer := tls.outgoing.read()):  # a renegotiation, or a new key
                self._transport.write(answer)
        except ssl.SSLError as error:
            self._fail_tls(error)

    def _fail_tls(self, error: ssl.SSLError) -> None:
        self._tls_error = error.with_traceback(None)  # its frames contain the request
        self._break(f"TLS failed ({error.reason or type(error).__name__})")

    def _feed(self, data: bytes | memoryview) -> None:
        if not self.parser.is_awaited:
            self._close_reason = "unsolicited bytes arrived"
            self.abort()
            return
        try:
            response = self.parser.feed(data)
        except MalformedError as error:
            self._break(str(error))
            return
        if response is not None:
            self._finish(response)

    def _finish(self, response: Response) -> None:
        if self._response is not None and not self._response.done():  # done: the waiting lookup was cancelled
            self._response.set_result(response)
        self.is_usable = self.parser.is_reusable

    def _break(self, reason: str) -> None:
        self.parser.is_awaited = False
        if self._response is not None and not self._response.done():
            failure = BrokenError(reason)
            failure.__cause__ = self._tls_error
            self._response.set_exception(failure)
        self.abort()


_NEXT_ADDRESS_AFTER = 0.25  # seconds. RFC 8305, section 8
_MAX_ADDRESSES = 3
_SLOW = 1.0  # seconds until a name is resolved a second time
_MAX_TIMER_LATENESS = 0.1  # maximum lateness of a timer, in seconds, while the event loop is not blocked
_system_trust = cache(default_context)  # one for the process
_Result = TypeVar("_Result")


class Dialer:
    def __init__(self, network: Network) -> None:
        self._context, self._timeout, self._proxy = network.ssl_context, network.connect_timeout, network.proxy
        self._asked: dict[object, dict[asyncio.Future[Any], float]] = {}  # calls in threads, with their start

    def progress(self) -> Progress:
        return Progress(self._proxy.name if self._proxy else "")

    async def dial(self, origin: Origin, progress: Progress) -> Connection:
        # Cancelling closes everything that has been opened.
        loop, is_blocked = asyncio.get_running_loop(), False
        scope, ends_at = asyncio.timeout(self._timeout), loop.time() + self._timeout
        try:
            async with scope:
                return await self._connect(origin, progress)
        except (OSError, TunnelError) as error:
            is_late = isinstance(error, TimeoutError) and scope.expired()
            is_blocked = is_late and loop.time() > ends_at + _MAX_TIMER_LATENESS
            reason = TimeoutError(f"no answer within {self._timeout:g} s") if is_late else error
            failure: PayClientError = not_connected(reason, origin, progress, is_late=is_late)
        except RuntimeError as error:  # Python or its event loop is about to end, and starts no thread
            failure = ClientClosedError(f"no new connection can be opened: {error}")
        if is_blocked:  # the connection may exist by now: a late timer decides nothing
            return await self.dial(origin, self.progress())
        raise failure

    def abort(self) -> None:
        """Give up the calls in threads."""
        for call in [call for calls in self._asked.values() for call in calls]:
            call.cancel()

    async def _connect(self, origin: Origin, progress: Progress) -> Connection:
        loop, proxy, tls = asyncio.get_running_loop(), self._proxy, None
        if origin.scheme == "https":
            if self._context is None:
                self._context = await self._in_thread(_system_trust)  # it reads some hundred certificates
            tls = TlsSession(self._context, origin.host)
        elif proxy is not None:
            message = f"plain http does not go through the proxy {proxy.name}, which would see the API key"
            raise ConfigurationError(f"{message}: use https://")
        first = proxy or origin
        opened = await self._open_socket(first.host, first.port, progress)
        with ExitStack() as on_failure:  # refused, or cancelled
            on_failure.callback(opened.close)
            if proxy is not None:
                logger.debug("connecting to %s:%d through the proxy %s", origin.host, origin.port, proxy.name)
                progress.enter("proxy", loop.time())
                await _open_tunnel(opened, proxy, origin)
            if tls is not None:
                progress.enter("tls", loop.time())
                await _secure(opened, tls)
            on_failure.pop_all()
        connection = Connection(progress, tls)
        await loop.create_connection(lambda: connection, sock=opened)
        progress.enter("sending", loop.time())
        return connection

    async def _open_socket(self, host: str, port: int, progress: Progress) -> socket.socket:
        loop = asyncio.get_running_loop()
        progress.enter("name", loop.time())
        addresses = await self._resolve(host, port)
        progress.enter("connect", loop.time())
        progress.address = ", ".join(address_in_words(address) for *_, address in addresses[:_MAX_ADDRESSES])
        opened = await aiohappyeyeballs.start_connection(  # pyright: ignore[reportUnknownMemberType]  its socket addresses are bare tuples
            addresses, happy_eyeballs_delay=_NEXT_ADDRESS_AFTER, socket_factory=_new_socket
        )
        if len(addresses) > 1:
            with suppress(OSError):  # the peer has gone already
                progress.address = address_in_words(opened.getpeername())
        return opened

    async def _resolve(self, host: str, port: int) -> Any:
        with suppress(ValueError):  # a name
            ip_address(host)
            return socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM, socket.IPPROTO_TCP, socket.AI_NUMERICHOST)
        return await self._in_thread(socket.getaddrinfo, host, port, 0, socket.SOCK_STREAM, socket.IPPROTO_TCP)

    async def _in_thread(self, function: Callable[..., _Result], *arguments: object) -> _Result:
        """Call *function* in a thread, or share the result of an equal call that another dial waits for."""
        loop, asked = asyncio.get_running_loop(), self._asked.setdefault((function, arguments), {})
        if not asked or (len(asked) == 1 and loop.time() - max(asked.values()) > _SLOW):  # a packet may have been lost
            call = in_new_thread("payclient-dial", function, *arguments)
            asked[call] = loop.time()
            call.add_done_callback(partial(self._forget, asked))
        done, _ = await asyncio.wait([*asked], return_when=asyncio.FIRST_COMPLETED)
        return cast("_Result", done.pop().result())

    @staticmethod
    def _forget(asked: dict[asyncio.Future[Any], float], call: asyncio.Future[Any]) -> None:
        del asked[call]
        if not call.cancelled():
            call.exception()  # marks it as retrieved: its dials may have been cancelled


async def _open_tunnel(opened: socket.socket, proxy: Proxy, origin: Origin) -> None:
    # In one non-blocking write, because the send buffer is still empty: so the password is in no variable of a frame
    # that a cancellation could leave through.
    opened.send(proxy.connect_message(origin.host, origin.port))
    received = b""
    while not opens_tunnel(received, has_password=proxy.has_password):
        if not (data := await asyncio.get_running_loop().sock_recv(opened, _BUFFER)):
            raise TunnelError("closed the connection before it opened the tunnel")
        received += data


async def _secure(opened: socket.socket, tls: TlsSession) -> None:
    loop = asyncio.get_running_loop()
    while not tls.is_established:
        with suppress(ConnectionError):  # the reason may have arrived before
            await loop.sock_sendall(opened, tls.handshake())
        if not tls.is_established:
            if not (data := await loop.sock_recv(opened, _BUFFER)):
                raise ConnectionResetError("the connection was closed in the handshake")
            tls.incoming.write(data)


def _new_socket(address: tuple[Any, ...]) -> socket.socket:
    """Return a socket that keeps an idle connection alive behind a NAT, and notices a dead peer."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in (("TCP_KEEPIDLE", 45), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


_MAX_LATE = 32  # exchanges that are read on although their caller has left
_MAX_LATENESS = 5.0  # seconds
_CLOSED = "the transport has been closed"


class Pool:
    """The connections to one host."""

    # The most recently used one is taken first, and no more are kept than were wanted at once. Without an idle one,
    # an exchange has a new one opened, but takes another that is given back before. The new one is kept for the next
    # exchange. A NAT or a failover drops idle connections without a word, and all at once. So while a reused one is
    # silent for longer than a second, connections idle before its exchange began are not used. If it ends so, they are
    # closed.

    def __init__(self, origin: Origin, keepalive: float) -> None:
        self.origin = origin
        self.connections: dict[Connection, None] = {}  # ordered by creation
        self.idle: deque[Connection] = deque()  # the most recently used at the right
        self.is_closed = False
        self._keepalive = keepalive
        self._in_use = self._max_wanted = 0
        self.reused: dict[Connection, float] = {}  # busy ones, with the start of each exchange, in order
        self._waiting: dict[asyncio.Future[Connection], None] = {}
        self._dials: set[asyncio.Task[None]] = set()

    def add(self, connection: Connection) -> None:
        """Add a new connection, which is in use, until it is closed."""
        self.connections[connection] = None
        connection.on_close = self.remove
        self._in_use += 1
        self._max_wanted += self._in_use > self._max_wanted

    async def open(self, dialer: Dialer, *, needs_fresh: bool) -> Connection:
        """Return a new connection, or, unless it has to be new, another that is given back before."""
        progress = dialer.progress()
        waiting: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        dial = asyncio.create_task(self._dial(dialer, progress, waiting), name="payclient-dial")
        self._dials.add(dial)
        dial.add_done_callback(partial(self._end_dial, waiting))
        if not needs_fresh:
            self._waiting[waiting] = None
            self._max_wanted = max(self._max_wanted, self._in_use + len(self._waiting))
        try:
            return await waiting
        except asyncio.CancelledError as error:
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                self.give_back(waiting.result())
            dial.cancel()
            progress.attach_to(error)
            await until_done([dial])
            raise
        finally:
            self._waiting.pop(waiting, None)

    async def _dial(self, dialer: Dialer, progress: Progress, waiting: asyncio.Future[Connection]) -> None:
        connection = await dialer.dial(self.origin, progress)
        self.add(connection)
        if waiting.done():
            self.give_back(connection)
        else:
            waiting.set_result(connection)

    def _end_dial(self, waiting: asyncio.Future[Connection], dial: asyncio.Task[None]) -> None:
        self._dials.remove(dial)
        failure = ClientClosedError(_CLOSED) if dial.cancelled() else dial.exception()
        if failure is not None and not waiting.done():
            waiting.set_exception(failure)

    def abort(self) -> list[asyncio.Task[None]]:
        """Close all connections, and return what still makes new ones."""
        self.is_closed = True
        for dial in self._dials:
            dial.cancel()
        for connection in [*self.connections]:
            connection.abort()
        return [*self._dials]

    def take(self) -> Connection | None:
        """Return the most recently used connection that is still open. None if all have been idle for too long."""
        if not self.idle:
            return None
        now = self.idle[-1].now()
        trusted_since = now - self._keepalive
        if self.reused:
            suspect, began = next(iter(self.reused.items()))
            if suspect.is_silent_since(began):
                trusted_since = max(trusted_since, began)
        while self.idle and self.idle[-1].idle_since > trusted_since:
            connection = self.idle.pop()
            if connection.is_usable and not connection.unread(0):
                self.reused[connection] = now
                self._in_use += 1
                self._max_wanted += self._in_use > self._max_wanted
                return connection
            connection.abort()
        return None

    def give_back(self, connection: Connection) -> None:
        """Keep a usable connection for the next exchange. Close unneeded idle ones."""
        began = self.reused.pop(connection, None)
        self._in_use -= 1
        if not connection.is_usable or self.is_closed:
            if began is not None and connection.is_silent_since(began):
                for other in [each for each in self.idle if each.idle_since < began]:
                    other.abort()
            connection.abort()
            return
        now = connection.idle_since = connection.now()
        self.idle.append(connection)
        for waiting in self._waiting:
            if not waiting.done():  # it has waited longest
                if (taken := self.take()) is not None:
                    waiting.set_result(taken)
                break
        while self.idle:
            coldest = self.idle[0]
            if coldest.idle_since >= now - self._keepalive and len(self.connections) <= self._max_wanted:
                return
            coldest.abort()

    def remove(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        if connection in self.idle:
            self.idle.remove(connection)


class Connections:
    """Makes exchanges, one at a time over each connection."""

    # A connection is closed unless the exchange ended well. The exchange of a caller who has left may end well, too: a
    # few are read on for some seconds, by the connections themselves and without a task. Otherwise a caller who always
    # leaves early would never see a 429, and would open a connection for each request.

    def __init__(self, network: Network) -> None:
        self._dialer, self._keepalive = Dialer(network), network.keepalive
        self._pools: dict[Origin, Pool] = {}
        self._is_closed = False
        self.late: set[Connection] = set()  # their callers have left

    def pool(self, origin: Origin) -> Pool:
        return self._pools.setdefault(origin, Pool(origin, self._keepalive))

    async def exchange(self, pool: Pool, request: Request, message: Callable[[], bytes]) -> Response:
        needs_fresh = request.needs_fresh_connection
        connection = None if needs_fresh or self._is_closed else pool.take()
        while True:
            if connection is None:
                if self._is_closed:
                    raise ClientClosedError(_CLOSED)
                connection = await pool.open(self._dialer, needs_fresh=needs_fresh)
            is_stale_possible, is_left = connection in pool.reused, False
            try:
                if self._is_closed:  # closed while it connected
                    raise ClientClosedError(_CLOSED)
                return await connection.exchange(message(), request)
            except BrokenError as error:
                is_stale = is_stale_possible and not connection.parser.received
                failure = broken(error, pool.origin, connection.current(), answered=connection.parser.has_head)
            except asyncio.CancelledError as error:
                connection.current().attach_to(error)
                is_left = request.on_late is not None and self._read_on(pool, connection, request.on_late)
                raise
            finally:
                if not is_left:
                    pool.give_back(connection)
            if not is_stale:
                raise failure
            # The service closed it while it was idle, which is not a failed attempt.
            connection, needs_fresh = None, True

    def _read_on(self, pool: Pool, connection: Connection, on_late: Callable[[Response], object]) -> bool:
        """Return whether the response is still read. *on_late* then gets it."""
        is_suspect = connection.is_silent_since(pool.reused.get(connection, math.inf))
        if len(self.late) >= _MAX_LATE or is_suspect or (response := connection.read_on()) is None:
            return False

        def end(response: asyncio.Future[Response]) -> None:
            timer.cancel()
            self.late.remove(connection)
            pool.give_back(connection)
            if response.exception() is None:
                on_late(response.result())

        self.late.add(connection)
        timer = asyncio.get_running_loop().call_later(_MAX_LATENESS, connection.abort)
        response.add_done_callback(end)
        return True

    def abort(self) -> list[asyncio.Future[Any]]:
        """Close all connections, and return what ends later: the event loop notices it."""
        self._is_closed = True
        self._dialer.abort()
        connections = [connection.closed for pool in self._pools.values() for connection in pool.connections]
        return [*connections, *(dial for pool in self._pools.values() for dial in pool.abort())]

    async def aclose(self) -> None:
        await until_done(self.abort())

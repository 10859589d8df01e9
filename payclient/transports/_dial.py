"""Open connections: name resolution, TCP, the tunnel of a proxy, TLS."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import Executor, Future, InvalidStateError
from contextlib import ExitStack, suppress
from functools import cache, partial
from ipaddress import ip_address
from threading import Thread
from typing import Any, ParamSpec, TypeVar, cast

import aiohappyeyeballs

from payclient._shared.logger import logger
from payclient.errors import ClientClosedError, ConfigurationError, PayClientError
from payclient.transports._connection import Connection
from payclient.transports._failures import Progress, address_in_words, not_connected
from payclient.transports._proxy import Origin, Proxy, Tunnel, TunnelError
from payclient.transports._tls import TlsSession, default_context

_NEXT_ADDRESS_AFTER = 0.25  # seconds. RFC 8305, section 8
_BUFFER = 16 * 1024
_MAX_ADDRESSES = 3
_SLOW = 1.0  # seconds until a name is resolved a second time
_MAX_LATENESS = 0.1  # maximum lateness of a timer, in seconds, while the event loop is not blocked
_system_trust = cache(default_context)  # one for the process
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class _Threads(Executor):
    """Makes each call in a new daemon thread."""

    # Not the event loop's default executor: jobs of the application may fill it. Nor another pool: Python waits at
    # its end for the threads of pools, and after that, as in `atexit`, a pool takes no more calls.

    def submit(self, fn: Callable[_Given, _Result], /, *args: _Given.args, **kwargs: _Given.kwargs) -> Future[_Result]:
        done = Future[_Result]()

        def run() -> None:
            with suppress(InvalidStateError):  # cancelled in between
                try:
                    result = fn(*args, **kwargs)
                except Exception as error:  # noqa: BLE001  raised where the result is awaited
                    done.set_exception(error)
                else:
                    done.set_result(result)

        Thread(target=run, name="payclient-dial", daemon=True).start()
        return done


_threads = _Threads()


class Dialer:
    def __init__(self, ssl_context: ssl.SSLContext | None, timeout: float, proxy: Proxy | None = None) -> None:
        self._context = ssl_context
        self._timeout = timeout
        self._proxy = proxy
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
            is_blocked = is_late and loop.time() > ends_at + _MAX_LATENESS
            reason = TimeoutError(f"no answer within {self._timeout:g} s") if is_late else error
            failure: PayClientError = not_connected(reason, origin, progress, is_late=is_late)
        except RuntimeError as error:  # Python or its event loop is about to end, and starts no thread
            failure = ClientClosedError(f"no new connection can be made: {error}")
        if is_blocked:  # the connection may exist by now: a late timer decides nothing
            return await self.dial(origin, self.progress())
        raise failure

    def abort(self) -> None:
        """Give up the calls in threads."""
        for call in [call for calls in self._asked.values() for call in calls]:
            call.cancel()

    async def _connect(self, origin: Origin, progress: Progress) -> Connection:
        host, port, loop = origin.host, origin.port, asyncio.get_running_loop()
        context = await self._trust() if origin.scheme == "https" else None
        tls = None if context is None else TlsSession(context, host)
        if self._proxy is None:
            opened = await self._open_socket(host, port, progress)
        elif context is None:
            message = f"plain http does not go through the proxy {self._proxy.name}, which would see the API key"
            raise ConfigurationError(f"{message}: use https://")
        else:
            opened = await self._open_tunnel(self._proxy, host, port, progress)
        connection = Connection(progress, tls)
        await loop.create_connection(lambda: connection, sock=opened)
        if tls is not None:
            progress.enter("tls", loop.time())
            with ExitStack() as on_failure:  # refused, or cancelled
                on_failure.callback(connection.abort)
                await connection.secure()
                on_failure.pop_all()
        progress.enter("sending", loop.time())
        return connection

    async def _trust(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = await self._in_thread(_system_trust)  # it reads some hundred certificates
        return self._context

    async def _open_tunnel(self, proxy: Proxy, host: str, port: int, progress: Progress) -> socket.socket:
        logger.debug("connecting to %s:%d through the proxy %s", host, port, proxy.name)
        opened = await self._open_socket(proxy.host, proxy.port, progress)
        with ExitStack() as on_failure:  # refused, or cancelled
            on_failure.callback(opened.close)
            progress.enter("proxy", asyncio.get_running_loop().time())
            # In one non-blocking write, because the send buffer is still empty: so the password is in no variable of a
            # frame that a cancellation could leave through.
            opened.send(proxy.connect_message(host, port))
            tunnel = Tunnel(has_password=proxy.has_password)
            while not tunnel.receive(await asyncio.get_running_loop().sock_recv(opened, _BUFFER)):
                pass
            on_failure.pop_all()
        return opened

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
            call = loop.run_in_executor(_threads, function, *arguments)
            asked[call] = loop.time()
            call.add_done_callback(partial(self._forget, asked))
        done, _ = await asyncio.wait([*asked], return_when=asyncio.FIRST_COMPLETED)
        return cast("_Result", done.pop().result())

    @staticmethod
    def _forget(asked: dict[asyncio.Future[Any], float], call: asyncio.Future[Any]) -> None:
        del asked[call]
        if not call.cancelled():
            call.exception()  # marks it as retrieved: its dials may have been cancelled


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

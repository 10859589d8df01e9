"""httpcore's network backend, with our own steps: name, addresses, and the tunnel of a proxy."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable
from importlib import import_module
from ipaddress import ip_address
from itertools import zip_longest
from typing import Any

import anyio
import httpx

from payclient._telemetry import logger
from payclient._until_done import until_done
from payclient.transports._failures import without_library_frames
from payclient.transports._proxy import Proxy, Tunnel, TunnelError
from payclient.transports._socket import unread
from payclient.transports._way import Way, shown_address, shown_addresses

core: Any = import_module("httpcore2" if httpx.__name__ == "httpx2" else "httpcore")
"""The library below httpx."""
_NEXT_ADDRESS_AFTER = 0.25  # seconds; RFC 8305, section 8
_BUFFER = 16 * 1024
_END_OF_HEAD = b"\r\n\r\n"
_BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError)


class Backend(core.AnyIOBackend):  # type: ignore[misc]  # httpcore or httpcore2
    """
    Opens one connection, and notes how far it has come.

    Args:
        way: Where it notes that.
        proxy: Which is asked for a tunnel; None for none.
    """

    def __init__(self, way: Way, proxy: Proxy | None) -> None:
        self._way = way
        self._proxy = proxy

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  the shape that httpcore calls
        local_address: str | None = None,  # noqa: ARG002  as above; we give none
        socket_options: Iterable[tuple[int, int, int]] | None = None,
    ) -> Any:
        """Return a connection to *host*: through the tunnel, if there is a proxy."""
        try:
            with anyio.fail_after(timeout):
                if self._proxy is None:
                    return await self._connect(host, port, socket_options)
                logger.debug("connecting to %s:%d through the proxy %s", host, port, self._proxy.name)
                return await self._open_tunnel(self._proxy, host, port, socket_options)
        except TimeoutError as error:
            raise core.ConnectTimeout(str(error)) from error
        except TunnelError as error:
            raise core.ProxyError(str(error)) from error
        except OSError as error:
            raise core.ConnectError(str(error)) from error

    async def _open_tunnel(self, proxy: Proxy, host: str, port: int, options: Any) -> Any:
        stream = await self._connect(proxy.host, proxy.port, options)
        is_open = False
        try:
            self._way.enter("proxy", asyncio.get_running_loop().time())
            await _ask(stream, proxy, host, port)
            tunnel = Tunnel(has_password=proxy.has_password)
            while not tunnel.receive(await _read(stream)):
                pass
            is_open = True
        finally:
            if not is_open:  # refused, or cancelled
                await stream.aclose()
        return stream

    async def _connect(self, host: str, port: int, options: Any) -> Any:
        addresses = await self._resolve(host, port)
        self._way.enter("connect", asyncio.get_running_loop().time())
        self._way.address = shown_addresses([(address, port) for address in addresses])
        stream = await self._first_of(addresses, port, options)
        self._way.address = shown_address(stream.get_extra_info("server_addr"))
        return stream

    async def _connect_to(self, address: str, port: int, options: Any) -> Any:
        # of whichever library it is
        stream: Any = await super().connect_tcp(address, port, socket_options=options)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        _read_rest_of(stream)
        return Stream(stream)

    async def _resolve(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        self._way.enter("name", loop.time())
        try:
            return [str(ip_address(host))]
        except ValueError:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        return _by_turns(list(dict.fromkeys(str(address[0]) for *_, address in found)))

    async def _first_of(self, addresses: list[str], port: int, options: Any) -> Any:
        """
        Return the first connection of those that are begun one after the other.

        Source:
            RFC 8305, part 5.
        """
        # In tasks and not in scopes of anyio: there, a cancellation in the turn in which a timer fires can get lost.
        attempts: list[asyncio.Task[Any]] = []
        first: asyncio.Task[Any] | None = None
        try:
            for address in addresses:
                attempts.append(asyncio.create_task(self._connect_to(address, port, options)))
                is_last = len(attempts) == len(addresses)
                if first := await _first_connected(attempts, None if is_last else _NEXT_ADDRESS_AFTER):
                    return first.result()
        finally:
            await _close_others(attempts, first)
        return attempts[-1].result()  # raises what it has failed with


class Stream(core.AsyncNetworkStream):  # type: ignore[misc]  # httpcore or httpcore2
    """
    A connection that sends the head of a request together with its body.

    httpcore writes them one after the other, so that each request is two system calls and two segments. It
    also opens a scope of anyio for each read and write, which without a time-out costs more than the read.

    Args:
        stream: A connection of httpcore.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._bytes: anyio.abc.ByteStream = getattr(stream, "_stream")  # noqa: B009  httpcore does not show it
        self._tls = stream.get_extra_info("ssl_object")  # asked for once a request, of anyio, which asks the system
        self._head = b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Send *buffer*, or keep it until the next write or read if it may be the head of a request."""
        if buffer.endswith(_END_OF_HEAD):
            self._head += buffer
        else:
            await self._send(buffer, timeout)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Return what was received, or b"" at the end."""
        if self._head:
            await self._send(b"", timeout)
        if timeout is not None:
            return await self._stream.read(max_bytes, timeout)  # type: ignore[no-any-return]  # bytes
        try:
            return await self._bytes.receive(max_bytes)
        except anyio.EndOfStream:
            return b""
        except _BROKEN as error:
            raise core.ReadError(str(error)) from error

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Stream:
        """Return the same connection with TLS."""
        return Stream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        """Return what httpcore knows of the connection."""
        return self._tls if info == "ssl_object" else self._stream.get_extra_info(info)

    async def _send(self, buffer: bytes, seconds: float | None) -> None:
        data, self._head = self._head + buffer, b""
        try:
            if seconds is not None:
                await self._stream.write(data, seconds)
            elif data:
                await self._bytes.send(data)
        except _BROKEN as error:
            raise core.WriteError(str(error)) from error
        finally:
            del data  # it holds the API key, and crash reporters store local variables


async def _first_connected(attempts: list[asyncio.Task[Any]], seconds: float | None) -> asyncio.Task[Any] | None:
    """Wait for a connection, until *seconds* are over, or the youngest attempt, or all of them, have failed."""
    now = asyncio.get_running_loop().time
    until = None if seconds is None else now() + seconds
    while True:
        connected = [each for each in attempts if _is_connected(each)]
        pending = [each for each in attempts if not each.done()]
        if connected or not pending or (until is not None and (attempts[-1].done() or now() >= until)):
            return connected[0] if connected else None
        left = None if until is None else until - now()
        await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)


def _is_connected(attempt: asyncio.Task[Any]) -> bool:
    return attempt.done() and not attempt.cancelled() and attempt.exception() is None


async def _close_others(attempts: list[asyncio.Task[Any]], first: asyncio.Task[Any] | None) -> None:
    """End the attempts that are not needed, and close what they have connected."""
    others = [each for each in attempts if each is not first]
    for each in others:
        each.cancel()
    try:
        await until_done([asyncio.create_task(_close_all(others))])
    except asyncio.CancelledError:
        await until_done([asyncio.create_task(_close_all(attempts))])  # the first one is not returned either
        raise


async def _close_all(attempts: list[asyncio.Task[Any]]) -> None:
    await until_done(attempts)
    for each in attempts:
        if _is_connected(each):
            await each.result().aclose()


async def _ask(stream: Any, proxy: Proxy, host: str, port: int) -> None:
    try:
        await stream.write(proxy.connect_message(host, port))
        await stream.write(b"")  # sends it
    except BaseException as error:  # noqa: BLE001  raised again
        raise without_library_frames(error)  # noqa: B904  they hold the password


def _read_rest_of(stream: Any) -> None:
    """Have what is unread taken before the connection is lost; neither httpcore nor anyio shows the protocol."""
    protocol = getattr(getattr(stream, "_stream", None), "_protocol", None)
    if protocol is None:
        return
    socket_of_it, lose = stream.get_extra_info("socket"), protocol.connection_lost

    def connection_lost(error: Exception | None) -> None:
        del protocol.connection_lost  # which holds the protocol in turn
        rest = list(unread(socket_of_it)) if isinstance(error, ConnectionError) else []
        for data in rest:
            protocol.data_received(data)
        lose(None if rest else error)  # after an error of a write, anyio's TLS reads no more

    protocol.connection_lost = connection_lost


def _by_turns(addresses: list[str]) -> list[str]:
    """Order addresses so that those of both families are tried soon."""
    first = [address for address in addresses if (":" in address) == (":" in addresses[0])]
    other = [address for address in addresses if address not in first]
    pairs = zip_longest(first, other)
    return [address for pair in pairs for address in pair if address is not None]


async def _read(stream: Any) -> bytes:
    try:
        return await stream.read(_BUFFER)  # type: ignore[no-any-return]  # bytes
    except core.ReadError:  # reset
        return b""

"""Send attempts through an `httpx.AsyncClient`: the default transport's, or the caller's own."""

import asyncio
import sys
from collections import UserDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, TypeVar, cast

import anyio
import httpx

from payclient import errors
from payclient._shared.checks import unfit
from payclient._shared.until_done import until_done
from payclient.protocol import Request, Response
from payclient.transports._connections import Connection, Connections
from payclient.transports._failures import Progress, progress_of, translated, without_library_frames
from payclient.transports._network import Origin
from payclient.transports._parser import MIN_PART
from payclient.transports.fast import FastTransport, common_headers, header_lines

_Value = TypeVar("_Value")
_CLOSED = "this http_client cannot be used: it has been closed"
_MOCKED = {"httpcore", "httpcore2"}
"""Mockers of respx. The second one is from pytest-httpx2."""
_STREAM = "payclient.stream"
"""Request extension of a lookup: our `Request`, and the library's class of a stream in memory."""
_BODY = "payclient.body"
"""Response extension: the body, and whether it was truncated."""
_LOOKUP = "payclient.lookup"
"""Request extension: our `Request`, and the pool that it is sent over."""
_RESPONSE = "payclient.response"
"""Response extension: the `Response` as payclient's connection returned it."""


def _library_of(client: object) -> ModuleType:
    for kind in type(client).__mro__:
        library = sys.modules.get(kind.__module__.partition(".")[0])
        if library is not None and library.__name__ in ("httpx", "httpx2") and isinstance(client, library.AsyncClient):
            return library
    raise unfit("http_client", "an httpx.AsyncClient", type(client).__name__)


class _ReusedError(Exception):
    """The connection that the pool chose has been used before."""


class _Freshness(UserDict[str, float | None]):
    """
    Detects whether a response may belong to another request, by the public extensions of httpx.

    Over httpcore's connections, `trace` distinguishes new connections from reused ones. A mock or an application in
    memory exposes no connection and reads no time-outs, which are this. A transport that exposes no connection and does
    read them is unknown.
    """

    def __init__(self, *, is_required: bool) -> None:
        super().__init__()
        self._is_required, self._is_proven, self._is_read = is_required, False, False

    def __getitem__(self, name: str) -> float | None:
        self._is_read = True
        return super().__getitem__(name)

    def watch(self, native: Any) -> None:
        self.update(native.extensions.get("timeout", {}))
        native.extensions = {**native.extensions, "trace": self._watch, "timeout": self}

    async def _watch(self, event: str, info: Mapping[str, Any]) -> None:  # noqa: ARG002  the shape that httpcore calls
        """Raise before the first byte is written if the connection must be new and is not."""
        if event.endswith((".connect_tcp.complete", ".connect_unix_socket.complete")):
            self._is_proven = True
        elif event == "http11.send_request_headers.started" and self._is_required and not self._is_proven:
            raise _ReusedError

    def of(self, head: Any) -> bool:
        if _is_without_network(head):
            return not self._is_read
        return self._is_proven or bool(head.http_version == "HTTP/2")  # HTTP/2 numbers its responses


class HttpxClientTransport:
    """
    Sends attempts through the caller's client, and never closes it.

    The client's proxies, mounts, hooks, certificates and time-outs apply. Its redirects and its
    `auth` do not: either could send the API key to another host, or another key to this one.
    """

    def __init__(self, client: Any) -> None:
        self._library, self._client = _library_of(client), client
        if client.is_closed:
            raise errors.ClientClosedError(_CLOSED)

    async def send(self, request: Request) -> Response:
        if self._client.is_closed:
            raise errors.ClientClosedError(_CLOSED)
        return await _in_own_scope(self._exchange_until_fresh(request))

    async def _exchange_until_fresh(self, request: Request) -> Response:
        # The same response twice would prove nothing: two reused connections may be out of step.
        while True:
            with suppress(_ReusedError):  # it closes that connection. In the end the pool opens a new one
                freshness = _Freshness(is_required=request.needs_fresh_connection)
                return await _exchange(self._library, request, partial(self._send, freshness), freshness.of)

    def _native(self, freshness: _Freshness, request: Request) -> Any:
        native = self._client.build_request(
            request.method,
            request.url,
            headers={**request.headers, "Authorization": request.authorization()},
            content=request.body,
            extensions={_STREAM: (request, self._library.ByteStream)},
        )
        freshness.watch(native)
        return native

    async def _send(self, freshness: _Freshness, request: Request) -> Any:
        native = self._native(freshness, request)
        hooks = self._client.event_hooks["response"]
        if hooks and hooks[0] is not _read_before_hooks:
            hooks.insert(0, _read_before_hooks)
        try:
            return await self._client.send(native, stream=True, auth=None, follow_redirects=False)
        except self._library.HTTPStatusError as error:  # a hook called `raise_for_status`
            if error.request is not native:  # but of another request, sent by the hook
                raise
            return error.response

    async def discard(self, response: Response) -> None:
        """Close the connection of *response*, if the client's transport exposes it."""
        connection: Any = response.connection
        if connection is not None:
            await connection.aclose()

    async def aclose(self) -> None:
        """Do nothing: the client belongs to the caller."""


class PoolAdapter:
    """Takes the place of httpcore's pool below httpx, for lookups."""

    # Only what lies below httpx's own transport is replaced: `handle_async_request` of `httpx.AsyncHTTPTransport`
    # stays, so the tools of the httpx ecosystem that patch or wrap it see each lookup. respx patches httpcore's classes
    # instead, which are not used here. It learns ours as soon as it is imported, before a request is sent.

    def __init__(self, connections: Connections, library: Any) -> None:
        self.connections = connections
        self._library = library
        # httpx does so during a request, where it would block the event loop for some 15 ms.
        import_module(library.__name__.replace("httpx", "httpcore"))

    async def handle_async_request(self, request: Any) -> Any:
        lookup: Request
        lookup, pool = request.extensions[_LOOKUP]
        message = partial(_message, request, lookup.body)  # with the headers that a tool has added
        del request  # a traceback may include the local variables of its frames
        response = await self.connections.exchange(pool, lookup, message)
        connection = response.connection
        headers = connection.parser.raw_headers if isinstance(connection, Connection) else []
        extensions = {"http_version": b"HTTP/1.1", _RESPONSE: response}
        stream = self._library.ByteStream(response.body)
        return SimpleNamespace(status=response.status_code, headers=headers, stream=stream, extensions=extensions)


class HttpxTransport(FastTransport):
    """
    The default transport: one `httpx.AsyncClient`, shared by all lookups, over our own connections.

    Proxies of the environment are left to `AsyncClient`. `SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured. No redirect
    is followed, and no cookie is kept.

    Args and errors as for `payclient.transports.fast.FastTransport`.
    """

    library: ClassVar[Any] = httpx

    def _prepare(self) -> None:
        library = self.library
        # Without time-outs of httpx: the client bounds each attempt, and the connections know their own.
        transport: Any = library.AsyncHTTPTransport.__new__(library.AsyncHTTPTransport)  # without its own pool
        transport._pool = PoolAdapter(self._connections, library)  # noqa: SLF001
        self._client: Any = library.AsyncClient(transport=transport, trust_env=False, timeout=None)
        cookies = type("NoCookies", (library.Cookies,), {"extract_cookies": _keep_none})()
        self._client._cookies = cookies  # noqa: SLF001  the property would copy them
        self._no_auth, self._no_timeout = library.Auth(), library.Timeout(None).as_dict()

    async def send(self, request: Request) -> Response:
        """
        Exchange *request* for a response. See `Transport.send`.

        Raises:
            TransportError: When no complete response was received.
        """
        return await _exchange(self.library, request, self._send, _is_without_network)

    def _part(self, request: Request) -> Any:
        pool = self._connections.pool(Origin.of(request.url))
        return self.library.URL(request.url), self.library.Headers(common_headers(request)), pool

    def _native(self, request: Request) -> Any:
        url, headers, pool = self._shared(request)
        native = self.library.Request(
            request.method,
            url,
            headers=headers,
            stream=self.library.ByteStream(request.body),
            extensions={_LOOKUP: (request, pool), "timeout": self._no_timeout},
        )
        native.headers["Content-Length"] = str(len(request.body))
        native.headers["Authorization"] = request.authorization()
        native.read()  # some tools look at its content
        return native

    def _send(self, request: Request) -> Any:
        if (mocks := sys.modules.get("respx.mocks")) is not None:
            for name in _MOCKED & mocks.Mocker.registry.keys():
                _teach(mocks.Mocker.registry[name])
        # An `auth` that adds nothing, because without any httpx would look for one in the URL.
        return self._client.send(self._native(request), stream=True, auth=self._no_auth, follow_redirects=False)


def transport_over(name: str) -> type[HttpxTransport]:
    """Return the transport over the library of this name."""
    try:
        library = import_module(name)
    except ModuleNotFoundError:
        message = f"the transport {name!r} needs {name}: pip install 'payclient[{name}]'"
    else:
        if library is httpx:
            return HttpxTransport
        return type(f"{name.title()}Transport", (HttpxTransport,), {"library": library})
    raise errors.ConfigurationError(message)


def _is_without_network(head: Any) -> bool:
    return head.extensions.get("network_stream") is None


async def _exchange(
    library: Any, request: Request, send: Callable[[Request], Awaitable[Any]], is_fresh: Callable[[Any], bool]
) -> Response:
    """Exchange *request* by means of *library*. Raise only errors of payclient."""
    answered = False
    failure: BaseException
    try:
        head = await send(request)
        answered = True
        body, is_truncated = await _read_body(head, request)
        # httpx's own stream refers to the response: a cycle that contains the request, and so the key, until it is
        # collected.
        head.stream = library.ByteStream(body)
    except errors.TransportError as error:  # our own connections raised it
        failure = without_library_frames(error)
    except (library.HTTPError, OSError) as error:
        failure = translated(error, Origin.of(request.url), library=library, answered=answered)
    except BaseException as error:  # noqa: BLE001  raised below
        failure = without_library_frames(error)
    else:
        ours, stream = head.extensions.get(_RESPONSE), head.extensions.get("network_stream")
        # It may be a test tool's, not our own transport's.
        known = (ours.connection, ours.is_fresh) if isinstance(ours, Response) else (stream, is_fresh(head))
        return Response(head.status_code, dict(head.headers.items()), body, is_truncated, *known)
    raise failure  # outside the handler, so that it isn't linked to httpx's frames and the request


async def _in_own_scope(work: Coroutine[Any, Any, _Value]) -> _Value:
    """Run *work* in a separate task, and cancel it through a scope instead of through the task."""
    # The cancellation of a task may interrupt httpcore's clean-up, which then does not give the connection back
    # (encode/httpcore#1093). The cancellation of a scope respects the shields that httpcore puts around its clean-up.
    # The task always ends before this returns.
    scope, progress = anyio.CancelScope(), Progress()

    async def owned() -> _Value:
        nonlocal progress
        with scope:
            try:
                return await work
            except asyncio.CancelledError as error:
                progress = progress_of(error)
                raise
        raise asyncio.CancelledError  # the scope has swallowed it

    task = asyncio.create_task(owned())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError as error:
        scope.cancel()
        with suppress(asyncio.CancelledError):  # already cancelling
            await until_done([task])
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved
        progress.attach_to(error)
        raise


def _keep_none(_cookies: object, _response: object) -> None:
    """Keep no cookie: the service needs none, and each response could add another."""


async def _read_before_hooks(response: Any) -> None:
    """Read a lookup's response as the first response hook: if another one raises, httpx closes it."""
    if (ours := response.request.extensions.get(_STREAM)) is not None:
        request, stream = ours
        response.extensions[_BODY] = body = await _read_body(response, request)
        response.stream, response.is_closed = stream(body[0]), False  # other hooks may read it


async def _read_body(response: Any, request: Request) -> tuple[bytes, bool]:
    """Return the body as received, and whether it was truncated at the limit. *response* is always closed."""
    if _BODY in response.extensions:
        return cast("tuple[bytes, bool]", response.extensions[_BODY])
    ours = response.extensions.get(_RESPONSE)
    if isinstance(ours, Response) and not response.is_closed:  # a tool may have replaced it
        await response.aclose()
        return ours.body, ours.is_truncated
    parts: list[bytes] = []
    size = 0
    try:
        # Not `aiter_raw`, which counts a second time and needs a request, nor `aread`, which
        # decompresses without a limit.
        async for part in response.stream:
            parts.append(part)
            size += max(len(part), MIN_PART)
            if size > request.body_limit:
                break
    finally:
        await response.aclose()
    return b"".join(parts)[: request.body_limit], size > request.body_limit


@cache
def _teach(mocker: Any) -> None:
    """Have a mocker of respx patch `PoolAdapter` too."""
    mocker.add_targets(f"{__name__}.{PoolAdapter.__name__}")


def _message(request: Any, body: bytes) -> bytes:
    """Return the request as it is written. Do not keep it in a variable, because it contains the API key."""
    return b"%b %b HTTP/1.1\r\n%b\r\n%b" % (request.method, request.url.target, header_lines(request.headers), body)

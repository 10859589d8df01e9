"""The fake service behind a real server, on a real socket."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

from payclient._shared.until_done import until_done
from payclient._shared.version import from_extra
from payclient.testing._service import ASGIApp

with from_extra("testing", "payclient.testing.serve needs uvicorn"):
    import uvicorn


@asynccontextmanager
async def serve(app: ASGIApp, *, host: str = "127.0.0.1", port: int = 0) -> AsyncGenerator[str, None]:
    """
    Serve *app* over HTTP in the running event loop. Yield the base URL.

    When the block ends, connections are closed: a request still in flight sees its client leave.
    No signal handler is installed, no logging configured and no lifespan run.

    Args:
        app: An ASGI 3 application, such as a `FakeService`.
        host: Address to listen on. It answers every caller, so keep it a loopback address.
        port: 0 for any free port.

    Raises:
        OSError: When the address cannot be listened on.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.create_server((host, port), family=family, backlog=1024)
    # The protocol is named, because asyncio sets TCP_NODELAY only then: without it an answer
    # that is written in two parts waits 40 ms for an acknowledgement.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=made.detach()) as listener:
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            interface="asgi3",
            lifespan="off",
            log_config=None,
            server_header=False,
            date_header=False,  # the application sets its own
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
        server = _Server(config)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            # The socket listens already, so early connections wait for the server to be up.
            yield f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            for connection in server.server_state.connections:  # including requests that are never answered
                connection.transport.close()
            await until_done([running])
        running.result()


class _Server(uvicorn.Server):
    """A server that runs in its caller's event loop."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave the signals to the process's owner."""
        yield

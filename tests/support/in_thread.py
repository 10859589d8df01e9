"""Servers in another thread, for commands, which have an event loop of their own."""

import asyncio
import threading
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial

from payclient.testing import serve


@contextmanager
def serving(*servers):
    """Run servers until the block ends."""
    ready, ends = threading.Event(), []

    async def run():
        stop = asyncio.Event()
        async with AsyncExitStack() as stack:
            for server in servers:
                await stack.enter_async_context(server)
            ends.append(partial(asyncio.get_running_loop().call_soon_threadsafe, stop.set))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert ready.wait(60)
    try:
        yield
    finally:
        ends[0]()
        thread.join()


class InThread:
    """A server whose `served`, an asynchronous context manager, runs in another thread until the block ends."""

    def __enter__(self):
        self._serving = serving(self.served())
        self._serving.__enter__()
        return self

    def __exit__(self, *error):
        return self._serving.__exit__(*error)


class ServedInThread(InThread):
    """
    A service over HTTP in another thread.

    Attributes:
        service: The application, which may be changed for another one.
        on_request: Called before each request, in that thread.
    """

    def __init__(self, service=None):
        self.service, self.on_request = service, lambda: None

    async def __call__(self, scope, receive, send):
        self.on_request()
        await self.service(scope, receive, send)

    @asynccontextmanager
    async def served(self):
        async with serve(self) as self.url:
            yield

"""One event loop per process for code that is not asynchronous, such as a task of a worker."""

import asyncio
from threading import Thread

from payclient import AsyncClient, Transaction


class Background:
    """A client in its own thread; make it after the fork, one per process."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="payclient", daemon=True)
        self._thread.start()
        self._client = AsyncClient()

    def get_transaction(self, reference: str) -> Transaction:
        lookup = asyncio.run_coroutine_threadsafe(self._client.get_transaction(reference), self._loop)
        try:
            return lookup.result()
        finally:
            lookup.cancel()  # when this thread was interrupted; else it is done

    def close(self) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self._client.aclose(), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

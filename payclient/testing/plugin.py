"""The pytest plugin: fixtures for tests of applications that look transactions up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from payclient import AsyncClient
    from payclient.testing import FakeService

__all__ = ["pay_client", "pay_service"]

# pytest loads this file in every project where payclient is installed, so nothing of payclient is
# imported before a fixture is asked for.


@pytest.fixture
def pay_service() -> FakeService:
    """Return a fake payment service without transactions: `pay_service.add(reference="T1", status="Paid")`."""
    from payclient.testing import FakeService  # noqa: PLC0415

    return FakeService()


@pytest.fixture
def pay_client(pay_service: FakeService) -> AsyncClient:
    """
    Return an `AsyncClient` that talks to `pay_service`, in process.

    It retries without waiting, and gives up after 0.9 s, so that a test of a time-out is quick. The
    fixture is not asynchronous, so it works with any plugin that runs asynchronous tests on asyncio,
    and each test gets a client for its own event loop. It need not be closed, because it opens no sockets and starts no
    tasks.
    """
    import httpx  # noqa: PLC0415

    from payclient import AsyncClient, RetryPolicy  # noqa: PLC0415

    return AsyncClient(
        api_key=pay_service.api_key,
        base_url="http://127.0.0.1",
        environment="sandbox",
        deadline=0.9,
        retry=RetryPolicy(initial_backoff=0),
        http_client=httpx.AsyncClient(transport=httpx.ASGITransport(app=pay_service)),
    )

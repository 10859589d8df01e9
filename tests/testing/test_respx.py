"""respx routes answer the client like the payment service."""

import asyncio

import httpx
import pytest
import respx

from payclient import AsyncClient
from payclient.errors import (
    AuthenticationError,
    PayClientError,
    RateLimitedError,
    ServiceError,
    TransactionNotFoundError,
    UnexpectedResponseError,
)
from payclient.testing import Assumptions, Reply
from payclient.testing.respx import answered, found, not_found, throttled, unavailable


@pytest.fixture
def router():
    return respx.Router(assert_all_called=False)


@pytest.fixture
def look_up(router):
    """Return a function that looks one reference up, once, by way of the router."""

    async def look_up(reference="T1", **options):
        transport = httpx.MockTransport(router.async_handler)
        options = {"environment": "live", "retry": None, **options}
        async with (
            httpx.AsyncClient(transport=transport) as http_client,
            AsyncClient(api_key="k", base_url="https://pay.example/v1", http_client=http_client, **options) as client,
        ):
            return await client.get_transaction(reference)

    return look_up


async def test_found(router, look_up):
    """A found transaction has the fields that were given, on both paths; the route counts its lookups."""
    route = router.add(found("T1", amount=7, status="Paid"))
    for environment in ("live", "sandbox"):
        transaction = await look_up(environment=environment)
        assert (transaction.amount, transaction.status, transaction.deviations) == (7, "Paid", ())
    assert route.call_count == 2


async def test_routes_by_reference(router, look_up):
    """A route leaves other references alone; a later one takes the place of the earlier; without one, respx fails."""
    for reference, amount in (("T1", 1), ("T2", 2), ("T1", 3)):
        router.add(found(reference, amount=amount))
    assert [(await look_up(reference)).amount for reference in ("T2", "T1")] == [2, 3]
    with pytest.raises(AssertionError, match="not mocked"):
        await look_up("T3")


@pytest.mark.parametrize(
    ("route", "error"),
    [
        (lambda: not_found("T1"), TransactionNotFoundError),
        (not_found, TransactionNotFoundError),
        (lambda: answered(None, Assumptions().refused_key), AuthenticationError),
        (lambda: throttled("T1"), RateLimitedError),
        (throttled, RateLimitedError),
        (unavailable, ServiceError),
        (lambda: unavailable("T1", status=500), ServiceError),
        (lambda: answered("T1", Reply(body="<!DOCTYPE html>")), UnexpectedResponseError),
    ],
    ids=["not found", "nothing found", "key", "throttled", "all throttled", "unavailable", "500", "odd"],
)
async def test_failures(router, look_up, route, error):
    """Each failing route raises the error that it is named for."""
    router.add(route())
    with pytest.raises(error):
        await look_up()


async def test_retry_after(router, look_up):
    """A throttled route sends `Retry-After`."""
    router.add(throttled(retry_after=7))
    with pytest.raises(RateLimitedError) as caught:
        await look_up()
    assert caught.value.retry_after == 7


async def test_in_turn(router, look_up):
    """Replies are sent in order, and then the last one again and again."""
    router.add(answered("T1", Reply(status=500), Reply(body={"success": False, "message": "no"}), Reply(), amount=3))
    found = []
    for _ in range(4):
        try:
            found.append((await look_up()).amount)
        except PayClientError as error:
            found.append(type(error).__name__)
    assert found == ["ServiceError", "RejectedError", 3, 3]


@pytest.mark.virtual_time
async def test_delay(router, look_up):
    """A delayed reply takes its time on the event loop's clock."""
    router.add(answered("T1", Reply(delay=4)))
    await look_up()
    assert asyncio.get_running_loop().time() == pytest.approx(4)


@pytest.mark.virtual_time
async def test_dead(router, look_up):
    """A dead reply ends only with the client's patience."""
    router.add(answered("T1", Reply(never_responds=True)))
    with pytest.raises(TimeoutError):
        await look_up(timeout=5.0)


def test_no_reply():
    """A route without a reply is refused."""
    with pytest.raises(ValueError, match="at least one reply"):
        answered("T1")


async def test_patched():
    """The routes work with `respx.mock`, which patches httpx, on a client of the user's own."""
    async with respx.mock(base_url="https://pay.example") as router, httpx.AsyncClient() as http_client:
        router.add(found("T1", amount=5))
        client = AsyncClient(api_key="k", base_url="https://pay.example", environment="live", http_client=http_client)
        assert (await client.get_transaction("T1")).amount == 5

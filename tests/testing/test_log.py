"""The fake service remembers the requests it got, within a bound."""

from __future__ import annotations

import asyncio

import pytest

from payclient.testing import FakeService, ReceivedRequest, Reply
from testing.asking import LIVE, SANDBOX, ask


@pytest.fixture
def service():
    service = FakeService(remember=2)
    service.load({"reference": name} for name in ("T1", "T2", "T3"))
    return service


@pytest.mark.virtual_time
async def test_request(service):
    """A request is remembered with method, path, reference, status and the loop's time at its start."""
    await asyncio.sleep(5)
    await ask(service, path=SANDBOX)
    expected = ReceivedRequest(method="POST", path=SANDBOX, reference="T1", status=200, started_at=5.0)
    assert service.requests == (expected,)


async def test_refused_request(service):
    """A request that is refused is remembered, with its reference if it had one."""
    await ask(service, "T9", headers={})
    await ask(service, content=b"?")
    assert [(each.reference, each.status, each.path) for each in service.requests] == [
        ("T9", 401, LIVE),
        (None, 400, LIVE),
    ]


async def test_only_the_last(service):
    """No more than `remember` requests are kept, in the order in which they came; all are counted."""
    for reference in ("T1", "T2", "T3"):
        await ask(service, reference)
    assert ([each.reference for each in service.requests], service.total) == (["T2", "T3"], 3)


async def test_count(service):
    """Requests are counted per reference, whatever was answered."""
    service.script("T1", Reply(status=500))
    for reference in ("T1", "T1", "T2"):
        await ask(service, reference)
    assert [service.count(reference) for reference in ("T1", "T2", "T3")] == [2, 1, 0]


async def test_forgotten_count(service):
    """A count that was forgotten is never said to be 0."""
    for reference in ("T1", "T2", "T1", "T3"):
        await ask(service, reference)
    with pytest.raises(LookupError, match="T2"):
        service.count("T2")
    assert [service.count("T1"), service.count("T3")] == [2, 1]


def test_nothing_to_remember():
    """A service that remembers nothing is refused at its construction."""
    with pytest.raises(ValueError, match="remember must be at least 1, got 0"):
        FakeService(remember=0)

"""Faults happen in the share that was asked for, the same way for the same seed."""

from __future__ import annotations

from collections import Counter

import pytest

from payclient.testing import FakeService, Fault, Latency, Reply
from testing.asking import ask

FAULTS = [Fault(share=0.2, reply=Reply(status=500)), Fault(share=0.1, reply=Reply(status=503))]


async def statuses(seed, *, count=50):
    service = FakeService(faults=FAULTS, seed=seed)
    service.add(reference="T1")
    return [(await ask(service)).status_code for _ in range(count)]


async def test_shares():
    """Each fault has its own share of the answers."""
    counts = Counter(await statuses(7, count=2000))
    assert [counts[status] / 2000 for status in (200, 500, 503)] == pytest.approx([0.7, 0.2, 0.1], abs=0.03)


async def test_seed():
    """Equal seeds give equal answers, other seeds others."""
    first = await statuses(1)
    assert (first == await statuses(1), first == await statuses(2)) == (True, False)


async def test_always():
    """Faults whose shares come to 1 leave no normal answer, in spite of rounding."""
    service = FakeService(faults=[Fault(share=0.1, reply=Reply(status=500))] * 10)
    service.add(reference="T1")
    assert {(await ask(service)).status_code for _ in range(200)} == {500}


async def test_fault_of_unknown_reference():
    """A fault that does not show a transaction needs none."""
    service = FakeService(faults=[Fault(share=1, reply=Reply(status=500))])
    assert (await ask(service, "T9")).status_code == 500


def test_too_many():
    """Shares of more than all answers are refused."""
    with pytest.raises(ValueError, match=r"must not exceed 1 together, got 1\.2"):
        FakeService(faults=[Fault(share=0.6, reply=Reply())] * 2)


@pytest.mark.parametrize(
    "make",
    [lambda: Fault(share=-0.1, reply=Reply()), lambda: Latency(seconds=-1), lambda: Latency(jitter=-1)],
    ids=["share", "seconds", "jitter"],
)
def test_negative(make):
    """Negative shares and times are refused."""
    with pytest.raises(ValueError, match="must be >= 0"):
        make()

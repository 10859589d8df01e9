"""Hidden limits admit what they promise, and tell about it what they were told to tell."""

import asyncio
from collections import Counter
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import pytest

from payclient.testing import Latency, Reply
from support.limits import ConcurrencyLimit, Fault, FixedWindow, LimitedService, RetryAfter, TokenBucket
from testing.asking import ask, ask_all

pytestmark = pytest.mark.virtual_time

NOON = datetime(2026, 11, 21, 12, 0, 0, 400_000, tzinfo=UTC)


def make(*limits, **options):
    service = LimitedService(limits=limits, now=lambda: NOON, **options)
    service.add(reference="T1")
    return service


async def accepted_in(service, seconds, *, every):
    """Ask at a steady pace and return how many were accepted."""
    statuses = []
    for _ in range(round(seconds / every)):
        statuses += await ask_all(service, "T1")
        await asyncio.sleep(every)
    return statuses.count(200)


@pytest.mark.parametrize(
    ("bucket", "expected"),
    [(TokenBucket(rate=5, burst=3), 3 + 5 * 10), (TokenBucket(rate=5), 5 + 5 * 10), (TokenBucket(rate=0.5), 1 + 4)],
    ids=["burst", "no burst", "slow"],
)
async def test_bucket_rate(bucket, expected):
    """A token bucket accepts its burst, or the requests of one second and at least one, and then its rate."""
    assert await accepted_in(make(bucket), 10, every=0.05) == pytest.approx(expected, abs=1)


async def test_bucket_kept_exactly():
    """Requests at exactly the rate are never refused."""
    assert await accepted_in(make(TokenBucket(rate=10, burst=1)), 30, every=0.1) == 300


async def test_window():
    """A window accepts its count at once, and no more until the next begins."""
    service = make(FixedWindow(count=3))
    accepted = []
    for pause in (59, 1, 59, 1):
        await asyncio.sleep(pause)
        accepted.append((await ask_all(service, *["T1"] * 5)).count(200))
    assert accepted == [3, 3, 0, 3]


async def test_concurrency():
    """A concurrency limit refuses requests above it, and admits again when others end."""
    service = make(ConcurrencyLimit(count=2), latency=Latency(seconds=1))
    assert [(await ask_all(service, *["T1"] * 5)).count(200) for _ in range(2)] == [2, 2]


async def test_all_limits_hold():
    """Of several limits, each is kept."""
    service = make(ConcurrencyLimit(count=5), FixedWindow(count=7), latency=Latency(seconds=1))
    assert [(await ask_all(service, *["T1"] * 9)).count(200) for _ in range(2)] == [5, 2]


async def test_refused_takes_no_place():
    """A refused request does not count as one of those that are in flight."""
    service = make(ConcurrencyLimit(count=1), latency=Latency(seconds=1))
    first = asyncio.create_task(ask(service))
    await asyncio.sleep(0.9)
    refused = asyncio.create_task(ask(service))
    await asyncio.sleep(0.2)
    statuses = [(await each).status_code for each in (first, refused, asyncio.create_task(ask(service)))]
    assert statuses == [200, 429, 200]


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        (TokenBucket(rate=0.25, burst=1, retry_after=RetryAfter.SECONDS), "4"),
        (TokenBucket(rate=4, burst=1, retry_after=RetryAfter.SECONDS), "1"),
        (FixedWindow(count=1, retry_after=RetryAfter.SECONDS), "60"),
        (FixedWindow(count=1, seconds=90.5, retry_after=RetryAfter.SECONDS), "91"),
        (ConcurrencyLimit(count=1, retry_after=RetryAfter.SECONDS), "1"),
        (FixedWindow(count=1), None),
    ],
    ids=["slow bucket", "fast bucket", "window", "odd window", "concurrency", "absent"],
)
async def test_retry_after_seconds(limit, seconds):
    """`Retry-After` is the time until the limit admits again, in whole seconds, rounded up; absent unless asked for."""
    service = make(limit, latency=Latency(seconds=1))
    _, refused = await asyncio.gather(ask(service), ask(service))
    assert (refused.status_code, refused.headers.get("retry-after")) == (429, seconds)


@pytest.mark.parametrize(
    "limit",
    [
        TokenBucket(rate=0.3, burst=1, retry_after=RetryAfter.SECONDS),
        FixedWindow(count=1, seconds=50, retry_after=RetryAfter.SECONDS),
    ],
    ids=["bucket", "window"],
)
async def test_retry_after_is_true(limit):
    """A request after `Retry-After` is admitted, and one a second earlier is not."""
    service = make(limit)
    await asyncio.sleep(20.5)
    await ask(service)
    told = float((await ask(service)).headers["retry-after"])
    await asyncio.sleep(told - 1)
    early = await ask(service)
    await asyncio.sleep(1)
    assert [early.status_code, (await ask(service)).status_code] == [429, 200]


async def test_retry_after_date():
    """`Retry-After` as a date is never before the limit admits again, by the service's own clock."""
    service = make(FixedWindow(count=1, seconds=10, retry_after=RetryAfter.DATE))
    await ask(service)
    headers = (await ask(service)).headers
    assert [parsedate_to_datetime(headers[name]) for name in ("retry-after", "date")] == [
        datetime(2026, 11, 21, 12, 0, 11, tzinfo=UTC),
        datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC),
    ]


async def test_limit_before_script():
    """A request that a limit refuses uses no scripted reply up."""
    service = make(FixedWindow(count=1))
    service.script("T1", Reply(status=500), Reply(status=502))
    statuses = [await ask_all(service, "T1", "T1")]
    await asyncio.sleep(60)
    assert [*statuses, await ask_all(service, "T1")] == [[500, 429], [502]]


@pytest.mark.parametrize(
    "make_limit",
    [
        lambda: TokenBucket(rate=0),
        lambda: TokenBucket(rate=1, burst=0.5),
        lambda: FixedWindow(count=0),
        lambda: FixedWindow(count=1, seconds=0),
        lambda: ConcurrencyLimit(count=0),
    ],
    ids=["rate", "burst", "window count", "window seconds", "concurrent"],
)
def test_impossible_limit(make_limit):
    """A limit that would never admit anything is refused at its construction."""
    with pytest.raises(ValueError, match="must be"):
        make_limit()


FAULTS = [Fault(share=0.2, reply=Reply(status=500)), Fault(share=0.1, reply=Reply(status=503))]


async def statuses(seed, *, count=50):
    service = LimitedService(faults=FAULTS, seed=seed)
    service.add(reference="T1")
    return [(await ask(service)).status_code for _ in range(count)]


async def test_shares():
    """Each fault has its own share of the answers."""
    counts = Counter(await statuses(7, count=500))
    assert [counts[status] / 500 for status in (200, 500, 503)] == pytest.approx([0.7, 0.2, 0.1], abs=0.04)


async def test_seed():
    """The same seed gives the same answers, another seed different ones."""
    first = await statuses(1)
    assert (first == await statuses(1), first == await statuses(2)) == (True, False)


async def test_always():
    """Faults with shares that add up to 1 leave no normal answer, in spite of rounding."""
    service = LimitedService(faults=[Fault(share=0.1, reply=Reply(status=500))] * 10)
    service.add(reference="T1")
    assert {(await ask(service)).status_code for _ in range(50)} == {500}


def test_too_many():
    """Shares of more than all answers are refused."""
    with pytest.raises(ValueError, match=r"must not exceed 1 together, got 1\.2"):
        LimitedService(faults=[Fault(share=0.6, reply=Reply())] * 2)


@pytest.mark.parametrize(
    "make",
    [lambda: Fault(share=-0.1, reply=Reply()), lambda: Latency(seconds=-1), lambda: Latency(jitter=-1)],
    ids=["share", "seconds", "jitter"],
)
def test_negative(make):
    """Negative shares and times are refused."""
    with pytest.raises(ValueError, match="must be >= 0"):
        make()

"""In an outage nobody waits for what the client knows; and the first caller after its end is answered."""

import asyncio
import math
import random
import re
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import pairwise

import pytest

from payclient import (
    ConnectionFailedError,
    DeadlineExceededError,
    Found,
    OutageError,
    OverloadedError,
    PayClientError,
    RetryPolicy,
    ServiceError,
    TLSVerificationError,
)
from payclient.client._stream import stream
from support.fakes import ScriptedTransport, answer, client, document, now
from support.outages import FINAL, KINDS, MIXED, AbsentService, crowd, percentile
from support.virtual_time import VirtualTimeLoop

pytestmark = pytest.mark.virtual_time

BEGINS = 5.0


async def played(kind, *, rate, seconds, **options):
    """Return what came of an outage: complaints, and figures."""
    ends = BEGINS + seconds
    service = AbsentService(kind, absences=((BEGINS, ends),))
    async with client(service, **options) as pay:
        calls = await crowd(pay, rate=rate, until=ends + 10)
    meanwhile = [call for call in calls if BEGINS <= call.at < ends]
    failed = [call for call in calls if call.error is not None]
    p99 = percentile([call.seconds for call in meanwhile], 0.99)
    known_at, bound = (BEGINS + 1.5, 2.6) if kind == "black hole" else (BEGINS + 1, 1.0)  # silence is known later
    sent = service.sent_between(known_at, ends)
    recovered = min(call.at + call.seconds for call in calls if call.error is None and call.at >= ends - 1) - ends
    afterwards = [call for call in calls if call.at >= ends + 1.5]
    complaints = {
        "p99 of a caller": p99 if p99 > bound + 0.01 else None,
        "requests within a second": [now for last, now in pairwise(sent) if now - last < 0.999],
        "names no cause": {str(call.error) for call in failed if not re.search(KINDS[kind][2], str(call.error))},
        "first success after": recovered if recovered > 1.5 else None,
        "not answered afterwards": [call for call in afterwards if call.error is not None or call.seconds > 2.0],
        "in flight at the end": pay.stats.in_flight,
    }
    return {what: found for what, found in complaints.items() if found}


@pytest.mark.parametrize("seconds", [10.0, pytest.param(600.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rate", [20, 200])
@pytest.mark.parametrize("kind", KINDS)
async def test_outage(kind, rate, seconds):
    """Callers fail within seconds and are told why, one request a second is sent, and the end is soon noticed."""
    assert await played(kind, rate=rate, seconds=seconds) == {}


@pytest.mark.parametrize(("latency", "soonest", "latest"), [(0.05, 0.8, 2.0), (0.6, 1.2, 2.0), (2.0, 4.0, 4.5)])
@pytest.mark.parametrize("kind", ["503", "refused", "black hole"])
async def test_how_soon(kind, latency, soonest, latest):
    """The first rejection comes as soon after the last answer as documented, and no caller waits longer."""
    begins = 2 * BEGINS  # the limiter has grown by then
    service = AbsentService(kind, absences=((begins, 60.0),), latency=latency)
    async with client(service, retry=RetryPolicy()) as pay:
        calls = await crowd(pay, rate=5, until=begins + 20.0)
    last = max(call.at + call.seconds for call in calls if call.error is None)
    rejected = [call for call in calls if isinstance(call.error, OutageError)]
    assert soonest <= min(call.at + call.seconds for call in rejected) - last <= latest
    assert max(call.seconds for call in rejected) <= max(2.6, 4 * latency) + 0.01


async def test_halts():
    """A halt of a second is not an outage."""
    service = AbsentService("black hole")
    service.default = lambda reference: partial(halting, reference)

    async def halting(reference):
        await asyncio.sleep(0.05 + max(0.0, 6.0 - now() if now() > 5.0 else 0.0))
        return answer(document(reference))

    async with client(service) as pay:
        calls = await crowd(pay, rate=20, until=10.0)
    assert [call.error for call in calls if call.error is not None] == []


async def test_slow_service():
    """A service that takes a second is not an outage, nor is one that becomes ten times as slow for ever."""
    for latency, slow_until in ((1.0, 0.0), (0.2, 1000.0)):
        service = AbsentService("503", latency=latency, slow_until=slow_until)
        async with client(service) as pay:
            calls = await crowd(pay, rate=20, until=asyncio.get_running_loop().time() + 30)
        assert [call.error for call in calls if call.error is not None] == []


@pytest.mark.parametrize(("seconds", "bound"), [(0.2, 7.0), (5.0, 2.0)])
async def test_second_silence(seconds, bound):
    """After a halt of 5 s the time allowed is long, but not for long."""
    service = AbsentService("black hole", absences=((BEGINS + 5.0 + seconds, 60.0),))
    answered = service.default

    async def halting(reference):
        await asyncio.sleep(BEGINS + 5.0 - now() if BEGINS < now() < BEGINS + 5.0 else 0.0)
        return await answered(reference)()

    service.default = lambda reference: partial(halting, reference)
    async with client(service) as pay:
        calls = await crowd(pay, rate=5, until=BEGINS + 20.0)
    begins, _ = service.absences[0]
    rejected = [call.at + call.seconds - begins for call in calls if isinstance(call.error, OutageError)]
    assert bound / 2 < min(seconds for seconds in rejected if seconds > 0) <= bound


@pytest.mark.parametrize("kind", FINAL)
async def test_final_error(kind):
    """A refused certificate or tunnel is no outage: every caller has that error, and after three probes in one."""
    service = AbsentService("black hole", absences=((BEGINS, 60.0),))
    async with client(service) as pay:
        asyncio.get_running_loop().call_at(20.0, setattr, service, "kind", kind)
        calls = await crowd(pay, rate=20, until=30.0)
        assert OutageError in {type(call.error) for call in calls if 10.0 < call.at < 19.0}
        later = [call for call in calls if call.at > 23.1]
        assert {type(call.error) for call in later} == {type(FINAL[kind][1]())}
        assert max(call.seconds for call in later) < 0.1
        assert pay.stats.is_ready
    fresh = AbsentService(kind, absences=((0.0, 60.0),))
    async with client(fresh) as pay:
        calls = await crowd(pay, rate=200, until=asyncio.get_running_loop().time() + 5)
        assert {(type(call.error), pay.stats.refused) for call in calls} == {(type(FINAL[kind][1]()), 0)}
        assert len(fresh.sent) == len(calls)  # a request each, and none is repeated


@pytest.mark.parametrize("kind", MIXED)
async def test_final_errors_among_failures(kind):
    """Nobody waits where a refused certificate sometimes shows as a broken connection."""
    service = AbsentService(kind, absences=((0.0, 60.0),))
    async with client(service, deadline=20.0) as pay:
        calls = await crowd(pay, rate=20, until=asyncio.get_running_loop().time() + 20)
    assert {type(call.error) for call in calls} <= {OutageError, TLSVerificationError, ConnectionFailedError}
    assert percentile([call.seconds for call in calls], 0.99) < 2.0


async def test_attempt_that_an_outage_ends(caplog):
    """An observer and the log are told that the attempt was ended by an outage, or by the deadline of its lookup."""
    service, records = AbsentService("black hole", absences=((1.0, 60.0),)), []
    with caplog.at_level("DEBUG", "payclient"):
        async with client(service, on_attempt=records.append, timeout=3.0) as pay:
            await crowd(pay, rate=20, until=4.5)
            waiting = pay.with_options(on_outage="wait", timeout=2.0, deadline=2.0)
            with pytest.raises(DeadlineExceededError):
                await waiting.get_transaction("T1")
    ends = {record.error for record in records} - {None}
    assert ends == {"OutageError", "AttemptTimeoutError", "DeadlineExceededError"}
    assert {record.message.rpartition(", ")[2] for record in caplog.records if record.levelname == "DEBUG"} == {
        "found",
        *ends,
    }


@pytest.mark.parametrize("kind", ["503", "refused"])
async def test_logged_once(kind):
    """From the first rejection of an outage on, no error is to be logged, also not that of a failed probe."""
    async with client(AbsentService(kind, absences=((BEGINS, 60.0),))) as pay:
        calls = await crowd(pay, rate=20, until=BEGINS + 20.0)
    failed = [(call.at + call.seconds, call.error) for call in calls if call.error is not None]
    first_at = min(at for at, error in failed if isinstance(error, OutageError))
    others = [error for at, error in failed if at > first_at + 1e-6]  # those of the same moment came before or after it
    assert not all(isinstance(error, OutageError) for error in others)
    assert sum(isinstance(error, OutageError) and error.is_first for _, error in failed) == 1
    assert [error for error in others if error.is_first] == []


async def test_lone_lookup():
    """A lookup that is the first to meet an outage has its retries; the next has one attempt, then comes the probe."""
    service = AbsentService("refused", absences=((0.0, 60.0),))
    async with client(service, retry=RetryPolicy()) as pay:
        with pytest.raises(ConnectionFailedError) as first:
            await pay.get_transaction("T1")
        assert pay.stats.is_ready
        await asyncio.sleep(1)
        with pytest.raises(ConnectionFailedError) as second:
            await pay.get_transaction("T2")
        with pytest.raises(ConnectionFailedError) as third:
            await pay.get_transaction("T3")
        with pytest.raises(OutageError, match=r"ConnectionFailedError: .*refused") as fourth:
            await pay.get_transaction("T4")
    assert [caught.value.attempts for caught in (first, second, third, fourth)] == [4, 1, 1, 0]
    assert (fourth.value.sent, fourth.value.refused) == ("no", 1)


async def test_former_probe():
    """A lookup that was the probe of one outage, and backs off after it, is rejected in the next as others are."""
    random.seed(7)  # its back-off is a long one
    service, throttled = AbsentService("refused", absences=((1.0, 60.0),)), []
    absent = service.default

    def step(reference):
        if now() < 5.0 or throttled:
            return absent(reference)
        throttled.append(reference)
        return answer(status=429)

    service.default = step
    async with client(service, retry=RetryPolicy(initial_backoff=20.0, max_backoff=20.0), deadline=40.0) as pay:
        calls = await crowd(pay, rate=20, until=10.0)
    assert max(call.at + call.seconds for call in calls) < 12.5  # throttled, it asks once in two seconds
    assert len(throttled) == 1


async def test_stats():
    """The counters say whether the client is ready, since when it is not, why, and how many were rejected."""
    service = AbsentService("refused", absences=((1.0, 4.0),))
    async with client(service) as pay:
        asking = asyncio.create_task(crowd(pay, rate=20, until=6.0))
        await asyncio.sleep(3.5)
        stats = pay.stats
        refused = r"ConnectionFailedError: connection refused \[step connect, 192.0.2.7:443, after [0-9.]+ s\]"
        assert (stats.is_ready, bool(re.fullmatch(refused, stats.last_failure))) == (False, True)
        assert stats.outage_seconds == pytest.approx(2.5, abs=0.1)
        assert stats.refused > 20
        await asking
        assert (pay.stats.is_ready, pay.stats.outage_seconds, pay.stats.last_failure) == (True, 0.0, "")


async def test_comes_back_slowly():
    """A service that answers after 2 s when it is back is found by the probe that has the time."""
    service = AbsentService("black hole", absences=((5.0, 15.0),), latency=0.2)
    async with client(service) as pay:
        asyncio.get_running_loop().call_at(15.0, setattr, service, "slow_until", 60.0)
        calls = await crowd(pay, rate=20, until=50.0)
    answered = [call.at for call in calls if call.error is None and call.at > 15.0]
    assert answered[0] < 26.5
    assert [call for call in calls if call.error is not None and call.at > 30.0] == []


async def test_joined_in_bulk():
    """A row of a stream that shares a rejected lookup asks for itself, and is answered after the outage."""
    service = AbsentService("black hole", absences=((1.0, 8.0),))
    async with client(service, deadline=60.0) as pay:
        warm = asyncio.create_task(crowd(pay, rate=20, until=1.0))
        await asyncio.sleep(1.01)
        crowded = asyncio.create_task(crowd(pay, rate=20, until=2.5))
        joined = asyncio.create_task(pay.get_transaction("T1"))
        await asyncio.sleep(0)
        rejected = []

        async def look_up(reference):
            try:
                return await pay.get_transaction(reference)
            except PayClientError as error:
                rejected.append(error)
                raise

        async with stream(look_up, ["T1"], concurrency=1) as outcomes:
            found = [outcome async for outcome in outcomes]
        await asyncio.gather(warm, crowded)
        with pytest.raises(OutageError):
            await joined
    assert ([type(outcome) for outcome in found], rejected) == ([Found], [])


async def test_wherever_it_waits():
    """A lookup in the queue, in back-off, in flight or joined to another one fails when the outage is known."""
    service = AbsentService("503", absences=((0.0, 60.0),))
    async with client(service, max_concurrency=3, retry=RetryPolicy(initial_backoff=3000.0, max_backoff=3000.0)) as pay:
        calls = await asyncio.gather(
            *(pay.get_transaction(f"T{number % 10}") for number in range(40)), return_exceptions=True
        )
        assert asyncio.get_running_loop().time() == pytest.approx(0.8, abs=0.01)
        assert {type(call) for call in calls} == {OutageError}
        assert {call.sent for call in calls} == {"yes", "no"}  # by whether it was ever sent
        outcomes = await pay.get_transactions(["T1", "T2"])
        with pytest.raises(OutageError):
            await pay.confirm("T1", amount=1, status={"Paid"})
    assert [type(outcome.error) for outcome in outcomes] == [OutageError] * 2


async def test_view_that_waits():
    """A view that waits queues through the outage; its deadline names the last failure, and the limit."""
    service = AbsentService("refused", absences=((1.0, 21.0),))
    async with client(service) as pay:
        await crowd(pay, rate=20, until=1.0)
        waiting = pay.with_options(on_outage="wait", deadline=4.0, retry=RetryPolicy(max_attempts=100))
        told = await asyncio.gather(*(waiting.get_transaction(f"T{n}") for n in range(30)), return_exceptions=True)
        assert {type(error) for error in told} <= {DeadlineExceededError, OverloadedError}
        queued = [
            str(error)
            for error in told
            if "the limit of attempts in flight is" in str(error) or "/s of this client" in str(error)
        ]
        assert queued
        assert all("failure" in _ and "was ConnectionFailedError: connection refused" in _ for _ in queued)
        patient = pay.with_options(on_outage="wait", deadline=60.0, retry=RetryPolicy(max_attempts=100))
        assert (await patient.get_transaction("T1")).reference == "T1"
    assert asyncio.get_running_loop().time() > 21.0


async def test_overload_names_pause():
    """A lookup that a pause leaves no time for an answer is told so at once, in one sentence."""
    async with client(ScriptedTransport(latency=0.1, T1=[answer(status=429, retry_after="2.4")])) as pay:
        await pay.get_transaction("T0")  # what an answer takes is not known before the first
        first = asyncio.create_task(pay.get_transaction("T1"))
        await asyncio.sleep(0.2)
        told = r"time with 1 lookup waiting; the service asked for a pause: 2 s remain \(ask again in \d\.\d s\)$"
        with pytest.raises(OverloadedError, match="^no answer is possible in " + told):
            await pay.get_transaction("T2", deadline=2.35)
        await first


async def test_deadline_names_what_held_it_up():
    """A deadline that ends in the queue names `max_rate` where that was the bound, and a key source that hangs."""

    async def hang():
        await asyncio.Event().wait()

    cases = {
        "max_rate allows this client 0.1/s": {"max_rate": 0.1},
        "max_rate allows this client 0.1/s, its share among 4 workers": {"max_rate": 0.4, "workers": 4},
        "the key source has not answered": {"api_key": hang},
    }
    for reason, options in cases.items():
        async with client(ScriptedTransport(), deadline=5.0, **options) as pay:
            told = await asyncio.gather(*map(pay.get_transaction, ("T1", "T2")), return_exceptions=True)
        kind = DeadlineExceededError if "source" in reason else OverloadedError  # at once
        errors = [error.message for error in told if isinstance(error, kind)]
        assert {error.endswith(f"; {reason}") and "failure" not in error for error in errors} == {True}, told


@pytest.mark.parametrize("kind", ["503", "refused", "black hole"])
def test_bulk_beside(kind):
    """A stream beside callers sends the same requests at the same times in an outage, and has the same outcomes."""

    async def streamed(*, has_callers):
        loop = asyncio.get_running_loop()
        random.seed(7)
        began = loop.time()
        service = AbsentService(kind, absences=((began + 5.0, began + 65.0),))
        async with client(service, timeout=5.0, retry=RetryPolicy(initial_backoff=0.0)) as pay:
            try:
                async with pay.stream_transactions((f"B{n}" for n in range(3000)), concurrency=8) as outcomes:
                    rows = [await anext(outcomes)]
                    delay = 12.0 if kind == "black hole" else 6.0  # there is an outage then
                    callers = partial(crowd, pay, rate=20, until=began + 64.0)
                    # In either case, because of two timers of the same moment the number of all decides which is first.
                    loop.call_at(began + delay, come if has_callers else callable, callers)
                    rows += [outcome async for outcome in outcomes]
            except PayClientError as error:
                rows.append(error)
            await asyncio.gather(*tasks)
        bulk = [(at - began, reference) for at, reference in service.asked if reference[0] == "B" and at - began < 64.0]
        # Of two rows that queue in the same moment, either may be first, and then the last to be asked again.
        return [round(at, 6) for at, _ in bulk], {reference for _, reference in bulk}, sorted(map(str, rows))

    def on_its_own_clock(**options):  # sums of seconds round differently when they begin later
        with closing(VirtualTimeLoop()) as loop:
            return loop.run_until_complete(streamed(**options))

    tasks, come = [], lambda callers: tasks.append(asyncio.create_task(callers()))
    alone, beside = on_its_own_clock(has_callers=False), on_its_own_clock(has_callers=True)
    (calls,) = (task.result() for task in tasks)
    assert len(calls) > 1000
    assert alone == beside


@pytest.mark.parametrize("seconds", [5.0, 12.0])
async def test_blocked_loop(seconds):
    """An event loop that was blocked has not read the answers that have come: nothing ends, and no outage begins."""
    loop = asyncio.get_running_loop()
    async with client(AbsentService("503")) as pay:
        await crowd(pay, rate=20, until=1.0)
        lookups = [asyncio.create_task(pay.get_transaction(f"T{number}")) for number in range(5)]
        await asyncio.sleep(0.05)
        loop.advance(seconds)
        assert [found.reference for found in await asyncio.gather(*lookups)] == [f"T{number}" for number in range(5)]
        assert pay.stats.attempts == 25


def poisoned(reference):
    return answer(b'{"success": false, "message": "Server error"}', 500) if reference.startswith("BAD") else None


async def told(pay, reference):
    with suppress(PayClientError):
        await pay.get_transaction(reference)


def healthy(latency=0.02):
    """Return a service that answers all references but those that it cannot, which begin with `BAD`."""
    return ScriptedTransport(latency=latency, default=lambda each: poisoned(each) or answer(document(each)))


async def visits(pay, *, every, until):
    """Have a visitor ask for a reference of his own every so many seconds; return the errors."""
    errors, number = [], 0
    while now() < until:
        await asyncio.sleep(every)
        number += 1
        try:
            await pay.get_transaction(f"T{number}")
        except PayClientError as error:
            errors.append(error)
    return errors


@pytest.mark.parametrize("every", [0.3, 0.7, 2.0])
@pytest.mark.parametrize(
    ("rate", "references", "most"),
    [(2, 2, 0), (5, 2, 0), (20, 2, 0), (20, 20, 4), (20, 100, 16), (20, 200, 16), (5, 100, 20)],
)
async def test_poisoned_references(rate, references, most, every):
    """References that the service cannot answer, asked again and again, shut out no other, and are soon no outage."""

    async def reload(number):
        while now() < 80.0:
            await told(pay, f"BAD{number}")
            await asyncio.sleep(references / rate)

    was_out = []
    async with client(healthy()) as pay, asyncio.TaskGroup() as others:
        for number in range(references):
            others.create_task(reload(number))
        asking = others.create_task(visits(pay, every=every, until=80.0))
        while now() < 79.0:
            await asyncio.sleep(0.1)
            was_out.append((now(), pay.stats.is_ready))
    # Of many references, each is new once, and may be the probe.
    assert len(asking.result()) <= most
    late = [at for at, is_ready in was_out if not is_ready and at > (20.0 if references <= 20 else 50.0)]
    assert len(late) <= (0 if references <= 20 else 20)  # tenths of a second


async def test_references_that_hang():
    """References that are never answered take a probe each, and no other while that is under way."""
    service, answered = healthy(), healthy().default
    service.default = lambda each: asyncio.Event().wait if each.startswith("BAD") else answered(each)
    async with client(service, retry=RetryPolicy()) as pay, asyncio.TaskGroup() as others:
        await pay.get_transaction("T0")
        asking = others.create_task(visits(pay, every=1.4, until=60.0))
        for number in range(1200):
            others.create_task(told(pay, f"BAD{number % 3}"))
            await asyncio.sleep(0.05)
    assert asking.result() == []


async def test_poisoned_rows():
    """A visitor beside a stream of rows that the service cannot answer is not rejected."""
    async with client(healthy()) as pay, asyncio.TaskGroup() as others:
        asking = others.create_task(visits(pay, every=2.0, until=80.0))
        async with pay.stream_transactions(f"BAD{number}" for number in range(300)) as outcomes:
            with suppress(DeadlineExceededError):
                async for _ in outcomes:
                    pass
    assert OutageError not in map(type, asking.result())


@pytest.mark.parametrize(("latency", "most"), [(1.2, 0), (2.0, 40), (3.0, 100)])
async def test_slower(latency, most):
    """A service that is slower from one moment to the next is no outage for long; up to 1.3 s it is none."""
    service = ScriptedTransport(latency=lambda: latency if now() > 5.0 else 0.03)
    async with client(service) as pay:
        calls = await crowd(pay, rate=20, until=25.0)
    assert len([call for call in calls if call.error is not None]) <= most
    assert [call for call in calls if call.error is not None and call.at > 10.0] == []


@pytest.mark.parametrize("size", [4, 20])
async def test_slow_connections(size):
    """Nobody is rejected where one connection in four is made at the second try: what still connects is not silent."""
    chance = random.Random(1)
    service = ScriptedTransport()
    for burst in range(100):
        service.latency = 0.05
        async with client(service) as pay:
            await pay.get_transaction("T0")
            service.latency = lambda: 0.05 + 1.05 * (chance.random() < 0.25)
            await asyncio.gather(*(pay.get_transaction(f"T{burst}-{number}") for number in range(size)))
            assert pay.stats.refused == 0


@pytest.mark.parametrize("idle", [6.0, 3600.0, 86400.0])
async def test_evidence_has_an_age(idle):
    """Without attempts an outage is on trial: the process is ready, and its next callers are answered."""
    service = AbsentService("503", absences=((0.0, 3.0),))
    async with client(service) as pay:
        await crowd(pay, rate=20, until=2.0)
        assert (pay.stats.is_ready, pay.stats.outage_seconds) == (False, pytest.approx(2.0, abs=0.2))
        await asyncio.sleep(idle)
        assert (pay.stats.is_ready, pay.stats.outage_seconds) == (True, 0.0)
        found = await asyncio.gather(*(pay.get_transaction(f"T{n}") for n in range(10)), return_exceptions=True)
    assert [error for error in found if isinstance(error, PayClientError)] == []


async def test_worker_without_visitors():
    """Only its health is asked: it comes back by itself, and says when the worker last asked and last heard."""
    service = AbsentService("refused", absences=((1.0, 3.0),))
    async with client(service) as pay:
        await crowd(pay, rate=20, until=2.5)
        asked, heard, probes = now() - pay.stats.asked_ago, now() - pay.stats.answered_ago, []
        for _ in range(60):
            probes.append((now() - asked < 5.0, pay.stats))
            await asyncio.sleep(1.0)
    assert heard == pytest.approx(1.0, abs=0.2)
    assert 1.4 < asked < 2.6
    assert [stats.is_ready for _, stats in probes] == [not is_recent for is_recent, _ in probes]
    assert [stats.outage_seconds > 0 for _, stats in probes] == [is_recent for is_recent, _ in probes]
    assert {round(stats.answered_ago - stats.asked_ago - (asked - heard), 6) for _, stats in probes} == {0.0}
    assert probes[-1][1].asked_ago > 55.0


async def test_trial():
    """After an idle hour of an outage that goes on, three failures are enough: nobody waits for his retries."""
    service = AbsentService("503", absences=((0.0, 9000.0),))
    async with client(service, retry=RetryPolicy(initial_backoff=60.0, max_backoff=60.0), deadline=200.0) as pay:
        await crowd(pay, rate=20, until=2.0)
        await asyncio.sleep(3600.0)
        asked, again = len(service.sent), await crowd(pay, rate=20, until=now() + 5.0)
    assert {type(call.error) for call in again} == {OutageError, ServiceError}
    assert max(call.seconds for call in again) < 0.5
    assert len(service.sent) - asked <= 10


@pytest.mark.parametrize("rate", [5, 20])
@pytest.mark.parametrize(
    ("deadline", "patience"), [(0.5, None), (1.0, None), (1.25, None), (30.0, 1.0)], ids=["half", "one", "more", "left"]
)
async def test_short_patience(deadline, patience, rate):
    """If each caller leaves before silence is an outage, it is one all the same, after 1 to 1.5 s for the client."""
    service, ends = AbsentService("black hole", absences=((5.0, 65.0),), latency=0.05), []

    async def visit(number):
        began = now()
        try:
            async with asyncio.timeout(patience):
                await pay.get_transaction(f"T{number}")
        except (PayClientError, TimeoutError) as error:
            ends.append((now(), now() - began, type(error)))

    async with client(service, deadline=deadline) as pay, asyncio.TaskGroup() as visitors:
        for number in range(70 * rate):
            await asyncio.sleep(1 / rate)
            visitors.create_task(visit(number))
    first = min(at for at, _, kind in ends if kind is OutageError)
    assert 6.0 < first <= 6.5 + 2 / rate  # the first who comes then is the probe
    assert len(service.sent_between(first, 65.0)) <= 61
    assert OverloadedError not in {kind for _, _, kind in ends}
    assert percentile([seconds for at, seconds, _ in ends if at > 7.0], 0.5) == 0.0
    assert [at for at, _, _ in ends if at > 67.0] == []


@pytest.mark.parametrize("rate", [5, 20])
async def test_stalls(rate):
    """A service that stalls for 1.5 s in every 5 s refuses nobody who can wait for 5 s."""
    service, answered = ScriptedTransport(latency=0.05), answer

    async def stalling(reference):
        await asyncio.sleep(max(0.0, 1.5 - now() % 5.0))
        return answered(document(reference))

    service.default = lambda reference: partial(stalling, reference)
    async with client(service, deadline=5.0) as pay:
        calls = await crowd(pay, rate=rate, until=40.0)
    assert [call.error for call in calls if call.error is not None] == []


async def test_impatient_callers():
    """Callers who leave take no probe with them: the others are answered as soon as the service is back."""
    service = AbsentService("black hole", absences=((5.0, 15.0),), latency=0.05)
    impatient, patient = [], []

    async def visit(number):
        bound = None if number % 10 == 0 else 0.02
        try:
            async with asyncio.timeout(bound):
                await pay.get_transaction(f"T{number}")
        except (PayClientError, TimeoutError) as error:
            (impatient if bound else patient).append((now(), error))

    async with client(service) as pay, asyncio.TaskGroup() as visitors:
        for number in range(1000):
            await asyncio.sleep(0.05)
            visitors.create_task(visit(number))
    assert patient
    assert [error for at, error in patient if at > 16.5] == []
    assert len(service.sent_between(7.0, 15.0)) <= 9


async def test_cancellations_are_no_outage():
    """Callers who give up after some time say nothing of the service."""
    service = ScriptedTransport(latency=lambda: 2.0 if now() < 3.0 else 0.05)
    async with client(service) as pay:
        await pay.get_transaction("T0")
        service.latency = lambda: 30.0 if now() < 5.0 else 0.05
        for number in range(20):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1 if number < 10 else 1.2):
                    await asyncio.gather(*(pay.get_transaction(f"T{number}-{each}") for each in range(3)))
        assert pay.stats.refused == 0


async def test_deadlines_are_evidence():
    """Lookups that end by their deadline one after the other begin an outage."""
    told = []
    async with client(AbsentService("black hole", absences=((1.0, 60.0),)), deadline=2.0) as pay:
        for number in range(5):
            await asyncio.sleep(0.5)
            told += await asyncio.gather(pay.get_transaction(f"T{number}"), return_exceptions=True)
    assert list(map(type, told[1:])) == [*[DeadlineExceededError] * 3, OutageError]


async def test_probe_that_is_left():
    """A probe whose caller has been told goes on, ends the outage with its answer, and is closed with its client."""
    service = AbsentService("black hole", absences=((2.0, 6.0),), latency=0.1)
    async with client(service) as pay:
        asyncio.get_running_loop().call_at(6.0, setattr, service, "seconds", 4.0)
        await crowd(pay, rate=20, until=5.9)
        await asyncio.sleep(7.0 - now())
        with pytest.raises(OutageError):
            await pay.get_transaction("T1", deadline=2.0)
        assert not pay.stats.is_ready
        await asyncio.sleep(3.0)  # the probe is answered after its deadline, and nobody asks
        assert pay.stats.is_ready
    service = AbsentService("black hole", absences=((0.0, 1000.0),))
    async with client(service, timeout=500.0, deadline=None) as pay:
        service.absences = ((now() + 1.0, math.inf),)
        await crowd(pay, rate=20, until=now() + 6.0)
        assert pay.stats.in_flight > 0
        ending = now()
    assert (pay.stats.in_flight, service.in_flight, now()) == (0, 0, ending)


async def test_trace_of_a_probe_that_is_left():
    """A probe whose caller has left reports to the client's observer, and no more to the caller's own trace."""
    service, seen, traced = AbsentService("black hole", absences=((2.0, 7.5),)), [], []

    @contextmanager
    def trace():
        yield traced.append

    async with client(service, on_attempt=seen.append) as pay:
        await crowd(pay, rate=20, until=5.95)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await pay.with_options(tracing=trace).get_transaction("T1")
        service.absences = ()
        await asyncio.sleep(60.0)
    assert (traced, [attempt.reference for attempt in seen][-1]) == ([], "T1")


@pytest.mark.parametrize(("kind", "slots"), [("black hole", 4), ("503", 1)])
async def test_hanging_probes_give_way(kind, slots):
    """Where probes take every slot, the oldest that was left, if there is one, gives way: the end is found."""
    service = AbsentService(kind, absences=((2.0, 30.0),), latency=0.05)
    async with client(service, max_concurrency=slots, timeout=100.0, deadline=None) as pay:
        calls = await crowd(pay, rate=20, until=36.0)
    assert min(call.at for call in calls if call.error is None and call.at > 29.0) < 33.0
    assert len(calls) == 720  # none was cancelled with a probe
    rejected = [call.error for call in calls if isinstance(call.error, OutageError)]
    # Those in the queue are rejected, but one of them may become the probe instead.
    assert (pay.stats.refused, any(error.is_first for error in rejected)) == (len(rejected), True)


async def test_confirmation_joins_no_probe():
    """A confirmation asks for itself, although a probe, which has a fresh connection, has asked for it before."""
    service = AbsentService("503", absences=((0.0, 3.9),))
    async with client(service) as pay:
        await crowd(pay, rate=20, until=3.0)
        await asyncio.sleep(1.0)
        probing = asyncio.create_task(pay.get_transaction("T1"))
        await asyncio.sleep(0.05)
        confirming = pay.with_options(on_outage="wait").confirm("T1", amount=1, status={"Paid"})
        await asyncio.gather(probing, confirming)
    assert (len(service.times("T1")), service.sent[-2].needs_fresh_connection) == (2, True)


async def test_slow_start():
    """After an outage the crowd that was rejected is let in slowly."""
    service = AbsentService("refused", absences=((2.0, 12.0),), latency=0.05)
    async with client(service) as pay:
        calls = await crowd(pay, rate=400, until=13.5)
    first = min(call.at + call.seconds for call in calls if call.error is None and call.at > 11.0)
    assert len(service.sent_between(first, first + 0.045)) <= 2


@pytest.mark.parametrize("is_async", [True, False])
async def test_input_is_not_in_bulk(is_async):
    """A task that the input of a stream has begun is no row: it is told of an outage as others are."""
    service, told = AbsentService("503", absences=((0.0, 60.0),)), []

    async def visit(pay, number):
        began = now()
        try:
            await pay.get_transaction(f"T{number}")
        except PayClientError:
            told.append(now() - began)

    def references(pay):
        for number in range(20):
            visitors.append(asyncio.create_task(visit(pay, number)))
            yield f"B{number}"

    async def slowly(references):
        for reference in references:
            await asyncio.sleep(0.1)
            yield reference

    visitors = []
    async with client(service, deadline=6.0) as pay:
        with suppress(PayClientError):
            rows = slowly(references(pay)) if is_async else references(pay)
            async with pay.stream_transactions(rows, concurrency=3, stall_timeout=10.0) as outcomes:
                async for _ in outcomes:
                    pass
        await asyncio.gather(*visitors)
    assert len(told) > 3
    assert max(told) < 1.2

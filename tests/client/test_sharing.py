"""Equal lookups share a request, unless one of them needs a newer answer; no caller spoils another's."""

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient import ConfigurationError, DeadlineExceededError, OverloadedError, RateLimitedError, Transaction
from support.chance import examples
from support.fakes import ScriptedTransport, answer, client, document, now

pytestmark = pytest.mark.virtual_time

CLAIM = {"amount": 15000, "status": {"Paid"}}


def stating(latencies=(1.0,)):
    """Return a transport that states each transaction as it was when the request was sent; seconds are in `status`."""
    latencies = itertools.cycle(latencies)

    def state(reference):
        async def later(sent_at=now()):  # noqa: B008  of this request
            await asyncio.sleep(next(latencies))
            return answer(document(reference, status=str(sent_at)))

        return later

    return ScriptedTransport(default=state)


async def test_confirm_asks_after_it_was_called():
    """A confirmation shares no lookup that was sent before it, and those that are called later may share its own."""
    transport = stating()
    pay = client(transport)
    page = asyncio.create_task(pay.get_transaction("T1"))
    await asyncio.sleep(0.5)
    callback = asyncio.create_task(pay.confirm("T1", **CLAIM))
    await asyncio.sleep(0.1)
    late = await pay.get_transaction("T1")
    found = (await page).status, (await callback).transaction.status, late.status
    assert (found, transport.times()) == (("0.0", "0.5", "0.5"), [0.0, 0.5])


@pytest.mark.parametrize("fresh", [False, True], ids=["after a plain one", "after a fresh one"])
async def test_second_lookup_of_a_reconciliation(fresh):
    """What confirms an answer is asked after it: it shares no lookup that was sent before."""
    transport = stating()
    pay = client(transport)
    page = asyncio.create_task(pay.get_transaction("T1", fresh=fresh))
    await asyncio.sleep(0.5)
    assert ((await pay.get_transaction("T1", fresh=True)).status, (await page).status) == ("0.5", "0.0")


async def test_confirmations_share_what_is_queued():
    """Confirmations that were called before the request is sent share it."""
    transport = stating()
    pay = client(transport, max_concurrency=1)
    other = asyncio.create_task(pay.get_transaction("T2"))
    await asyncio.sleep(0.5)
    found = await asyncio.gather(*(pay.confirm("T1", **CLAIM) for _ in range(50)))
    assert ({each.transaction.status for each in found}, transport.times()) == ({"1.0"}, [0.0, 1.0])
    assert (await other).status == "0.0"


async def test_confirmation_shares_what_is_sent_again():
    """A lookup that waits to be sent again is shared by a confirmation that is called before it is."""
    transport = ScriptedTransport(T1=[answer(b"{}", 429, retry_after="5")])
    pay = client(transport)
    page = asyncio.create_task(pay.get_transaction("T1"))
    await asyncio.sleep(1)
    assert (await pay.confirm("T1", **CLAIM)).transaction == await page
    assert len(transport.sent) == 2


PAUSE = {"T1": [answer(b"{}", 429, retry_after="5")]}


@pytest.mark.parametrize(
    ("refused", "script", "ahead"),
    [((RateLimitedError, RateLimitedError), PAUSE, ""), ((OverloadedError, DeadlineExceededError), {}, "AB")],
)
async def test_who_has_more_time(refused, script, ahead):
    """A caller with more time is answered, although the one who made the lookup has none for a pause or the queue."""
    async with client(ScriptedTransport(latency=2.0, **script), max_concurrency=1) as pay:
        lookups = [*((name, 30.0) for name in ahead), ("T1", 4.1), ("T1", 4.05), ("T1", 30.0), ("Z", 30.0)]
        asking = (pay.get_transaction(name, deadline=seconds) for name, seconds in lookups)
        told = await asyncio.gather(*asking, return_exceptions=True)
    expected = [*[Transaction] * len(ahead), *refused, *[Transaction] * 2]
    assert list(map(type, told)) == expected


@pytest.mark.parametrize("gap", [0.1, 0.5])
async def test_many_wait_for_one_silent_request(gap):
    """A reference that is asked for again and again is answered as soon as the service is well."""
    requests = itertools.count()

    async def reply(reference):
        await asyncio.sleep(0.3 if next(requests) else 600.0)
        return answer(document(reference))

    async def ask(pay, number):
        await asyncio.sleep(number * gap)
        await pay.get_transaction("T1")

    async with client(ScriptedTransport(default=lambda reference: lambda: reply(reference)), deadline=5.0) as pay:
        asked = [asyncio.create_task(ask(pay, number)) for number in range(100)]
        await asyncio.wait(asked)
    assert [number for number, each in enumerate(asked) if each.exception() and number * gap > 0.35] == []


async def test_nobody_joins_what_may_be_older(subtests):
    """Once an answer is given, no request for its reference that was sent before is joined, whoever sent it."""

    async def confirm(pay):
        return (await pay.confirm("T1", **CLAIM)).transaction

    async def confirm_in_a_view(pay):
        return await confirm(pay.with_options(timeout=5.0))

    async def wait(pay):
        return await pay.wait_for("T1", until=lambda _: True, deadline=9.0)

    for newer in (confirm, confirm_in_a_view, wait):
        with subtests.test(newer.__name__):
            pay, began = client(stating((3.0, 0.5, 1.0))), now()
            page = asyncio.create_task(pay.get_transaction("T1"))
            await asyncio.sleep(0.5)
            given = await newer(pay)
            later = await pay.get_transaction("T1")
            assert [float(each.status) - began for each in (await page, given, later)] == [0.0, 0.5, 1.0]
            assert len(pay._calls) == 0


async def test_the_last_to_start_may_be_sent_first():
    """A request that waits for its connection may leave after one that was started later: neither is joined."""
    connecting, sent_at = iter([2.0, 0.0, 0.0]), []

    async def send(reference):
        await asyncio.sleep(next(connecting))
        sent_at.append(now())
        status = str(now())
        await asyncio.sleep(0.1 if status == "2.0" else 3.0)
        return answer(document(reference, status=status))

    pay = client(ScriptedTransport(default=lambda reference: lambda: send(reference)))
    first = asyncio.create_task(pay.confirm("T1", **CLAIM))
    await asyncio.sleep(0.5)
    second = asyncio.create_task(pay.confirm("T1", **CLAIM))
    given = (await first).transaction.status
    later = (await pay.get_transaction("T1")).status
    assert (given, (await second).transaction.status, later) == ("2.0", "0.5", "2.1")
    assert sent_at == [0.5, 2.0, 2.1]


@examples(200)
@given(
    latencies=st.lists(st.floats(0.1, 3.0), min_size=1, max_size=5),
    callers=st.lists(
        st.tuples(st.booleans(), st.floats(0, 5), st.sampled_from([None, 0.0, 0.01, 1.0])), min_size=1, max_size=12
    ),
    max_concurrency=st.integers(1, 3),
)
async def test_no_older_answer(latencies, callers, max_concurrency):
    """However lookups, confirmations and cancellations meet: all are answered, confirmations with what is newer."""
    transport, began = stating(latencies), now()
    pay = client(transport, max_concurrency=max_concurrency, deadline=None)

    async def call(is_confirmation, at, patience):
        await asyncio.sleep(at)
        called_at = now()
        async with asyncio.timeout(patience):
            if not is_confirmation:
                return called_at, await pay.get_transaction("T1")
            return called_at, (await pay.confirm("T1", **CLAIM)).transaction

    found = await asyncio.gather(*(call(*caller) for caller in callers), return_exceptions=True)
    for (is_confirmation, _, patience), result in zip(callers, found, strict=True):
        if isinstance(result, TimeoutError):
            assert patience is not None
        else:
            called_at, transaction = result
            assert float(transaction.status) >= (called_at if is_confirmation else began)
    assert (pay.stats.in_flight, len(pay._calls)) == (0, 0)


@pytest.mark.parametrize("code", ["observer", "trace"])
async def test_failing_observer(code):
    """What the observer or the trace of one caller raises ends its own lookup; the others ask again."""
    seen = []

    def fail_once(attempt):
        seen.append(attempt)
        if len(seen) == 1:
            raise ZeroDivisionError

    class Trace:
        def __enter__(self):
            return fail_once

        def __exit__(self, *_):
            return None

    option = {"on_attempt": fail_once} if code == "observer" else {"tracing": Trace}
    pay = client(stating(), **option)
    first, *others = await asyncio.gather(*(pay.get_transaction("T1") for _ in range(5)), return_exceptions=True)
    assert (type(first), {type(each) for each in others}) == (ZeroDivisionError, {Transaction})
    assert len(seen) == 2


async def test_trace_that_suppresses():
    """A trace that suppresses what a lookup raises is a mistake that is named; there is no transaction to return."""

    class Trace:
        def __enter__(self):
            return print

        def __exit__(self, *_):
            return True

    transport = ScriptedTransport(default=lambda _: answer(b"{}", 403))
    pay = client(transport, tracing=Trace)
    for use in (pay.get_transaction("T1"), pay.wait_for("T1", until={"Paid"}, deadline=60.0)):
        with pytest.raises(TypeError, match="the tracing context suppressed what the lookup raised"):
            await use
    assert len(transport.sent) == 2


async def test_fresh_lookup_joins_what_is_as_fresh():
    """A fresh lookup shares no ordinary one, though that is not sent yet; it shares another fresh one."""
    transport = stating()
    pay = client(transport, max_concurrency=1)
    other = asyncio.create_task(pay.get_transaction("T2"))
    await asyncio.sleep(0.5)
    plain = asyncio.create_task(pay.get_transaction("T1"))
    await asyncio.sleep(0)
    await asyncio.gather(*(pay.get_transaction("T1", fresh=True) for _ in range(5)))
    await asyncio.gather(other, plain)
    assert [request.needs_fresh_connection for request in transport.sent] == [False, False, True]


@pytest.mark.parametrize("fresh", [False, True], ids=["after a plain one", "after a fresh one"])
async def test_fresh_row_of_a_stream(fresh):
    """The second lookup of a stream joins no request that was sent before it."""
    transport = stating()
    pay = client(transport)
    page = asyncio.create_task(pay.get_transaction("T1", fresh=fresh))
    await asyncio.sleep(0.5)
    async with pay.stream_transactions(["T1"], fresh={"T1"}) as outcomes:
        (outcome,) = [each async for each in outcomes]
    assert (outcome.transaction.status, (await page).status) == ("0.5", "0.0")


async def test_row_shares_no_failure():
    """A lookup that shares a row of a stream goes on by itself when the row has failed."""
    transport = ScriptedTransport(T1=[answer(b"{}", 500)] * 4, latency=0.1)
    pay = client(transport)
    async with pay.stream_transactions(["T1"]) as outcomes:
        await asyncio.sleep(0.05)
        found = asyncio.create_task(pay.get_transaction("T1"))
        assert (await found).reference == "T1"
        assert ([each.reference async for each in outcomes], len(transport.sent)) == (["T1"], 6)


async def test_views_share(subtests):
    """Views share equal lookups unless their attempts differ; each keeps its own deadline."""
    cases = {
        "deadline": ({"deadline": 5.0}, 1),
        "on_outage": ({"on_outage": "wait"}, 1),
        "timeout": ({"timeout": 5.0}, 2),
        "retry": ({"retry": None}, 2),
        "on_attempt": ({"on_attempt": lambda _: None}, 2),
    }
    for case, (options, requests) in cases.items():
        with subtests.test(case):
            transport = stating()
            pay = client(transport)
            view = pay.with_options(**options)
            await asyncio.gather(*(each.get_transaction("T1") for each in (pay, view, pay.with_options(**options))))
            assert len(transport.sent) == requests
    transport = stating((3.0,))
    pay = client(transport)
    patient = asyncio.create_task(pay.get_transaction("T1"))
    with pytest.raises(DeadlineExceededError):
        await pay.with_options(deadline=1.0, timeout=1.0).get_transaction("T1")
    assert (await patient).reference == "T1"


async def test_deadline_per_call():
    """Each call may have a deadline of its own, and ten of them share a request."""
    transport = stating((3.0,))
    pay = client(transport)
    for late in (pay.get_transaction("T1", deadline=1.0), pay.confirm("T1", deadline=1.0, **CLAIM)):
        with pytest.raises(DeadlineExceededError):
            await late
    began = now()
    (outcome,) = await pay.get_transactions(["T1"], deadline=1.0)
    assert (type(outcome.error), now() - began) == (DeadlineExceededError, 1.0)
    before = len(transport.sent)
    await asyncio.gather(*(pay.get_transaction("T2", deadline=20.0) for _ in range(10)))
    assert len(transport.sent) == before + 1
    for wrong in (0.0, -1.0, True, "5"):
        with pytest.raises(ConfigurationError, match="deadline must be"):
            await pay.get_transaction("T1", deadline=wrong)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("get_transaction", {}),
        ("get_transactions", {}),
        ("confirm", CLAIM),
        ("wait_for", {"until": {"Paid"}, "deadline": 5.0}),
    ],
)
async def test_timeout_by_mistake(name, options):
    """Who passes `timeout`, as to other clients, is told what to pass; any other name is refused as by Python 3.13."""
    method = getattr(client(ScriptedTransport()), name)
    with pytest.raises(
        TypeError, match=rf"^{name} takes no timeout; pass deadline= for the whole lookup, or use with_"
    ):
        await method("T1", timeout=5.0, **options)
    with pytest.raises(
        TypeError, match=rf"^{name} got an unexpected keyword argument 'dedline' \(did you mean 'deadline'\?\)$"
    ):
        await method("T1", dedline=5.0, **options)

"""Equal lookups share a request, unless one of them needs a newer answer; no caller spoils another's."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient import Transaction
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


async def test_second_lookup_of_a_reconciliation():
    """What confirms an answer is asked after it: it shares no lookup that was sent before."""
    transport = stating()
    pay = client(transport)
    page = asyncio.create_task(pay.get_transaction("T1"))
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

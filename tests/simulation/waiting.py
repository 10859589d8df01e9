"""The workload of waits and watches: payments that are paid after some time, and who learns of it when."""

from __future__ import annotations

import asyncio

from payclient import Change, errors
from simulation import oracles
from simulation.service import paid_at

AFTERWARDS = 100.0
"""Seconds after the last wait, in which nothing may be asked."""


async def wait(world, clients):
    """Wait for single references, or watch them all, until they are paid; then see that nobody polls any more."""
    chance, plan = world.chance, world.plan
    terms = {"until": {"Paid"}, "deadline": chance.choice((20.0, 120.0, 600.0))}
    terms |= {"interval": 2.0, "max_interval": chance.choice((2.0, 30.0))}
    if chance.random() < 0.5:
        waits = [asyncio.create_task(wait_for_one(world, clients.of(each), each, terms)) for each in plan.references]
    else:
        waits = [asyncio.create_task(watch(world, client, _own(world, clients, client), terms)) for client in clients]
    cancelled = set()

    def cancel(number):
        each = waits[int(number) % len(waits)]
        if not each.done():
            cancelled.add(each)
            each.cancel()

    world.schedule({"cancel": cancel, "close": clients.close_early})
    await asyncio.wait(waits)
    for each in waits:
        if each.cancelled():
            if each not in cancelled:
                world.fail("cancelled", "a wait that nobody cancelled")
        elif each.exception() is not None:
            world.fail("error", f"a wait raised {each.exception()!r}")
    await check_silence(world)


def _own(world, clients, client):
    return [each for each in world.plan.references if clients.of(each) is client]


async def check_silence(world):
    """Nothing is polled when nobody waits; a request on its way may still arrive."""
    loop, service = world.loop, world.service
    on_its_way = 2 * world.plan.latency[1] + 30 * (world.plan.loss > 0) + 1
    await asyncio.sleep(on_its_way)
    while (seconds := world.network.blocked_for()) > 0:  # also by a partition that began only now
        await asyncio.sleep(seconds + on_its_way)
    known = len(service.exchanges)
    await asyncio.sleep(AFTERWARDS)
    if len(service.exchanges) > known:
        world.fail(
            "polls", f"{len(service.exchanges) - known} after the last wait had ended, until {loop.time():.1f} s"
        )


class _Stopwatch:
    """The time of one wait, without the jumps of the clock."""

    def __init__(self, world, deadline):
        self._world, self._deadline = world, deadline
        self._began, self._jumped = world.loop.time(), world.loop.jumped

    def check(self, who, *, is_over):
        """Complain of an end after the deadline; and, where it is the reason, of one before it."""
        seconds = self._world.loop.time() - self._began
        late = seconds - (self._world.loop.jumped - self._jumped) - self._deadline
        if late > oracles.slack(self._world):
            self._world.fail("deadline", f"{who} ended {late:.3f} s after its deadline")
        if is_over and seconds < self._deadline - 0.001:
            self._world.fail("deadline", f"{who} ended {self._deadline - seconds:.3f} s before its deadline")


async def wait_for_one(world, client, reference, terms):
    """Wait for one reference."""
    await asyncio.sleep(world.plan.spread * world.chance.random())
    began, watch = world.loop.time(), _Stopwatch(world, terms["deadline"])
    try:
        answer = await client.wait_for(reference, **terms)
    except errors.ClientClosedError:
        if not world.is_closing:
            raise
        grace = 0.0 if (client, reference) in world.asleep else world.plan.timeout + 1
        late = world.loop.time() - max(began, world.closing_at) - grace - world.loop.jumped
        if late > oracles.slack(world):
            world.fail("close", f"a wait for {reference} ended {late:.1f} s too late")
        return
    except errors.PayClientError as error:
        answer = error
    watch.check(reference, is_over=isinstance(answer, errors.WaitDeadlineError))
    _check_end(world, reference, answer, known_from=began, interval=terms["max_interval"])


def _check_end(world, reference, answer, *, known_from, interval):
    world.loop.note("end of a wait", reference, type(answer).__name__)
    world.count(f"answer {type(answer).__name__}")
    now, paid = world.loop.time(), paid_at(reference)
    late = now - max(known_from, paid) - interval - world.loop.jumped - world.plan.work_seconds
    if world.is_quiet and reference[0] == "T" and late > 10 + oracles.slack(world):
        world.fail("unanswered", f"{reference} was paid at {paid} s, and its wait ended {late:.1f} s late")
    if isinstance(answer, errors.WaitDeadlineError):
        return
    oracles.check_answer(world, reference, answer)
    if isinstance(answer, errors.PayClientError):
        if reference[0] not in "UR" and not isinstance(answer, (errors.AuthenticationError, *oracles.FINAL)):
            world.fail("error", f"a wait for {reference} ended with {answer!r}")
        return
    if answer.status != "Paid" or now < paid:
        world.fail("status", f"{reference} is {answer.status} at {now:.1f} s, and is paid at {paid} s")


async def watch(world, client, references, terms, *, is_swift=False):
    """Watch references; *is_swift* reads each change at once."""
    watch, seen = _Stopwatch(world, terms["deadline"]), {}
    pace, at_once = world.chance.choice((0.0, 0.0, 1.0)), world.chance.choice((1, 3, 10_000))
    pace, at_once = (0.0, 10_000) if is_swift else (pace, at_once)
    is_swift = not pace and at_once >= len(references) and not world.has("reader stalls")
    known_from = world.loop.time() if is_swift else None
    number = 0
    try:
        opened = client.watch(references, at_once=at_once, **terms)
        async with oracles.without_survivors(world, opened) as changes:
            async for change in changes:
                _check_change(world, references, seen, change)
                oracles.check_unread(world, changes, change)
                _check_missed(world, change, known_from, terms["max_interval"])
                if pace:
                    await asyncio.sleep(pace * world.chance.random())
                number += 1
                await world.stall("reader stalls", number)
    except errors.ClientClosedError:
        if not world.is_closing:
            raise
        return
    except errors.WaitDeadlineError:
        pass  # not all were reached
    except (errors.AuthenticationError, *oracles.FINAL) as error:
        oracles.check_answer(world, references[0], error)
    else:
        if missing := [each for number, each in enumerate(references) if not isinstance(seen.get(number), str)]:
            world.fail("one outcome", f"the watch of {missing} ended, and nobody said how")
    if not (pace or world.has("reader stalls")):
        watch.check("a watch", is_over=False)


def _check_missed(world, change, known_from, interval):
    """Complain of the end of a reference that was paid long before, in a watch that is read at once."""
    is_over = isinstance(getattr(change, "error", None), errors.WaitDeadlineError)
    if is_over and known_from is not None and world.is_quiet and change.reference[0] == "T":
        late = world.loop.time() - max(known_from, paid_at(change.reference)) - interval - world.loop.jumped
        if late > 10 + world.plan.work_seconds + oracles.slack(world):
            world.fail("unanswered", f"{change.reference} was paid, and its watch ended {late:.1f} s later")


def _check_change(world, references, seen, change):
    """Each reference has changes, each from the status before, and one end."""
    number, before = change.index, seen.get(change.index)
    if references[number] != change.reference or isinstance(before, str):
        world.fail("one outcome", f"{change!r} after {before!r}")
    if not isinstance(change, Change):
        seen[number] = "failed"
        if not isinstance(change.error, errors.WaitDeadlineError):
            oracles.check_answer(world, change.reference, change.error)
            if change.reference[0] not in "UR":
                world.fail("error", f"the watch of {change.reference} ended with {change.error!r}")
        return
    oracles.check_answer(world, change.reference, change.transaction)
    status = change.transaction.status
    if change.previous != (before and before[0]) or change.previous == status or change.is_last != (status == "Paid"):
        world.fail("status", f"{change!r} after {before!r}")
    seen[number] = "paid" if change.is_last else (status,)

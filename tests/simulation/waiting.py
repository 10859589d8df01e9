"""The workload of waits: payments that are paid after some time, and who learns of it when."""

import asyncio

from payclient import errors
from simulation import oracles
from simulation.service import paid_at

AFTERWARDS = 100.0
"""Seconds after the last wait, in which nothing may be asked."""


async def wait(world, clients):
    """Wait for references until they are paid; then see that nobody polls any more."""
    chance, plan = world.chance, world.plan
    terms = {"until": {"Paid"}, "deadline": chance.choice((20.0, 120.0, 600.0))}
    terms |= {"interval": 2.0, "max_interval": chance.choice((2.0, 30.0))}
    waits = [asyncio.create_task(wait_for_one(world, clients.of(each), each, terms)) for each in plan.references]
    await see_each_end(world, clients, waits, "a wait")


async def see_each_end(world, clients, tasks, what):
    """Cancel some and close the clients as planned; then see how each ended, and that nobody polls any more."""
    cancelled = set()

    def cancel(number):
        each = tasks[int(number) % len(tasks)]
        if not each.done():
            cancelled.add(each)
            each.cancel()

    world.schedule({"cancel": cancel, "close": clients.close_early})
    await asyncio.wait(tasks)
    for each in tasks:
        if each.cancelled():
            if each not in cancelled:
                world.fail("cancelled", f"{what} that nobody cancelled")
        elif each.exception() is not None:
            world.fail("error", f"{what} raised {each.exception()!r}")
    await check_silence(world)


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
    """Wait for one reference; return its transaction, or None."""
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
        return None
    except errors.PayClientError as error:
        answer = error
    watch.check(reference, is_over=isinstance(answer, errors.WaitDeadlineError))
    _check_end(world, reference, answer, known_from=began, interval=terms["max_interval"])
    return None if isinstance(answer, errors.PayClientError) else answer


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

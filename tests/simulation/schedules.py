"""Every order in which the tasks of a small piece can run, one after the other."""

import asyncio
import itertools
from types import SimpleNamespace

from attrs import frozen

from payclient import Transaction
from payclient.client._lookup import InFlight, SingleFlight
from payclient.client._stream import stream
from payclient.client.policies import Clock, Limiter, Signal, Timeout
from payclient.errors import ClientClosedError, ServiceError
from simulation.loop import SimulatedLoop, StuckError
from simulation.shrink import fewest


@frozen
class Explored:
    """What came of a piece."""

    schedules: int  # how many orders there are, or were tried
    is_complete: bool  # whether these were all
    problems: dict[str, tuple[tuple[int, int], ...]]


def explore(piece, *, most):
    """Run a piece in each order, or in the first *most* of them."""
    script, schedules, problems = [], 0, {}
    while schedules < most:
        taken = []

        def choose(options, script=script, taken=taken):
            choice = script[len(taken)] if len(taken) < len(script) else 0
            taken.append((choice, options))
            return choice

        for problem in _run(piece, choose):
            if problem not in problems:
                problems[problem] = _smallest(piece, problem, [choice for choice, _ in taken])
        schedules += 1
        while taken and taken[-1][0] == taken[-1][1] - 1:
            taken.pop()
        if not taken:
            return Explored(schedules, is_complete=True, problems=problems)
        script = [choice for choice, _ in taken[:-1]] + [taken[-1][0] + 1]
    return Explored(schedules, is_complete=False, problems=problems)


def _smallest(piece, problem, choices):
    """Leave out of an order each turn that the problem does not need."""

    def fails(turns):
        script, taken = dict(turns), itertools.count()
        return problem in _run(piece, lambda options: min(script.get(next(taken), 0), options - 1))

    return fewest(tuple((turn, choice) for turn, choice in enumerate(choices) if choice), fails)


def _run(piece, choose):
    loop = SimulatedLoop(choose)
    try:
        problems = list(loop.run_until_complete(piece()))
        problems += [f"timer of {timer}" for timer in loop._scheduled if not timer.cancelled()]
    except StuckError as error:
        problems = [f"waits for ever: {error}"]
    finally:
        _end_tasks(loop)
        loop.close()
    return problems + [str(context.get("exception") or context.get("message")) for context in loop.complaints]


def _end_tasks(loop):
    """Let what a failing piece has left running come to its end."""
    loop._choose = None
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks))


async def limiter_queue(cancelled=(1,), *, closes=False, users=3):
    """Users take turns at one slot; some are cancelled, or all are refused when it closes."""
    limiter = Limiter(max_concurrency=1)
    problems, order, asked = [], [], []

    async def use(number):
        asked.append(number)
        ticket = await limiter.acquire()
        order.append(number)
        if limiter.in_flight > 1:
            problems.append(f"{limiter.in_flight} attempts in flight")
        try:
            await asyncio.sleep(0)
        finally:
            limiter.release(ticket, Signal.SILENT)

    tasks = [asyncio.create_task(use(number)) for number in range(users)]

    await asyncio.sleep(0)
    for number in cancelled:
        tasks[number].cancel()
    if closes:
        limiter.close(lambda: ClientClosedError("closed"))
    await asyncio.wait(tasks)
    ended = [task.exception() for task in tasks if not task.cancelled()]
    refused = closes and any(isinstance(error, ClientClosedError) for error in ended)
    for number, task in enumerate(tasks):
        if number not in cancelled and number not in order and not refused:
            problems.append(f"{number} was never granted a slot")
        if task.cancelled() and number not in cancelled:
            problems.append(f"{number} was cancelled")
    if order != [number for number in asked if number in order]:
        problems.append("not first in, first out")
    if limiter.in_flight or limiter.waiting:
        problems.append(f"left: {limiter.in_flight} in flight, {limiter.waiting} waiting")
    return problems


_MAY_END = {"cancelled": {0: {"cancelled"}, -1: set()}, "fails": {-1: {"down"}}, "succeeds": {-1: set()}}
"""How each caller of `equal_lookups` may end without a value; -1 is for all others."""


async def equal_lookups(fate="cancelled", *, callers=3):
    """Callers share one call; the one who makes it is cancelled, fails, or succeeds."""
    flights, made, problems = SingleFlight(), [], []
    lookup = SimpleNamespace(sent_at=None, priority=0, until=float("inf"))

    async def call(number):
        while (other := flights.joinable("T1", "", after=float("-inf"), is_fresh=False)) is not None:
            value = await other.join(lookup)
            if value is not None:
                return value
        with InFlight("T1", flights, lookup) as flight:
            made.append(number)
            await asyncio.sleep(0)
            if fate == "fails" and len(made) == 1:
                message = "down"
                raise ServiceError(message, status_code=500)
            flight.value = "value"
            return flight.value

    tasks = [asyncio.create_task(call(number)) for number in range(callers)]

    async def disturb():
        if fate == "cancelled":
            tasks[0].cancel()

    await asyncio.gather(disturb(), *tasks, return_exceptions=True)
    allowed = _MAY_END[fate]
    ended = ["cancelled" if task.cancelled() else task.exception() or task.result() for task in tasks]
    for number, outcome in enumerate(ended):
        if outcome != "value" and str(outcome) not in allowed.get(number, allowed[-1]):
            problems.append(f"{number} ended with {outcome!r}")
    if len(flights):
        problems.append("a call is left in flight")
    return problems


async def shared_timer(cancelled=(1,), *, users=3):
    """Blocks of different lengths share a timer; some are cancelled, and one is longer than its work."""
    clock, problems = Clock(asyncio.get_running_loop()), []

    async def use(number):
        began, seconds = clock.now(), 3.0 - number
        try:
            with Timeout(clock, began + seconds):
                await asyncio.sleep(1.5 if number == users - 1 else 60)
        finally:
            took = clock.now() - began
            if number not in cancelled and abs(took - seconds) > 0.02:
                problems.append(f"{number} took {took:.3f} s instead of {seconds} s")

    tasks = [asyncio.create_task(use(number)) for number in range(users)]

    async def disturb():
        for number in cancelled:
            tasks[number].cancel()

    await asyncio.gather(disturb(), *tasks, return_exceptions=True)
    for number, task in enumerate(tasks):
        if task.cancelled() != (number in cancelled):
            problems.append(f"{number}: cancelled is {task.cancelled()}")
    clock.stop()
    return problems


async def hand_over(fate="read", *, references=3):  # noqa: C901  one check after the other
    """Workers hand outcomes to a reader; it reads them all, leaves after one, or is cancelled."""
    problems, seen = [], []
    before = asyncio.all_tasks()

    async def lookup(reference):
        await asyncio.sleep(0)
        return Transaction(reference=reference, amount=1, status="Paid")

    async def read():
        async with stream(lookup, [f"T{n}" for n in range(references)], concurrency=2) as outcomes:
            async for outcome in outcomes:
                seen.append(outcome.index)
                if fate == "leave":
                    break

    reader = asyncio.create_task(read())

    await asyncio.sleep(0)
    if fate == "cancel":
        reader.cancel()
    await asyncio.wait([reader])
    if not reader.cancelled() and reader.exception() is not None:
        problems.append(repr(reader.exception()))
    if asyncio.get_running_loop().time() > 1:
        problems.append("it took long to see the end")
    if len(set(seen)) != len(seen):
        problems.append("an outcome came twice")
    if fate == "read" and sorted(seen) != list(range(references)):
        problems.append(f"outcomes {sorted(seen)}")
    if asyncio.all_tasks() - before - {asyncio.current_task()}:
        problems.append("a worker is left")
    return problems

"""The workload of a crowd: all kinds of calls for the same few references, some by callers whose code raises."""

import asyncio
from contextlib import suppress

from payclient import errors
from payclient.protocol import Transaction
from simulation import oracles, waiting
from simulation.service import amount_of, paid_at
from simulation.world import CallerError

KINDS = ("lookup", "lookup", "confirm", "wait", "wait", "wait")


async def ask(world, client, reference, call):
    """Await one call for *reference*; return its answer, or None if there is none to be judged."""
    loop = world.loop
    began, jumped, asked = loop.time(), loop.jumped, world.asked.get(reference, 0.0)
    was_closed = client._session._is_closed
    try:
        answer = await call()
    except errors.ClientClosedError as error:
        if not world.is_closing:
            world.fail("error", f"ClientClosedError for {reference}: {error}")
        return None
    except errors.PayClientError as error:
        answer = error
    if was_closed:
        world.fail("close", f"{reference} was asked of a closed client: {answer!r}")
    outage = world.outages[world.clients.index(client)]
    outage.check(reference, began, world.asked.get(reference, 0.0) - asked, answer)
    late = loop.time() - began - world.plan.deadline - (loop.jumped - jumped)
    if late > oracles.slack(world):
        world.fail("deadline", f"{reference} ended {late:.3f} s after its deadline, with {type(answer).__name__}")
    early = world.plan.deadline - (loop.time() - began)
    is_later = isinstance(answer, errors.ServiceError) and (answer.status_code, answer.asked_pause) == (503, None)
    if is_later and early > 0.001 and not (world.is_closing or client._session.outage.is_on):
        world.fail("gives up", f"{reference}, refused for now, {early:.3f} s before its deadline")
    if isinstance(answer, errors.DeadlineExceededError) and early > 0.001:
        world.fail("deadline", f"{reference} ended {early:.3f} s before its deadline")
    if isinstance(answer, errors.DeadlineExceededError) and reference not in world.keyless:
        oracles.check_paused(world, client, reference, began, answer)
    loop.note("answer", reference, type(answer).__name__)
    world.count(f"answer {type(answer).__name__}")
    return answer


class _Crowd:
    """The callers of a run, by number."""

    def __init__(self, world, clients):
        self._world, self._clients = world, clients
        chance, references = world.chance, world.plan.references
        few = references[: chance.choice((1, 2, 4))]
        self._calls = [
            (chance.choice(KINDS), chance.choice(few if chance.random() < 0.7 else references))
            for _ in range(len(references) + chance.choice((0, 4, 12)))
        ]
        # Two waits for each reference, and callers who give up: as another one's poll is under way, too.
        self._is_paired = world.is_quiet and chance.random() < 0.5
        if self._is_paired:
            self._calls = [(kind, each) for each in references[:8] for kind in ("wait", "wait")]
        self._terms = {"deadline": chance.choice((20.0, 120.0, 600.0)), "interval": 2.0}
        self._terms["max_interval"] = chance.choice((2.0, 30.0))
        self._predicates = 0
        self._raises = {int(fault.at) for fault in world.plan.faults if fault.kind == "predicate raises"}

    def start(self):
        """Return a task for each caller."""
        return [asyncio.create_task(self._call(number, *call)) for number, call in enumerate(self._calls)]

    async def _call(self, number, kind, reference):
        await asyncio.sleep(self._world.plan.spread * self._world.chance.random())
        client = self._clients.of(reference)
        try:
            await getattr(self, f"_{kind}")(number, client, reference)
        except CallerError as error:
            self._world.blame(error, number)

    async def _lookup(self, _, client, reference):
        before = self._world.newest.get((client, reference), -1)
        answer = await ask(self._world, client, reference, lambda: client.get_transaction(reference))
        if answer is not None:
            oracles.check_answer(self._world, reference, answer)
            self._check_age(client, answer, before)

    async def _confirm(self, _, client, reference):
        world, began = self._world, self._world.loop.time()
        claim = {"amount": amount_of(reference), "status": {"Paid"}}
        answer = await ask(world, client, reference, lambda: client.confirm(reference, **claim))
        if isinstance(answer, errors.PayClientError):
            oracles.check_answer(world, reference, answer)
        elif answer is not None and answer.transaction is None:
            if reference[0] != "U":
                world.fail("not found", f"a confirmation of {reference}, which the service knows")
        elif answer is not None:
            oracles.check_answer(world, reference, answer.transaction)
            self._check_age(client, answer.transaction, -1)
            if self._is_in_step and self._asked_at(answer.transaction) < began:
                world.fail("older", f"a confirmation of {reference} was asked for before it was called")
            if bool(answer) is not (answer.transaction.status == "Paid"):
                world.fail("status", f"a confirmation of {reference} is {bool(answer)}: {answer}")

    async def _wait(self, number, client, reference):
        terms = {**self._terms, "until": self._until(number)}
        with suppress(TimeoutError):
            async with asyncio.timeout(40 * self._world.chance.random() if self._is_paired else None):
                if (answer := await waiting.wait_for_one(self._world, client, reference, terms)) is not None:
                    self._note_age(client, answer)

    def _until(self, number):
        if self._world.chance.random() < 0.4:
            return {"Paid"}

        def is_paid(transaction):
            self._predicates += 1
            if self._predicates in self._raises and not self._world.service.is_calm:
                self._world.strike("predicate raises")
                raise CallerError(number)
            return transaction.status == "Paid"

        return is_paid

    # Which answer it is

    @property
    def _is_in_step(self):
        """Whether no answer is that of an earlier request for the same reference."""
        return all(fault.kind != "one behind" for fault in self._world.plan.faults)

    def _asked_at(self, transaction):
        return self._world.service.exchanges[int(transaction.merchant_reff)].at

    def _check_age(self, client, answer, before):
        """Complain of an answer that is older than one that had been given before this call began."""
        world = self._world
        if not isinstance(answer, Transaction) or not self._is_in_step:
            return
        number, sent_at = int(answer.merchant_reff), self._note_age(client, answer)
        if sent_at < before:
            world.fail("older", f"{answer.reference} was asked for at {sent_at}; one of {before} was given before")
        is_paid = self._asked_at(answer) >= paid_at(answer.reference)
        if is_paid is not (answer.status == "Paid"):
            world.fail("status", f"{answer.reference} is {answer.status} in answer {number}")

    def _note_age(self, client, answer):
        """Note that an answer was given; return when it was asked for."""
        sent_at = self._world.service.exchanges[int(answer.merchant_reff)].sent_at
        known = self._world.newest.get((client, answer.reference), -1.0)
        self._world.newest[client, answer.reference] = max(known, sent_at)
        return sent_at


async def crowd(world, clients):
    """Let all callers come, and see how each ends."""
    await waiting.see_each_end(world, clients, _Crowd(world, clients).start(), "a call")

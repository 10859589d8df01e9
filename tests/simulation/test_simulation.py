"""The whole client under one seed: a few seeds of each kind; `nox -s simulate` runs thousands."""

import asyncio
import random

import pytest
from attrs import evolve

from simulation.cells import CELLS, GROUPS, KINDS, Cells
from simulation.draws import draw
from simulation.loop import SimulatedLoop, StuckError
from simulation.network import Network
from simulation.plan import MUTANTS, NEVER_HEALED, TROUBLES, TUNNELS, Fault, Limit, Plan
from simulation.shrink import names_of, shrink
from simulation.world import Result, run

SEEDS = 8
EACH = 4


@pytest.mark.parametrize("first", range(0, SEEDS, EACH))
def test_seeds(first):
    """Whatever a seed comes to, no oracle complains."""
    problems = {seed: run(draw(seed)).problems for seed in range(first, first + EACH)}
    assert problems == dict.fromkeys(problems, ())


def test_parts():
    """A message has as many parts as one that is a byte longer: signatures of TLS are not of one length."""

    def split(size):
        return [
            Network(None, random.Random(seed), None, addresses={}, pieces=8).split(bytes(size)) for seed in range(500)
        ]

    shorter, longer = split(800), split(801)
    assert list(map(len, shorter)) == list(map(len, longer))
    assert {b"".join(parts) for parts in shorter} == {bytes(800)}


@pytest.mark.parametrize("transport", ["httpx", "fast", "injected"])
@pytest.mark.parametrize("is_tls", [False, True])
def test_same_trace(transport, is_tls):
    """The same plan gives the same trace, over TLS and with every task in a drawn order as well."""
    faults = (Fault("reset before", 1), Fault("stall", 4), Fault("cancel", 90, 1))
    plan = Plan(seed=5, transport=transport, is_tls=is_tls, pieces=3, loss=0.05, faults=faults)
    first, second = run(plan), run(plan)
    assert (first.problems, first.requests > 5) == ((), True)
    assert first == second


@pytest.mark.parametrize("transport", ["httpx", "fast"])
def test_proxy(transport):
    """Whatever a proxy does instead of opening a tunnel, no oracle complains, and the same plan has the same trace."""
    faults = tuple(Fault(kind, number, 1.0) for number, kind in enumerate(TUNNELS))
    references = tuple(f"T{number}" for number in range(len(TUNNELS)))
    plan = Plan(seed=6, transport=transport, is_tls=True, proxy=True, faults=faults, references=references)
    first, second = run(plan), run(plan)
    assert (first.problems, first.counts["answer ProxyRefusedError"] > 1) == ((), True)
    assert first == second


def test_other_seed():
    """Another seed gives another trace."""
    assert run(Plan(seed=1)).trace != run(Plan(seed=2)).trace


@pytest.mark.parametrize("work", ["lookups", "batch", "stream", "wait", "crowd", "reconcile", "threads"])
def test_quiet(work):
    """Where nothing goes wrong, each reference is answered, by one request and one more for each in doubt."""
    plan = Plan(seed=3, work=work, references=("T0", "T1", "U2", "R4"))
    result = run(plan)
    assert (result.problems, result.counts["found"] >= 2) == ((), True)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_disturbed(trouble):
    """Wherever the client is disturbed itself, each reference is answered."""
    work = "reconcile" if trouble == "a commit for each row" else "stream"
    result = run(Plan(seed=3, work=work, references=("T0", "T1", "U2", "R4"), troubles=(trouble,)))
    assert result.problems == ()
    assert result.counts["found"] >= 2


@pytest.mark.parametrize("kind", NEVER_HEALED)
def test_never_healed(kind):
    """A fault that lasts for ever stops nothing that does not need what it has taken."""
    result = run(Plan(seed=3, is_tls=True, faults=(Fault(kind, 0.0),)))
    assert (result.problems, result.counts["answer Transaction"]) == ((), 3)


def test_deadlock():
    """A run in which somebody waits for ever ends at once, and says so."""
    loop = SimulatedLoop()
    with pytest.raises(StuckError, match="nothing is left to happen at 3"):
        loop.run_until_complete(_wait_for_ever())
    loop.close()


async def _wait_for_ever():
    await asyncio.sleep(3)
    await asyncio.get_running_loop().create_future()


def test_kill_is_resumed():
    """A reconciliation that dies in the middle is resumed over the same journal."""
    faults = (Fault("kill", 150), Fault("kill", 60))
    result = run(Plan(seed=2, work="reconcile", references=tuple(f"T{n}" for n in range(12)), faults=faults))
    assert result.problems == ()
    assert (result.counts["processes: kill"], result.counts["second nights"]) == (3, 1)  # one of them in that night


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["disk full", "fsync"])
def test_disk_fails_at_once(kind):
    """A disk that fails in the first steps of a reconciliation, while a thread writes too, ends it with an error."""
    first_steps = (Plan(seed=2, work="reconcile", faults=(Fault(kind, step),)) for step in range(8))
    assert [run(plan).problems for plan in first_steps] == [()] * 8


def test_shrinks():
    """A failing plan is shrunk to the faults that it needs, and to a network without whims."""
    plan = evolve(draw(11), faults=tuple(Fault("late", n, n) for n in range(20)), loss=0.1, references=("T1", "T2"))

    def fake(candidate):
        is_failing = {Fault("late", 3, 3), Fault("late", 17, 17)} <= set(candidate.faults)
        problems = ("slots: 1 left",) if is_failing else ("pause: cut short",) * (len(candidate.faults) == 1)
        return Result(11, "", problems, 0.0, 0, 0, {})

    smallest = shrink(plan, fake)
    assert smallest.faults == (Fault("late", 3, 3), Fault("late", 17, 17))
    assert (smallest.loss, smallest.is_tls, smallest.references) == (0.0, False, ("T1",))
    assert names_of(fake(smallest)) == {"slots"}


def test_shrinks_turns():
    """A failing order is shrunk to the turns that it needs; in all others the task of asyncio's order runs."""
    plan = Plan(seed=4, faults=(Fault("stall", 1),))

    def fake(candidate):
        order = ((2, 1), (5, 3), (9, 2)) if candidate.order is None else candidate.order
        problems = ("slots: 1 left",) if candidate.is_shuffled and (5, 3) in order else ()
        return Result(4, "", problems, 0.0, 0, 0, {}, order=order)

    assert shrink(plan, fake).order == ((5, 3),)


def test_order_is_replayed():
    """A plan with the turns of its run gives the same trace as the run that drew them."""
    plan = Plan(seed=4, faults=(Fault("reset before", 1), Fault("cancel", 90, 1)))
    drawn = run(plan)
    assert (run(evolve(plan, order=drawn.order)).trace, drawn.order != ()) == (drawn.trace, True)


def test_mutant():
    """The seed of a mutant gives a plan like that of its original, and always the same."""
    original, mutant = draw(17), draw(3 * MUTANTS + 17)
    assert (mutant.work, mutant.references, mutant.seed) == (original.work, original.references, 3 * MUTANTS + 17)
    assert mutant == draw(3 * MUTANTS + 17) != original


def test_mutants_of_rare_cells():
    """The plans that are changed are those that have reached the rarest cells."""
    reached = Cells()
    reached.add(run(draw(3)))
    assert {seed % MUTANTS for seed in reached.mutants(4)} == {3}


def test_cells():
    """A run counts which fault has met which state; what no run has reached is listed."""
    reached = Cells()
    reached.add(run(Plan(seed=1, faults=(Fault("stall", 0),))))
    assert reached.counts["stall", "connection first exchange"] == 1
    assert set(reached.empty()) == set(CELLS) - set(reached.counts)
    assert reached.seeds["stall", "lookup sent"] == [1]


def test_each_fault_has_cells():
    """Each kind of fault that a plan can have is counted."""
    kinds = {GROUPS.get(fault.kind, fault.kind) for seed in range(300) for fault in draw(seed).faults}
    assert kinds - set(KINDS) == set()


def test_plan_is_text():
    """A plan prints as what makes it, so that a failing one is kept by copying it into a test."""
    plan = draw(8)
    assert eval(repr(plan), {"Fault": Fault, "Limit": Limit, "Plan": Plan}) == plan


def test_world_of_its_own():
    """A run does not touch the random numbers of the process."""
    random.seed(4)
    expected = random.random()
    random.seed(4)
    run(Plan(seed=1))
    assert random.random() == expected

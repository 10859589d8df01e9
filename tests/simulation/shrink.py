"""Leave out of a failing run whatever it does not need to fail."""

from attrs import evolve

from simulation.plan import Limit

SIMPLER = (
    {"troubles": ()},
    {"proxy": False},
    {"is_tls": False},
    {"clients": 1},
    {"loss": 0.0},
    {"pieces": 1},
    {"tick": 0.0},
    {"max_rate": None},
    {"limit": Limit()},
    {"is_shuffled": False},
    {"latency": (0.001, 0.001)},
)


def names_of(result):
    """Return which oracles complained."""
    return {problem.partition(":")[0] for problem in result.problems}


def shrink(plan, run):
    """Return a plan with as few faults as possible that fails as *plan* does."""
    wanted = names_of(run(plan))

    def fails(candidate):
        return bool(wanted & names_of(run(candidate)))

    plan = _with_fewest(plan, "faults", fails)
    for change in SIMPLER:
        simpler = evolve(plan, **change)
        if simpler != plan and fails(simpler):
            plan = simpler
    return _with_fewest_turns(_with_fewest_references(plan, fails), run, fails)


def fewest(items, fails):
    """Leave out half of the items, then a quarter, and so on, as long as the rest fails."""
    size = max(1, len(items) // 2)
    while items:
        start = 0
        while start < len(items):
            fewer = items[:start] + items[start + size :]
            if fails(fewer):
                items = fewer
            else:
                start += size
        if size == 1:
            break
        size //= 2
    return items


def _with_fewest(plan, what, fails):
    return evolve(plan, **{what: fewest(getattr(plan, what), lambda fewer: fails(evolve(plan, **{what: fewer})))})


def _with_fewest_turns(plan, run, fails):
    """Run tasks in the order of asyncio, but for as few turns as it needs."""
    if not plan.is_shuffled or plan.tick:
        return plan
    written = evolve(plan, order=run(plan).order)
    return _with_fewest(written, "order", fails) if fails(written) else plan


def _with_fewest_references(plan, fails):
    for number in reversed(range(len(plan.references))):
        fewer = evolve(plan, references=plan.references[:number] + plan.references[number + 1 :])
        if fewer.references and fails(fewer):
            plan = fewer
    return plan

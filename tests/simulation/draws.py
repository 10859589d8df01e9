"""The plan of a seed: drawn before the run begins, freely or for a fault in a state."""

import itertools
from random import Random
from typing import Any

from attrs import evolve, field, frozen

from simulation.cells import CELLS, KINDS, STATES
from simulation.plan import (
    AIMED,
    ANSWERS,
    BLOWS,
    CALLERS,
    CONNECTING,
    KEYS,
    LIMITS,
    MUTANTS,
    NEVER_HEALED,
    PROXY,
    PROXY_CONNECTING,
    PROXY_TIMED,
    RATE,
    REVOKED,
    ROTATES,
    TICKS,
    TIMED,
    TROUBLES,
    TUNNELS,
    Fault,
    Limit,
    Plan,
)

FOCUSES = (
    ("idle end",),
    ("echo of the key",),
    ("bare 404", "extra missing, next", "extra missing, same write", "extra rejected, next"),
)
"""Faults that some seeds play alone and often, because others end a lookup before it gets to them."""

WORKS = ("lookups", "lookups", "stream", "stream", "batch", "reconcile")
TRANSPORTS = ("httpx", "httpx", "fast", "fast", "injected")
OURS = ("httpx", "fast")


def draw(seed):
    """Return the plan of a seed."""
    number, original = divmod(seed, MUTANTS)
    turn, rest = divmod(original, 5)
    plan = _at_a_cell(original, *AIMED_AT[(2 * turn + rest) * _STEP % len(AIMED_AT)]) if rest < 2 else _drawn(original)
    if number:
        plan = _mutated(Random(f"mutant {seed}"), evolve(plan, seed=seed))
    if original % 10 == 7:
        transport = plan.transport if plan.transport in OURS else "fast"
        plan = evolve(plan, work="threads", clients=1, transport=transport)
    return evolve(plan, faults=tuple(fault for fault in plan.faults if fault.kind not in _impossible(plan)))


def _mutated(chance, plan):
    """Move, drop and repeat some faults of a plan that has reached a rare state, and change its pace."""
    faults = []
    for fault in plan.faults:
        if chance.random() < 0.2:
            continue
        at = fault.at
        if chance.random() < 0.4:
            at = max(0, at + chance.choice((-2, -1, 1, 2)) if isinstance(at, int) else at * chance.random() * 2)
        faults.append(evolve(fault, at=at))
        if chance.random() < 0.1 and isinstance(at, int):
            faults.append(evolve(fault, at=at + 1))
    transport = plan.transport if plan.proxy else chance.choice((plan.transport, *TRANSPORTS))
    return evolve(
        plan,
        faults=tuple(faults),
        transport=transport,
        # A tunnel and a handshake with the longest latency take longer than the shortest time-out.
        latency=plan.latency if plan.proxy else chance.choice((plan.latency, (0.001, 0.001), (0.01, 0.4))),
        troubles=tuple(each for each in TROUBLES if chance.random() < 0.12),
    )


# Freely


def _drawn(seed):
    plan = _with_proxy(Random(f"proxy {seed}"), _draw(seed))
    plan = evolve(plan, faults=(*_disk_errors(Random(f"disk {seed}"), plan), *plan.faults))
    chance = Random(f"callers {seed}")
    if plan.work in ("lookups", "wait") and chance.random() < 0.4:
        plan = evolve(plan, work="crowd")
    plan = evolve(plan, has_source=chance.random() < 0.25)
    if plan.work == "crowd" and chance.random() < 0.5:
        plan = _undisturbed(chance, plan)
    plan = evolve(plan, faults=(*plan.faults, *_of_callers(chance, plan), *_of_keys(chance, plan)))
    plan = evolve(plan, faults=(*plan.faults, *_short_jumps(Random(f"jumps {seed}"), plan)))
    chance = Random(f"for ever {seed}")
    troubles = tuple(each for each in TROUBLES if chance.random() < 0.12)
    return evolve(plan, troubles=troubles, faults=(*plan.faults, *_never_healed(chance)))


def _impossible(plan):
    """Return the kinds of faults that the plan cannot bear."""
    # httpcore's own pool loses a connection when an attempt is cancelled in the turn in which it has got one, as
    # happens when a clock jumps over the whole time-out (encode/httpcore#1093).
    if plan.transport == "injected" and plan.is_tls:
        yield "jump"
    # Eight attempts at a time and a handshake leave none within its time-out.
    if plan.timeout < 10.0 or plan.latency[1] > 0.1:
        yield "one a second for ever"


def _plan(chance, seed, work):
    return Plan(
        seed=seed,
        work=work,
        transport=chance.choice(TRANSPORTS),
        is_tls=chance.random() < 0.3,
        clients=chance.choice((1, 1, 1, 2, 3)) if work in ("lookups", "stream") else 1,
        concurrency=chance.choice((1, 2, 3, 4, 8)),
        max_rate=chance.choice((None, None, None, 2.0, 10.0, 50.0)),
        timeout=chance.choice((2.0, 5.0, 10.0)),
        deadline=chance.choice((3.0, 20.0, 60.0, 120.0)),
        references=tuple(_references(chance)),
        spread=chance.choice((0.0, 1.0, 10.0, 60.0)),
        is_shuffled=chance.random() < 0.75,
        tick=chance.choice((0.0, 0.0, 0.0, 0.0005)),
        latency=chance.choice(((0.001, 0.001), (0.005, 0.03), (0.01, 0.4))),
        loss=chance.choice((0.0, 0.0, 0.02, 0.1)),
        pieces=chance.choice((1, 1, 3, 8)),
        work_seconds=chance.choice((0.0, 0.2, 1.0)),
        limit=_limit(chance),
    )


def _draw(seed):
    chance = Random(f"plan {seed}")
    work = chance.choice(WORKS)
    plan = _plan(chance, seed, work)
    plan = evolve(plan, faults=tuple(_faults(chance, plan)))
    if work == "lookups" and Random(f"wait {seed}").random() < 0.3:
        plan = evolve(plan, work="wait")
    more = Random(f"more {seed}")
    if more.random() < 0.1:
        return evolve(plan, faults=tuple(_focused(more)), limit=Limit())
    return evolve(plan, faults=(*plan.faults, *_in_a_row(more, plan), *_aimed(more, plan), *_stops(more, plan)))


def _references(chance):
    """Yield references: `T…` are known, `U…` unknown, `R…` rejected, and `C…` are known and never answered."""
    shares = (("T", 1.0), ("U", chance.choice((0.0, 0.2))), ("R", chance.choice((0.0, 0.1))))
    kinds, weights = [kind for kind, _ in shares], [weight for _, weight in shares]
    different = max(1, chance.choice((3, 6, 12, 24)) - chance.randrange(3))
    for number in range(different):
        yield f"{chance.choices(kinds, weights)[0]}{number}"
        if chance.random() < 0.15:
            yield f"T{chance.randrange(number + 1)}" if chance.random() < 0.5 else "T0"
    if chance.random() < 0.15:
        yield f"C{different}"


def _limit(chance):
    kind = chance.choice(("none", "none", "none", "bucket", "window", "cap"))
    if kind == "window":
        return Limit(kind, chance.choice((5, 10)), chance.choice((1.0, 5.0)), tells=chance.random() < 0.5)
    return Limit(kind, chance.choice((1, 2, 4)) if kind == "cap" else chance.choice((2, 5, 10)))


def _faults(chance, plan):
    """Yield faults of the kinds that this seed has switched on."""
    share = chance.choice((0.1, 0.3, 0.6))

    def swarm(kinds):
        return [kind for kind in kinds if chance.random() < share]

    answers, connecting, timed, ticks = (swarm(kinds) for kinds in (ANSWERS, CONNECTING, TIMED, TICKS))
    rate = chance.choice((0.0, 0.05, 0.2, 0.5))
    for number in range(80):
        if answers and chance.random() < rate:
            kind = chance.choice(answers)
            yield Fault(kind, number, round(chance.choice((1.0, 3.0, 10.0, 30.0)) * chance.random(), 3))
    rate = chance.choice((0.0, 0.1, 0.4))
    for number in range(20):
        if connecting and chance.random() < rate:
            yield Fault(chance.choice(connecting), number, chance.randrange(4))
    for kind in timed:
        for _ in range(chance.choice((1, 1, 3))):
            seconds = chance.choice((1.0, 10.0, 60.0)) * chance.random()
            yield Fault(kind, round(seconds, 3), round(chance.choice((0.5, 5.0, 40.0, 400.0)) * chance.random(), 3))
    yield from _faults_of_steps(chance, plan, ticks)


def _faults_of_steps(chance, plan, ticks):
    if "cancel" in ticks:
        for _ in range(chance.choice((1, 3, 12))):
            yield Fault("cancel", _step(chance), chance.randrange(len(plan.references)))
    if "jump" in ticks:
        for _ in range(chance.choice((1, 3))):
            yield Fault("jump", _step(chance), round(chance.choice((0.5, 5.0, 100.0)) * chance.random(), 3))
    if "close" in ticks and plan.work in ("lookups", "stream"):
        yield Fault("close", _step(chance), round(chance.choice((0.0, 10.0)) * chance.random(), 3))
    if plan.work == "reconcile" and chance.random() < 0.7:
        for _ in range(chance.choice((1, 2, 3))):
            yield Fault(chance.choice(("kill", "kill", "kill", "disk full")), _step(chance))


def _focused(chance):
    kinds = chance.choice(FOCUSES)
    for number in range(60):
        if kinds[0] in TIMED:
            yield Fault(kinds[0], round(30 * chance.random(), 3))
        elif chance.random() < 0.6:
            yield Fault(chance.choice(kinds), number)


def _with_proxy(chance, plan):
    """Put a proxy on the way of some plans, with faults of its own, in some of them with no others."""
    if plan.transport == "injected" or chance.random() >= 0.25:
        return plan
    is_alone = chance.random() < 0.4
    others = tuple(fault for fault in plan.faults if not is_alone or fault.kind in ("cancel", "close", "kill"))
    if is_alone:  # and nothing but the proxy lets a lookup wait
        plan = evolve(plan, loss=0.0, tick=0.0, timeout=10.0)
    return evolve(
        plan,
        is_tls=True,
        proxy=True,
        timeout=10.0 if plan.latency[1] > 0.1 else plan.timeout,  # to connect takes five ways there and back
        faults=(*others, *_faults_of_the_proxy(chance, is_alone=is_alone)),
    )


def _faults_of_the_proxy(chance, *, is_alone):
    share = chance.choice((0.0, 0.15, 0.3))
    kinds = (TUNNELS, PROXY_CONNECTING, PROXY_TIMED)
    if is_alone:
        some = [chance.choice(chance.choice((TUNNELS, *kinds)))]
        tunnels, connecting, timed = ([kind for kind in each if kind in some] for each in kinds)
    else:
        tunnels, connecting, timed = ([kind for kind in each if chance.random() < share] for each in kinds)
    rate = chance.choice((0.1, 0.3, 0.7))
    for number in range(30):
        if tunnels and chance.random() < rate:
            yield Fault(chance.choice(tunnels), number, round(10 * chance.random(), 3))
        if connecting and chance.random() < rate / 2:
            yield Fault(chance.choice(connecting), number)
    for kind in timed:
        for _ in range(chance.choice((2, 10, 30))):
            seconds = chance.choice((1.0, 10.0, 60.0)) * chance.random()
            yield Fault(kind, round(seconds, 3), round(chance.choice((0.5, 5.0)) * chance.random(), 3))


def _in_a_row(chance, plan):
    """Yield cancellations at one step after the other."""
    for fault in plan.faults:
        if fault.kind == "cancel" and chance.random() < 0.3:
            yield from _burst(fault.at + 1, chance.choice((1, 2, 7)), fault.value)
    if plan.work in ("lookups", "wait") and chance.random() < 0.15:
        for _ in range(30):
            yield from _burst(_step(chance), chance.choice((1, 2, 4)), chance.randrange(len(plan.references)))


def _stops(chance, plan):
    """Yield Ctrl-C for several processes over one journal, one after the other."""
    if plan.work == "reconcile" and chance.random() < 0.5:
        for _ in range(chance.choice((2, 6, 12))):
            yield Fault("stop", chance.randrange(20, 400))


def _disk_errors(chance, plan):
    """Yield errors of fsync, each for one process over a journal."""
    if plan.work == "reconcile" and chance.random() < 0.3:
        for _ in range(chance.choice((1, 1, 3))):
            yield Fault("fsync", int(10 ** chance.uniform(1.0, 3.0)), round(chance.random(), 3))


def _undisturbed(chance, plan):
    """Let nothing go wrong but callers who leave, so that what one of them spoils for another is seen."""
    leaving = tuple(Fault("cancel", chance.randrange(10, 1500), number) for number in range(len(plan.references)))
    plan = evolve(plan, faults=leaving, limit=Limit(), loss=0.0, max_rate=None, proxy=False, timeout=10.0)
    return evolve(plan, deadline=max(plan.deadline, 20.0), spread=chance.choice((0.0, 1.0, 10.0)))


def _short_jumps(chance, plan):
    """Yield jumps by less than the gap between two attempts, where there is a rate."""
    if plan.max_rate is not None and any(fault.kind == "jump" for fault in plan.faults):
        for _ in range(12):
            yield Fault("jump", chance.randrange(20, 800), round(chance.random() * plan.clients / plan.max_rate, 3))


def _never_healed(chance):
    for kind in NEVER_HEALED:
        if chance.random() < 0.06:
            yield Fault(kind, round(chance.choice((0.0, 1.0, 20.0)) * chance.random(), 3))


def _of_callers(chance, plan):
    """Yield what code of callers does: stalls, raises, and changes the rate."""
    if plan.work == "reconcile" or chance.random() < 0.5:
        return
    kinds = [kind for kind in CALLERS if chance.random() < 0.5]
    for kind in kinds:
        for _ in range(chance.choice((1, 1, 3))):
            value = round(chance.choice((1.0, 30.0, 120.0)) * chance.random(), 3)
            yield Fault(kind, chance.randrange(2 * len(plan.references)), value)
    if chance.random() < 0.2:
        for _ in range(chance.choice((1, 4))):
            yield Fault(RATE, round(chance.choice((1.0, 30.0)) * chance.random(), 3), chance.choice((2.0, 10.0, 50.0)))


def _of_keys(chance, plan):
    if not plan.has_source:
        return
    for _ in range(chance.choice((0, 1, 1, 3))):
        at = round(chance.choice((1.0, 10.0, 60.0)) * chance.random(), 3)
        yield Fault(ROTATES, at, round(chance.choice((0.0, 0.0, 5.0)) * chance.random(), 3))
    kinds = [kind for kind in KEYS if chance.random() < 0.4]
    for number in range(6):
        if kinds and chance.random() < 0.4:
            yield Fault(chance.choice(kinds), number, round(chance.choice((1.0, 40.0)) * chance.random(), 3))


def _burst(at, count, who):
    return (Fault("cancel", at + step, who) for step in range(count))


def _aimed(chance, plan):
    """Yield cancellations and a close just when a spoilt answer is on its way."""
    spoilt = [fault for fault in plan.faults if fault.kind in ANSWERS]
    if not spoilt or chance.random() < 0.6:
        return
    for fault in chance.sample(spoilt, min(len(spoilt), 4)):
        delay = round(chance.choice((0.0, 0.0, plan.latency[1], 0.1)) * chance.random(), 4)
        if chance.random() < 0.5:
            yield Fault("cancel as answered", fault.at, delay)
    if plan.work in ("lookups", "stream", "wait") and chance.random() < 0.5:
        doubtful = [fault for fault in spoilt if fault.kind == "bare 404"]
        yield Fault("close as answered", chance.choice(doubtful or spoilt).at)


def _step(chance):
    return int(10 ** chance.uniform(0.7, 3.7))


# For a fault in a state


@frozen
class Stage:
    """What brings about a state that is rare otherwise."""

    works: tuple[str, ...] = ()  # the workloads in which it is likely; any if empty
    kinds: dict[str, float] = field(factory=dict)  # the faults that lead to it, each with its share
    changes: dict[str, Any] = field(factory=dict)  # of the plan
    letters: str = "T"  # of its references, by chance
    count: int = 24  # of them


_ANY = Stage(letters="TTTTTTUR", count=40)
_OUTAGE = Stage(
    ("lookups",),
    {"error 500": 1.0, "stall": 0.15},
    {"clients": 1, "spread": 60.0, "deadline": 20.0, "concurrency": 8},
    count=120,
)
_ROTATING = evolve(_OUTAGE, works=("lookups", "crowd"), kinds={})
_KEY = Stage(
    ("lookups", "stream"),
    {ROTATES: 1.0, "source fails": 0.2, "source is behind": 0.1, "source hangs": 0.4},
    {"has_source": True, "spread": 10.0, "work_seconds": 1.0, "deadline": 10.0},
)
_NEW = Stage(("lookups", "stream"), {"close after": 0.4, "hang": 0.3}, {"is_tls": True})
_FEW = {"references": ("T0", "T1", "T2") * 8, "spread": 1.0}
_BUSY = {"concurrency": 8, "work_seconds": 1.0}
STAGES = {
    "lookup queued": Stage(("lookups", "crowd"), changes={"concurrency": 1, "spread": 0.0}),
    "lookup backing off": Stage(("lookups", "stream"), {"error 500": 0.4}),
    "lookup shared": Stage(("lookups", "crowd"), changes=_FEW),
    "lookup paused": Stage(("lookups", "stream"), {"throttled": 0.4}, _BUSY),
    "lookup in an outage": _OUTAGE,
    "lookup probing": _OUTAGE,
    "wait shared": Stage(("crowd",), changes=_FEW),
    "stream awaits input": Stage(("stream",), {"input stalls": 0.4}),
    "stream one by one": Stage(("stream",), changes={"spread": 10.0, "work_seconds": 1.0}),
    "stream defers": Stage(("stream",), {"error 500": 0.4}, letters="TTTTC"),
    "stream full": Stage(("stream",), {"reader stalls": 0.4}, {"spread": 1.0, "troubles": ("queues of one",)}),
    "stream drains": Stage(
        ("stream",), {"observer raises": 0.1, "late": 0.4, REVOKED: 1.0}, {"spread": 1.0, **_BUSY}, count=72
    ),
    "key not known": _KEY,
    "key asked for": _KEY,
    "key renewed": _KEY,
    "connection opening": _NEW,
    "connection handshake": _NEW,
}


def _more(kind, state):
    """Return how often more a rare cell comes."""
    if kind in KEYS and STAGES.get(state) is _OUTAGE:
        return 12
    return 2 if state in STAGES else 0


AIMED_AT = (*CELLS, *(cell for cell in CELLS for _ in range(_more(*cell))))
"""The cells, one after the other; the rare ones several times."""
_STEP = 1009
"""From one cell to the next: a prime, so that all come, in a mixed order."""


def seeds_for(cell, *, after):
    """Yield the seeds from *after* on whose plans are drawn for *cell*."""
    first = AIMED_AT.index(cell) * pow(_STEP, -1, len(AIMED_AT)) % len(AIMED_AT)
    for number in itertools.count(first, len(AIMED_AT)):
        if (seed := 5 * (number // 2) + number % 2) >= after:
            yield seed


def _at_a_cell(seed, kind, state):
    """Return a plan in which faults of one kind, and of some others, strike often while there is one state."""
    chance, stage = Random(f"cell {seed}"), STAGES.get(state, _ANY)
    if kind in KEYS and stage is _OUTAGE:
        stage = _ROTATING
    works = sorted(KINDS[kind] & STATES[state])
    work = chance.choice([each for each in works if each in stage.works] or works)
    plan = evolve(
        _plan(chance, seed, work),
        clients=3 if work in ("lookups", "stream") else 1,
        references=tuple(f"{chance.choice(stage.letters)}{number}" for number in range(stage.count)),
        has_source=chance.random() < 0.25,
        latency=chance.choice(((0.005, 0.03), (0.01, 0.4))),
        timeout=10.0,
        deadline=60.0,
        loss=0.0,
        max_rate=None,
        limit=Limit(),
    )
    plan = evolve(plan, **stage.changes)
    others = [each for each in KINDS if work in KINDS[each] and each not in (*TICKS, *BLOWS, *AIMED)]
    shares = {each: share for each, share in stage.kinds.items() if work in KINDS[each]}
    faults = ()
    if stage is _ROTATING:
        shares, faults = {kind: 0.6}, tuple(_rotations_before_outages(chance))
    elif kind in KEYS:  # a source is asked again when its key is refused
        shares.setdefault(ROTATES, 1.0)
    for each in (*shares, *chance.sample(others, 1 if state in STAGES else 2), kind):
        plan = _bearing(plan, each)
        faults = (*faults, *_often(chance, each, plan, shares.pop(each, 0.3 if stage is _OUTAGE else 0.4)))
    return evolve(plan, faults=faults)


def _rotations_before_outages(chance):
    """Yield rotations of the key, after each of which the service is down while the source is asked."""
    for at in range(2, 58, 7):
        yield Fault(ROTATES, at)
        yield Fault("restart", round(at + 0.2 + chance.random(), 3), 4.0)


def _bearing(plan, kind):
    """Return the plan with what the kind of fault needs."""
    if kind in LIMITS:
        # A window in which there are more probes than it has room for.
        return evolve(plan, limit=Limit(kind.removeprefix("limit of a "), 2, 5.0))
    if kind in KEYS or kind == ROTATES:
        return evolve(plan, has_source=True)
    if kind.startswith(("proxy", "a proxy")):
        transport = "httpx" if plan.transport == "injected" else plan.transport
        return evolve(plan, transport=transport, is_tls=True, proxy=True)
    if kind in NEVER_HEALED:
        return evolve(plan, is_tls=True, latency=(0.005, 0.03))
    return plan


def _often(chance, kind, plan, share):
    """Yield many faults of one kind: a share of those that there could be."""
    kinds = PROXY.get(kind) or (PROXY_CONNECTING if kind.startswith("a proxy") else (kind,))
    if kinds[0] in _CONNECTED:  # so that there are more connections
        yield from (Fault("close after", number) for number in _some(chance, 100, 0.3))
    for known, count, most in _BY_NUMBER:
        for number in _some(chance, count, share) if kinds[0] in known else ():
            yield Fault(chance.choice(kinds), number, round(most * chance.random(), 3))
    seconds = chance.choice((3.0, 30.0, 60.0))
    for _ in range(_BY_TIME.get(kind, 0)):
        yield Fault(kind, round(seconds * chance.random(), 3), round(chance.random(), 3) if kind != RATE else 5.0)
    if kind in BLOWS:
        for _ in range(3):
            yield Fault(kind, chance.randrange(20, 400), round(6 * chance.random(), 3))
    for _ in range({"cancel": 8, "jump": 3, "close": 2}.get(kind, 0)):
        yield Fault(kind, _step(chance), chance.randrange(len(plan.references)))


_CONNECTED = (*CONNECTING, *TUNNELS, *PROXY_CONNECTING)
_BY_NUMBER = ((ANSWERS, 100, 3.0), (_CONNECTED, 40, 3.0), ((*KEYS, *CALLERS), 48, 30.0), (AIMED, 60, 0.005))
"""Kinds of faults by number: how many there could be, and the most of their value."""
_BY_TIME = dict.fromkeys((*TIMED, *PROXY_TIMED, *NEVER_HEALED, RATE, ROTATES), 12)
_BY_TIME |= {"reader gone for ever": 4, REVOKED: 4}
"""How many faults of a kind there are by time."""


def _some(chance, count, share):
    return [number for number in range(count) if chance.random() < share]

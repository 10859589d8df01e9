"""What one seed comes to: the client, the work, the service and the faults, all drawn before the run begins."""

from __future__ import annotations

from random import Random

from attrs import evolve, field, frozen

MAX_FAULTS_OF_ONE = 3
"""Answers about one reference that the service spoils, at most: so that a stream has to answer it in the end."""

THROTTLING = ("throttled", "throttled until", "throttled until, undated", "throttled bare", "unavailable")
FAILING = ("error 500", "gateway page", "maintenance", "echo of the key")
BROKEN = ("garbage", "empty", "cut", "reset before", "reset within", "end before", "no content")
ODD = ("no http", "endless head", "endless body", "compressed and cut")
SLOW = ("stall", "drip", "late")
WRONG = ("other transaction", "other not found", "bare 404", "one behind")
EXTRA = tuple(
    f"extra {what}, {when}"
    for what in ("found", "missing", "rejected", "unauthorized", "elsewhere")
    for when in ("same write", "later", "next")
)
HARMLESS = ("interim", "chunked", "compressed", "close after")
ANSWERS = (*THROTTLING, *FAILING, *BROKEN, *ODD, *SLOW, *WRONG, *EXTRA, *HARMLESS)
"""By the number of the request that is answered so."""

CONNECTING = ("refuse", "hang", "vanish", "reset handshake")
"""By the number of the attempt to connect."""

TIMED = ("partition", "restart", "idle end", "wall clock", "dead address", "dead name")
"""By the virtual time."""

KEYS = ("source fails", "source hangs", "source is behind")
"""By the number of the call of a source of keys."""

ROTATES = "key rotates"
"""By the virtual time; the key before is taken for some seconds more."""

CALLERS = ("reader stalls", "input stalls", "observer raises", "predicate raises")
"""By the number of the outcome, the reference or the attempt at which code of a caller's stalls or raises."""

RATE = "rate changes"
"""By the virtual time; to so many attempts per second."""

NEVER_HEALED = ("address dead for ever", "one a second for ever", "reader gone for ever")
"""By the virtual time. What can progress does, also after all other faults."""

TROUBLES = ("small buffers", "queues of one", "a commit for each row", "late timers", "a limit of one")
"""Places where the client itself is disturbed for a whole run."""

REVOKED = "revoked key"
"""By the virtual time, for some seconds; drawn apart, so that it changes no other plan."""

TICKS = ("cancel", "close", "jump")
"""By the step of the event loop."""

BLOWS = ("kill", "disk full", "fsync", "stop")
"""What ends one process of a reconciliation each: at a step of its event loop, or so many steps after its start."""

LIMITS = ("limit of a bucket", "limit of a window", "limit of a cap")
"""By the number of requests that the service takes."""

AIMED = ("cancel as answered", "close as answered")
"""By the number of the request: so many seconds after its answer has been sent, spoilt or not."""

PROXY = {
    "a proxy that refuses": (
        *("proxy 407", "proxy challenge", "proxy forbids", "proxy redirects", "proxy not found", "proxy unauthorized"),
        *("proxy 502", "proxy 429"),
    ),
    "a proxy that speaks for the service": (
        *("proxy found", "proxy page", "proxy bytes before", "proxy bytes behind", "proxy banner", "proxy stranger"),
        *("proxy http behind", "proxy garbles"),
    ),
    "a proxy that leaves": (
        *("proxy reset", "proxy end", "proxy reset in head", "proxy end in head", "proxy reset behind"),
        *("proxy end behind", "proxy ends within", "proxy resets within"),
    ),
    "a proxy that is slow": (
        *("proxy silence", "proxy announces", "proxy drip", "proxy late", "proxy endless head"),
        *("proxy endless announcements", "proxy silence behind"),
    ),
}
TUNNELS = tuple(kind for kinds in PROXY.values() for kind in kinds)
"""By the number of the request for a tunnel."""

PROXY_CONNECTING = (
    "proxy refuse",
    "proxy hang",
    "proxy reset first",
    "proxy end first",
)
"""By the number of the connection to the proxy."""

PROXY_TIMED = ("proxy idle end", "proxy idle reset", "proxy restart")
"""By the virtual time."""

FOCUSES = (
    ("idle end",),
    ("echo of the key",),
    ("bare 404", "extra missing, next", "extra missing, same write", "extra rejected, next"),
)
"""Faults that some seeds play alone and often, because others end a lookup before it gets to them."""

BREAKING = (
    *("no http", "endless head", "endless body", "address dead for ever"),
    *("cut", "reset before", "reset within", "end before", *CONNECTING),
    *("partition", "restart", "dead address", "dead name", "kill", "disk full", "fsync"),
    *(each for each in TUNNELS if each != "proxy announces"),
    *PROXY_CONNECTING,
    "proxy restart",
)
"""What may break a connection that carries a request, or keep one from being made."""


IDLE = ("idle end", "proxy idle end", "proxy idle reset")
"""What ends connections on which no answer is awaited."""

SLOWING = (
    *SLOW,
    *("endless head", "endless body", "address dead for ever", "one a second for ever"),
    *("hang", "vanish", "partition", "dead address", "dead name", "jump"),
    *("proxy silence", "proxy drip", "proxy late", "proxy silence behind", "proxy hang"),
)
"""What may let an attempt wait for its time-out."""


@frozen
class Fault:
    """One thing that goes wrong."""

    kind: str  # its name
    at: float  # the number of the request, of the attempt to connect or of the step, or the second
    value: float = 0.0  # how much of it: seconds, or the number of a task

    def __str__(self):
        return f"{self.kind} at {self.at:g}" + (f" ({self.value:g})" if self.value else "")


@frozen
class Limit:
    """What the service takes before it throttles."""

    kind: str = "none"  # `none`, `bucket`, `window` or `cap`
    count: int = 0  # requests: of a burst and per second, of a window, or at once
    seconds: float = 1.0  # of a window
    tells: bool = False  # whether it says how long to wait


@frozen
class Plan:
    """One run."""

    seed: int  # of it all
    work: str = "lookups"  # `lookups`, `stream`, `batch`, `wait`, `crowd` or `reconcile`
    transport: str = "httpx"
    is_tls: bool = False  # whether the service is asked over TLS
    proxy: bool = False  # whether there is a proxy on the way
    clients: int = 1  # how many share the key
    concurrency: int = 4  # attempts in flight of each, at most
    connections: int | None = None  # how many an injected client may have; as many as attempts in flight if None
    max_rate: float | None = None  # attempts per second of all clients together, or None
    has_source: bool = False  # whether a function gives the key
    timeout: float = 5.0  # seconds for one attempt
    deadline: float = 60.0  # seconds for one lookup
    references: tuple[str, ...] = ("T1", "T2", "T3")  # in the order in which they are asked for; some twice
    spread: float = 1.0  # seconds over which single lookups begin
    is_shuffled: bool = True  # whether tasks run in any order
    order: tuple[tuple[int, int], ...] | None = None
    tick: float = 0.0  # the most seconds that a step of the loop takes
    latency: tuple[float, float] = (0.005, 0.03)  # the least and the most seconds that a part of a message takes
    loss: float = 0.0  # the chance that a part is lost and sent again
    pieces: int = 1  # in how many parts a message arrives, at most
    work_seconds: float = 0.2  # the most that the service works on a request
    limit: Limit = Limit()  # what the service takes
    troubles: tuple[str, ...] = ()  # where the client itself is disturbed
    faults: tuple[Fault, ...] = field(factory=tuple)  # in the order in which they were drawn


WORKS = ("lookups", "lookups", "stream", "stream", "batch", "reconcile")
TRANSPORTS = ("httpx", "httpx", "fast", "fast", "injected", "mounted")


MUTANTS = 1_000_000_000
"""A seed beyond it is that of a mutant: its number, and the seed of the plan that was changed."""


def draw(seed):
    """Return the plan of a seed."""
    number, original = divmod(seed, MUTANTS)
    plan = _drawn(original)
    if number:
        plan = _mutated(Random(f"mutant {seed}"), evolve(plan, seed=seed))
    return evolve(plan, faults=tuple(fault for fault in plan.faults if fault.kind not in _impossible(plan)))


def _impossible(plan):
    """Return the kinds of faults that the plan cannot bear."""
    # httpcore's own pool loses a connection when an attempt is cancelled in the turn in which it has got one, as
    # happens when a clock jumps over the whole time-out (encode/httpcore#1093).
    if plan.transport == "injected" and plan.is_tls:
        yield "jump"
    # Eight attempts at a time and a handshake leave none within its time-out.
    if plan.timeout < 10.0 or plan.latency[1] > 0.1:
        yield "one a second for ever"


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


def _drawn(seed):
    plan = _with_proxy(Random(f"proxy {seed}"), _draw(seed))
    plan = evolve(plan, faults=(*_disk_errors(Random(f"disk {seed}"), plan), *plan.faults))
    chance = Random(f"callers {seed}")
    if plan.work in ("lookups", "wait") and chance.random() < 0.4:
        plan = evolve(plan, work="crowd")
    plan = evolve(plan, has_source=chance.random() < 0.25)
    if plan.work == "crowd" and chance.random() < 0.3:
        plan = _undisturbed(chance, plan)
    plan = evolve(plan, faults=(*plan.faults, *_of_callers(chance, plan), *_of_keys(chance, plan)))
    plan = evolve(plan, faults=(*plan.faults, *_of_a_reader(chance, plan)))
    chance = Random(f"input {seed}")
    plan = evolve(plan, faults=(*_in_a_pause(chance, plan), *plan.faults, *_of_an_input(chance, plan)))
    plan = _with_an_outage(Random(f"outage {seed}"), plan)
    chance = Random(f"for ever {seed}")
    troubles = tuple(each for each in TROUBLES if chance.random() < 0.12)
    return evolve(plan, troubles=troubles, faults=(*plan.faults, *_never_healed(chance)))


def _draw(seed):
    chance = Random(f"plan {seed}")
    work = chance.choice(WORKS)
    concurrency = chance.choice((1, 2, 3, 4, 8))
    plan = Plan(
        seed=seed,
        work=work,
        transport=chance.choice(TRANSPORTS),
        is_tls=chance.random() < 0.3,
        clients=chance.choice((1, 1, 1, 2, 3)) if work in ("lookups", "stream") else 1,
        concurrency=concurrency,
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
    plan = evolve(plan, faults=tuple(_faults(chance, plan)))
    if work == "lookups" and Random(f"wait {seed}").random() < 0.3:
        plan = evolve(plan, work="wait")
    more = Random(f"more {seed}")
    if more.random() < 0.1:
        return evolve(plan, faults=tuple(_focused(more)), limit=Limit())
    return evolve(
        plan, faults=(*plan.faults, *_in_a_row(more, plan), *_aimed(more, plan), *_revoked(more), *_stops(more, plan))
    )


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
        yield Fault("close", _step(chance))
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


def _revoked(chance):
    if chance.random() < 0.05:
        yield Fault(REVOKED, round(chance.choice((1.0, 10.0, 60.0)) * chance.random(), 3), 20 * chance.random())


def _undisturbed(chance, plan):
    """Let nothing go wrong but callers who leave, so that what one of them spoils for another is seen."""
    leaving = tuple(Fault("cancel", chance.randrange(10, 1500), number) for number in range(len(plan.references)))
    plan = evolve(plan, faults=leaving, limit=Limit(), loss=0.0, max_rate=None, proxy=False, timeout=10.0)
    return evolve(plan, deadline=max(plan.deadline, 20.0))


def _with_an_outage(chance, plan):
    """Add failures in a row, which begin an outage, and then one kind of spoilt answers, for its probes."""
    if plan.work not in ("lookups", "batch", "crowd") or chance.random() < 0.5:
        return plan
    if plan.work == "crowd" and {fault.kind for fault in plan.faults} <= {"cancel", *CALLERS, RATE}:
        return plan  # in which callers spoil nothing for each other
    if chance.random() < 0.5:  # answers among the failures, each for a probe, and something beside them
        kinds, timed = chance.sample(ANSWERS, 4), chance.choice((*PROXY_TIMED, NEVER_HEALED[0]))
        spoilt = [Fault("error 500" if chance.random() < 0.8 else chance.choice(kinds), each) for each in range(60)]
        beside = [Fault(timed, round(15 * chance.random(), 3), 0.5) for _ in range(6)]
        is_tls = plan.is_tls or timed == NEVER_HEALED[0]
        return evolve(plan, is_tls=is_tls, spread=max(plan.spread, 10.0), faults=(*plan.faults, *spoilt, *beside))
    begin, kind = chance.randrange(4), chance.choice(ANSWERS)
    end = begin + chance.randrange(3, 12)
    failures = [Fault("error 500", number, 1.0) for number in range(begin, end)]
    spoilt = [Fault(kind, number, round(chance.random(), 2)) for number in range(end, end + 8)]
    return evolve(plan, spread=max(plan.spread, 10.0), faults=(*plan.faults, *failures, *spoilt))


def _never_healed(chance):
    for kind in NEVER_HEALED:
        if chance.random() < 0.06:
            yield Fault(kind, round(chance.choice((0.0, 1.0, 20.0)) * chance.random(), 3))


def _of_a_reader(chance, plan):
    """Yield the stall of a reader, behind which a stream ends early, and a watch has changes that are not read."""
    if plan.work in ("wait", "crowd") and chance.random() < 0.4:
        yield Fault("reader stalls", chance.randrange(3), round(10 + 50 * chance.random(), 3))
    if plan.work == "stream" and chance.random() < 0.4:
        at = chance.randrange(1 + len(plan.references) // 2)
        yield Fault("reader stalls", at, round(30 + 90 * chance.random(), 3))
        yield Fault("observer raises", at + chance.randrange(1, 14))


def _of_an_input(chance, plan):
    """Yield stalls of an input, during which a stream ends early."""
    if plan.work == "stream" and chance.random() < 0.3:
        at = chance.randrange(4)
        for number in range(at, at + 6):
            yield Fault("input stalls", number, round(1 + 4 * chance.random(), 3))
        yield Fault("observer raises", at + chance.randrange(1, 8))


def _in_a_pause(chance, plan):
    """Yield the end of a process some seconds after a step, in a pause that the service has asked for."""
    if plan.work == "reconcile" and chance.random() < 0.3:
        for number in range(chance.randrange(4), 12, 3):
            yield Fault("throttled", number, round(10 * chance.random(), 3))
        yield Fault(chance.choice(("kill", "disk full")), chance.randrange(60, 400), round(6 * chance.random(), 3))


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
        if plan.work != "reconcile" and chance.random() < 0.5:
            yield Fault("cancel as answered", fault.at, delay)
    if plan.work in ("lookups", "stream", "wait") and chance.random() < 0.5:
        doubtful = [fault for fault in spoilt if fault.kind == "bare 404"]
        yield Fault("close as answered", chance.choice(doubtful or spoilt).at)


def _step(chance):
    return int(10 ** chance.uniform(0.7, 3.7))

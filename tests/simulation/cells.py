"""
Which fault has met which state: one cell for each pair, counted each time.

A cell that stays empty is a defect of the simulation: whatever it would show has never been looked for.
"""

from collections import Counter

from payclient.client._lookup import POLL
from simulation.plan import (
    ANSWERS,
    BLOWS,
    CONNECTING,
    KEYS,
    LIMITS,
    MUTANTS,
    PROXY,
    PROXY_CONNECTING,
    PROXY_TIMED,
    RATE,
    REVOKED,
    ROTATES,
    TIMED,
)

LOOKUP = ("queued", "sent", "backing off", "shared", "paused", "in an outage", "probing")
WAIT = ("asleep", "polling", "shared")
KEY = ("known", "not known", "asked for", "renewed")
CONNECTION = ("opening", "handshake", "first exchange", "later exchange", "idle", "known head")

GROUPS = {kind: group for group, kinds in PROXY.items() for kind in kinds}
GROUPS |= dict.fromkeys(PROXY_CONNECTING, "a proxy that cannot be connected to")
"""A proxy is on the way of few runs: of its faults, those that do the same to a lookup are counted together."""

_PHASES = {"attempts": "lookup sent", "backoff": "lookup backing off"}
ANY = frozenset({"lookups", "stream", "batch", "wait", "crowd", "reconcile"})
_STATES = (
    (LOOKUP, "lookup", ANY),
    (("probing",), "lookup", frozenset({"lookups", "batch", "crowd"})),
    (WAIT, "wait", frozenset({"wait", "crowd"})),
    (("asks", "drains"), "stream", frozenset({"stream", "batch", "reconcile"})),
    (("full", "awaits input", "one by one", "defers"), "stream", frozenset({"stream", "reconcile"})),
    (KEY, "key", ANY),
    (CONNECTION, "connection", ANY),
)
STATES = {f"{of} {state}": works for states, of, works in _STATES for state in states}
"""The workloads in which there is each state."""

_KINDS = (
    ((*ANSWERS, *LIMITS, *CONNECTING, *TIMED, REVOKED, "jump", "cancel", *dict.fromkeys(GROUPS.values())), ANY),
    (PROXY_TIMED, ANY),
    (("close",), frozenset({"lookups", "stream", "wait", "crowd"})),
    (("cancel as answered",), ANY),
    (("close as answered",), frozenset({"lookups", "stream", "wait", "crowd"})),
    (("reader stalls",), frozenset({"stream"})),
    (("input stalls",), frozenset({"stream"})),
    (("observer raises",), frozenset({"stream", "crowd"})),
    (("predicate raises",), frozenset({"crowd"})),
    ((*KEYS, ROTATES, RATE), ANY),
    (("address dead for ever", "one a second for ever"), ANY),
    (("reader gone for ever",), frozenset({"lookups", "stream", "batch"})),
    (BLOWS, frozenset({"reconcile"})),
)
KINDS = {kind: works for kinds, works in _KINDS for kind in kinds}
"""The workloads in which each kind of fault strikes."""

NEVER = {
    ("one a second for ever", "stream defers"),  # its time-outs are too long for that
    # An answer that a predicate is given has ended the outage.
    *(("predicate raises", state) for state in ("lookup in an outage", "lookup probing")),
    *((blow, state) for blow in BLOWS for state in ("lookup shared", "stream full", "stream awaits input")),
}
"""A reconciliation asks for each reference once, from a file that is there; and its rows are read at once."""
CELLS = tuple(
    (kind, state) for kind in KINDS for state in STATES if KINDS[kind] & STATES[state] and (kind, state) not in NEVER
)
POSSIBLE = frozenset(CELLS)


def states(world):
    """Yield the states of everything in the world, as it is now; some more than once."""
    for client in world.clients:
        yield from _of_client(client)
    for stream in world.streams:
        yield from _of_stream(stream)
    yield from _of_connections(world)


def _of_client(client):
    session, limiter = client._session, client._session._limiter
    for phase in () if session._clock is None else tuple(session._clock._timeouts):
        name = getattr(phase, "name", None)
        if name in _PHASES:
            yield _PHASES[name]
    if limiter.waiting:
        yield "lookup queued"
    if limiter.paused_seconds():
        yield "lookup paused"
    if session.outage.is_on:
        yield "lookup in an outage"
    if limiter._probing:
        yield "lookup probing"
    keys = session._keys
    yield "key known" if keys._current is not None else "key not known"
    if keys._call is not None:
        yield "key asked for"
    if keys.version > 1:
        yield "key renewed"
    yield from _of_calls(client)


def _of_calls(client):
    for reference in tuple(client._last_polls):
        yield "wait polling" if POLL in client._calls.get(reference, ()) else "wait asleep"
    shared = {kind for calls in client._calls.values() for kind, call in calls.items() if call._waiters}
    if POLL in shared:
        yield "wait shared"
    if shared - {POLL}:
        yield "lookup shared"


def _of_stream(stream):
    if not stream._tasks:
        return
    if stream._is_reading:
        yield "stream awaits input"
    if stream._asking:
        yield "stream asks"
        if not stream._deferral.is_reached:
            yield "stream one by one"
    if stream._deferred:
        yield "stream defers"
    if len(stream._ready) >= stream._concurrency:
        yield "stream full"
    if stream._is_ending:
        yield "stream drains"


def _of_connections(world):
    if world.network.opening:
        yield "connection opening"
    for peer in world.service.peers:
        if not peer.is_open:
            continue
        parser = getattr(peer.connection.client.get_protocol(), "parser", None)  # a pool that is not ours has none
        if parser is not None and parser.known_head is not None:
            yield "connection known head"
        if peer.is_busy:
            yield "connection first exchange" if peer.requests == 1 else "connection later exchange"
        elif peer.requests:
            yield "connection idle"
        else:
            yield "connection handshake"


class Cells:
    """The cells of many runs."""

    def __init__(self):
        self.counts = Counter()  # how often each was reached
        self.seeds = {}  # the first seeds that have reached each

    def add(self, result):
        """Count what a run has reached."""
        self.counts.update(result.cells)
        for cell in result.cells:
            seeds = self.seeds.setdefault(cell, [])
            if len(seeds) < 3:
                seeds.append(result.seed)

    def empty(self):
        """Return the cells that no run has reached."""
        return [cell for cell in CELLS if not self.counts[cell]]

    def rarest(self, number):
        """Return the cells that were reached least, and at least once, with their counts."""
        return sorted((self.counts[cell], cell) for cell in CELLS if self.counts[cell])[:number]

    def mutants(self, number):
        """Return the seeds of so many mutants of the plans that have reached the rarest cells."""
        rare = [seed for _, cell in self.rarest(number) for seed in self.seeds[cell]]
        return [MUTANTS * (1 + turn) + rare[turn % len(rare)] % MUTANTS for turn in range(number if rare else 0)]

    def lines(self):
        """Yield a line for each kind of fault, with its count for each state."""
        yield f"| fault | {' | '.join(STATES)} |"
        yield "|---" * (len(STATES) + 1) + "|"
        for kind in KINDS:
            counts = (str(self.counts[kind, each]) if (kind, each) in CELLS else "-" for each in STATES)
            yield f"| {kind} | {' | '.join(counts)} |"

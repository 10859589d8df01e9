"""
Compare the contracts of many runs: firsts, broken relations, other golden answers, and shares that rise.

A share is that of answers of one method at one time of the day. A night's share is compared with the nights before it,
by their own spread: sampling, and the variance between nights, which is estimated and shrunk towards 0.1 points. Each
night gives evidence for a rise, the mean of three likelihood ratios, and the evidence of consecutive nights is
multiplied. A rise is told when it reaches a bound that chance reaches less than once in a year of 60 cells: the
expected number of nights until it does is at least the bound.
Source: Shin, Ramdas and Rinaldo, E-detectors: a nonparametric framework for sequential change detection (2023).
"""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from enum import IntEnum
from itertools import pairwise
from typing import Any, TypeAlias

from attrs import asdict, define, evolve, field, fields_dict, frozen

from payclient._shared.escape import plural
from payclient.protocol import is_list, is_object
from payclient.reconcile.drift._contract import BODY, FOUND, Contract, GoldenAnswer
from payclient.reconcile.drift._profile import DOCUMENTED, TIMES, Key, Table, shape_of


class Severity(IntEnum):
    """How urgent a change is."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3


class AcceptanceError(ValueError):
    """The file of accepted changes cannot be used; the text says why."""


@frozen(kw_only=True)
class Drift:
    """
    One change of the service.

    Attributes:
        kind: `golden`, `first`, `relation` or `share`.
        name: Identifies the change over nights; an acceptance names it.
        sentence: For people.
        severity: How urgent it is.
        night: Name of the run that showed it first.
        since: When it was first seen in that run; None if that is not known.
        count: Answers that show it.
    """

    kind: str
    name: str
    sentence: str
    severity: Severity
    night: str = ""
    since: datetime | None = None
    count: int

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        since = None if self.since is None else self.since.isoformat()
        return {**asdict(self), "severity": self.severity.name.lower(), "since": since}


@frozen(kw_only=True)
class Acceptance:
    """
    A change that was accepted.

    Attributes:
        drift: The name of the change.
        reason: Why it is none to act upon.
        owner: Who is responsible.
        expires: The last day on which it holds, in UTC.
    """

    drift: str
    reason: str
    owner: str
    expires: date

    def is_valid(self, at: datetime) -> bool:
        """Return whether its last day has not passed."""
        return at.astimezone(UTC).date() <= self.expires


def read_acceptances(text: str) -> tuple[Acceptance, ...]:
    """
    Return the changes that a file in TOML accepts.

    Raises:
        AcceptanceError: When the file cannot be read, or an acceptance is not complete.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"not TOML: {error}"
        raise AcceptanceError(message) from None
    given = content.pop("accepted", [])
    if content or not is_list(given):
        message = "it must have nothing but [[accepted]] tables"
        raise AcceptanceError(message)
    return tuple(_acceptance(number, each) for number, each in enumerate(given, 1))


def _acceptance(number: int, value: Any) -> Acceptance:
    names = fields_dict(Acceptance).keys()
    if not is_object(value) or value.keys() != names:
        problem = f"must have {', '.join(names)}, and nothing else"
    elif not all(isinstance(value[name], str) and value[name].strip() for name in ("drift", "reason", "owner")):
        problem = "must have a text for drift, reason and owner"
    elif type(value["expires"]) is not date:
        problem = "must have a date for expires, such as 2027-01-31 without quotes"
    else:
        return Acceptance(**value)
    message = f"accepted change {number} {problem}"
    raise AcceptanceError(message)


def at_minute(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * 60, UTC)


def percent(share: float) -> str:
    """Return a share for people, with two significant digits where it is small."""
    value = 100 * share
    return f"{value:.1f} %" if value >= 1 or not value else f"{value:.2g} %" if value >= 0.001 else f"{value:.5f} %"


def at_most(answers: int) -> str:
    """
    Return the upper bound of the share of anything unseen in *answers*.

    Source:
        The exact binomial bound of 95 % for no occurrence, which is about 3 divided by their number.
    """
    return f"at most {percent(1 - 0.05 ** (1 / answers))}, with 95 %"


_BOUND = 365 * 60 * 3
_MIN_NIGHTS = 14
_MIN_ANSWERS = 200
_SHIFTS = (1.5, 2.5, 4.0)  # standard deviations
_MAX_SCORE = 6.0
_LEARNT = 2.5  # of the scores: one night teaches no more, or a rise would hide itself on its second
_KEPT = 0.97  # of the weight of a night, for the next one: what changes slowly is learnt
_SPREAD = 0.001
_SPREAD_NIGHTS = 4.0
_HOURS = 6


@define(eq=False)
class _Cell:
    """One share in the nights before, and the evidence for a rise."""

    min_nights: int = 2  # one does not make a rise; where it fails, nor do two
    nights: float = 0.0
    hits: float = 0.0
    answers: float = 0.0
    squares: float = 0.0
    evidence: float = 0.0

    @property
    def share(self) -> float:
        return self.hits / self.answers if self.answers else 0.0

    def rises(self, hits: int, answers: int) -> bool:
        """Weigh one night, then learn from it; return whether the rise is beyond chance."""
        is_told, most = False, float(hits)
        if self.nights >= _MIN_NIGHTS * 0.8:  # the weights of 14 nights
            deviation = self._deviation(answers)
            score = min(_MAX_SCORE, (hits / answers - self.share) / deviation)
            most = (self.share + _LEARNT * deviation) * answers
            ratio = sum(math.exp(shift * score - shift * shift / 2) for shift in _SHIFTS) / len(_SHIFTS)
            self.evidence = (self.evidence + 1) * min(ratio, _BOUND ** (1 / self.min_nights))
            is_told = self.evidence >= _BOUND
        if is_told:
            # The new level is learnt; the spread stays, and a share that jumps often is soon told no more.
            self.squares = (self.squares + (hits / answers - self.share) ** 2) / self.nights
            self.nights = self.hits = self.answers = self.evidence = 0.0
        self.learn(hits if is_told else min(hits, most), answers)
        return is_told

    def _deviation(self, answers: int) -> float:
        likely = (self.hits + 1) / (self.answers + 2)
        between = (self.squares + _SPREAD_NIGHTS * _SPREAD**2) / (self.nights + _SPREAD_NIGHTS)
        sampling = likely * (1 - likely) * (1 / answers + 1 / self.answers)
        return math.sqrt(between * (1 + 1 / self.nights) + sampling)

    def learn(self, hits: float, answers: int) -> None:
        share = self.share
        excess = (hits / answers - share) ** 2 - share * (1 - share) / answers if self.nights else 0.0
        self.nights = self.nights * _KEPT + 1
        self.hits = self.hits * _KEPT + hits
        self.answers = self.answers * _KEPT + answers
        self.squares = max(0.0, self.squares * _KEPT + excess)


@define(eq=False)
class Shares:
    _cells: dict[tuple[str, ...], _Cell] = field(factory=dict[tuple[str, ...], _Cell])
    _empty: dict[tuple[str, ...], _Cell] = field(factory=dict[tuple[str, ...], _Cell])

    def add(self, table: Table, side: str) -> Iterator[Drift]:
        """Yield the shares that have risen on one more night; those of times are compared on the same *side* only."""
        totals, hits = _night(table)
        for where, answers in totals.items():
            if answers < _MIN_ANSWERS:
                continue
            # A share that was never above 0 has the nights of its method and hours behind it.
            empty = self._empty.setdefault(where, _Cell())
            for key in [(*key, side * key[2].startswith("slower")) for key in hits if key[:2] == where]:
                if key not in self._cells:
                    least = 3 if key[2].startswith("ends with") else 2
                    self._cells[key] = _Cell(least) if key[3] else _Cell(least, empty.nights, 0.0, empty.answers)
            for key, cell in self._cells.items():
                if key[:2] == where and key[3] in ("", side):
                    before, count = cell.share, hits.get(key[:3], 0)
                    if cell.rises(count, answers):
                        yield _drift(key, before, count, answers)
            empty.learn(0, answers)


def _night(table: Table) -> tuple[dict[tuple[str, ...], int], dict[tuple[str, ...], int]]:
    totals: dict[tuple[str, ...], int] = {}
    hits: dict[tuple[str, ...], int] = {}
    for (hour, method, feature), count, _ in table.of("share"):
        begin = int(hour) // _HOURS * _HOURS
        where = f"{begin:02}:00 to {begin + _HOURS:02}:00 UTC", method
        if feature == "answers":
            totals[where] = totals.get(where, 0) + count
        else:
            hits[*where, feature] = hits.get((*where, feature), 0) + count
    return totals, hits


def _drift(key: tuple[str, ...], before: float, count: int, answers: int) -> Drift:
    hours, method, feature, _ = key
    return Drift(
        kind="share",
        name=f"share {feature} {method} {hours}",
        sentence=f"{feature} in {percent(count / answers)} of {plural(answers, 'answer')} of {method} from {hours}; "
        f"{percent(before)} in the nights before",
        severity=Severity.MEDIUM,
        count=count,
    )


MIN_ANSWERS = 1_000
"""Earlier answers from which the absence of a fact, or that a relation held in all of them, means something."""

MIN_NIGHTS = 5
"""Earlier nights from which a first is told: by then it shows which kinds have firsts all the time."""

_TOLD = {
    "field": ("{0} is {1}", Severity.HIGH, 2, 3),
    "word": ("the {0} {1}", Severity.HIGH, 2, 2),
    "envelope": ("a response {0} with {1}, of type {2}, {3}, coding {4}", Severity.HIGH, 1, 3),
    "transition": ("{0} becomes {1}", Severity.HIGH, 1, 1),
    "name": ("the unknown field {0}, {1}", Severity.MEDIUM, 1, 1),
    "failure": ("{0} with status {1}", Severity.MEDIUM, 1, 3),
    "deviation": ("the {0} of a response deviates", Severity.MEDIUM, 1, 2),
    "text": ("status {0} with the message “{1}”", Severity.LOW, 2, 2),
    "header": ("the header {0}", Severity.LOW, 1, 1),
}
"""Kinds of firsts: sentence, severity, number of parts that firsts are counted by, and the first part to be a shape."""

_RESTLESS = 5
"""A kind of fact with a first in more than every fifth night has them all the time."""
_ANY_STATE = "any state"


@define(eq=False)
class Facts:
    answers: int = 0
    nights: int = 0
    _seen: Counter[Key] = field(factory=Counter[Key])
    _shapes: set[Key] = field(factory=set[Key])
    _once: Counter[Key] = field(factory=Counter[Key])
    _new_nights: Counter[Key] = field(factory=Counter[Key])

    def add(self, table: Table) -> None:
        slots: set[Key] = set()
        for key, (count, _) in table.cells.items():
            before = self._seen[key]
            if _is_told(key):
                slot = _slot(key)
                if not before and not self._is_known(key):
                    slots.add(slot)
                self._once[slot] += (before + count == 1) - (before == 1)
                self._shapes.add(_shaped(key))
            self._seen[key] = before + count
        if self.nights:
            self._new_nights.update(slots)
        self.answers += table.answers
        self.nights += 1

    def firsts(self, table: Table) -> Iterator[Drift]:
        """Yield the words of *table* that are new in the last night."""
        if self.answers < MIN_ANSWERS or self.nights < MIN_NIGHTS:
            return
        for key, (count, first) in table.cells.items():
            if not _is_told(key) or self._is_known(key) or self._new_nights[_slot(key)] * _RESTLESS > self.nights:
                continue
            expected = self._once[_slot(key)] / self.answers * table.answers
            if expected >= 0.5:  # Good and Turing: as many firsts are to be expected among these answers
                continue
            text, severity, *_ = _TOLD[key[0]]
            parts = (key[1], " ".join(key[2:])) if key[0] == "text" else key[1:]
            yield Drift(
                kind="first",
                name=f"first {' '.join(key)}",
                sentence=f"First: {text.format(*parts)}, {_times(count)}; never in {plural(self.answers, 'answer')} "
                f"before, which bounds it to {at_most(self.answers)}; {expected:.2g} firsts of this kind were to be "
                "expected in these answers",
                severity=severity,
                since=at_minute(first),
                count=count,
            )

    def broken(self, table: Table) -> Iterator[Drift]:
        """Yield the relations that held in all answers before, and not in those of *table*."""
        found = {
            key[1:3]: (held, *cell)
            for key, cell in table.cells.items()
            if key[0] == "relation" and key[3] == "broken" and not self._seen[key]
            if (held := self._seen[*key[:3], "held"]) >= MIN_ANSWERS
        }
        for (relation, state), (held, count, first) in found.items():
            if state != _ANY_STATE and (relation, _ANY_STATE) in found:
                continue
            where = "" if state == _ANY_STATE else f" of {state}"
            since = at_minute(first)
            yield Drift(
                kind="relation",
                name=f"relation {relation}{where}",
                sentence=f"“{relation}” held in all of {plural(held, 'answer')}{where}, and was broken {_times(count)} "
                f"since {since:%H:%M} UTC",
                severity=Severity.HIGH,
                since=since,
                count=count,
            )

    def _is_known(self, key: Key) -> bool:
        # A word that two references have is a shape, and perhaps in the clear on other nights.
        shaped = _shaped(key)
        return key in self._seen or shaped in self._seen or (key == shaped and shaped in self._shapes)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _is_told(key: Key) -> bool:
    if key[0] == "failure":
        return key[2] != "none"  # no response: the network on either side
    return key[0] in _TOLD and (key[0] != "deviation" or key[1] == "body")


def _slot(key: Key) -> Key:
    return key[: _TOLD[key[0]][2]]


def _shaped(key: Key) -> Key:
    begin = _TOLD[key[0]][3]
    return key[:begin] + tuple(map(shape_of, key[begin:]))


_SHOWN = ("status code", *(f"type of {name}" for name in DOCUMENTED))
_SEVERITY = {FOUND: Severity.HIGH, "status": Severity.HIGH, "names of the headers": Severity.LOW, BODY: Severity.LOW}

Part: TypeAlias = tuple[str, str]
"""Reference and name of a part."""


def steady_parts(one: Iterable[GoldenAnswer], two: Iterable[GoldenAnswer]) -> frozenset[Part]:
    """Return the parts equal on two nights; others, such as the time of the response, are not compared."""
    before = _by_part(one)
    return frozenset(part for part, value in _by_part(two).items() if before.get(part) == value)


def golden_drifts(
    before: Iterable[GoldenAnswer], today: Collection[GoldenAnswer], steady: Collection[Part]
) -> Iterator[Drift]:
    """Yield the changes of golden answers, one for all answers that changed in the same way."""
    was, now = _by_part(before), {each.reference: each for each in today}
    changes: Counter[tuple[str, str, str]] = Counter()
    for reference, answer in now.items():
        changed = {
            name: (was.get((reference, name), ""), answer.parts.get(name, ""))
            for name in {part for known, part in steady if known == reference}
            if was.get((reference, name)) != answer.parts.get(name)
        }
        if FOUND in changed:
            changed = {FOUND: changed[FOUND]}
        elif len(changed) > 1:
            changed.pop(BODY, None)  # the others say how it changed
        changes.update((name, *values) if name in _SHOWN else (name, "", "") for name, values in changed.items())
    for (name, old, new), count in changes.items():
        yield Drift(
            kind="golden",
            name=f"golden {name}" + (f" {old or 'none'} {new or 'none'}" if old or new else ""),
            sentence=f"{count} of {len(now)} golden answers: {_change(name, old, new)}",
            severity=_SEVERITY.get(name, Severity.HIGH),
            count=count,
        )


def _change(name: str, old: str, new: str) -> str:
    if name == FOUND:
        return "found, and not found any more"
    if name == "status":
        return "the status of a final transaction changed"
    return f"{name} changed" + (f" from {old or 'none'} to {new or 'none'}" if old or new else "")


def _by_part(answers: Iterable[GoldenAnswer]) -> dict[Part, str]:
    return {(each.reference, name): value for each in answers for name, value in each.parts.items()}


@frozen(kw_only=True)
class Transition:
    """
    A transition of states that was seen when a reference was asked again.

    Attributes:
        before: The state.
        after: The one that followed.
        count: How often, in all runs.
        today: How often in the last one.
        median: How long it took at most, in half of the cases.
    """

    before: str
    after: str
    count: int
    today: int
    median: str


@frozen(kw_only=True)
class Comparison:
    """
    The comparison of all runs.

    Attributes:
        nights: Names of the runs that were compared, in order of time.
        drifts: All changes, each with its run, the most severe first.
        news: Those of the last run that are not accepted, and any whose acceptance has ended.
        accepted: Those of the last run that are accepted, with the reason.
        sides: Where our side changed, in words.
        basis: What it rests on, in sentences.
        states: Answers with each state, in all runs.
        transitions: The learnt state machine.
        today: Answers of the last run.
    """

    nights: tuple[str, ...]
    drifts: tuple[Drift, ...]
    news: tuple[Drift, ...]
    accepted: tuple[tuple[Drift, Acceptance], ...]
    sides: tuple[str, ...]
    basis: tuple[str, ...]
    states: tuple[tuple[str, int], ...]
    transitions: tuple[Transition, ...]
    today: int

    @property
    def earlier(self) -> tuple[Drift, ...]:
        """The changes that earlier runs have told, those of the latest run first."""
        told = {drift.name for drift in self.news}
        order = {night: -place for place, night in enumerate(self.nights)}
        earlier = (each for each in self.drifts if each.night != self.nights[-1] and each.name not in told)
        return tuple(sorted(earlier, key=lambda each: order[each.night]))

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON, without schema and version."""
        return {
            "nights": list(self.nights),
            "basis": list(self.basis),
            "sides": list(self.sides),
            "new": [drift.as_json() for drift in self.news],
            "accepted": [
                {**drift.as_json(), "reason": by.reason, "owner": by.owner, "expires": by.expires.isoformat()}
                for drift, by in self.accepted
            ],
            "earlier": [drift.as_json() for drift in self.earlier],
            "states": [{"state": state, "answers": count} for state, count in self.states],
            "transitions": [asdict(each) for each in self.transitions],
        }


def compare(runs: Iterable[tuple[str, Contract]], accepted: Sequence[Acceptance] = ()) -> Comparison:
    """
    Compare runs with the ones before them.

    Args:
        runs: Name and contract of each, in any order. Those of another environment than the last one are left out.
        accepted: Changes that were accepted.

    Raises:
        ValueError: When there is no run.
    """
    ordered = sorted(runs, key=lambda run: (run[1].at, run[0]))
    if not ordered:
        message = "there must be at least one run"
        raise ValueError(message)
    last = ordered[-1][1]
    nights = [(name, run) for name, run in ordered if run.side.environment == last.side.environment]
    facts, drifts = _read(nights)
    drifts.sort(key=lambda drift: (-drift.severity, drift.kind, -drift.count, drift.name))
    news, known = _sorted_out(drifts, nights[-1], accepted)
    states: Counter[str] = Counter()
    for _, run in nights:
        for (_, state), count, _ in run.profile.of("state"):
            states[state] += count
    return Comparison(
        nights=tuple(name for name, _ in nights),
        drifts=tuple(drifts),
        news=news,
        accepted=known,
        sides=tuple(
            f"{name}: {change}"
            for (_, before), (name, after) in pairwise(nights)
            if (change := after.side.changes(before.side))
        ),
        basis=tuple(_basis(nights, facts, len(ordered) - len(nights))),
        states=tuple(states.most_common()),
        transitions=_transitions(nights),
        today=last.profile.answers,
    )


def _read(nights: Sequence[tuple[str, Contract]]) -> tuple[Facts, list[Drift]]:
    """Return the record of all nights but the last one, and all drifts."""
    facts, shares, drifts = Facts(), Shares(), list[Drift]()
    for number, (name, night) in enumerate(nights):
        found = [*facts.firsts(night.profile), *facts.broken(night.profile)]
        found += shares.add(night.profile, f"{night.side.payclient} {night.side.transport} {night.side.proxy}")
        if number >= 2:
            older, before = nights[number - 2][1], nights[number - 1][1]
            found += golden_drifts(before.golden, night.golden, steady_parts(older.golden, before.golden))
        change = night.side.changes(nights[number - 1][1].side) if number else ""
        remark = f"; our side changed too: {change}" if change else ""
        drifts += [evolve(drift, night=name, sentence=f"{drift.sentence}{remark}") for drift in found]
        if number < len(nights) - 1:
            facts.add(night.profile)
    return facts, drifts


def _sorted_out(
    drifts: Iterable[Drift], last: tuple[str, Contract], accepted: Sequence[Acceptance]
) -> tuple[tuple[Drift, ...], tuple[tuple[Drift, Acceptance], ...]]:
    name, run = last
    known = {each.drift: each for each in sorted(accepted, key=lambda each: each.expires)}
    news, settled = list[Drift](), list[tuple[Drift, Acceptance]]()
    for drift in drifts:
        by = known.get(drift.name)
        if by is not None and by.is_valid(run.at):
            if drift.night == name:
                settled.append((drift, by))
        elif by is not None:
            ended = f"; {by.owner} had accepted it until {by.expires}: {by.reason}"
            news.append(evolve(drift, sentence=drift.sentence + ended))
        elif drift.night == name:
            news.append(drift)
    return tuple(news), tuple(settled)


def _basis(nights: Sequence[tuple[str, Contract]], facts: Facts, left_out: int) -> Iterator[str]:
    tonight = nights[-1][1].profile
    count = {
        what: len({parts[:width] for parts, _, _ in tonight.of(kind) if not chosen or parts[0] == chosen})
        for what, kind, width, chosen in (
            ("methods", "word", 2, "payment_method"),
            ("states", "word", 2, "status"),
            ("envelopes", "envelope", 5, ""),
        )
    }
    seen = ", ".join(f"{number} {what if number != 1 else what[:-1]}" for what, number in count.items())
    yield f"{plural(tonight.answers, 'answer')} in {nights[-1][0]}: {seen}."
    if facts.answers < MIN_ANSWERS:
        yield (
            f"{plural(facts.answers, 'answer')} in the runs before: too few to say what is new, "
            f"which takes {MIN_ANSWERS:,}."
        )
    else:
        yield (
            f"{plural(facts.answers, 'answer')} in {plural(facts.nights, 'run')} before. What was never seen in them "
            f"occurs in {at_most(facts.answers)}."
        )
    if not tonight.answers:
        yield "Nothing was asked in the last run, so nothing can be new in it."
    if tonight.is_cut:
        yield "The last run has more kinds of facts than its profile holds; the rarest kinds are not in it."
    if left_out:
        yield f"Left out, because they are of another environment: {plural(left_out, 'run')}."


def _transitions(nights: Sequence[tuple[str, Contract]]) -> tuple[Transition, ...]:
    took: dict[tuple[str, ...], Counter[str]] = {}
    today: Counter[tuple[str, ...]] = Counter()
    for number, (_, night) in enumerate(nights):
        for (before, after, time), count, _ in night.profile.of("took"):
            took.setdefault((before, after), Counter())[time] += count
            today[before, after] += count if number == len(nights) - 1 else 0
    return tuple(
        Transition(before=before, after=after, count=times.total(), today=today[before, after], median=_median(times))
        for (before, after), times in sorted(took.items(), key=lambda each: (-each[1].total(), each[0]))
    )


def _median(times: Counter[str]) -> str:
    half, seen = times.total() / 2, 0
    for time in TIMES:
        seen += times[time]
        if seen >= half:
            return time
    return TIMES[-1]

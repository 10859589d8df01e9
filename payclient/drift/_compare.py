"""Compare the contracts of many runs: what is new in the last one, and what that rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from attrs import asdict, evolve, frozen

from payclient._escape import plural
from payclient.drift._contract import Contract, golden_drifts, steady_parts
from payclient.drift._facts import MIN_ANSWERS, Facts, Shares
from payclient.drift._findings import Acceptance, Drift, at_most
from payclient.drift._profile import TIMES


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
    What the runs say together.

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
        """Return it as JSON has it, without schema and version."""
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
    return Comparison(
        nights=tuple(name for name, _ in nights),
        drifts=tuple(drifts),
        news=news,
        accepted=known,
        sides=tuple(f"{name}: {changed}" for name, changed in _side_changes(nights)),
        basis=tuple(_basis(nights, facts, len(ordered) - len(nights))),
        states=_states(nights),
        transitions=_transitions(nights),
        today=last.profile.answers,
    )


def _read(nights: Sequence[tuple[str, Contract]]) -> tuple[Facts, list[Drift]]:
    """Return what all nights but the last one have shown, and all drifts."""
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


def _side_changes(nights: Sequence[tuple[str, Contract]]) -> Iterator[tuple[str, str]]:
    for (_, before), (name, after) in pairwise(nights):
        if change := after.side.changes(before.side):
            yield name, change


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


def _states(nights: Sequence[tuple[str, Contract]]) -> tuple[tuple[str, int], ...]:
    counts: Counter[str] = Counter()
    for _, night in nights:
        for (_, state), count, _ in night.profile.of("state"):
            counts[state] += count
    return tuple(counts.most_common())


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

"""Chains of nights of small random worlds: each report says what an independent oracle says, and what any must."""

from datetime import timedelta
from random import Random

import attrs
import pytest

from payclient.reconcile.folders import RunDiff, open_past_run
from support.auditor import Auditor
from support.chain import FIRST, Chain, Night, World, moved_by, told_by
from support.reports import contents

NAMES = "ABCDE"
SEEDS = [*range(48), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(48, 148))]
CODES = ("underpaid", "overpaid", "not_settled", "recorded_not_paid")
WORDS = ("Paid", "Paid", "Pending", "Canceled", "Refunded")


def made(seed):
    """Return a world of two to five payments in three to seven nights."""
    chance = Random(seed)
    has_statement = chance.random() < 0.6
    may_settle = has_statement and chance.random() < 0.5
    world = World(chance.choice(("all", "day", "window")), has_statement, may_settle, ())
    amounts = {name: 100 * number for number, name in enumerate(NAMES[: chance.randint(2, 5)], 1)}
    day, nights = FIRST, []
    for number in range(chance.randint(3, 7)):
        days = chance.choice((1, 1, 1, 2, 4))
        day += timedelta(days=days)
        nights.append(Night(days, tuple(events(chance, world, amounts, number, day))))
    return attrs.evolve(world, nights=tuple(nights))


def events(chance, world, amounts, night, day):
    """Yield the events before a night."""
    names, is_first = [*amounts], night == 0
    often = 0.7 if is_first else 0.35 if world.ledger == "day" else 0.2
    for name, amount in amounts.items():
        if is_first:
            yield "service has", name, amount, chance.choice(("Paid", "Paid", "Paid", "Pending"))
        if chance.random() < often:
            yield "row", name, amount + chance.choice((0, 0, 0, 10)), chance.choice(("Paid", "Paid", "Paid", "Pending"))
    for _ in range(chance.randint(0, 3)):
        name = chance.choice(names)
        changed = "service has", name, amounts[name] * chance.choice((1, 2)), chance.choice(WORDS)
        # What a statement says of a row that cannot be used is not modelled.
        unusable = ("lookup fails" if world.has_statement else "row unusable"), name
        others = [(what, name) for what in ("service lost", "lookup fails", "row twice", "row leaves", "row leaves")]
        yield chance.choice([changed, changed, changed, unusable, *others])
    if world.has_statement:
        yield from (("line", name, "payment", amounts[name]) for name in names if chance.random() < 0.4)
        yield from (("line", name, "chargeback", -amounts[name]) for name in names if chance.random() < 0.1)
        rest = chance.random()
        yield from [("no statement",)] * (rest < 0.25) + [("statement repeats",)] * (rest > 0.8)
    if chance.random() < 0.15:
        yield "rules accept", chance.choice(names), chance.choice(CODES), until(chance, day)
    if not is_first:
        yield from (("decide", *decision(chance, names, night, day)) for _ in range(chance.randint(0, 2)))
        if chance.random() < 0.2:
            yield "killed", chance.randint(1, 6)
            if chance.random() < 0.5:
                yield "decide meanwhile", *decision(chance, names, night, day)


def until(chance, day):
    return f"{day + timedelta(days=chance.randint(0, 4)):%Y-%m-%d}"


def decision(chance, names, night, day):
    accepted = f"accepted until {until(chance, day)}"
    return chance.randrange(night), chance.choice(names), chance.choice((accepted, accepted, "raised with the service"))


def problem(world, root):
    """Return the first night on which a report of *world* is not what it must be, with the differences."""
    chain, auditor = Chain(world, root), Auditor(world)
    for number, night in enumerate(world.nights):
        report, folder = chain.night(night), chain.folder(number)
        told, expected = told_by(folder, report), auditor.night(chain.facts)
        wrong = {name: (value, told[name]) for name, value in expected if told[name] != value}
        if chain.twin is not None and contents(chain.twin) != contents(folder):
            wrong["killed and resumed"] = "other bytes"
        if number:
            with RunDiff(open_past_run(chain.folder(number - 1)), open_past_run(folder)) as diff:
                apart = {name: each for name, each in moved_by(diff.open_findings).items() if told[name] != each}
            if apart:
                wrong["diff"] = {name: told[name] for name in apart}, apart
        if wrong:
            lines = (f"{name}: expected and told: {each}" for name, each in wrong.items())
            return number, "\n".join((f"night {number}", *lines)), set(wrong)
    again = chain.run(root / "again", folder).summary.open_findings
    if moved := [name for name in ("new", "reopened", "changed", "resolved") if getattr(again, name).count]:
        return number, f"the last night again: {moved}", set(moved)
    return None


def shorter(world, last):
    """Yield worlds with less in them, of which the last night is that with the problem."""
    nights = world.nights[: last + 1]
    kept = [tuple(night.events) for night in nights]
    yield nights
    for name in NAMES:
        yield [attrs.evolve(each, events=tuple(e for e in each.events if name not in e)) for each in nights]
    for number, events in enumerate(kept):
        for start in range(len(events)):
            rest = events[:start] + events[start + 1 :]
            yield [*nights[:number], attrs.evolve(nights[number], events=rest), *nights[number + 1 :]]


def shortest(world, found, tmp_path_factory):
    """Return the shortest story of the same problem."""
    is_shorter = True
    while is_shorter:
        is_shorter = False
        for nights in shorter(world, found[0]):
            less = attrs.evolve(world, nights=tuple(nights))
            other = None if less == world else problem(less, tmp_path_factory.mktemp("less"))
            if other is not None and other[2] == found[2]:
                world, found, is_shorter = less, other, True
                break
    return f"{world}\n{found[1]}"


@pytest.mark.parametrize("seed", SEEDS)
def test_chain(seed, tmp_path, tmp_path_factory):
    """
    No open finding vanishes, and *clean* is said only if nothing is open: each report is what the oracle says.

    A night that was killed and resumed has the same bytes, `diff` agrees with the chain, and the same night again tells
    nothing new.
    """
    world = made(seed)
    if found := problem(world, tmp_path):
        pytest.fail(shortest(world, found, tmp_path_factory), pytrace=False)


@pytest.mark.parametrize("seed", range(4))
def test_names(seed, tmp_path):
    """Neither the names of the folders nor the order in which decisions are imported changes what the nights say."""
    world, said = made(seed), []
    for where, options in (("a", {}), ("b", {"name": lambda number: f"{9 - number}", "in_order": reversed})):
        (tmp_path / where).mkdir()
        chain = Chain(world, tmp_path / where, **options)
        said.append([told_by(chain.folder(number), chain.night(each)) for number, each in enumerate(world.nights)])
    assert said[0] == said[1]

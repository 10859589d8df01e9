"""What many breaks have in common is found, and what they share by chance is not."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import product
from random import Random

import attrs

from payclient import Transaction
from payclient.ledger import Entry
from payclient.reconcile import Answer, Bucket, Case, Code, Finding, Observation, PatternKind, Row, Tally, judge
from support.reconciling import NOON

ROWS = 2000
START = datetime(2026, 11, 1)  # noqa: DTZ001  as a ledger states it


def pairs_of(seed=1, rows=ROWS):
    """Return entries and transactions that agree, all different."""
    random = Random(seed)
    for number in range(rows):
        amount = random.randrange(10_000, 9_000_000)
        common = {"reference": f"{random.randrange(10**12):012d}", "merchant_reff": f"INV{random.randrange(10**9)}"}
        common |= {
            "amount": amount,
            "fee": amount // 100,
            "status": "Paid",
            "payment_method": random.choice(["VA", "QR"]),
        }
        created = START + timedelta(minutes=random.randrange(30 * 24 * 60))
        yield Entry(line=number + 2, created_at=created, **common), Transaction(**common)


def patterns_of(pairs):
    tally = Tally()
    for entry, found in pairs:
        seen = Observation(answer=Answer.FOUND if found else Answer.NOT_FOUND, at=NOON, transaction=found)
        tally.add(judge(Case(entry=entry, first=seen, second=seen, other_found=1)))
    return tally.summary().patterns


def planted(change, *, where=lambda number: number % 20 == 0, seed=1):
    """Return the patterns of a ledger in which some rows are changed."""
    pairs = [
        change(entry, found) if where(number) else (entry, found)
        for number, (entry, found) in enumerate(pairs_of(seed))
    ]
    return patterns_of(pairs)


def kinds(patterns):
    return [each.kind.value for each in patterns]


def ours(**changes):
    return lambda entry, found: (attrs.evolve(entry, **{n: change(entry) for n, change in changes.items()}), found)


PLANTS = [
    ("factor", ours(amount=lambda entry: entry.amount * 100)),
    ("difference", ours(amount=lambda entry: entry.amount + 2500)),
    ("fee", ours(fee=lambda entry: entry.fee + (500 if entry.payment_method == "QR" else entry.line))),
    ("status", ours(status=lambda _: "Lunas")),
    (
        "method",
        lambda entry, found: (attrs.evolve(entry, payment_method="Bank"), attrs.evolve(found, payment_method="X")),
    ),
    ("text", ours(merchant_reff=lambda entry: f"{entry.merchant_reff}-B")),
]


def test_planted(subtests):
    """One planted cause is the only pattern, with each of its rows."""
    for kind, change in PLANTS:
        with subtests.test(kind=kind, change=change):
            (pattern,) = planted(change)
            assert pattern.kind.value == kind
            of_qr = [entry for entry, _ in list(pairs_of())[::20] if entry.payment_method == "QR"]
            assert pattern.rows == (len(of_qr) if kind == "fee" else ROWS // 20)
            assert len(pattern.lines) == 3


def test_money():
    """A pattern states the money that is at stake in its rows, and its first lines."""
    (pattern,) = planted(ours(amount=lambda entry: entry.amount + 2500))
    assert pattern.amount == 2500 * ROWS // 20
    assert pattern.lines == (2, 22, 42)
    assert pattern.counted == "100 rows"


def spoilt(random):
    return ours(amount=lambda entry: entry.amount + random.randrange(1, 10**6))


def test_no_pattern_by_chance(subtests):
    """Breaks at random rows with random differences have no pattern, whatever their part of the ledger."""
    for seed, share in product(range(3), (0.02, 0.3, 0.9)):
        with subtests.test(seed=seed, share=share):
            random = Random(seed)
            chosen = {number for number in range(ROWS) if random.random() < share}
            assert planted(spoilt(random), where=chosen.__contains__, seed=seed) == ()


def test_all_rows():
    """What all rows of a ledger share is no pattern of place: only the cause is."""
    assert kinds(planted(ours(status=lambda _: "Lunas"), where=lambda _: True)) == ["status"]


def test_too_few():
    """Nineteen rows are no pattern, and neither is what explains less than a twentieth of the breaks."""
    plus = ours(amount=lambda entry: entry.amount + 2500)
    assert planted(plus, where=lambda number: number < 95 and number % 5 == 0) == ()
    assert kinds(planted(plus, where=lambda number: number < 100 and number % 5 == 0)) == ["difference"]
    random = Random(1)
    mixed = [spoilt(random)] * 24 + [plus]

    def change(entry, found):
        return mixed[entry.line % 25](entry, found)

    assert planted(change, where=lambda _: True) == ()


def test_time():
    """Rows of one hour that are missing are a pattern, where other hours are not."""
    hour = START + timedelta(hours=50)

    def moved(entry, _found):
        return attrs.evolve(entry, created_at=hour + timedelta(minutes=entry.line % 60)), None

    (pattern,) = planted(moved)
    assert (pattern.kind, pattern.rows) == (PatternKind.TIME, ROWS // 20)
    assert pattern.sentence == "created on 2026-11-03 between 02:00 and 02:59"


def test_prefix():
    """Missing rows whose references begin alike are one pattern, with the longest start that has all of them."""

    def renamed(entry, _found):
        return attrs.evolve(entry, reference=f"SBX{entry.reference[3:]}"), None

    (pattern,) = planted(renamed)
    assert (pattern.kind, pattern.rows) == (PatternKind.PREFIX, ROWS // 20)
    assert pattern.sentence == "the reference begins with 'SB'"


def test_waived():
    """What a rule allows is no break, and so no pattern."""
    tally = Tally()
    for entry, found in pairs_of():
        seen = Observation(answer=Answer.FOUND, at=NOON, transaction=attrs.evolve(found, status="Expired"))
        row = judge(Case(entry=entry, first=seen, second=seen, other_found=1))
        findings = tuple(attrs.evolve(each, waived="agreed") for each in row.findings)
        tally.add(attrs.evolve(row, bucket=Bucket.MATCHED, findings=findings))
    assert tally.summary().patterns == ()


def test_rare_values():
    """However many different values there are, a common one among them is counted in full."""
    random = Random(1)
    tally = Tally()
    for number in range(12_000):
        more = 5 if number % 10 == 0 else random.randrange(6, 10**12)
        entry = Entry(line=number, reference=f"{random.randrange(10**12)}", amount=10**6)
        finding = Finding(Code.OVERPAID, "more", ledger=10**6, service=10**6 + more)
        tally.add(Row(entry=entry, bucket=Bucket.BREAK, findings=(finding,)))
    found = [each.rows for each in tally.summary().patterns if each.sentence == "amount is 5 more at the service"]
    assert found == [1_200]


def test_listed_twice():
    """What is at stake in a reference that is listed twice is in a pattern once."""
    tally = Tally()
    for number in range(ROWS):
        is_twice = number < 100
        reference = f"TWICE-{number // 2}" if is_twice else f"{number:012d}"
        finding = Finding(Code.DUPLICATE_REFERENCE, "x", at_stake=7)
        tally.add(
            Row(
                entry=Entry(line=number, reference=reference, amount=7),
                bucket=Bucket.BREAK if is_twice else Bucket.MATCHED,
                findings=(finding,) if is_twice else (),
                counted_before={finding.code: 7} if is_twice and number % 2 else {},
            )
        )
    assert {(each.rows, each.amount) for each in tally.summary().patterns} == {(100, 350)}

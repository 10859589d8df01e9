"""The bridge from the service's paid total to a statement, for any ledger, statement and answers."""

from datetime import timedelta

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient import errors
from payclient.reconcile import (
    Bucket,
    Journal,
    Kinds,
    Lines,
    Rules,
    SettlementStep,
    StatementRules,
    StatementTotals,
    Step,
    Tally,
    TieOutError,
    Verdict,
    reconcile,
    replay,
)
from payclient.reconcile._judgement.compare import usable_line
from payclient.reconcile._judgement.sides import Payout
from payclient.reconcile.ledger import ABSENT, Entry, LedgerError, RejectedEntry
from payclient.reconcile.report import About, Report, StatementAbout
from payclient.reconcile.report.wording import in_words
from support.chance import examples
from support.nights import FILE, paid
from support.reconciling import NOON, NOT_FOUND, Clock, Service

SUM = Rules(lines=Lines(of_one_reference="sum"))
KINDS = Kinds(column="Type", charge=["charge"], refund=["refund"], fee=["fee"], ignore=["payout"])
BY_KIND = Rules(statement=StatementRules(kind=KINDS))


async def reconciled(ledger, statement, answers, *, rules=Rules(), payout=None):  # noqa: B008
    """Return the rows and the summary; a report made again from the journal has the same."""
    with Journal() as journal:
        rows = []
        try:
            async for row in reconcile(
                ledger, Service(answers), rules=rules, clock=Clock(), journal=journal, statement=statement
            ):
                rows.append(row)
        except errors.AuthenticationError:
            pass
        assert list(replay(journal, rules=rules)) == rows
        tally = Tally(rules)
        for row in rows:
            tally.add(row)
        return rows, tally.summary(about(journal.statement.totals, payout))


def about(totals, payout=None):
    return About(statement=StatementAbout(file=FILE, totals=totals, payout=payout))


def steps(bridge):
    return {each.step.value: each.amount for each in bridge.steps if each.rows}


def ledger_of(**amounts):
    return [Entry(line=line, reference=name, amount=amount) for line, (name, amount) in enumerate(amounts.items(), 2)]


async def test_both_directions():
    """What only one side has is found, with its money in both bridges."""
    answers = {name: [paid(name, amount)] for name, amount in (("A", 100), ("B", 50), ("X", 30), ("D", 10))}
    answers |= {"C": [paid("C", 70, status="Expired")], "Y": [NOT_FOUND]}
    ledger = [*ledger_of(A=100, B=50, D=10), Entry(line=9, reference="C", amount=70)]
    rows, summary = await reconciled(ledger, ledger_of(A=100, B=45, C=70, X=30, Y=5), answers, payout=250)
    assert [(row.reference, row.primary.code.value if row.primary else "") for row in rows] == [
        ("A", ""),
        ("B", "settled_differently"),
        ("D", "not_settled"),
        ("C", "settled_not_paid"),
        ("X", "not_in_ledger"),
        ("Y", "settled_not_paid"),
    ]
    assert [(row.origin, row.ledger_status) for row in rows] == [("ledger", "paid")] * 4 + [("statement", None)] * 2
    assert (summary.tie_out.ledger_paid_total, summary.tie_out.rows_without_amount) == (230, 0)
    assert steps(summary.tie_out)[Step.NOT_IN_LEDGER] == 30
    assert summary.settlement.service_paid_total == summary.tie_out.service_paid_total == 190
    assert steps(summary.settlement) == {
        "settled": 0,
        "settled_differently": -5,
        "not_settled": -10,
        "settled_not_paid": 75,
    }
    assert (summary.settlement.statement.total, summary.settlement.payout_difference) == (250, 0)
    assert "4 ledger rows and 2 references that only the statement has: 1 matched, 5 breaks." in Report(summary).says
    assert Report(summary).completeness.startswith("Only references in the ledger or the statement were looked up")
    assert (summary.rows, summary.lines) == (4, 4)


def line(amount=None, *, number=2, **fields):
    """Return a line of the statement about A."""
    return Entry(line=number, reference="A", **({} if amount is None else {"amount": amount}), **fields)


def other_line(amount=None, **fields):
    """Return a line that names no reference."""
    return RejectedEntry(line=3, reason="reference: the cell is empty", amount=amount, **fields)


CHARGE = line(100, kind="charge")
CASES = [
    ([line(100, amount_received=97)], {"fee": 3, "amount_received": 97}, {"settled": 0, "fees": -3}),
    ([line()], {}, {"amount_not_stated": -100}),
    ([CHARGE, other_line(amount_received=-7, kind="fee")], {}, {"settled": 0, "fees": -7}),
    ([line(amount_received=60)], {"fee": 40}, {"settled": 0, "fees": -40}),
    ([line(amount_received=60)], {"fee": 3}, {"fees": -3, "settled_differently": -37}),
    ([line(100, amount_received=95)], {"amount_received": 97}, {"fees": -3, "settled_differently": -2}),
    ([line(90, amount_received=60)], {"fee": 3}, {"fees": -30, "settled_differently": -10}),
    ([line(90, amount_received=97)], {"amount_received": 97}, {"fees": -3, "settled_differently": 0}),
    ([line(9), line(-9, number=3)], {"status": "Canceled"}, {"refunded": 0}),
    ([line(-100)], {"status": "Refunded"}, {"refunded": -100}),
    ([line(-101)], {"status": "Refunded"}, {"refunded": -100, "over_refunded": -1}),
    ([line(-1)], {"status": "Canceled"}, {"refunded": -1}),
    ([line(100), other_line()], {}, {"settled": 0, "rejected": 0}),
    ([CHARGE, other_line(-60, kind="payout"), other_line(amount_received=-40, kind="payout")], {}, {"settled": 0}),
]


async def test_steps():
    """The money of each reference and line is in its step, and a statement with other money is not clean."""
    misses = []
    for statement, fields, expected in CASES:
        answers, word = {"A": [paid("A", 100, **fields)]}, fields.get("status", "Paid")
        ledger = [Entry(line=2, reference="A", amount=100, status=word)]
        rules = BY_KIND if any(isinstance(each.kind, str) for each in statement) else Rules()
        _, summary = await reconciled(ledger, statement, answers, rules=rules)
        is_clean = not {"settled_differently", "settled_not_paid", "over_refunded", "rejected"} & expected.keys()
        found = steps(summary.settlement), summary.verdict is Verdict.CLEAN, summary.exit_status()
        if found != (expected, is_clean, int(not is_clean)):
            misses.append((statement, found))
    assert misses == []
    totals = summary.settlement.statement  # of the last one
    assert (totals.total, totals.ignored_lines, totals.ignored_amount) == (100, 2, -100)
    bridge = Tally().summary(about(StatementTotals())).settlement
    assert [each.step for each in bridge.steps] == list(SettlementStep)
    assert in_words(SettlementStep.NOT_SETTLED_YET) == "not settled yet"


async def test_problems():
    """What is wrong with a statement as a whole is part of the verdict's sentence, also when no row differs."""
    answers, clean = {"A": [paid("A", 100)]}, "amount and status (assumed paid) of 1 ledger row: 1 matched"
    for payout, bad, problems in (
        (100, 0, ""),
        (99, 0, "; the payout is 1 less than the statement's total"),
        (1_100, 2, "; the payout is 1,000 more than the statement's total; 2 lines of the statement cannot be used"),
        (None, 1, "; 1 line of the statement cannot be used"),
    ):
        statement = [*ledger_of(A=100), *[other_line()] * bad]
        _, summary = await reconciled(ledger_of(A=100), statement, answers, payout=payout)
        assert Report(summary).says == f"{clean}{problems}."
        assert summary.settlement.statement.problems == ("line 3: reference: the cell is empty",) * bad
        wanted = (Verdict.BREAKS if problems else Verdict.CLEAN), bool(problems)
        assert (summary.verdict, summary.settlement.is_off) == wanted


async def test_kinds_of_ledger():
    """A reference that only the statement has needs no kind of the ledger."""
    lines = Lines(of_one_reference="sum", kind=Kinds(column="Type", charge=["charge"]))
    ledger = [Entry(line=2, reference="A", amount=100, kind="charge")]
    answers = {"A": [paid("A", 100)], "B": [paid("B", 5)]}
    rows, _ = await reconciled(ledger, ledger_of(A=100, B=5), answers, rules=Rules(lines=lines))
    assert [row.primary and row.primary.code.value for row in rows] == [None, "not_in_ledger"]


async def test_repeat():
    """Of a reference that the ledger lists twice, the statement counts once: its finding, and its money."""
    ledger = [Entry(line=line, reference="A", amount=100) for line in (2, 3)]
    answers = {"A": [paid("A", 100)], "B": [paid("B", 1)]}
    rows, summary = await reconciled(ledger, ledger_of(A=90, B=1), answers)
    codes = [[each.code.value for each in row.findings] for row in rows]
    assert codes == [["duplicate_reference", "settled_differently"], ["duplicate_reference"], ["not_in_ledger"]]
    assert steps(summary.settlement) == {"settled_differently": -10, "settled": 0}


async def test_rejected():
    """A payment that one side has in a row that cannot be used alone is looked up, and is not on that side."""
    ledger = [*ledger_of(A=100), RejectedEntry(line=3, reason="x", reference="B", amount=5)]
    statement = [RejectedEntry(line=9, reason="x", reference="A"), *ledger_of(B=5)]
    answers = {"A": [paid("A", 100)], "B": [paid("B", 5)]}
    rows, summary = await reconciled(ledger, statement, answers)
    assert [row.bucket for row in rows] == [Bucket.BREAK, Bucket.REJECTED, Bucket.BREAK]
    assert [row.primary.code.value for row in rows[::2]] == ["not_settled", "not_in_ledger"]
    assert rows[0].primary.sentence.endswith("the statement lists it only on line 9, which cannot be used")
    assert summary.settlement.residual == 0


async def test_not_known():
    """The statement's money of a payment that the service says nothing certain about is in a step of its own."""
    failed, declined = errors.PermissionDeniedError("no"), errors.RejectedError("no")
    for said, bucket in (([paid("A", 90), failed], Bucket.UNRESOLVED), ([declined], Bucket.BREAK)):
        answers = {"A": said, "B": [paid("B", 1)]}
        both = ledger_of(A=100, B=1)
        rows, summary = await reconciled(both, both, answers)
        assert [row.bucket for row in rows] == [bucket, Bucket.MATCHED]
        assert steps(summary.settlement) == {"unresolved": 100, "settled": 0}


async def test_in_time():
    """A payment that is not settled yet is open while it is in time, and in a step of its own."""
    answers = {"A": [paid("A", 100)], "B": [paid("B", 1)]}
    for within, bucket, step in (("1d", Bucket.OPEN, "not_settled_yet"), ("1h", Bucket.BREAK, "not_settled")):
        ledger = [Entry(line=2, reference="A", amount=100, created_at=NOON - timedelta(hours=2)), *ledger_of(B=1)]
        rules = Rules(statement=StatementRules(settles_within=within))
        rows, summary = await reconciled(ledger, ledger_of(B=1), answers, rules=rules)
        assert [row.bucket for row in rows] == [bucket, Bucket.MATCHED]
        assert steps(summary.settlement) == {step: -100, "settled": 0}


async def test_seen_once():
    """A difference from the statement counts when it was seen twice, as any other does."""
    answers = {"A": [paid("A", 100), paid("A", 100, status="Expired")], "B": [paid("B", 1)]}
    rows, _ = await reconciled(ledger_of(A=100, B=1), ledger_of(B=1), answers)
    assert [each.code.value for each in rows[0].findings] == ["recorded_not_paid"]
    assert rows[0].is_changed_during_run


def test_residual():
    """A total that the rows do not make is a bug, and no report."""
    with pytest.raises(TieOutError, match="the statement does not tie: -5 of 5 is not explained"):
        Tally().summary(about(StatementTotals(lines=1, total=5)))
    for payouts in ((Payout(net=1),), (Payout(net=0, fees=3),)):
        with pytest.raises(TieOutError, match="the payouts do not tie"):
            Tally().summary(about(StatementTotals(payouts=payouts)))
    assert Tally().summary(about(StatementTotals())).settlement.residual == 0


NAMES = "ABCD"
NUMBERS = st.integers(-5, 9)
WORDS = st.sampled_from(["Paid", "Pending", "Refunded", "odd"])


def lines_of(**more):
    usable = st.builds(
        lambda reference, fields: Entry(line=0, reference=reference, **fields),
        st.sampled_from(NAMES),
        st.fixed_dictionaries({}, optional={"amount": NUMBERS, "status": st.none() | WORDS, **more}),
    )
    rejected = st.builds(
        RejectedEntry,
        line=st.just(0),
        reason=st.just("x"),
        reference=st.none() | st.sampled_from(NAMES),
        amount=st.none() | NUMBERS,
        **({"kind": st.sampled_from(["charge", "payout"])} if "kind" in more else {}),
    )
    return st.lists(usable | usable | rejected, max_size=8).map(
        lambda rows: [attrs.evolve(row, line=number) for number, row in enumerate(rows, 2)]
    )


ANSWERS = st.fixed_dictionaries(
    {
        name: st.lists(
            st.builds(
                paid,
                st.just(name),
                NUMBERS,
                status=WORDS,
                amount_received=st.none() | NUMBERS,
                merchant_reff=st.none() | st.just("M"),
            )
            | st.sampled_from([NOT_FOUND, errors.RejectedError("no"), errors.AuthenticationError("bad key")]),
            min_size=1,
            max_size=2,
        )
        for name in NAMES
    }
)


@pytest.mark.slow
@examples(150)
@given(
    ledger=lines_of(),
    statement=lines_of(amount_received=st.none() | NUMBERS, kind=st.sampled_from(["charge", "refund", "fee", "odd"])),
    answers=ANSWERS,
    rules=st.sampled_from([Rules(), SUM, BY_KIND]),
)
async def test_ties(ledger, statement, answers, rules):
    """
    For any ledger, statement and answers both residuals are 0, and each reference of either side is asked.

    A statement without a usable line, or with fees of either sign, is refused instead.
    """
    if rules is not BY_KIND:  # a kind without a meaning is refused
        statement = [attrs.evolve(line, kind=ABSENT) for line in statement]
    try:
        rows, summary = await reconciled(ledger, statement, answers, rules=rules)
    except LedgerError as error:
        is_unusable = all(isinstance(usable_line(each, rules), RejectedEntry) for each in statement)
        assert ("none can be used" in str(error) and is_unusable) or "so one of them is not a debit" in str(error)
        return
    assert summary.tie_out.residual == summary.settlement.residual == 0
    assert summary.settlement.service_paid_total == summary.tie_out.service_paid_total
    ours = {entry.reference for entry in ledger if isinstance(entry, Entry)}
    others = [row.reference for row in rows if row.origin == "statement"]
    assert len(others) == len({*others})
    assert not ours & {*others}
    assert sum(len(row.lines) for row in rows if row.origin == "ledger") == len(ledger)
    breaks = [row for row in rows if row.bucket is Bucket.BREAK and row.origin == "statement"]
    assert all(row.confirmed_at is not None for row in breaks)

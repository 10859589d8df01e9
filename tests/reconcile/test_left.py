"""Rows that left the ledger although it covers their time: a finding each, until they are back or decided."""

import csv
from datetime import date, timedelta

import attrs
import pytest

from payclient.reconcile import (
    Accepted,
    Bucket,
    Journal,
    JournalError,
    Kinds,
    Lines,
    Rules,
    StatementRules,
    Verdict,
    judge_again,
    replay,
)
from payclient.reconcile._judgement.findings import FindingTotal
from payclient.reconcile.folders import JOURNAL
from payclient.reconcile.ledger import RejectedEntry
from support import ledgers
from support.nights import FIRST, entry, paid
from support.reconciling import DOWN

DAY = FIRST.replace(tzinfo=None)
ANSWERS = {each: paid(each) for each in "ABCD"}
LEFT = "left_the_ledger"


def ledger_of(names, *, days=1):
    """Return a row of 9 for each name, all of one day."""
    at = DAY + timedelta(days=days)
    return [entry(each, line=line, created_at=at) for line, each in enumerate(names, 2)]


def counts(done):
    """Return the roll-forward of the open findings."""
    found = done.summary.open_findings
    return found.opening, found.new, found.reopened, found.resolved, found.closing


NONE, ONE = FindingTotal(), FindingTotal(1, 9)


async def test_rejected_row(night):
    """A rejected row that the service knows is asked about until the ledger has it right; deleting it hides nothing."""
    answers = {**ANSWERS, "C": paid("C", payment_code="007")}
    wrong, right = (entry("C", payment_code=code, line=9) for code in ("7", "007"))
    first = await night([*ledger_of("AB"), wrong], answers)
    second = await night(ledger_of("AB"), answers, previous=first)
    third = await night(ledger_of("AB"), answers, previous=second)
    for done, run in ((second, "night-1"), (third, "night-1")):
        assert (done["C"].bucket, done["C"].carried_from) == (Bucket.REJECTED, run)
    fourth = await night([*ledger_of("AB"), right], answers, previous=third)
    assert (fourth["C"].bucket, fourth["C"].carried_from) == (Bucket.MATCHED, "")


async def test_unusable_row(night):
    """A row that cannot be used is followed after it left the ledger, even by rules that let rows leave."""
    answers, rules = {**ANSWERS, "R": paid("R")}, Rules(may_leave=True)
    bad = [
        RejectedEntry(line=number, reason="amount: '9E0'", reference=name)
        for number, name in ((7, "R"), (8, "no such"))
    ]
    before = await night([*ledger_of("A"), *bad], answers, rules=rules)
    for state in ("new", "still_open"):
        before = await night(ledger_of("B"), answers, previous=before, rules=rules)
        assert (before["R"].bucket, before.states["R", LEFT], before["no such"].bucket) == (
            Bucket.BREAK,
            state,
            Bucket.BREAK,
        )
        assert before["R"].primary.sentence == "'R' could not be used in an earlier run, and has left the ledger"
    done = await night([*ledger_of("B"), entry("R")], answers, previous=before, rules=rules)
    assert (done["R"].bucket, done.states["R", LEFT]) == (Bucket.MATCHED, "resolved")
    agreed = [
        attrs.evolve(accepted(date(2026, 12, 31)), code=code, reference="no such", ledger="no such")
        for code in (LEFT, "missing_at_service")
    ]
    until = Rules(accepted=agreed, may_leave=True)
    after = await night([], answers, previous=before, rules=until)
    assert (after["no such"].bucket, after["R"].bucket) == (Bucket.MATCHED, Bucket.BREAK)


async def test_until_it_is_back(night):
    """It is a break in every file, with its amount and its age, until the ledger lists it again; then it may reopen."""
    first = await night(ledger_of("ABC"), ANSWERS)
    second = await night(ledger_of("AB"), ANSWERS, previous=first)
    assert (second.states, counts(second)) == ({("C", LEFT): "new"}, (NONE, ONE, NONE, NONE, ONE))
    assert (second.summary.verdict, second.summary.exit_status(only_news=True)) == (Verdict.BREAKS, 1)
    row = second["C"]
    assert (row.bucket, row.origin, row.carried_from, row.at_stake) == (Bucket.BREAK, "carried", "night-1", 9)
    assert row.primary.sentence == "'C' matched in an earlier run with an amount of 9, and has left the ledger"
    with (second.run.folder / "breaks.csv").open() as file:
        assert [(each["reference"], each["code"]) for each in csv.DictReader(file)] == [("C", LEFT)]
    third = await night(ledger_of("AB"), ANSWERS, previous=second)
    assert (third.states, counts(third)) == ({("C", LEFT): "still_open"}, (ONE, NONE, NONE, NONE, ONE))
    assert (third["C"].history.age_days, third["C"].carried_from) == (1, "night-1")
    assert third.summary.exit_status(only_news=True) == 0
    rolled = await night(ledger_of("D", days=9), ANSWERS | {"D": paid("D")}, previous=third)  # of another month
    assert rolled.states == {("C", LEFT): "still_open"}
    back = await night(ledger_of("CD", days=9), ANSWERS, previous=rolled)
    assert (back.states, counts(back)) == ({("C", LEFT): "resolved"}, (ONE, NONE, NONE, ONE, NONE))
    assert (back.memory["C", LEFT]["resolved_by"], back.summary.verdict) == ("ledger", Verdict.CLEAN)
    again = await night(ledger_of("D", days=9), ANSWERS, previous=back)
    assert (again.states, again["C"].history.age_days) == ({("C", LEFT): "reopened"}, 4)


def accepted(until):
    return Accepted(code=LEFT, reference="C", ledger=9, service="", reason="sold", owner="Ana", expires=until)


async def test_accepted(night):
    """An accepted one matches until its last day, and is then a break again, as old as it is."""
    first = await night(ledger_of("ABC"), ANSWERS)
    second = await night(ledger_of("AB"), ANSWERS, previous=first)
    rules = Rules(accepted=[accepted(date(2026, 11, 24))], time_zone="UTC")
    third = await night(ledger_of("AB"), ANSWERS, previous=second, rules=rules)
    assert (third.summary.verdict, third["C"].bucket, third.states) == (
        Verdict.CLEAN,
        Bucket.MATCHED,
        {("C", LEFT): "resolved"},
    )
    assert third.memory["C", LEFT]["resolved_by"] == "acceptance"
    fourth = await night(ledger_of("AB"), ANSWERS, previous=third, rules=rules)  # on the last day
    assert (fourth.summary.verdict, fourth["C"].bucket) == (Verdict.CLEAN, Bucket.MATCHED)
    fifth = await night(ledger_of("AB"), ANSWERS, previous=fourth, rules=rules)
    assert (fifth.states, counts(fifth)) == ({("C", LEFT): "reopened"}, (NONE, NONE, ONE, NONE, ONE))
    assert fifth["C"].history.age_days == 3
    at_once = await night(ledger_of("AB"), ANSWERS, previous=first, rules=rules)
    assert (at_once.summary.verdict, at_once["C"].bucket) == (Verdict.BREAKS, Bucket.BREAK)  # its last day is over


async def test_may_leave(night):
    """The rules can let rows leave: none is carried, and one that is open is resolved by the rule, for good."""
    first = await night(ledger_of("ABC"), ANSWERS)
    second = await night(ledger_of("AB"), ANSWERS, previous=first)
    third = await night(ledger_of("AB"), ANSWERS, previous=second, rules=Rules(may_leave=True))
    assert (third.states, third.memory["C", LEFT]["resolved_by"]) == ({("C", LEFT): "resolved"}, "rule")
    fourth = await night(ledger_of("AB"), ANSWERS, previous=third)
    assert ([row.reference for row in fourth.rows], fourth.states) == (["A", "B"], {})
    allowed = await night(ledger_of("AB"), ANSWERS, previous=first, rules=Rules(may_leave=True))
    assert [row.reference for row in allowed.rows] == ["A", "B"]


@pytest.mark.parametrize(
    ("before", "after", "states"),
    [
        ((("A", "2026-11-01"), ("B", "1970-01-01")), "A", {("B", LEFT): "new"}),
        ((("A", "2026-10-01"), ("B", "2026-11-01"), ("C", "0001-01-01")), "BC", {}),
    ],
)
async def test_placeholder(night, before, after, states):
    """A time that means never is no time before the ledger begins, and it doesn't begin there."""

    def read(names):
        rows = "".join(f"{name},9,{day}\n" for name, day in before if name in names)
        return ledgers.read(f"reference,amount,created_at\n{rows}")

    first = await night(read("ABC"), ANSWERS)
    assert (await night(read(after), ANSWERS, previous=first)).states == states


async def test_duplicates(night):
    """A reference that is still listed has not left; one that was listed twice is, until it is listed once."""
    twice = "duplicate_reference"
    first = await night(ledger_of("AABBC"), ANSWERS)
    second = await night(ledger_of("AC"), ANSWERS, previous=first)
    assert second.states == {("A", twice): "resolved", ("B", twice): "still_open"}
    third = await night(ledger_of("AC"), ANSWERS, previous=second)
    assert [(row.reference, row.bucket.value) for row in third.rows[2:]] == [("B", "break")] * 2
    fourth = await night(ledger_of("ABC"), ANSWERS, previous=third)
    assert (fourth.states, fourth.memory["B", twice]["resolved_by"]) == ({("B", twice): "resolved"}, "ledger")
    waived = Rules(accepted=[attrs.evolve(accepted(date(2026, 12, 31)), code=twice, ledger=2)])
    first = await night(ledger_of("CCA"), ANSWERS, rules=waived)
    second = await night(ledger_of("A"), ANSWERS, previous=first, rules=waived)
    assert [(row.reference, row.primary and row.primary.code.value) for row in second.rows] == [
        ("A", None),
        ("C", LEFT),
        ("C", LEFT),
    ]
    assert counts(second) == (NONE, ONE, NONE, NONE, ONE)
    third = await night(ledger_of("CA"), ANSWERS, previous=second)
    assert third.states == {("C", LEFT): "resolved"}


async def test_summed(night):
    """A payment of several lines is one finding with the sum of them."""
    rules = Rules(lines=Lines(of_one_reference="sum"))
    answers = ANSWERS | {"C": paid("C", 18)}
    first = await night(ledger_of("ACC"), answers, rules=rules)
    second = await night(ledger_of("A"), answers, previous=first, rules=rules)
    assert counts(second) == (NONE, FindingTotal(1, 18), NONE, NONE, FindingTotal(1, 18))
    third = await night(ledger_of("A"), answers, previous=second, rules=rules)
    assert (third.states, third["C"].entry.amount) == ({("C", LEFT): "still_open"}, 18)


async def test_not_known(night):
    """It has its amount and its age after a night in which nobody could be asked."""
    first = await night(ledger_of("ABC"), ANSWERS)
    second = await night(ledger_of("AB"), ANSWERS, previous=first)
    down = dict.fromkeys("ABC", DOWN)
    third = await night(ledger_of("AB"), down, previous=second, stall_timeout=0.01)
    assert (third["C"].bucket, third.summary.open_findings.closing) == (Bucket.UNRESOLVED, ONE)
    fourth = await night(ledger_of("AB"), ANSWERS, previous=third)
    assert (fourth.states["C", LEFT], fourth["C"].history.age_days) == ("still_open", 2)


async def test_other_findings(night):
    """It has the findings of any other row beside it: its payment is followed, and its statement."""
    kinds = Kinds(column="Type", charge=["sale"], refund=["refund"])
    rules = Rules(statement=StatementRules(kind=kinds, new_lines_only=True))
    sale = attrs.evolve(entry("C", kind="sale"), status=None)
    first = await night(ledger_of("AC"), ANSWERS, rules=rules, statement=[sale, attrs.evolve(sale, reference="A")])
    second = await night(ledger_of("A"), ANSWERS, previous=first, rules=rules, statement=[])
    assert [each.code.value for each in second["C"].findings] == [LEFT]
    assert (second.summary.settlement.residual, second.summary.tie_out.service_paid_total) == (0, 18)
    gone = ANSWERS | {"C": paid("C", status="Canceled")}
    third = await night(ledger_of("A"), gone, previous=second, rules=rules, statement=[])
    assert [each.code.value for each in third["C"].findings] == [
        "settled_not_paid",
        "reversed",
        "recorded_not_paid",
        LEFT,
    ]


async def test_judged_again(night, tmp_path):
    """Other rules can let the rows leave; what no run has looked up cannot be judged."""
    first = await night(ledger_of("ABC"), ANSWERS)
    await night(ledger_of("AB"), ANSWERS, previous=first, name="strict")
    with Journal(tmp_path / "strict" / JOURNAL) as journal:
        judge_again(journal, rules=Rules(may_leave=True))
        assert {row.bucket for row in replay(journal, rules=Rules(may_leave=True))} == {Bucket.MATCHED}
    lenient = Rules(may_leave=True)
    await night(ledger_of("AB"), ANSWERS, previous=first, name="lenient", rules=lenient)
    with Journal(tmp_path / "lenient" / JOURNAL) as journal:
        journal.set_note("identity", '{"rules": "{\\"may_leave\\":true}"}')
        with pytest.raises(JournalError, match="1 row left the ledger by may_leave = true, and was not looked up"):
            judge_again(journal, rules=Rules())


@pytest.mark.parametrize("amount", [9, 8], ids=["matched", "underpaid"])
@pytest.mark.parametrize("may_leave", [False, True])
async def test_unusable_row_beside_another(night, amount, may_leave):
    """A row that cannot be used is followed after it left, whatever became of another row with its reference."""
    rules = Rules(may_leave=may_leave)
    bad = RejectedEntry(line=7, reason="amount: '9E0'", reference="B")
    first = await night([*ledger_of("AB"), bad], {**ANSWERS, "B": paid("B", amount)}, rules=rules)
    before = first
    for state in ("new", "still_open"):
        before = await night(ledger_of("A"), ANSWERS, previous=before, rules=rules)
        assert (before.summary.verdict, before["B"].bucket, before.states["B", LEFT]) == (
            Verdict.BREAKS,
            Bucket.BREAK,
            state,
        )
    back = await night(ledger_of("AB"), ANSWERS, previous=before, rules=rules)
    assert (back.summary.verdict, back.states) == (Verdict.CLEAN, {("B", LEFT): "resolved"})


async def test_one_of_several_matched(night):
    """A row that matched is missed, although another one with its reference was a break."""
    twice = Accepted(
        code="duplicate_reference",
        reference="B",
        ledger=2,
        service="",
        reason="two",
        owner="Ana",
        expires=date(2026, 12, 31),
        largest_difference=99,
    )
    rules = Rules(accepted=[twice])
    rows = [*ledger_of("AB"), entry("B", 8, line=9, created_at=DAY)]
    first = await night(rows, ANSWERS, rules=rules)
    second = await night(ledger_of("A"), ANSWERS, previous=first, rules=rules)
    assert second.states == {("B", LEFT): "new", ("B", "overpaid"): "still_open"}

"""What became of each break between two runs, for any two runs."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import groupby

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient import Transaction, errors
from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile import (
    STRICT,
    Accepted,
    BreakState,
    Bucket,
    Case,
    Code,
    Finding,
    ResolvedBy,
    Row,
    Rules,
    Severity,
    Tolerance,
    judge,
)
from payclient.reconcile.nights._records import changes_of, view_of
from payclient.reconcile.values._observation import observe
from support.chance import examples

NIGHT = datetime(2026, 11, 20, 2, tzinfo=UTC)
NEXT = NIGHT + timedelta(days=1, seconds=-40)
FAILED = errors.AuthenticationError("bad key")
NOT_FOUND = errors.TransactionNotFoundError("no such transaction")


def judged(ledger, service, *, at=NIGHT, rules=STRICT, line=2, **case):
    """Return a row whose two answers were the same."""
    entry = Entry(line=line, reference="T1", **ledger)
    answer = (
        Transaction(reference="T1", **{"amount": 5, "status": "Paid"} | service)
        if isinstance(service, dict)
        else service
    )
    said = observe(answer, at=at)
    return judge(Case(entry=entry, first=said, second=said, other_found=1, **case), rules=rules)


def seen(*rows, run="a", remembered=()):
    return view_of("T1", rows, run=run, remembered=remembered)


def states(was, now, **options):
    return [(change.now.code.value, change.history.state.value) for change in changes_of(was, now, **options)]


UNDERPAID = {"amount": 9, "status": "Paid"}


def test_state(subtests):
    """A break is known by its code: with other values it is changed, without an answer it is not known."""
    cases = (
        (judged(UNDERPAID, {}, at=NEXT, line=70), "still_open"),
        (judged({**UNDERPAID, "amount": 8}, {}, at=NEXT), "changed"),
        (judged(UNDERPAID, {"amount": 4}, at=NEXT), "changed"),
        (judged(UNDERPAID, {"amount": 9}, at=NEXT), "resolved"),
        (judged(UNDERPAID, FAILED, at=NEXT), "not_known"),
        (Row(entry=RejectedEntry(line=2, reason="bad", reference="T1"), bucket=Bucket.REJECTED), "not_known"),
    )
    for later, state in cases:
        with subtests.test(later=later, state=state):
            assert states(seen(judged(UNDERPAID, {})), seen(later, run="b")) == [("underpaid", state)]


def test_not_listed():
    """A reference that the later run has no row of is not known, and never resolved."""
    (change,) = changes_of(seen(judged(UNDERPAID, {})), seen(run="b"))
    assert (change.history.state, "did not ask" in change.why) == (BreakState.NOT_KNOWN, True)


def test_new():
    """A break that the earlier run does not have is new, and was first seen when its first lookup was answered."""
    (change,) = changes_of(seen(judged(UNDERPAID, {"amount": 9})), seen(judged(UNDERPAID, {}, at=NEXT), run="b"))
    history = change.history
    assert attrs.astuple(history) == (BreakState.NEW, NEXT, "b", 0)


def test_age():
    """The age is the number of calendar days between the two answers, so a short night is a day too."""
    (change,) = changes_of(seen(judged(UNDERPAID, {})), seen(judged(UNDERPAID, {}, at=NEXT), run="b"))
    assert attrs.astuple(change.history) == (BreakState.STILL_OPEN, NIGHT, "a", 1)


def test_age_of_resolved():
    """The age of a break that is gone counts to the answer that shows it."""
    (change,) = changes_of(seen(judged(UNDERPAID, {})), seen(judged(UNDERPAID, {"amount": 9}, at=NEXT), run="b"))
    assert attrs.astuple(change.history) == (BreakState.RESOLVED, NIGHT, "a", 1)


def test_first_answer_counts():
    """Of several rows with one reference, the earliest answer tells when a break was first seen."""
    rows = [judged(UNDERPAID, {}, at=at, rows=2) for at in (NEXT, NIGHT)]
    assert {change.now.first_seen for change in changes_of(seen(run="a"), seen(*rows, run="b"))} == {NIGHT}


def test_reopened():
    """A break that was resolved in between is reopened, and is as old as it was."""
    first = seen(judged(UNDERPAID, {}))
    kept = [change.now for change in changes_of(first, seen(judged(UNDERPAID, {"amount": 9}, at=NEXT)))]
    second = seen(judged(UNDERPAID, {"amount": 9}, at=NEXT), run="b", remembered=kept)
    (change,) = changes_of(second, seen(judged(UNDERPAID, {}, at=NEXT), run="c"))
    assert attrs.astuple(change.history) == (BreakState.REOPENED, NIGHT, "a", 1)


def test_unknown_in_between():
    """A break that one run could not ask about is still open in the next, as if nothing had been between."""
    lost = seen(judged(UNDERPAID, FAILED, at=NEXT), run="b")
    kept = [change.now for change in changes_of(seen(judged(UNDERPAID, {})), lost)]
    second = seen(judged(UNDERPAID, FAILED, at=NEXT), run="b", remembered=kept)
    assert states(second, seen(judged(UNDERPAID, {}, at=NEXT), run="c")) == [("underpaid", "still_open")]
    (gone,) = changes_of(second, seen(judged(UNDERPAID, {"amount": 9}, at=NEXT), run="c"))
    assert (gone.now.by, gone.history.first_run) == (ResolvedBy.SERVICE, "a")


ACCEPTED = Accepted(
    code="underpaid", reference="T1", largest_difference=9, reason="agreed", owner="Ana", expires=date(2027, 1, 1)
)


def test_resolved_by(subtests):
    """What resolved a break is the side whose fields of that finding changed; if none did, the rules."""
    cases = (
        ({"amount": 5}, {}, STRICT, "ledger"),
        ({}, {"amount": 9}, STRICT, "service"),
        ({"amount": 7}, {"amount": 7}, STRICT, "both"),
        ({}, {}, Rules(tolerances={"amount": Tolerance(below=4)}), "rule"),
        ({}, {"amount": 6}, Rules(tolerances={"amount": Tolerance(below=4)}), "service"),
        ({}, {}, Rules(accepted=[ACCEPTED]), "acceptance"),
        ({"merchant_reff": "N"}, {"amount": 9}, STRICT, "service"),
    )
    for ledger, service, rules, by in cases:
        with subtests.test(ledger=ledger, service=service):
            later = judged({**UNDERPAID, **ledger}, {"merchant_reff": "N", **service}, at=NEXT, rules=rules)
            (change,) = changes_of(seen(judged(UNDERPAID, {})), seen(later, run="b"))
            assert (change.history.state.value, change.now.by) == ("resolved", by)


@pytest.mark.parametrize(
    ("word", "rules", "by"),
    [("Settled", Rules(statuses={"settled": "paid"}), "rule"), ("Paid", STRICT, "service")],
)
def test_status_resolved_by(word, rules, by):
    """A status that is understood now was resolved by the rules; another status by the side that says it."""
    was = seen(judged({"status": "Paid"}, {"status": "Settled"}))
    (change,) = changes_of(was, seen(judged({"status": "Paid"}, {"status": word}, rules=rules)))
    assert (change.now.code.value, change.now.by) == ("unknown_status", by)


def test_existence_resolved_by():
    """A transaction that appeared was resolved by the service, and a row that is listed once by the ledger."""
    missing = seen(judged(UNDERPAID, NOT_FOUND))
    (change,) = changes_of(missing, seen(judged(UNDERPAID, {"amount": 9})))
    assert change.now.by == "service"
    twice = [judged({"amount": 5}, {}, rows=2, line=line) for line in (2, 3)]
    (change,) = changes_of(seen(*twice), seen(judged({"amount": 5}, {})))
    assert (change.now.code.value, change.now.by) == ("duplicate_reference", "ledger")


@pytest.mark.parametrize(("is_judged", "state"), [(True, "resolved"), (False, "not_known")])
def test_paid_twice(is_judged, state):
    """A payment made twice is gone only when the later run knows of the other payment too."""
    was = seen(judged({"amount": 5}, {"merchant_reff": "N"}, paid_with=("T2",)))
    now = seen(judged({"amount": 5}, {"merchant_reff": "N"}))
    asked = []
    found = states(was, now, is_judged=lambda reference: asked.append(reference) or is_judged)
    assert (found, asked) == ([("paid_twice", state)], ["T2"])


def test_paid_twice_without_answer():
    """A payment made twice is not known while its own row has no answer, whatever is known of the other one."""
    was = seen(judged({"amount": 5}, {"merchant_reff": "N"}, paid_with=("T2",)))
    now = seen(judged({"amount": 5}, FAILED), run="b")
    assert states(was, now, is_judged=lambda _: True) == [("paid_twice", "not_known")]


def test_order_of_rows():
    """The order of rows with one reference, and their lines, do not matter."""
    rows = [judged({"amount": amount}, {}, rows=2, line=amount) for amount in (8, 9)]
    assert {state for _, state in states(seen(*rows), seen(*reversed(rows)))} == {"still_open"}


def test_order_of_resolved():
    """Rows that trade places, because another field changed, have not resolved anything by themselves."""
    loose = Rules(tolerances={"amount": Tolerance(below=4)})

    def rows(rules, *reffs):
        ours = [
            UNDERPAID | {"amount": amount, "merchant_reff": reff} for amount, reff in zip((8, 9), reffs, strict=True)
        ]
        return [judged(each, {"merchant_reff": "N"}, rows=2, rules=rules) for each in ours]

    was, now = rows(STRICT, "N", "n"), rows(loose, "n", "N")
    found = {change.now.code: change.now.by for change in changes_of(seen(*was), seen(*now, run="b"))}
    assert found[Code.UNDERPAID] == ResolvedBy.RULE


# Laws

SIDES = st.sampled_from([None, 1, 2, "x"])
DECISIVE = st.sampled_from([Code.UNDERPAID, Code.FEE_DIFFERS, Code.UNKNOWN_STATUS, Code.PAID_TWICE])


@st.composite
def runs(draw, night):
    """Return the rows of one run, by reference; a reference may have no row, or several."""
    rows = []
    for line in range(draw(st.integers(0, 5))):
        entry = Entry(line=line, reference=draw(st.sampled_from("ABC")), amount=draw(st.integers(1, 3)))
        answer = draw(
            st.none()
            | st.builds(lambda amount: Transaction(reference="?", amount=amount, status="Paid"), st.integers(1, 3))
        )
        codes = draw(st.lists(DECISIVE, unique=True, max_size=2))
        findings = [Finding(code, "…", ledger=draw(SIDES), service=draw(SIDES)) for code in codes]
        bucket = Bucket.BREAK if findings else draw(st.sampled_from([Bucket.MATCHED, Bucket.OPEN, Bucket.UNRESOLVED]))
        if draw(st.integers(0, 5)) == 0:
            bucket = draw(st.sampled_from([Bucket.UNRESOLVED, Bucket.REJECTED]))
        at = NIGHT + timedelta(days=night, minutes=line)
        rows.append(Row(entry=entry, bucket=bucket, findings=tuple(findings), transaction=answer, observed_at=at))
    rows.sort(key=lambda row: row.reference)
    found = {reference: list(group) for reference, group in groupby(rows, key=lambda row: row.reference)}
    return {reference: found.get(reference, []) for reference in "ABC"}


def all_seen(rows, name, remembered=None):
    kept = remembered or {}
    return {each: view_of(each, rows[each], run=name, remembered=kept.get(each, ())) for each in rows}


def all_changes(was, now):
    return {each: list(changes_of(was[each], now[each], is_judged=lambda other: other in "ABC")) for each in was}


@examples(50)
@given(rows=runs(0))
def test_nothing_changes_by_itself(rows):
    """A run compared with itself has no news: each break is still open."""
    run = all_seen(rows, "a")
    found = [change for changes in all_changes(run, run).values() for change in changes]
    assert {change.history.state for change in found} <= {BreakState.STILL_OPEN}
    assert len(found) == sum(len(each.breaks) for each in run.values())


@examples(80)
@given(first=runs(0), second=runs(1))
def test_one_state(first, second):
    """Each earlier break is in exactly one state, and none is resolved that the later run could not judge."""
    was, now = all_seen(first, "a"), all_seen(second, "b")
    for reference, changes in all_changes(was, now).items():
        codes = [change.now.code for change in changes]
        assert len(codes) == len(set(codes))
        assert set(codes) == set(was[reference].breaks) | set(now[reference].breaks)
        assert {change.now.code for change in changes if change.was} == set(was[reference].breaks)
        buckets = {row.bucket for row in second[reference]}
        is_resolved = any(change.history.state is BreakState.RESOLVED for change in changes)
        assert not (is_resolved and (not buckets or buckets & {Bucket.UNRESOLVED, Bucket.REJECTED}))


@examples(80)
@given(first=runs(0), second=runs(1), third=runs(2))
def test_first_seen(first, second, third):
    """What the first and the third run both have was first seen at the same time, with the second in between or not."""
    a, c = all_seen(first, "a"), all_seen(third, "c")
    kept = {each: [change.now for change in changes] for each, changes in all_changes(a, all_seen(second, "b")).items()}
    through = all_changes(all_seen(second, "b", kept), c)
    for reference, changes in all_changes(a, c).items():
        direct = {change.now.code: change.history for change in changes if change.was and change.now.is_present}
        found = {change.now.code: change.history for change in through[reference]}
        for code, history in direct.items():
            assert attrs.astuple(found[code])[1:] == attrs.astuple(history)[1:]
            assert found[code].state is not BreakState.NEW


def test_severity():
    """Of several rows with one reference, the most severe finding stands for the break."""
    entry = Entry(line=1, reference="T1")
    severities = (Severity.MEDIUM, Severity.CRITICAL)
    findings = [Finding(Code.MERCHANT_REFF_DIFFERS, "…", severity=severity) for severity in severities]
    rows = [Row(entry=entry, bucket=Bucket.BREAK, findings=(finding,)) for finding in findings]
    assert seen(*rows).breaks[Code.MERCHANT_REFF_DIFFERS].severity is Severity.CRITICAL

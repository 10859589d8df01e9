"""What became of each break between two runs, for any two runs."""

from datetime import UTC, datetime, timedelta
from itertools import groupby

import attrs
from hypothesis import given
from hypothesis import strategies as st

from payclient import Transaction, errors
from payclient.reconcile import (
    STRICT,
    BreakState,
    Bucket,
    Case,
    Code,
    Finding,
    ResolvedBy,
    Row,
    Rules,
    Severity,
    StatementRules,
    StatementSide,
    Tolerance,
    judge,
)
from payclient.reconcile.ledger import Entry, RejectedEntry
from payclient.reconcile.nights._records import breaks_of, changes_of
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


def changes(was, *rows, known=None, **options):
    """Return the changes from the rows of run `a`, or the breaks *known* of it, to the rows of run `b`."""
    before = breaks_of(was, run="a") if known is None else known
    return list(changes_of("T1", before, rows, run="b", **options))


def states(*args, **options):
    return [(change.now.code.value, change.history.state.value) for change in changes(*args, **options)]


UNDERPAID = {"amount": 9, "status": "Paid"}
WAS = (judged(UNDERPAID, {}),)
GONE, LOST = (judged(UNDERPAID, said, at=NEXT) for said in ({"amount": 9}, FAILED))
REJECTED = Row(entry=RejectedEntry(line=2, reason="bad", reference="T1"), bucket=Bucket.REJECTED)


def test_state(subtests):
    """A break is known by its code: with other values it is changed, without an answer it is not known."""
    cases = (
        ((judged(UNDERPAID, {}, at=NEXT, line=70),), "still_open"),
        ((judged({**UNDERPAID, "amount": 8}, {}, at=NEXT),), "changed"),
        ((judged(UNDERPAID, {"amount": 4}, at=NEXT),), "changed"),
        ((GONE,), "resolved"),
        ((LOST,), "not_known"),
        ((REJECTED,), "not_known"),
        ((GONE, LOST), "not_known"),
        ((), "not_known"),
    )
    for later, state in cases:
        with subtests.test(later=later, state=state):
            assert states(WAS, *later) == [("underpaid", state)]
    assert "did not ask" in changes(WAS)[0].why


def test_age():
    """A break is as old as the first answer that showed it, by calendar days to the answer of the later run."""
    now, late = judged(UNDERPAID, {}, at=NEXT), judged(UNDERPAID, {}, at=NEXT + timedelta(days=1), rows=2)
    cases = (
        ((), (now,), (BreakState.NEW, NEXT, "b", 0)),
        ((), (late, now), (BreakState.NEW, NEXT, "b", 0)),
        (WAS, (now,), (BreakState.STILL_OPEN, NIGHT, "a", 1)),
        (WAS, (GONE,), (BreakState.RESOLVED, NIGHT, "a", 1)),
    )
    for was, rows, history in cases:
        (found,) = (each for each in changes(was, *rows) if each.now.code is Code.UNDERPAID)
        assert attrs.astuple(found.history) == history
    (unasked,) = changes(WAS, before=NEXT)
    assert unasked.history.age_days == 1


def test_code_resolved_by():
    """The code of a break tells which side resolved it, where both sides say what they said."""
    paid, twice = {"status": "Paid"}, [judged({"amount": 5}, {}, rows=2, line=line) for line in (2, 3)]
    unknown = [judged(paid, {"status": "Settled"})]
    cases = (
        (unknown, judged(paid, {"status": "Settled"}, rules=Rules(statuses={"settled": "paid"})), "rule"),
        (unknown, judged(paid, {"status": "Paid"}), "service"),
        ([judged(UNDERPAID, NOT_FOUND)], judged(UNDERPAID, {"amount": 9}), "service"),
        (twice, judged({"amount": 5}, {}), "ledger"),
    )
    # A finding that the rules waive now was resolved by them, whichever side alone can change it otherwise.
    made, side = {"amount": 5, "created_at": NIGHT - timedelta(hours=1)}, StatementSide(settled=None)
    late = Rules(grace="2h", statement=StatementRules(settles_within="2h"))
    cases += (
        ([judged(made, NOT_FOUND)], judged(made, NOT_FOUND, rules=late), "rule"),
        ([judged(made, {}, other_side=side)], judged(made, {}, other_side=side, rules=late), "rule"),
    )
    assert [[each.now.by for each in changes(was, now)] for was, now, _ in cases] == [[by] for *_, by in cases]
    # What is the same as a whole has resolved nothing: the rules read or judge it otherwise.
    for was, now in ((twice, judged({"amount": 5}, {})), (WAS, judged({**UNDERPAID, "amount": 5}, {}))):
        (found,) = changes(was, now, unchanged=[ResolvedBy.LEDGER])
        assert found.now.by is ResolvedBy.RULE


def test_paid_twice():
    """A payment made twice is gone only when the later run has an answer, and one about the other payment too."""
    was = [judged({"amount": 5}, {"merchant_reff": "N"}, paid_with=("T2",))]
    now, asked = judged({"amount": 5}, {"merchant_reff": "N"}), []
    for is_judged, state in ((True, "resolved"), (False, "not_known")):
        assert states(was, now, is_judged=lambda other, said=is_judged: asked.append(other) or said) == [
            ("paid_twice", state)
        ]
    assert asked == ["T2", "T2"]
    by = [changes(was, now, unchanged=each)[0].now.by for each in ((), (ResolvedBy.SERVICE,))]
    assert by == [ResolvedBy.SERVICE, ResolvedBy.RULE]
    assert states(was, judged({"amount": 5}, FAILED)) == [("paid_twice", "not_known")]


def test_order_of_rows():
    """The order of rows with one reference, and their lines, do not matter."""
    rows = [judged({"amount": amount}, {}, rows=2, line=amount) for amount in (8, 9)]
    assert {state for _, state in states(rows, *reversed(rows))} == {"still_open"}


def test_order_of_resolved():
    """Rows that trade places, because another field changed, have not resolved anything by themselves."""
    loose = Rules(tolerances={"amount": Tolerance(below=4)})

    def rows(rules, *reffs):
        ours = [
            UNDERPAID | {"amount": amount, "merchant_reff": reff} for amount, reff in zip((8, 9), reffs, strict=True)
        ]
        return [judged(each, {"merchant_reff": "N"}, rows=2, rules=rules) for each in ours]

    was, now = rows(STRICT, "N", "n"), rows(loose, "n", "N")
    found = {change.now.code: change.now.by for change in changes(was, *now)}
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


def all_breaks(rows, name, remembered=None):
    return {each: breaks_of(rows[each], run=name, remembered=(remembered or {}).get(each, ())) for each in rows}


def all_changes(was, rows, name):
    judged = {"is_judged": lambda other: other in "ABC"}
    return {each: list(changes_of(each, was[each], rows[each], run=name, **judged)) for each in was}


@examples(80)
@given(first=runs(0), second=runs(1), third=runs(2))
def test_first_seen(first, second, third):
    """What the first and the third run both have was first seen at the same time, with the second in between or not."""
    a = all_breaks(first, "a")
    kept = {each: [change.now for change in found] for each, found in all_changes(a, second, "b").items()}
    through = all_changes(all_breaks(second, "b", kept), third, "c")
    for reference, found in all_changes(a, third, "c").items():
        direct = {change.now.code: change.history for change in found if change.was and change.now.is_present}
        by_way = {change.now.code: change.history for change in through[reference]}
        for code, history in direct.items():
            assert attrs.astuple(by_way[code])[1:] == attrs.astuple(history)[1:]
            assert by_way[code].state is not BreakState.NEW


def test_severity():
    """Of several rows with one reference, the most severe finding stands for the break."""
    entry = Entry(line=1, reference="T1")
    severities = (Severity.MEDIUM, Severity.CRITICAL)
    findings = [Finding(Code.MERCHANT_REFF_DIFFERS, "…", severity=severity) for severity in severities]
    rows = [Row(entry=entry, bucket=Bucket.BREAK, findings=(finding,)) for finding in findings]
    assert breaks_of(rows, run="a")[Code.MERCHANT_REFF_DIFFERS].severity is Severity.CRITICAL

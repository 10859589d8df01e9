"""What became of each break between two runs, for any two runs."""

from datetime import UTC, datetime, timedelta

import pytest

from payclient import Transaction
from payclient.reconcile import (
    STRICT,
    Bucket,
    Case,
    Code,
    FeeSchedule,
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
from payclient.reconcile._judgement.records import breaks_of, changes_of
from payclient.reconcile._judgement.sides import observe
from payclient.reconcile.ledger import Entry
from support.reconciling import NOT_FOUND

NIGHT = datetime(2026, 11, 20, 2, tzinfo=UTC)


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


UNDERPAID = {"amount": 9, "status": "Paid"}
WAS = (judged(UNDERPAID, {}),)


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


def test_age():
    """A break is as old as the first answer that showed it, by the calendar: two nights are not quite a day apart."""
    (found,) = changes(WAS, judged(UNDERPAID, {}, at=NIGHT + timedelta(days=1, seconds=-40)))
    assert (found.history.state, found.history.first_seen, found.history.age_days) == ("still_open", NIGHT, 1)


def test_severity():
    """Of several rows with one reference, the most severe finding stands for the break."""
    severities = (Severity.MEDIUM, Severity.CRITICAL)
    findings = [Finding(Code.MERCHANT_REFF_DIFFERS, "…", severity=severity) for severity in severities]
    rows = [Row(entry=Entry(line=1, reference="T1"), bucket=Bucket.BREAK, findings=(each,)) for each in findings]
    assert breaks_of(rows, run="a")[Code.MERCHANT_REFF_DIFFERS].severity is Severity.CRITICAL


PAST, AHEAD = datetime(2026, 11, 1), datetime(2027, 1, 1)  # noqa: DTZ001  an expiry has no time zone
MADE = {
    "late_payment": ({"status": "Canceled"}, {}),
    "paid_not_recorded": ({"status": "Pending"}, {}),
    "recorded_not_paid": ({"status": "Paid"}, {"status": "Failed"}),
    "refund_not_recorded": ({"status": "Paid"}, {"status": "Refunded"}),
    "refund_not_made": ({"status": "Refunded"}, {}),
    "unknown_status": ({"status": "Settled"}, {}),
    "pending_on_one_side": ({"status": "Canceled", "expdate": AHEAD}, {"status": "Pending"}),
    "closed_differently": ({"status": "Canceled"}, {"status": "Failed"}),
    "stale_pending": ({"status": "Pending", "expdate": PAST}, {"status": "Pending"}),
    "underpaid": ({"amount": 9}, {}),
    "overpaid": ({"amount": 4}, {}),
    "fee_differs": ({"fee": 2}, {"fee": 1}),
    "fee_off_schedule": ({"fee": 1, "amount": 5, "payment_method": "VA"}, {"fee": 1, "payment_method": "VA"}),
    "net_differs": ({"amount_received": 4}, {"amount_received": 5}),
    "short_received": ({"fee": 1, "amount": 5}, {"amount_received": 3}),
    "merchant_reff_differs": ({"merchant_reff": "A"}, {"merchant_reff": "B"}),
    "method_differs": ({"payment_method": "VA"}, {"payment_method": "QR"}),
    "payment_code_differs": ({"payment_code": "11"}, {"payment_code": "12"}),
    "expiry_differs": ({"expdate": AHEAD}, {"expdate": PAST}),
    "missing_at_service": ({"status": "Paid", "amount": 5}, NOT_FOUND),
}
"""A ledger row and an answer with each finding that the two alone make."""


@pytest.mark.parametrize("assumed", ["paid", "none"])
@pytest.mark.parametrize("code", MADE)
def test_what_is_left_out_resolves_nothing(code, assumed):
    """A break is not known, or still there, on a night that has no column for what it is about, or an empty cell."""
    (ledger, service), rules = MADE[code], Rules(assume_status=assumed, fees={"VA": FeeSchedule(flat=3)})
    was = [judged(ledger, service, rules=rules)]
    assert code in breaks_of(was, run="a")
    empty = [{**ledger, name: None} for name in ledger if name not in ("amount", "status", "fee")]
    for less in [{other: ledger[other] for other in ledger if other != name} for name in ledger] + empty:
        states = {
            each.now.code.value: each.now.state.value for each in changes(was, judged(less, service, rules=rules))
        }
        assert states[code] in ("not_known", "still_open", "changed"), less

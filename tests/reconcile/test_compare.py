"""The table of all differences between a ledger entry and a transaction."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import attrs
import pytest

from payclient import Transaction
from payclient.ledger import Entry
from payclient.reconcile import Code, Rules, Severity, compare
from payclient.reconcile._finding import SEVERITIES

EXPIRY = datetime.fromisoformat("2026-11-21 10:00:00")
BEFORE = EXPIRY.replace(tzinfo=UTC) - timedelta(hours=1)
AFTER = EXPIRY.replace(tzinfo=UTC) + timedelta(hours=1)
FIELDS = {
    "merchant_reff": "INV-1",
    "amount": 15000,
    "fee": 500,
    "amount_received": 14500,
    "status": "paid",
    "payment_method": "VA",
    "payment_code": "0077",
    "expdate": EXPIRY,
}
ENTRY = Entry(line=1, reference="T1", **FIELDS)
TRANSACTION = Transaction(reference="T1", payment_name="Bank", **FIELDS)


def codes(entry=None, transaction=None, *, at=BEFORE, time_zone=UTC):
    ours, theirs = attrs.evolve(ENTRY, **(entry or {})), attrs.evolve(TRANSACTION, **(transaction or {}))
    return [finding.code.value for finding in compare(ours, theirs, at=at, rules=Rules(time_zone=time_zone))]


def test_agreement():
    """Two sides that agree in everything give no finding."""
    assert codes() == []


def test_only_what_is_there():
    """A column that the ledger does not have is not compared."""
    other = Transaction(reference="T1", merchant_reff="X", amount=9, status="odd", expdate=EXPIRY, payment_code="1")
    assert compare(Entry(line=1, reference="T1"), other, at=AFTER) == ()


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "amount"])
def test_empty_cell(name):
    """An empty cell says that there is nothing, and is compared with what the service has."""
    assert len(codes({name: None})) == 1


@pytest.mark.parametrize(
    "name", ["merchant_reff", "fee", "amount_received", "payment_method", "payment_code", "expdate"]
)
def test_nothing_on_both_sides(name):
    """Nothing on both sides agrees."""
    assert codes({name: None}, {name: None}) == []


@pytest.mark.parametrize(
    ("transaction", "expected"),
    [
        ({"merchant_reff": "INV-2"}, ["merchant_reff_differs"]),
        ({"merchant_reff": "inv-1"}, ["merchant_reff_differs"]),
        ({"merchant_reff": None}, ["merchant_reff_differs"]),
        ({"payment_method": "QR"}, ["method_differs"]),
        ({"payment_code": "77"}, ["payment_code_differs"]),
        ({"amount": 14999, "amount_received": 14499}, ["underpaid", "net_differs"]),
        ({"amount": 15001, "fee": 501}, ["overpaid", "fee_differs"]),
        ({"amount": 15001}, ["overpaid", "service_arithmetic"]),
        ({"fee": 501}, ["fee_differs", "service_arithmetic"]),
        ({"fee": None}, ["fee_differs"]),
        ({"amount_received": 14501}, ["net_differs", "service_arithmetic"]),
        ({"expdate": EXPIRY + timedelta(seconds=1)}, ["expiry_differs"]),
        ({"deviations": ("amount: text",)}, ["tolerated_deviation"]),
    ],
)
def test_fields(transaction, expected):
    """Each field that differs is a finding of its own, the most severe first."""
    assert codes(transaction=transaction) == expected


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ("PAID", "Paid", []),
        ("cancelled", "Canceled", []),
        ("pending", "Paid", ["paid_not_recorded"]),
        ("failed", "Paid", ["paid_not_recorded"]),
        ("refunded", "Paid", ["paid_not_recorded"]),
        (None, "Paid", ["paid_not_recorded"]),
        ("expired", "Paid", ["late_payment"]),
        ("canceled", "Paid", ["late_payment"]),
        ("paid", "pending", ["recorded_not_paid"]),
        ("paid", "Canceled", ["recorded_not_paid"]),
        ("paid", "refunded", ["recorded_not_paid"]),
        ("expired", "Canceled", ["closed_differently"]),
        ("refunded", "failed", ["closed_differently"]),
        ("pending", "expired", ["stale_pending"]),
        ("canceled", "pending", ["stale_pending"]),
        ("pending", "pending", []),
        ("settled", "Paid", ["unknown_status"]),
        ("paid", "Settled", ["unknown_status"]),
        ("settled", "settled", ["unknown_status"]),
        (None, "pending", ["unknown_status"]),
        ("1", "1", ["unknown_status"]),
    ],
)
def test_statuses(ours, theirs, expected):
    """Two states mean one thing together, and a word that is not known means nothing."""
    assert codes({"status": ours}, {"status": theirs}) == expected


@pytest.mark.parametrize(("at", "expected"), [(BEFORE, []), (AFTER, ["stale_pending"])])
def test_pending_on_both_sides(at, expected):
    """Pending on both sides is stale once the expiry has passed."""
    assert codes({"status": "pending"}, {"status": "pending"}, at=at) == expected


def test_pending_without_a_zone():
    """Without a time zone, an expiry of an hour ago is not said to have passed."""
    assert codes({"status": "pending"}, {"status": "pending"}, at=AFTER, time_zone=None) == []


def test_letter_case():
    """A merchant_reff in which only letter case differs is less severe, and says so."""
    (finding,) = compare(ENTRY, attrs.evolve(TRANSACTION, merchant_reff="inv-1"), at=BEFORE)
    assert (finding.severity, "only letter case differs" in finding.sentence) == (Severity.MEDIUM, True)


@pytest.mark.parametrize(
    ("severity", "expected"),
    [
        ("CRITICAL", "paid_twice recorded_not_paid paid_not_recorded late_payment merchant_reff_differs"),
        ("HIGH", "missing_at_service duplicate_reference underpaid overpaid net_differs"),
        ("MEDIUM", "fee_differs unknown_status stale_pending method_differs payment_code_differs"),
        ("LOW", "closed_differently expiry_differs service_arithmetic"),
        ("INFO", "tolerated_deviation"),
    ],
)
def test_severities(severity, expected):
    """Each code has the severity that users were told."""
    assert [code.value for code in Code if SEVERITIES[code] is Severity[severity]] == expected.split()


def test_sentence():
    """The sentence holds both sides and the difference; the sides stand apart, too."""
    (finding, _) = compare(ENTRY, attrs.evolve(TRANSACTION, amount=14000), at=BEFORE)
    assert finding.sentence == "amount is 15000 in the ledger and 14000 at the service, which is 1000 less"
    assert (finding.ledger, finding.service) == (15000, 14000)


def test_hostile_sentence():
    """What the service wrote cannot act on the terminal that shows the sentence."""
    (finding,) = compare(ENTRY, attrs.evolve(TRANSACTION, payment_method="\x1b[2J\u202eVA"), at=BEFORE)
    assert finding.sentence.isprintable()


def test_most_severe_first():
    """Findings are in order of severity, and in the order of the codes where that is equal."""
    found = codes(
        {"status": "pending", "merchant_reff": "x", "fee": 1, "payment_method": "y", "expdate": None, "amount": 1}
    )
    assert found == [
        *("paid_not_recorded", "merchant_reff_differs", "overpaid", "fee_differs", "method_differs", "expiry_differs"),
    ]

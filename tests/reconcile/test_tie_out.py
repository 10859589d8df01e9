"""The bridge from the ledger's total to the service's leaves nothing over."""

from __future__ import annotations

import attrs
import pytest

from payclient import Transaction
from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile import Bucket, Code, Finding, Row, Step, TieOutError
from payclient.reconcile._tie_out import Bridge, step_of

ENTRY = Entry(line=2, reference="T1", amount=100)


def row(bucket, *codes, service=100, entry=ENTRY, is_repeat=False):
    transaction = None if service is None else Transaction(reference="T1", amount=service, status="Paid")
    findings = tuple(Finding(code, "") for code in codes)
    return Row(entry=entry, bucket=bucket, findings=findings, transaction=transaction, is_repeat=is_repeat)


def bridge(*rows):
    bridge = Bridge()
    for each in rows:
        bridge.add(each)
    return bridge.tie_out()


CASES = [
    (row(Bucket.MATCHED), Step.TOLERATED, 0),
    (row(Bucket.MATCHED, service=99), Step.TOLERATED, -1),
    (row(Bucket.BREAK, Code.MISSING_AT_SERVICE, service=None), Step.MISSING, -100),
    (row(Bucket.BREAK, Code.MISSING_AT_SERVICE, service=None, is_repeat=True), Step.MISSING, -100),
    (row(Bucket.BREAK, Code.DUPLICATE_REFERENCE, is_repeat=True), Step.DUPLICATES, -100),
    (row(Bucket.BREAK, Code.DUPLICATE_REFERENCE), Step.UNDER_OR_OVERPAID, 0),
    (row(Bucket.BREAK, Code.UNDERPAID, service=90), Step.UNDER_OR_OVERPAID, -10),
    (row(Bucket.BREAK, Code.OVERPAID, service=120), Step.UNDER_OR_OVERPAID, 20),
    (row(Bucket.BREAK, Code.METHOD_DIFFERS), Step.UNDER_OR_OVERPAID, 0),
    (row(Bucket.BREAK, Code.RECORDED_NOT_PAID, Code.OVERPAID, service=120), Step.STATUS_BREAKS, -100),
    (row(Bucket.BREAK, Code.UNKNOWN_STATUS), Step.STATUS_BREAKS, -100),
    (row(Bucket.OPEN), Step.OPEN, -100),
    (row(Bucket.UNRESOLVED, service=None), Step.UNRESOLVED, -100),
    (row(Bucket.UNRESOLVED, service=70), Step.UNRESOLVED, -100),
    (row(Bucket.REJECTED, entry=RejectedEntry(line=2, reason="x", amount=100), service=None), Step.REJECTED, -100),
]


@pytest.mark.parametrize(("each", "step", "amount"), CASES)
def test_steps(each, step, amount):
    """Each row belongs to one step, and changes the total by what the service does not confirm of it."""
    result = bridge(each)
    moved = {found.step: found.amount for found in result.steps if found.rows}
    assert (step_of(each), moved) == (step, {step: amount})
    assert (result.ledger_total, result.service_total, result.residual) == (100, 100 + amount, 0)


def test_all_together():
    """The steps of many rows add up, in the order in which people read them."""
    result = bridge(*(each for each, _, _ in CASES))
    assert [found.step for found in result.steps] == list(Step)
    assert result.ledger_total == 100 * len(CASES)
    assert result.ledger_total + sum(found.amount for found in result.steps) == result.service_total


@pytest.mark.parametrize(
    "each",
    [
        row(Bucket.MATCHED, entry=Entry(line=1, reference="T1")),
        row(Bucket.REJECTED, entry=RejectedEntry(line=1, reason="x"), service=None),
    ],
)
def test_without_amount(each):
    """A row that states no amount takes no part, and is counted."""
    result = bridge(each)
    assert (result.ledger_total, result.service_total, result.rows_without_amount) == (0, 0, 1)


def test_residual():
    """A residual is raised as our own bug, and says how large it is."""
    broken = Bridge()
    broken.add(row(Bucket.MATCHED))
    broken._service_total += 1
    with pytest.raises(TieOutError, match="-1 of 100 is not explained"):
        broken.tie_out()


def test_nothing():
    """No rows tie."""
    assert attrs.asdict(bridge())["service_total"] == 0

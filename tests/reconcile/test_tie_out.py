"""The bridge from the ledger's total to the service's leaves nothing over."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def waived(each):
    return attrs.evolve(each, findings=tuple(attrs.evolve(finding, waived="agreed") for finding in each.findings))


CASES = [
    (row(Bucket.MATCHED), Step.TOLERATED, 0),
    (row(Bucket.MATCHED, service=99), Step.TOLERATED, -1),
    (waived(row(Bucket.MATCHED, Code.UNDERPAID, service=90)), Step.TOLERATED, -10),
    (waived(row(Bucket.MATCHED, Code.MISSING_AT_SERVICE, service=None)), Step.TOLERATED, -100),
    (waived(row(Bucket.MATCHED, Code.RECORDED_NOT_PAID, Code.OVERPAID, service=120)), Step.TOLERATED, -100),
    (waived(row(Bucket.MATCHED, Code.DUPLICATE_REFERENCE, is_repeat=True)), Step.TOLERATED, -100),
    (waived(row(Bucket.MATCHED, Code.DUPLICATE_REFERENCE)), Step.TOLERATED, 0),
    (waived(row(Bucket.MATCHED, Code.PAID_TWICE)), Step.TOLERATED, 0),
    (waived(row(Bucket.OPEN, Code.MISSING_AT_SERVICE, service=None)), Step.OPEN, -100),
    (waived(row(Bucket.OPEN, Code.PAID_NOT_RECORDED)), Step.OPEN, -100),
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


def test_waived_in_a_break():
    """Where the money of a break is does not depend on what of it was waived."""
    accepted = Finding(Code.RECORDED_NOT_PAID, "", waived="agreed")
    each = row(Bucket.BREAK, Code.UNDERPAID, service=90)
    each = attrs.evolve(each, findings=(*each.findings, accepted))
    assert (step_of(each), bridge(each).service_total) == (Step.STATUS_BREAKS, 0)


ANY_ROW = st.builds(
    lambda bucket, codes, service, is_repeat, excused: attrs.evolve(
        each := row(bucket, *codes, service=None if Code.MISSING_AT_SERVICE in codes else service, is_repeat=is_repeat),
        findings=tuple(
            attrs.evolve(finding, waived="agreed" if is_waived else "")
            for finding, is_waived in zip(each.findings, excused, strict=False)
        ),
    ),
    st.sampled_from(list(Bucket)),
    st.lists(st.sampled_from(list(Code)), max_size=4, unique=True),
    st.none() | st.integers(-200, 200),
    st.booleans(),
    st.lists(st.booleans(), min_size=4, max_size=4),
)


@given(rows=st.lists(ANY_ROW, max_size=8))
def test_any_rows(rows):
    """Whatever rows there are, even such as no judge would make, nothing is left over; a missing one has no amount."""
    result = bridge(*rows)
    assert result.residual == 0
    assert sum(step.rows for step in result.steps) == len(rows)


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

"""The bridge from the ledger's paid total to the service's leaves nothing over."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient import Transaction
from payclient.reconcile import (
    Answer,
    Bucket,
    Case,
    Code,
    Difference,
    Finding,
    Observation,
    Row,
    Rules,
    Status,
    Step,
    TieOutError,
    Tolerance,
    judge,
    step_of,
)
from payclient.reconcile.ledger import ABSENT, Entry, RejectedEntry
from support.planted import tally_of
from support.reconciling import NOON

RULES = Rules(tolerances={"amount": Tolerance(below=5)})
UNKNOWN = "odd"


def looked(answer, transaction=None):
    return Observation(answer=answer, at=NOON, transaction=transaction)


def judged(ours, theirs, *, amount=100, service=100, rules=RULES, looks=2, is_repeat=False):
    """Return the row of a ledger that says *ours*, where the service says *theirs*; None is not found."""
    entry = Entry(line=2, reference="T1", status=ours, amount=amount)
    found = None if theirs is None else Transaction(reference="T1", amount=service, status=theirs)
    seen = looked(Answer.FOUND, found) if found else looked(Answer.NOT_FOUND)
    case = Case(entry=entry, first=seen, second=seen if looks == 2 else None, other_found=1)
    return judge(attrs.evolve(case, is_repeat=is_repeat, rows=1 + is_repeat), rules=rules)


def bridge(*rows):
    return tally_of(rows).summary().tie_out


def waived(each):
    findings = tuple(attrs.evolve(finding, waived="agreed") for finding in each.findings)
    return attrs.evolve(each, bucket=Bucket.MATCHED, findings=findings)


REJECTED = RejectedEntry(line=2, reason="x", amount=100, status="Paid")
CASES = [
    (judged("Paid", "Paid"), Step.MATCHED, 0),
    (judged("Canceled", "Canceled"), Step.MATCHED, 0),
    (judged("Canceled", "Canceled", service=99), Step.TOLERATED, 0),
    (judged("Paid", "Paid", service=95), Step.TOLERATED, -5),
    (waived(judged("Paid", None)), Step.TOLERATED, -100),
    (waived(judged("Paid", "Canceled")), Step.TOLERATED, -100),
    (waived(judged("Paid", "Paid", is_repeat=True)), Step.TOLERATED, -100),
    (judged("Paid", None), Step.MISSING, -100),
    (judged("Pending", None), Step.MISSING, 0),
    (judged("Paid", "Paid", is_repeat=True), Step.DUPLICATES, -100),
    (judged("Paid", "Paid", service=90), Step.UNDERPAID, -10),
    (judged("Paid", "Paid", service=120), Step.OVERPAID, 20),
    (judged("Canceled", "Canceled", service=120), Step.OTHER_BREAKS, 0),
    (judged("Paid", "Canceled"), Step.RECORDED_NOT_PAID, -100),
    (judged("Paid", "Pending", service=70), Step.RECORDED_NOT_PAID, -100),
    (judged(ABSENT, "Canceled"), Step.RECORDED_NOT_PAID, -100),
    (judged("Paid", "Refunded"), Step.REFUND_NOT_RECORDED, -100),
    (judged("Canceled", "Refunded"), Step.REFUND_NOT_RECORDED, 0),
    (judged("Refunded", "Paid"), Step.REFUND_NOT_MADE, 100),
    (judged("Refunded", "Canceled"), Step.REFUND_NOT_MADE, 0),
    (judged("Pending", "Paid", service=120), Step.PAID_NOT_RECORDED, 120),
    (judged(None, "Paid"), Step.PAID_NOT_RECORDED, 100),
    (judged("Expired", "Paid"), Step.LATE_PAYMENT, 100),
    (judged("Paid", UNKNOWN), Step.UNKNOWN_STATUS, -100),
    (judged(UNKNOWN, "Paid"), Step.UNKNOWN_STATUS, 100),
    (judged("Expired", "Canceled"), Step.OTHER_BREAKS, 0),
    (judged("Pending", "Canceled"), Step.OTHER_BREAKS, 0),
    (judged("Paid", "Paid", amount=ABSENT), Step.AMOUNT_NOT_STATED, 100),
    (judged(ABSENT, "Paid", rules=Rules(assume_status="none")), Step.STATUS_NOT_COMPARED, 100),
    (judged(ABSENT, "Canceled", rules=Rules(assume_status="none")), Step.STATUS_NOT_COMPARED, 0),
    (judged("Pending", "Pending"), Step.OPEN, 0),
    (judged("Paid", "Canceled", looks=1), Step.UNRESOLVED, -100),
    (judge(Case(entry=REJECTED)), Step.REJECTED, -100),
    (judge(Case(entry=attrs.evolve(REJECTED, status="Canceled"))), Step.REJECTED, 0),
]


def test_steps(subtests):
    """Each row belongs to one step, and moves what is paid on one side alone, or paid with another amount."""
    for each, step, amount in CASES:
        with subtests.test(each=each, step=step):
            result = bridge(each)
            moved = {found.step: found.amount for found in result.steps if found.rows}
            assert (step_of(each), moved) == (step, {step: amount})
            assert (result.service_paid_total - result.ledger_paid_total, result.residual) == (amount, 0)


def test_step_of_a_break():
    """Where the money of a break is does not depend on what is waived; one without a usable answer has its own step."""
    each = judged("Paid", "Canceled", service=90)
    findings = [attrs.evolve(f, waived="agreed" * (f.code is Code.RECORDED_NOT_PAID)) for f in each.findings]
    assert step_of(attrs.evolve(each, findings=tuple(findings))) is Step.RECORDED_NOT_PAID
    each = attrs.evolve(judged("Paid", None), findings=(Finding(Code.UNKNOWN_STATUS, ""),))
    assert (step_of(each), bridge(each).service_paid_total) == (Step.UNUSABLE, 0)


def test_gross():
    """The sums added and taken off are shown next to the net, so ten more and ten less stay visible."""
    more, less = judged("Paid", "Paid", service=110), judged("Paid", "Paid", service=90)
    unknown = judged("Paid", UNKNOWN), judged(UNKNOWN, "Paid")
    found = {
        step.step: (step.rows, step.added, step.taken_off) for step in bridge(more, less, *unknown).steps if step.rows
    }
    assert found == {Step.UNDERPAID: (1, 0, -10), Step.OVERPAID: (1, 10, 0), Step.UNKNOWN_STATUS: (2, 100, -100)}


WORDS = ["Paid", "pending", "Canceled", "Expired", "Failed", "Refunded", UNKNOWN]
AMOUNTS = st.integers(-5, 300)
ANY_ROW = st.builds(
    lambda ours, theirs, assumed, **fields: judged(
        ours, theirs, rules=attrs.evolve(RULES, assume_status=assumed), **fields
    ),
    st.sampled_from([*WORDS, None, ABSENT]),
    st.sampled_from([*WORDS, "", None]),
    st.sampled_from(["paid", "none"]),
    amount=AMOUNTS | st.just(ABSENT),
    service=AMOUNTS,
    looks=st.sampled_from([1, 2]),
    is_repeat=st.booleans(),
)


@given(rows=st.lists(ANY_ROW, max_size=12))
def test_any_rows(rows):
    """For any data the residual is 0, totals can be checked without the bridge, and steps go in their direction."""
    result = bridge(*rows)
    assert (result.residual, [step.step for step in result.steps]) == (0, list(Step))
    steps = {step.step: step for step in result.steps}
    assert (steps[Step.MATCHED].added, steps[Step.MATCHED].taken_off) == (0, 0)
    assert (steps[Step.UNDERPAID].added, steps[Step.OVERPAID].taken_off) == (0, 0)
    assert sum(step.rows for step in result.steps) == len(rows)
    assert result.ledger_paid_total == sum(
        row.entry.amount
        for row in rows
        if row.entry.amount is not ABSENT and (row.entry.status == "Paid" or row.ledger_status is Status.PAID)
    )
    assert result.service_paid_total == sum(
        row.transaction.amount
        for row in rows
        if row.transaction
        and row.transaction.status == "Paid"
        and not row.is_repeat
        and row.bucket is not Bucket.UNRESOLVED
    )


def test_states():
    """Money in every state is added up on both sides, also that which is not paid."""
    rows = [judged("Paid", "Refunded"), judged("Pending", "Paid", service=70), judged("Paid", "Paid", is_repeat=True)]
    states = {state: attrs.astuple(total) for state, total in bridge(*rows).states.items() if any(attrs.astuple(total))}
    assert states == {Status.PAID: (2, 200, 1, 70), Status.PENDING: (1, 100, 0, 0), Status.REFUNDED: (0, 0, 1, 100)}


def test_without_amount():
    """A row that states no amount is counted."""
    result = bridge(
        judged("Paid", "Paid", amount=ABSENT), Row(entry=RejectedEntry(line=1, reason="x"), bucket=Bucket.REJECTED)
    )
    assert (result.ledger_paid_total, result.service_paid_total, result.rows_without_amount) == (0, 100, 2)


def test_broken():
    """Figures that do not tie are raised as our own bug, which says by how much."""
    off = Difference(step=Step.OVERPAID, rows=0, added=1)
    for steps, message in (
        ({Step.OVERPAID: off}, "1 of 100 is not explained"),
        ({Step.MATCHED: Difference(step=Step.MATCHED, rows=0)}, "other rows than the buckets"),
        ({Step.MATCHED: Difference(step=Step.MATCHED, rows=1, added=1, taken_off=-1)}, "rows that matched have other"),
    ):
        broken = tally_of([judged("Paid", "Paid")])
        broken._steps.update(steps)
        with pytest.raises(TieOutError, match=message):
            broken.summary()


def test_any_size():
    """Money beyond 64 bits is exact, in one row and as a sum, on each side."""
    large = 2**63 - 1
    for amount in (large, 10**40 + 1):
        result = bridge(*[judged("Paid", "Paid", amount=amount, service=amount + 1)] * 3)
        assert (result.ledger_paid_total, result.service_paid_total) == (3 * amount, 3 * (amount + 1))
        assert {step.step: step.added for step in result.steps if step.rows} == {Step.OVERPAID: 3}

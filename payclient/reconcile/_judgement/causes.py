"""
Internal: the bridges without a residual: from the ledger's paid total to the service's, and from there to a statement.

The ledger's total is the sum of all rows that are *paid* by their word or by assumption. Only the ledger is needed.
The service's total is the sum that the service has as paid for the references in the ledger, each reference once. It
can be tied to a statement. The difference that a row makes belongs to exactly one step. Money in other states is not
part of the bridge. It is summed by state on both sides.

The second bridge begins where the first ends, and goes to the total of a statement, and to the money that reached the
bank. The statement's total is the sum of all its lines. Only the statement is needed. The money of each reference
belongs to exactly one step, but for the fee of a settled one.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from attrs import frozen

from payclient.reconcile._judgement.codes import BridgeStep, Code, Difference, PatternKind, Status, Step, normalise
from payclient.reconcile._judgement.findings import Bucket, Finding, Origin, Row
from payclient.reconcile._judgement.sides import Settled, StatementTotals
from payclient.reconcile.ledger import ABSENT


class SettlementStep(BridgeStep):
    """The reasons for a difference between the service's paid total and the statement's, in the order of the bridge."""

    SETTLED = "settled", "in this statement or an earlier one, with the same money"
    FEES = "fees", "withheld from settled payments, and fees without a payment"
    REFUND_FEES = "refund_fees", "withheld from refunds, such as dispute fees"
    SETTLED_DIFFERENTLY = "settled_differently", "in the statement, with other money"
    AMOUNT_NOT_STATED = "amount_not_stated", "in the statement, without money"
    NOT_SETTLED = "not_settled", "paid at the service, but not in the statement"
    NOT_SETTLED_YET = "not_settled_yet", "the same, and still in time"
    SETTLED_NOT_PAID = "settled_not_paid", "in the statement, but not paid at the service"
    REFUNDED = "refunded", "taken back in the statement, but not paid at the service"
    OVER_REFUNDED = "over_refunded", "taken back in the statement beyond what was paid"
    SETTLED_BEFORE = "settled_before", "in the statement of an earlier run"
    UNRESOLVED = "unresolved", "in the statement, but not known at the service"
    REJECTED = "rejected", "lines of the statement that cannot be used"


@frozen(kw_only=True)
class Settlement:
    """
    The whole bridge.

    Attributes:
        service_paid_total: Sum of what the service has as paid, each reference once.
        steps: Every step, empty ones included.
        statement: The statement, with its total.
        not_in_ledger: References that the statement has and the ledger does not.
        payout: The amount that the bank received. None if it was not given.
    """

    service_paid_total: int
    steps: tuple[Difference[SettlementStep], ...]
    statement: StatementTotals
    not_in_ledger: int = 0
    payout: int | None = None

    @property
    def residual(self) -> int:
        """The part of the difference that the steps do not explain."""
        return self.service_paid_total + sum(step.amount for step in self.steps) - self.statement.total

    @property
    def payout_difference(self) -> int:
        """Payout minus the statement's total. 0 without a payout."""
        return 0 if self.payout is None else self.payout - self.statement.total

    @property
    def is_off(self) -> bool:
        """Whether the statement as a whole has a problem: another payout, or lines that cannot be used."""
        return bool(self.payout_difference or self.statement.rejected_lines)


def settlement_moves(row: Row) -> Iterator[tuple[SettlementStep, int]]:
    """Yield the steps of *row* with their money, if it is the first row of its reference."""
    if row.other_side is None or row.is_repeat:
        return
    settled, is_known = row.other_side.settled, row.transaction is not None and row.bucket is not Bucket.UNRESOLVED
    paid = row.service_amount if is_known and row.service_status is Status.PAID else None
    if settled is not None and settled.before is not None:
        yield SettlementStep.SETTLED_BEFORE, -settled.before
    if paid is not None and settled is not None:
        yield from _settled(row, settled, paid)
    elif paid is not None:
        waived = any(finding.code is Code.NOT_SETTLED and finding.waived for finding in row.findings)
        yield SettlementStep.NOT_SETTLED_YET if waived else SettlementStep.NOT_SETTLED, -paid
    elif settled is not None:
        yield from _unpaid(row, settled)


def _settled(row: Row, settled: Settled, paid: int) -> Iterator[tuple[SettlementStep, int]]:
    if settled.stated is None and not settled.money:
        yield SettlementStep.AMOUNT_NOT_STATED, -paid
        return
    fee = _fee(row, settled, paid)
    if fee:
        yield SettlementStep.FEES, fee
    if settled.refund_fees:
        yield SettlementStep.REFUND_FEES, settled.refund_fees
    rest = settled.money - settled.refund_fees - paid - fee
    is_different = rest or any(finding.code is Code.SETTLED_DIFFERENTLY for finding in row.findings)
    yield SettlementStep.SETTLED_DIFFERENTLY if is_different else SettlementStep.SETTLED, rest


def _unpaid(row: Row, settled: Settled) -> Iterator[tuple[SettlementStep, int]]:
    # Without a usable answer, it is unknown whether the transaction exists.
    is_unusable = row.bucket is Bucket.REJECTED or any(finding.code is Code.UNUSABLE_ANSWER for finding in row.findings)
    if row.bucket is Bucket.UNRESOLVED or (row.transaction is None and is_unusable):
        yield SettlementStep.UNRESOLVED, settled.money
        return
    stated = settled.stated
    if stated is None or stated > 0 or any(finding.code is Code.SETTLED_NOT_PAID for finding in row.findings):
        yield SettlementStep.SETTLED_NOT_PAID, settled.money
        return
    sides = (finding for finding in row.findings if finding.code is Code.SETTLED_DIFFERENTLY)
    least = next((finding.service for finding in sides if isinstance(finding.service, int)), stated)
    moves = {
        SettlementStep.FEES: settled.money - stated - settled.refund_fees,
        SettlementStep.REFUND_FEES: settled.refund_fees,
        SettlementStep.OVER_REFUNDED: stated - least,
    }
    yield from ((step, amount) for step, amount in moves.items() if amount)
    yield SettlementStep.REFUNDED, least


def _fee(row: Row, settled: Settled, paid: int) -> int:
    """Return the fee withheld from a settled payment, usually negative."""
    if settled.amount_received is None:
        return 0
    transaction = row.transaction
    if transaction is not None and transaction.amount_received is not None:
        return transaction.amount_received - paid
    is_different = any(finding.code is Code.SETTLED_DIFFERENTLY for finding in row.findings)
    if transaction is not None and transaction.fee is not None and is_different and settled.amount in (None, paid):
        return -abs(transaction.fee)
    return settled.money - settled.refund_fees - (paid if settled.amount is None else settled.amount)


@frozen
class StateTotal:
    """Rows and money in one state, on both sides. The service's side has each reference once."""

    ledger_rows: int = 0
    ledger_amount: int = 0
    service_rows: int = 0
    service_amount: int = 0


@frozen(kw_only=True)
class TieOut:
    """
    The whole bridge.

    Attributes:
        ledger_paid_total: Sum of the paid amounts in the ledger.
        steps: Every step, empty ones included.
        service_paid_total: Sum of what the service has as paid, each reference once.
        rows_without_amount: Ledger rows without an amount.
        states: Rows and money by state, paid or not. None stands for no status, or an unknown word.
    """

    ledger_paid_total: int
    steps: tuple[Difference[Step], ...]
    service_paid_total: int
    rows_without_amount: int
    states: Mapping[Status | None, StateTotal]

    @property
    def residual(self) -> int:
        """The part of the difference that the steps do not explain."""
        return self.ledger_paid_total + sum(step.amount for step in self.steps) - self.service_paid_total


def paid_by(row: Row) -> tuple[int, int]:
    """Return the part of *row* in the paid totals of the bridge: the ledger's, and the service's."""
    ours = row.ledger_amount if row.ledger_status is Status.PAID and not row.carried_from else 0
    theirs = row.service_amount if row.service_status is Status.PAID and is_counted(row) else 0
    return ours or 0, theirs or 0


def moved_by(row: Row) -> int:
    """Return the paid amount of *row* at the service, minus its paid amount in the ledger."""
    ours, theirs = paid_by(row)
    return theirs - ours


def step_of(row: Row) -> Step:
    """Return the step of *row*. For a break, waived findings count too."""
    if row.bucket is Bucket.UNRESOLVED:
        return Step.UNRESOLVED
    if row.origin is not Origin.LEDGER:
        return Step.CARRIED if row.carried_from else Step.NOT_IN_LEDGER
    if row.bucket in (Bucket.OPEN, Bucket.REJECTED):
        return Step.OPEN if row.bucket is Bucket.OPEN else Step.REJECTED
    if row.transaction is not None and not row.is_repeat:
        if row.entry.status is ABSENT and row.ledger_status is None:
            return Step.STATUS_NOT_COMPARED
        if row.ledger_amount is None and row.bucket is Bucket.MATCHED:
            return Step.AMOUNT_NOT_STATED
    if row.bucket is Bucket.BREAK:
        return _step_of_break(row)
    return Step.TOLERATED if row.is_tolerated else Step.MATCHED


def _step_of_break(row: Row) -> Step:
    codes = [finding.code for finding in row.findings]
    if Code.MISSING_AT_SERVICE in codes:
        return Step.MISSING
    if row.transaction is None:
        return Step.UNUSABLE
    if row.is_repeat:
        return Step.DUPLICATES
    if step := next(filter(None, (code.step for code in codes)), None):
        return step
    moved = moved_by(row)
    if not moved:
        return Step.OTHER_BREAKS
    if row.ledger_amount is None:
        return Step.AMOUNT_NOT_STATED
    return Step.UNDERPAID if moved < 0 else Step.OVERPAID


def is_counted(row: Row) -> bool:
    """Return whether the service's amount counts on this row: it is known, and no earlier row has it."""
    return row.transaction is not None and not row.is_repeat and row.bucket is not Bucket.UNRESOLVED


_MAX_TEXT = 60
SETTLED = "settled amount"
"""The amount of a pattern between service and statement."""

Cause: TypeAlias = tuple[Any, ...]
"""A `PatternKind`, and the values that the rows share, in the form of JSON."""


def causes(row: Row) -> Iterator[Cause]:
    """Yield the attributes that the differences of a break may share with others."""
    decisive = [finding for finding in row.findings if finding.is_decisive]
    has_amount = any(finding.code in (Code.UNDERPAID, Code.OVERPAID) for finding in decisive)
    for finding in decisive:
        # A different net amount repeats the finding of the gross amount.
        if finding.code.pattern is not None and not (finding.code is Code.NET_DIFFERS and has_amount):
            yield from _causes(row, finding)


def _causes(row: Row, finding: Finding) -> Iterator[Cause]:
    code, ours, theirs = finding.code, finding.ledger, finding.service
    if code.is_of_status:
        words = (normalise(_text(ours)), normalise(_text(theirs)))
        yield PatternKind.STATUS, code, *words, row.ledger_status, row.service_status
    elif code.pattern is PatternKind.WORDS:
        yield PatternKind.WORDS, code.fields[0], _text(ours), _text(theirs)
    elif code.pattern is PatternKind.FEE:
        difference = (theirs or 0) - (ours or 0) if not isinstance(ours, str) and not isinstance(theirs, str) else 0
        what, amount = ("schedule", finding.leakage) if code is Code.FEE_OFF_SCHEDULE else ("ledger", difference)
        yield PatternKind.FEE, what, _text(row.transaction and row.transaction.payment_method), amount
    elif isinstance(ours, int) and isinstance(theirs, int):
        name = SETTLED if code.is_of_statement else code.fields[0]
        yield PatternKind.DIFFERENCE, name, theirs - ours
        if ours and theirs:
            yield PatternKind.FACTOR, name, *Fraction(theirs, ours).as_integer_ratio()


def _text(value: object) -> str:
    return "" if value is None else str(value)[:_MAX_TEXT]


@frozen
class Pattern:
    """
    Something that many breaks have in common.

    Attributes:
        kind: The kind of this feature.
        values: What the rows share, in the order of its kind.
        rows: Breaks that have it. A break may be in several patterns.
        amount: The amount at stake in them, as in `Row.at_stake`, with the largest of each payment.
        lines: The ledger lines of the first few.
    """

    kind: PatternKind
    values: tuple[Any, ...]
    rows: int
    amount: int
    lines: tuple[int, ...] = ()

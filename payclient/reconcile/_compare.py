"""Compare one ledger entry with one transaction: a pure function, and the table of all differences."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from payclient._models import Transaction
from payclient._visible import quoted, visible
from payclient.ledger._entry import ABSENT, Entry
from payclient.reconcile._age import excuse
from payclient.reconcile._expiry import is_expired
from payclient.reconcile._finding import Code, Finding, Severity, in_order
from payclient.reconcile._rules import STRICT, Rules
from payclient.reconcile._status import CLOSED, Status


def compare(entry: Entry, transaction: Transaction, *, at: datetime, rules: Rules = STRICT) -> tuple[Finding, ...]:
    """
    Say where the two sides differ.

    Args:
        entry: What the ledger says; columns that it does not have are not compared.
        transaction: What the service says.
        at: When it said so, aware; decides whether an expiry has passed.
        rules: What the user decided.

    Returns:
        The most severe finding first, and those last that a tolerance or the grace waives; empty when all that
        is compared agrees. Whether somebody accepts a finding is decided by `judge`, after it was seen twice.
    """
    found = [*_identity(entry, transaction), *_money(entry, transaction, rules), *_contract(entry, transaction)]
    if (status := _status(entry, transaction, at, rules)) is not None:
        found.append(status)
    return in_order(found) if len(found) > 1 else tuple(found)


def _identity(entry: Entry, transaction: Transaction) -> Iterator[Finding]:
    ours, theirs = entry.merchant_reff, transaction.merchant_reff
    if ours is not ABSENT and ours != theirs:
        if ours is not None and theirs is not None and ours.casefold() == theirs.casefold():
            sentence = f"{_both('merchant_reff', ours, theirs)}; only letter case differs"
            yield Finding(Code.MERCHANT_REFF_DIFFERS, sentence, ledger=ours, service=theirs, severity=Severity.MEDIUM)
        else:
            yield _differs(Code.MERCHANT_REFF_DIFFERS, "merchant_reff", ours, theirs)
    if entry.payment_method is not ABSENT and entry.payment_method != transaction.payment_method:
        yield _differs(Code.METHOD_DIFFERS, "payment_method", entry.payment_method, transaction.payment_method)
    if entry.payment_code is not ABSENT and entry.payment_code != transaction.payment_code:
        yield _differs(Code.PAYMENT_CODE_DIFFERS, "payment_code", entry.payment_code, transaction.payment_code)


def _money(entry: Entry, transaction: Transaction, rules: Rules) -> Iterator[Finding]:
    ours, theirs = entry.amount, transaction.amount
    if ours is not ABSENT and ours != theirs:
        code, word = (Code.UNDERPAID, "less") if theirs < ours else (Code.OVERPAID, "more")
        sentence = f"{_both('amount', ours, theirs)}, which is {abs(theirs - ours)} {word}"
        waived = _tolerated(rules, "amount", ours, theirs)
        yield Finding(code, sentence, ledger=ours, service=theirs, waived=waived)
    if rules.fees and not isinstance(entry.fee, int) and transaction.payment_method in rules.fees:
        yield from _scheduled_fee(transaction, rules)
    elif entry.fee is not ABSENT and entry.fee != transaction.fee:
        waived = _tolerated(rules, "fee", entry.fee, transaction.fee)
        yield _differs(Code.FEE_DIFFERS, "fee", entry.fee, transaction.fee, waived)
    if entry.amount_received is not ABSENT and entry.amount_received != transaction.amount_received:
        waived = _tolerated(rules, "amount_received", entry.amount_received, transaction.amount_received)
        yield _differs(Code.NET_DIFFERS, "amount_received", entry.amount_received, transaction.amount_received, waived)


def _scheduled_fee(transaction: Transaction, rules: Rules) -> Iterator[Finding]:
    """Compare the fee with the schedule, because the ledger states none."""
    method, fee = transaction.payment_method, transaction.fee
    assert method is not None  # noqa: S101  it has a schedule
    expected = rules.fees[method].fee_of(transaction.amount)
    is_due = fee is not None or rules.read_status(transaction.status) is Status.PAID
    if fee != expected and is_due:
        sentence = (
            f"fee is nothing in the ledger and {quoted(fee)} at the service, "
            f"where the schedule of {quoted(method)} expects {expected} on an amount of {transaction.amount}"
        )
        yield Finding(Code.FEE_DIFFERS, sentence, service=fee, waived=_tolerated(rules, "fee", expected, fee))


def _tolerated(rules: Rules, name: str, ours: int | None, theirs: int | None) -> str:
    tolerance = rules.tolerances.get(name)
    return "" if tolerance is None or ours is None or theirs is None else tolerance.waiver(ours, theirs)


def _contract(entry: Entry, transaction: Transaction) -> Iterator[Finding]:
    fee, received = transaction.fee, transaction.amount_received
    if fee is not None and received is not None and transaction.amount - fee != received:
        sentence = (
            f"the service's own numbers do not add up: amount {transaction.amount} less fee {fee} "
            f"is {transaction.amount - fee}, and amount_received is {received}"
        )
        yield Finding(Code.SERVICE_ARITHMETIC, sentence, service=received)
    if entry.expdate is not ABSENT and entry.expdate != transaction.expdate:
        ours, theirs = (None if time is None else time.isoformat(" ") for time in (entry.expdate, transaction.expdate))
        yield _differs(Code.EXPIRY_DIFFERS, "expdate", ours, theirs)
    if transaction.deviations:
        said = visible("; ".join(transaction.deviations), longest=400)
        yield Finding(Code.TOLERATED_DEVIATION, f"the answer was not quite as documented: {said}", service=said)


def _status(entry: Entry, transaction: Transaction, at: datetime, rules: Rules) -> Finding | None:
    if entry.status is ABSENT:
        return None
    ours, theirs = rules.read_status(entry.status), rules.read_status(transaction.status)
    code, remark = _status_code(ours, theirs, entry.status is None)
    if code is None and theirs is Status.PENDING and is_expired(entry, transaction, at, rules.time_zone):
        code, remark = Code.STALE_PENDING, f"although it expired at {transaction.expdate or entry.expdate}"
    if code is None:
        return None
    is_lag = code is not Code.UNKNOWN_STATUS and (ours is Status.PENDING) is not (theirs is Status.PENDING)
    sentence = f"{_both('status', entry.status, transaction.status)}: {remark}"
    waived = excuse(entry, at, rules) if is_lag else ""
    return Finding(code, sentence, ledger=entry.status, service=transaction.status, waived=waived)


def _status_code(ours: Status | None, theirs: Status | None, is_blank: bool) -> tuple[Code | None, str]:
    """Return what two states mean together; *is_blank* says that the ledger records no state at all."""
    if theirs is None or (ours is None and not (is_blank and theirs is Status.PAID)):
        return Code.UNKNOWN_STATUS, "a word that is not known is not compared"
    if ours is theirs:
        return None, ""
    if theirs is Status.PAID:
        if ours in (Status.EXPIRED, Status.CANCELED):
            return Code.LATE_PAYMENT, "paid after the ledger had closed it"
        return Code.PAID_NOT_RECORDED, "paid, and the ledger does not record it"
    if ours is Status.PAID:
        return Code.RECORDED_NOT_PAID, "recorded as paid, and the service does not say so"
    if ours in CLOSED and theirs in CLOSED:
        return Code.CLOSED_DIFFERENTLY, "closed on both sides, for different reasons"
    return Code.STALE_PENDING, "still pending on one side, and closed on the other"


def _differs(code: Code, name: str, ours: str | int | None, theirs: str | int | None, waived: str = "") -> Finding:
    return Finding(code, _both(name, ours, theirs), ledger=ours, service=theirs, waived=waived)


def _both(name: str, ours: str | int | None, theirs: str | int | None) -> str:
    return f"{name} is {quoted(ours)} in the ledger and {quoted(theirs)} at the service"

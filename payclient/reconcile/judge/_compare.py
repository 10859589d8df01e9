"""Compare one ledger entry with one transaction, as a pure function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from unicodedata import normalize

from payclient._escape import escape_unprintable, quote
from payclient.ledger import ABSENT, Entry, Text
from payclient.protocol import Transaction
from payclient.reconcile.judge._status_finding import status_finding
from payclient.reconcile.rules import STRICT, Rules
from payclient.reconcile.values import Code, Finding, Severity, Status, in_order, normalise

_SEPARATORS = re.compile(r"[-\s]+")
_PLACEHOLDERS = frozenset({"0", "n/a", "na", "nil", "none", "null"})


def compare(entry: Entry, transaction: Transaction, *, at: datetime, rules: Rules = STRICT) -> tuple[Finding, ...]:
    """
    Say where the two sides differ.

    Args:
        entry: The ledger row. Columns that the ledger lacks are not compared; without a status column, the row
            counts as *paid* unless the rules say otherwise.
        transaction: The service's answer.
        at: Aware time of the answer; decides whether an expiry has passed.
        rules: How differences are judged.

    Returns:
        The findings, the most severe first and waived ones last; empty when everything compared agrees. `judge`
        applies the accepted differences.
    """
    found = [
        *_identity(entry, transaction),
        *_money(entry, transaction, rules),
        *_arithmetic(entry, transaction, rules),
        *_contract(entry, transaction),
    ]
    if (status := status_finding(entry, transaction, at, rules)) is not None:
        found.append(status)
    return in_order(found) if len(found) > 1 else tuple(found)


def _identity(entry: Entry, transaction: Transaction) -> Iterator[Finding]:
    ours, theirs = _stated(entry.merchant_reff), _text_stated(transaction.merchant_reff)
    if ours is ABSENT:
        pass
    elif ours is None and theirs is not None:
        yield _not_compared("merchant_reff", theirs)
    elif ours != theirs:
        key = reff_key(ours)
        if key is not None and key == reff_key(theirs):
            sentence = f"{_both('merchant_reff', ours, theirs)}; only letter case or spacing differs"
            yield Finding(Code.MERCHANT_REFF_DIFFERS, sentence, ledger=ours, service=theirs, severity=Severity.MEDIUM)
        else:
            yield _differs(Code.MERCHANT_REFF_DIFFERS, "merchant_reff", ours, theirs)
    method, code = _text_stated(transaction.payment_method), _text_stated(transaction.payment_code)
    names = [name for name in (method, _text_stated(transaction.payment_name)) if name]
    yield from _text("payment_method", Code.METHOD_DIFFERS, entry.payment_method, method, names, _same_name)
    yield from _text("payment_code", Code.PAYMENT_CODE_DIFFERS, entry.payment_code, code, [code or ""], _same_code)


def _text(
    name: str,
    code: Code,
    cell: Text,
    theirs: str | None,
    said: list[str],
    is_same: Callable[[str, str], bool],
) -> Iterator[Finding]:
    """Compare a cell with each name that the service has for the value."""
    ours = _stated(cell)
    if ours is None and theirs is not None:
        yield _not_compared(name, theirs)
    elif isinstance(ours, str) and not any(is_same(ours, each) for each in said):
        yield _differs(code, name, ours, theirs)


def _stated(cell: Text) -> Text:
    return ABSENT if cell is ABSENT else _text_stated(cell)


def _not_compared(name: str, theirs: str | int) -> Finding:
    sentence = f"{name} is empty in the ledger and {quote(theirs)} at the service: not compared"
    return Finding(Code.NOT_COMPARED, sentence, service=theirs)


def _money(entry: Entry, transaction: Transaction, rules: Rules) -> Iterator[Finding]:
    ours, theirs = entry.amount, transaction.amount
    if ours is not ABSENT and ours != theirs:
        code, word = (Code.UNDERPAID, "less") if theirs < ours else (Code.OVERPAID, "more")
        sentence = f"{_both('amount', ours, theirs)}, which is {abs(theirs - ours)} {word}"
        waived = _tolerated(rules, "amount", ours, theirs)
        yield Finding(code, sentence, ledger=ours, service=theirs, waived=waived)
    is_left_to_schedule = entry.fee is None and transaction.payment_method in rules.fees
    fee, their_fee = 0 if entry.fee is None else entry.fee, transaction.fee or 0  # an empty fee is a fee of 0
    if fee is not ABSENT and not is_left_to_schedule and fee != their_fee:
        yield _differs(Code.FEE_DIFFERS, "fee", fee, their_fee, _tolerated(rules, "fee", fee, their_fee))
    else:
        yield from _off_schedule(entry, transaction, rules)
    if entry.amount_received is None and transaction.amount_received:
        yield _not_compared("amount_received", transaction.amount_received)
    elif entry.amount_received is not ABSENT and (entry.amount_received or 0) != (transaction.amount_received or 0):
        waived = _tolerated(rules, "amount_received", entry.amount_received, transaction.amount_received)
        yield _differs(Code.NET_DIFFERS, "amount_received", entry.amount_received, transaction.amount_received, waived)


def _off_schedule(entry: Entry, transaction: Transaction, rules: Rules) -> Iterator[Finding]:
    """Compare a fee on which both sides agree, or that only the service states, with its schedule."""
    schedule = rules.fees.get(transaction.payment_method or "")
    fee = transaction.fee or 0
    if schedule is None or not (fee or rules.read_status(transaction.status) is Status.PAID):
        return
    expected = schedule.fee_of(transaction.amount)
    if fee != expected:
        side = "on both sides" if isinstance(entry.fee, int) else "at the service"
        sentence = (
            f"fee is {fee} {side}, where the schedule of {quote(transaction.payment_method)} "
            f"expects {expected} on an amount of {transaction.amount}"
        )
        yield Finding(
            Code.FEE_OFF_SCHEDULE,
            sentence,
            ledger=None if entry.fee is ABSENT else entry.fee,
            service=fee,
            leakage=fee - expected,
            waived=_tolerated(rules, "fee", expected, fee),
        )


def _arithmetic(entry: Entry, transaction: Transaction, rules: Rules) -> Iterator[Finding]:
    """Check that the service's own numbers add up, with the fee that is expected where the service states none."""
    amount, received = transaction.amount, transaction.amount_received
    if received is None:
        return
    fee, whose = transaction.fee, ""
    if fee is None and isinstance(entry.fee, int):
        fee, whose = entry.fee, " of the ledger"
    elif fee is None and (schedule := rules.fees.get(transaction.payment_method or "")) is not None:
        fee, whose = schedule.fee_of(amount), " of the schedule"
    is_paid, due = rules.read_status(transaction.status) is Status.PAID, amount - (fee or 0)
    said = f"amount {amount}" if fee is None else f"amount {amount} less fee {fee}{whose} is {due}"
    # Without a known fee, only a payment of nothing is certainly too little.
    if is_paid and received < due and (fee is not None or received <= 0 < amount):
        sentence = f"paid at the service, {said}, and amount_received is {received}: {due - received} did not arrive"
        yield Finding(Code.SHORT_RECEIVED, sentence, ledger=due, service=received, leakage=due - received)
    elif fee is None and is_paid and received < due:
        sentence = (
            f"paid at the service, {said}, and amount_received is {received}: no fee is known, so up to "
            f"{due - received} may be lacking"
        )
        yield Finding(Code.SERVICE_ARITHMETIC, sentence, service=received, leakage=due - received)
    elif transaction.fee is not None and received != due:
        sentence = f"the service's own numbers do not add up: {said}, and amount_received is {received}"
        yield Finding(Code.SERVICE_ARITHMETIC, sentence, service=received)


def _tolerated(rules: Rules, name: str, ours: int | None, theirs: int | None) -> str:
    tolerance = rules.tolerances.get(name)
    return "" if tolerance is None or ours is None or theirs is None else tolerance.waiver(ours, theirs)


def _contract(entry: Entry, transaction: Transaction) -> Iterator[Finding]:
    if entry.expdate is None and transaction.expdate is not None:
        yield _not_compared("expdate", transaction.expdate.isoformat(" "))
    elif entry.expdate is not ABSENT and entry.expdate != transaction.expdate:
        ours, theirs = (None if time is None else time.isoformat(" ") for time in (entry.expdate, transaction.expdate))
        yield _differs(Code.EXPIRY_DIFFERS, "expdate", ours, theirs)
    if transaction.deviations:
        said = escape_unprintable("; ".join(transaction.deviations), max_length=400)
        yield Finding(Code.TOLERATED_DEVIATION, f"the answer was not quite as documented: {said}", service=said)


def _differs(code: Code, name: str, ours: str | int | None, theirs: str | int | None, waived: str = "") -> Finding:
    return Finding(code, _both(name, ours, theirs), ledger=ours, service=theirs, waived=waived)


def _both(name: str, ours: str | int | None, theirs: str | int | None) -> str:
    return f"{name} is {quote(ours)} in the ledger and {quote(theirs)} at the service"


# Texts that two programs may write differently


def _text_stated(text: str | None) -> str | None:
    """Return *text* without surrounding spaces; None where it is empty or a dash, and so states nothing."""
    text = (text or "").strip()
    return text if any(map(str.isalnum, text)) else None


def reff_key(merchant_reff: str | None) -> str | None:
    """Return a `merchant_reff` normalised for case, width and spacing; None where it names no invoice."""
    text = _text_stated(merchant_reff)
    key = None if text is None else " ".join(normalize("NFKC", text).casefold().split())
    return None if key in _PLACEHOLDERS else key


def _same_code(ours: str, theirs: str) -> bool:
    """Return whether two payment codes have the same characters, apart from case, width, spaces and dashes."""
    ours, theirs = (_SEPARATORS.sub("", normalize("NFKC", code)).casefold() for code in (ours, theirs))
    return ours == theirs


def _same_name(ours: str, theirs: str) -> bool:
    """Return whether two names are the same word, apart from case, width, spaces, dashes and underscores."""
    return normalise(normalize("NFKC", ours)) == normalise(normalize("NFKC", theirs))

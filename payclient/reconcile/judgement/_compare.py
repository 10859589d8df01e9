"""Compare one ledger entry with one transaction, as pure functions: first the states of both sides, then the fields."""

from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from operator import attrgetter

from payclient._shared.escape import escape_unprintable, quote
from payclient.protocol import Transaction, missing_amount, text_stated
from payclient.reconcile._fields import COMPARED_FIELDS, Field
from payclient.reconcile.ledger import ABSENT, Entry, Text
from payclient.reconcile.rules import (
    FIRST_ON_EARTH,
    LAST_ON_EARTH,
    STRICT,
    FeeSchedule,
    Limit,
    Rules,
    in_zone,
    limit_text,
)
from payclient.reconcile.values import CLOSED, Assumed, Code, Finding, Severity, Status, folded, in_order, states_none


def excuse(entry: Entry, at: datetime, rules: Rules) -> str:
    """Return the reason why a row may still be missing, or pending on one side. Empty without one."""
    # A row without an age is not excused. One from the future is excused within the grace, because clocks
    # differ, and not beyond, because a mistyped year would hide it for good.
    is_young = is_younger(entry, at, rules.grace, rules)
    return f"the row is younger than the grace of {limit_text(rules.grace)}" if is_young else ""


def is_younger(entry: Entry, at: datetime, limit: Limit, rules: Rules) -> bool:
    """Return whether a row is younger than *limit* at the time of an answer; never if it has an unknown age."""
    created = entry.created_at
    if not limit or not isinstance(created, datetime):
        return False
    if isinstance(limit, timedelta):
        return abs(at - in_zone(created, rules.time_zone)) < limit
    zone = rules.time_zone or FIRST_ON_EARTH
    return rules.calendar.is_younger(in_zone(created, zone), at, limit, zone)


def status_finding(entry: Entry, transaction: Transaction, at: datetime, rules: Rules) -> Finding | None:
    if entry.status is ABSENT and rules.assume_status is Assumed.NONE:
        return None
    ours, theirs = rules.status_of(entry), rules.read_status(transaction.status)
    code, remark = _meaning(ours, theirs, entry.status, transaction.status)
    is_pending = code is Code.PENDING_ON_ONE_SIDE or (code is None and theirs is Status.PENDING)
    if is_pending and is_expired(entry, transaction, at, rules.time_zone):
        what = "although it" if code is None else f"{remark}, and it"
        code, remark = Code.STALE_PENDING, f"{what} expired at {transaction.expdate or entry.expdate}"
    if code is None:
        return None
    said = quote(transaction.status or None)
    sides = (
        f"status is assumed to be paid, because the ledger has no status column, and is {said} at the service"
        if entry.status is ABSENT
        else f"status is {quote(entry.status)} in the ledger and {said} at the service"
    )
    is_lag = code is not Code.UNKNOWN_STATUS and (ours is Status.PENDING) is not (theirs is Status.PENDING)
    waived = excuse(entry, at, rules) if is_lag else ""
    word = Status.PAID if entry.status is ABSENT else entry.status
    return Finding(code, f"{sides}: {remark}", ledger=word, service=transaction.status, waived=waived)


def _meaning(ours: Status | None, theirs: Status | None, our_word: Text, word: str) -> tuple[Code | None, str]:
    if theirs is None:
        what = "gives no status" if states_none(word) else "uses a word that is not known"
        return Code.UNKNOWN_STATUS, f"the service {what}, so the two are not compared"
    if ours is None and (our_word is ABSENT or not states_none(our_word)):
        return Code.UNKNOWN_STATUS, "the ledger uses a word that is not known, so the two are not compared"
    if ours is theirs:
        return None, ""
    if Status.PAID in (ours, theirs) or Status.REFUNDED in (ours, theirs):
        return _money_codes(ours, theirs)
    if ours is None:
        return Code.UNKNOWN_STATUS, "the ledger records no status to compare"
    if ours in CLOSED and theirs in CLOSED:
        return Code.CLOSED_DIFFERENTLY, "closed on both sides, for different reasons"
    if ours is Status.PENDING:
        return Code.PENDING_ON_ONE_SIDE, "still pending in the ledger, and closed at the service"
    return Code.PENDING_ON_ONE_SIDE, "closed in the ledger, and still pending at the service"


def _money_codes(ours: Status | None, theirs: Status) -> tuple[Code, str]:
    if theirs is Status.REFUNDED:
        missing = "no refund" if ours is Status.PAID else "neither payment nor refund"
        return Code.REFUND_NOT_RECORDED, f"refunded at the service, and the ledger records {missing}"
    if ours is Status.REFUNDED:
        what = "it is still paid at the service" if theirs is Status.PAID else "the service shows no refund"
        return Code.REFUND_NOT_MADE, f"refunded in the ledger, and {what}"
    if ours is Status.PAID:
        return Code.RECORDED_NOT_PAID, "not paid at the service"
    if ours in (Status.EXPIRED, Status.CANCELED):
        return Code.LATE_PAYMENT, "paid at the service, although the ledger has closed it"
    missing = "no status" if ours is None else "no payment"
    return Code.PAID_NOT_RECORDED, f"paid at the service, and the ledger records {missing}"


def is_expired(entry: Entry, transaction: Transaction, at: datetime, time_zone: tzinfo | None) -> bool:
    """Return whether the expiry has certainly passed: the service's, or else the ledger's."""
    expiry = transaction.expdate or entry.expdate
    return isinstance(expiry, datetime) and expiry.replace(tzinfo=time_zone or LAST_ON_EARTH) < at


def expiry_rule(time_zone: tzinfo | None) -> str:
    """Return the sentence of the report about the judgement of expiry."""
    if time_zone is None:
        return "no time zone was given: an expiry counts as passed only when it has passed everywhere (UTC-12)"
    return f"expiry times were read in the time zone {time_zone}"


_PLACEHOLDERS = frozenset({"0", "n/a", "na", "nil", "none", "null"})


def compare(entry: Entry, transaction: Transaction, *, at: datetime, rules: Rules = STRICT) -> tuple[Finding, ...]:
    """
    Return the differences between the two sides.

    Args:
        entry: The ledger row. Columns that the ledger lacks are not compared. Without a status column, the row
            counts as *paid* by default.
        transaction: The service's answer.
        at: Aware time of the answer. Decides whether an expiry has passed.
        rules: For the judgement of differences.

    Returns:
        The findings, the most severe first and waived ones last. Empty when everything compared agrees. `judge`
        applies the accepted differences.
    """
    schedule = rules.fees.get(transaction.payment_method or "")
    found = [
        *_identity(entry, transaction, rules),
        *_money(entry, transaction, rules, schedule),
        *_arithmetic(entry, transaction, rules, schedule),
        *_contract(entry, transaction),
    ]
    if (status := status_finding(entry, transaction, at, rules)) is not None:
        found.append(status)
    return in_order(found) if len(found) > 1 else tuple(found)


def _identity(entry: Entry, transaction: Transaction, rules: Rules) -> Iterator[Finding]:
    # Nearly all texts are the same on both sides as they are, and need no look at case or spacing.
    if entry.merchant_reff is not ABSENT and entry.merchant_reff != transaction.merchant_reff:
        yield from _reff(text_stated(entry.merchant_reff), text_stated(transaction.merchant_reff))
    for field, ours, theirs in zip(_TEXTS, _texts_of(entry), _texts_at_service(transaction), strict=True):
        if ours is not ABSENT and ours != theirs:
            said = (getattr(transaction, name) for name in field.at_service)
            yield from _text(field, rules, ours, *said)


_TEXTS = tuple(each for each in COMPARED_FIELDS if each.code)
_texts_of = attrgetter(*(each.name for each in _TEXTS))
_texts_at_service = attrgetter(*(each.at_service[0] for each in _TEXTS))


def _reff(ours: str | None, theirs: str | None) -> Iterator[Finding]:
    if ours is None and theirs is not None:
        yield _not_compared("merchant_reff", theirs)
    elif ours != theirs:
        key = reff_key(ours)
        if key is not None and key == reff_key(theirs):
            sentence = f"{_both('merchant_reff', ours, theirs)}; only letter case or spacing differs"
            yield Finding(Code.MERCHANT_REFF_DIFFERS, sentence, ledger=ours, service=theirs, severity=Severity.MEDIUM)
        else:
            yield _differs(Code.MERCHANT_REFF_DIFFERS, "merchant_reff", ours, theirs)


def _text(field: Field, rules: Rules, cell: str | None, *said: str | None) -> Iterator[Finding]:
    ours, theirs = text_stated(cell), text_stated(said[0])
    if ours is None and theirs is not None:
        yield _not_compared(field.name, theirs)
    elif ours is not None and rules.fold(ours, field.name) not in [
        folded(text_stated(each) or "", field.name) for each in said
    ]:
        yield _differs(Code[field.code.upper()], field.name, ours, theirs)


def _not_compared(name: str, theirs: str | int) -> Finding:
    sentence = f"{name} is empty in the ledger and {_shown(theirs)} at the service: not compared"
    return Finding(Code.NOT_COMPARED, sentence, service=theirs)


def _money(entry: Entry, transaction: Transaction, rules: Rules, schedule: FeeSchedule | None) -> Iterator[Finding]:
    ours, theirs = entry.amount, transaction.amount
    if ours is not ABSENT and ours != theirs:
        code, word = (Code.UNDERPAID, "less") if theirs < ours else (Code.OVERPAID, "more")
        sentence = f"{_both('amount', ours, theirs)}, which is {abs(theirs - ours):,} {word}"
        waived = _tolerated(rules, "amount", ours, theirs)
        yield Finding(code, sentence, ledger=ours, service=theirs, waived=waived)
    is_left_to_schedule = entry.fee is None and schedule is not None
    fee, their_fee = 0 if entry.fee is None else entry.fee, transaction.fee or 0  # an empty fee is a fee of 0
    if fee is not ABSENT and not is_left_to_schedule and fee != their_fee:
        yield _differs(Code.FEE_DIFFERS, "fee", fee, their_fee, _tolerated(rules, "fee", fee, their_fee))
    elif schedule is not None:
        yield from _off_schedule(entry, transaction, rules, schedule)
    if entry.amount_received is None and transaction.amount_received:
        yield _not_compared("amount_received", transaction.amount_received)
    elif entry.amount_received is not ABSENT and (entry.amount_received or 0) != (transaction.amount_received or 0):
        waived = _tolerated(rules, "amount_received", entry.amount_received, transaction.amount_received)
        yield _differs(Code.NET_DIFFERS, "amount_received", entry.amount_received, transaction.amount_received, waived)


def _off_schedule(entry: Entry, transaction: Transaction, rules: Rules, schedule: FeeSchedule) -> Iterator[Finding]:
    fee = transaction.fee or 0
    if not (fee or rules.read_status(transaction.status) is Status.PAID):
        return
    expected = schedule.fee_of(transaction.amount)
    if fee != expected:
        side = "on both sides" if isinstance(entry.fee, int) else "at the service"
        sentence = (
            f"fee is {fee:,} {side}; the schedule of {quote(transaction.payment_method)} "
            f"expects {expected:,} on an amount of {transaction.amount:,}"
        )
        yield Finding(
            Code.FEE_OFF_SCHEDULE,
            sentence,
            ledger=None if entry.fee is ABSENT else entry.fee,
            service=fee,
            leakage=fee - expected,
            waived=_tolerated(rules, "fee", expected, fee),
        )


def _arithmetic(
    entry: Entry, transaction: Transaction, rules: Rules, schedule: FeeSchedule | None
) -> Iterator[Finding]:
    amount, received = transaction.amount, transaction.amount_received
    fee, whose = transaction.fee, ""
    if fee is None and isinstance(entry.fee, int):
        fee, whose = entry.fee, " of the ledger"
    elif fee is None and schedule is not None:
        fee, whose = schedule.fee_of(amount), " of the schedule"
    due = amount - (fee or 0)
    if received is None or received == due:
        return
    is_paid = rules.read_status(transaction.status) is Status.PAID
    said = f"amount {amount:,}" if fee is None else f"amount {amount:,} less fee {fee:,}{whose} is {due:,}"
    if is_paid and (missing := missing_amount(amount, fee, received)):
        sentence = f"paid at the service, {said}, and amount_received is {received:,}: {missing:,} did not arrive"
        yield Finding(Code.SHORT_RECEIVED, sentence, ledger=due, service=received, leakage=missing)
    elif fee is None and is_paid and received < due:
        sentence = (
            f"paid at the service, {said}, and amount_received is {received:,}: no fee is known, so up to "
            f"{due - received:,} may be lacking"
        )
        yield Finding(Code.SERVICE_ARITHMETIC, sentence, service=received, leakage=due - received)
    elif transaction.fee is not None:
        sentence = f"the service's own numbers do not add up: {said}, and amount_received is {received:,}"
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
    return f"{name} is {_shown(ours)} in the ledger and {_shown(theirs)} at the service"


def _shown(value: str | int | None) -> str:
    return f"{value:,}" if isinstance(value, int) else quote(value)


# Texts that two programs may write differently


def reff_key(merchant_reff: str | None) -> str | None:
    """Return a `merchant_reff` normalised for case, width and spacing. None if it names no invoice."""
    text = text_stated(merchant_reff)
    key = None if text is None else folded(text, "merchant_reff")
    return None if key in _PLACEHOLDERS else key

"""The matrix of the states of both sides, and the finding of each pair."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

from payclient._escape import quote
from payclient.ledger import ABSENT, Entry
from payclient.protocol import Transaction
from payclient.reconcile.rules import FIRST_ON_EARTH, LAST_ON_EARTH, Limit, Rules, in_zone, limit_text
from payclient.reconcile.values import CLOSED, Assumed, Code, Finding, Status, states_none


def excuse(entry: Entry, at: datetime, rules: Rules) -> str:
    """Return the reason why a row may still be missing, or pending on one side; empty if there is none."""
    # A row that says nothing of its age is not excused. One from the future is excused within the grace, because clocks
    # differ, and not beyond, because a mistyped year would hide it for good.
    is_young = is_younger(entry, at, rules.grace, rules)
    return f"the row is younger than the grace of {limit_text(rules.grace)}" if is_young else ""


def is_younger(entry: Entry, at: datetime, limit: Limit, rules: Rules) -> bool:
    """Return whether a row is younger than *limit* at the time of an answer; never if it does not say its age."""
    created = entry.created_at
    if not limit or not isinstance(created, datetime):
        return False
    if isinstance(limit, timedelta):
        return abs(at - in_zone(created, rules.time_zone)) < limit
    zone = rules.time_zone or FIRST_ON_EARTH
    return rules.calendar.is_younger(in_zone(created, zone), at, limit, zone)


def status_finding(entry: Entry, transaction: Transaction, at: datetime, rules: Rules) -> Finding | None:
    """Return the finding of the two states; None where they agree or are not compared."""
    if entry.status is ABSENT and rules.assume_status is Assumed.NONE:
        return None
    ours, theirs = rules.status_of(entry), rules.read_status(transaction.status)
    code, remark = _meaning(
        ours,
        theirs,
        is_ours_blank=entry.status is not ABSENT and states_none(entry.status),
        is_theirs_blank=states_none(transaction.status),
    )
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


def _meaning(
    ours: Status | None,
    theirs: Status | None,
    *,
    is_ours_blank: bool,
    is_theirs_blank: bool,
) -> tuple[Code | None, str]:
    """Return the code of two states, and a remark that is true of every such pair; None is no known state."""
    if theirs is None:
        what = "states no status" if is_theirs_blank else "uses a word that is not known"
        return Code.UNKNOWN_STATUS, f"the service {what}, so the two are not compared"
    if ours is None and not is_ours_blank:
        return Code.UNKNOWN_STATUS, "the ledger uses a word that is not known, so the two are not compared"
    if ours is theirs:
        return None, ""
    if Status.PAID in (ours, theirs) or Status.REFUNDED in (ours, theirs):
        return _money(ours, theirs)
    if ours is None:
        return Code.UNKNOWN_STATUS, "the ledger records no status to compare"
    if ours in CLOSED and theirs in CLOSED:
        return Code.CLOSED_DIFFERENTLY, "closed on both sides, for different reasons"
    if ours is Status.PENDING:
        return Code.PENDING_ON_ONE_SIDE, "still pending in the ledger, and closed at the service"
    return Code.PENDING_ON_ONE_SIDE, "closed in the ledger, and still pending at the service"


def _money(ours: Status | None, theirs: Status) -> tuple[Code, str]:
    """Return the same for two states of which one is paid or refunded."""
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
    """Return one sentence for the report: how expiry was judged."""
    if time_zone is None:
        return "no time zone was given: an expiry counts as passed only when it has passed everywhere (UTC-12)"
    return f"expiry times were read in the time zone {time_zone}"

"""What the two states mean together is true for every pair of the vocabulary."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from payclient import Transaction
from payclient.ledger import ABSENT, Entry
from payclient.reconcile import Assumed, Code, Rules, Severity, Status, expiry_rule
from payclient.reconcile.judge._compare import excuse, is_expired, status_finding

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
WORDS = ("Paid", "Pending", "Canceled", "Expired", "Failed", "Refunded", "Odd", "")


def found(ours, theirs, **rules):
    entry = Entry(line=1, reference="T1", amount=100, status=ours)
    return status_finding(entry, Transaction(reference="T1", amount=100, status=theirs), NOON, Rules(**rules))


def shown(ours, theirs):
    finding = found(ours, theirs)
    side = "(no column)" if ours is ABSENT else ours or "(empty)"
    said = (
        "agrees"
        if finding is None
        else f"{finding.severity.word} {finding.code}: {finding.sentence.partition(': ')[2]}"
    )
    return f"{side:<11} | {theirs or '(empty)':<8} | {said}"


MATRIX = """
Paid        | Paid     | agrees
Paid        | Pending  | critical recorded_not_paid: not paid at the service
Paid        | Canceled | critical recorded_not_paid: not paid at the service
Paid        | Expired  | critical recorded_not_paid: not paid at the service
Paid        | Failed   | critical recorded_not_paid: not paid at the service
Paid        | Refunded | critical refund_not_recorded: refunded at the service, and the ledger records no refund
Paid        | Odd      | medium unknown_status: the service uses a word that is not known, so the two are not compared
Paid        | (empty)  | medium unknown_status: the service states no status, so the two are not compared
Pending     | Paid     | critical paid_not_recorded: paid at the service, and the ledger records no payment
Pending     | Pending  | agrees
Pending     | Canceled | medium pending_on_one_side: still pending in the ledger, and closed at the service
Pending     | Expired  | medium pending_on_one_side: still pending in the ledger, and closed at the service
Pending     | Failed   | medium pending_on_one_side: still pending in the ledger, and closed at the service
Pending     | Refunded | critical refund_not_recorded: refunded at the service, and the ledger records neither payment nor refund
Pending     | Odd      | medium unknown_status: the service uses a word that is not known, so the two are not compared
Pending     | (empty)  | medium unknown_status: the service states no status, so the two are not compared
Canceled    | Paid     | critical late_payment: paid at the service, although the ledger has closed it
Canceled    | Pending  | medium pending_on_one_side: closed in the ledger, and still pending at the service
Canceled    | Canceled | agrees
Canceled    | Expired  | low closed_differently: closed on both sides, for different reasons
Canceled    | Failed   | low closed_differently: closed on both sides, for different reasons
Canceled    | Refunded | critical refund_not_recorded: refunded at the service, and the ledger records neither payment nor refund
Canceled    | Odd      | medium unknown_status: the service uses a word that is not known, so the two are not compared
Canceled    | (empty)  | medium unknown_status: the service states no status, so the two are not compared
Expired     | Paid     | critical late_payment: paid at the service, although the ledger has closed it
Expired     | Pending  | medium pending_on_one_side: closed in the ledger, and still pending at the service
Expired     | Canceled | low closed_differently: closed on both sides, for different reasons
Expired     | Expired  | agrees
Expired     | Failed   | low closed_differently: closed on both sides, for different reasons
Expired     | Refunded | critical refund_not_recorded: refunded at the service, and the ledger records neither payment nor refund
Expired     | Odd      | medium unknown_status: the service uses a word that is not known, so the two are not compared
Expired     | (empty)  | medium unknown_status: the service states no status, so the two are not compared
Failed      | Paid     | critical paid_not_recorded: paid at the service, and the ledger records no payment
Failed      | Pending  | medium pending_on_one_side: closed in the ledger, and still pending at the service
Failed      | Canceled | low closed_differently: closed on both sides, for different reasons
Failed      | Expired  | low closed_differently: closed on both sides, for different reasons
Failed      | Failed   | agrees
Failed      | Refunded | critical refund_not_recorded: refunded at the service, and the ledger records neither payment nor refund
Failed      | Odd      | medium unknown_status: the service uses a word that is not known, so the two are not compared
Failed      | (empty)  | medium unknown_status: the service states no status, so the two are not compared
Refunded    | Paid     | critical refund_not_made: refunded in the ledger, and it is still paid at the service
Refunded    | Pending  | critical refund_not_made: refunded in the ledger, and the service shows no refund
Refunded    | Canceled | critical refund_not_made: refunded in the ledger, and the service shows no refund
Refunded    | Expired  | critical refund_not_made: refunded in the ledger, and the service shows no refund
Refunded    | Failed   | critical refund_not_made: refunded in the ledger, and the service shows no refund
Refunded    | Refunded | agrees
Refunded    | Odd      | medium unknown_status: the service uses a word that is not known, so the two are not compared
Refunded    | (empty)  | medium unknown_status: the service states no status, so the two are not compared
Odd         | Paid     | medium unknown_status: the ledger uses a word that is not known, so the two are not compared
Odd         | Pending  | medium unknown_status: the ledger uses a word that is not known, so the two are not compared
Odd         | Canceled | medium unknown_status: the ledger uses a word that is not known, so the two are not compared
Odd         | Expired  | medium unknown_status: the ledger uses a word that is not known, so the two are not compared
Odd         | Failed   | medium unknown_status: the ledger uses a word that is not known, so the two are not compared
Odd         | Refunded | medium unknown_status: the ledger uses a word that is not known, so the two are not compared
Odd         | Odd      | medium unknown_status: the service uses a word that is not known, so the two are not compared
Odd         | (empty)  | medium unknown_status: the service states no status, so the two are not compared
(empty)     | Paid     | critical paid_not_recorded: paid at the service, and the ledger records no status
(empty)     | Pending  | medium unknown_status: the ledger records no status to compare
(empty)     | Canceled | medium unknown_status: the ledger records no status to compare
(empty)     | Expired  | medium unknown_status: the ledger records no status to compare
(empty)     | Failed   | medium unknown_status: the ledger records no status to compare
(empty)     | Refunded | critical refund_not_recorded: refunded at the service, and the ledger records neither payment nor refund
(empty)     | Odd      | medium unknown_status: the service uses a word that is not known, so the two are not compared
(empty)     | (empty)  | medium unknown_status: the service states no status, so the two are not compared
(no column) | Paid     | agrees
(no column) | Pending  | critical recorded_not_paid: not paid at the service
(no column) | Canceled | critical recorded_not_paid: not paid at the service
(no column) | Expired  | critical recorded_not_paid: not paid at the service
(no column) | Failed   | critical recorded_not_paid: not paid at the service
(no column) | Refunded | critical refund_not_recorded: refunded at the service, and the ledger records no refund
(no column) | Odd      | medium unknown_status: the service uses a word that is not known, so the two are not compared
(no column) | (empty)  | medium unknown_status: the service states no status, so the two are not compared
"""  # noqa: E501  a table


def test_matrix():
    """Every pair of states has a sentence that is true of it; this is the table to read by eye."""
    ledger = (*WORDS[:-1], None, ABSENT)
    assert "\n".join(shown(ours, theirs) for ours in ledger for theirs in WORDS) == MATRIX.strip()


@pytest.mark.parametrize("dash", ["-", " \u2013 ", "--", "\u2014", ""])
def test_dash(dash):
    """A dash states no status, as an empty cell does not; any other sign is a word that is not known."""
    assert (found(dash, "Paid").code, found(dash, "Refunded").code) == (
        Code.PAID_NOT_RECORDED,
        Code.REFUND_NOT_RECORDED,
    )
    assert found(dash, "Pending").sentence.endswith("the ledger records no status to compare")
    assert "the service states no status" in found("Paid", dash).sentence
    assert "the ledger uses a word that is not known" in found("\u2713", "Paid").sentence


@pytest.mark.parametrize("ours", [*WORDS[:-1], None, ABSENT])
def test_money_that_differs_is_critical(ours):
    """Whenever exactly one side holds the money, or exactly one has refunded it, and both words are known: critical."""
    holding = Rules().status_of(Entry(line=1, reference="T1", status=ours))
    for theirs in Status:
        if holding is None or holding is theirs:
            continue
        is_money = bool({holding, theirs} & {Status.PAID, Status.REFUNDED})
        assert (found(ours, theirs.value).severity is Severity.CRITICAL) is is_money


def test_assumed_to_be_paid():
    """Without a status column a row is taken as paid, and the sentence says that this is an assumption."""
    finding = found(ABSENT, "Canceled")
    assert (finding.code, finding.ledger, finding.service) == (Code.RECORDED_NOT_PAID, "paid", "Canceled")
    assert finding.sentence == (
        "status is assumed to be paid, because the ledger has no status column, and is 'Canceled' at the service: "
        "not paid at the service"
    )


def test_nothing_assumed(subtests):
    """Where nothing is assumed, the status of a row without one is not compared."""
    for theirs in WORDS:
        with subtests.test(theirs=theirs):
            assert found(ABSENT, theirs, assume_status=Assumed.NONE) is None


def test_assumption_is_for_no_column_only():
    """An empty cell is one that says nothing: no state is assumed for it."""
    assert found(None, "Canceled").code is Code.UNKNOWN_STATUS


def test_refunds_matter_most():
    """A refund that one side does not know is as severe as a payment that one side does not know."""
    assert {code.severity for code in (Code.REFUND_NOT_RECORDED, Code.REFUND_NOT_MADE)} == {Severity.CRITICAL}


TEN = datetime.fromisoformat("2026-11-21 10:00:00")
TEN_UTC = TEN.replace(tzinfo=UTC)
ENTRY = Entry(line=1, reference="T1", created_at=TEN)
TWO_HOURS = timedelta(hours=2)


def is_excused(at, zone=UTC, entry=ENTRY, grace=TWO_HOURS):
    return bool(excuse(entry, at, Rules(grace=grace, time_zone=zone)))


def test_grace(subtests):
    """A row is excused until it is as old as the grace, and a row from the future only within it."""
    cases = ((0, True), (1.999, True), (2, False), (3, False), (-1.999, True), (-2, False))
    for hours, expected in cases:
        with subtests.test(hours=hours, expected=expected):
            assert is_excused(TEN_UTC + timedelta(hours=hours)) is expected


@pytest.mark.parametrize(("hours", "expected"), [(-5.001, True), (-4.999, False)])
def test_with_a_zone(hours, expected):
    """With a time zone, the instant decides: ten in Jakarta is three in UTC."""
    assert is_excused(TEN_UTC + timedelta(hours=hours), ZoneInfo("Asia/Jakarta")) is expected


@pytest.mark.parametrize(("hours", "expected"), [(-12.001, True), (-11.999, False), (0, False)])
def test_without_a_zone(hours, expected):
    """Without one, it counts as if its clock had stood where the day begins first, so it is young everywhere."""
    assert is_excused(TEN_UTC + timedelta(hours=hours), None) is expected


@pytest.mark.parametrize("zone", [None, UTC, ZoneInfo("Asia/Jakarta")])
def test_stated_zone(zone):
    """A time that states its own zone is an instant, whatever zone the rules give."""
    entry = Entry(line=1, reference="T1", created_at=TEN.replace(tzinfo=ZoneInfo("Asia/Jakarta")))
    assert is_excused(TEN_UTC - timedelta(hours=5.001), zone, entry)
    assert not is_excused(TEN_UTC - timedelta(hours=4.999), zone, entry)


def test_other_clock():
    """An instant is the same in whatever zone the answer's time is given."""
    at = (TEN_UTC + timedelta(hours=1)).astimezone(ZoneInfo("Asia/Tokyo"))
    assert is_excused(at)


@pytest.mark.parametrize("created_at", [ABSENT, None])
def test_no_age(created_at):
    """A row that says nothing of its age is not excused."""
    entry = Entry(line=1, reference="T1", created_at=created_at)
    assert not is_excused(TEN_UTC, entry=entry, grace=timedelta(days=9999))


def test_no_grace():
    """Without a grace, no row is excused, however new."""
    assert not is_excused(TEN_UTC, grace=timedelta(0))


@pytest.mark.parametrize("year", [1, 9999])
def test_odd_years(year):
    """A year that is far away is no error, and no excuse."""
    entry = Entry(line=1, reference="T1", created_at=TEN.replace(year=year))
    assert not is_excused(TEN_UTC, None, entry=entry)


def test_sentence():
    """The sentence names the grace."""
    found = excuse(ENTRY, TEN_UTC, Rules(grace=timedelta(days=1, hours=2), time_zone=UTC))
    assert found == "the row is younger than the grace of 1d 2h"


UNDATED = Entry(line=1, reference="T1")
PENDING = Transaction(reference="T1", amount=1, status="pending", expdate=TEN)


@pytest.mark.parametrize(("hours", "expected"), [(-7.001, False), (-6.999, True)])
def test_expiry_with_a_zone(hours, expected):
    """With a time zone, the instant decides: ten in Jakarta is three in UTC."""
    assert is_expired(UNDATED, PENDING, TEN_UTC + timedelta(hours=hours), ZoneInfo("Asia/Jakarta")) is expected


@pytest.mark.parametrize(("hours", "expected"), [(0, False), (11.999, False), (12.001, True)])
def test_expiry_without_a_zone(hours, expected):
    """Without one, it has passed twelve hours after UTC's clocks showed it: then it has everywhere."""
    assert is_expired(UNDATED, PENDING, TEN_UTC + timedelta(hours=hours), None) is expected


def test_ledgers_expiry():
    """The ledger's expiry counts where the service gives none, and only there."""
    service_says_nothing = Transaction(reference="T1", amount=1, status="pending")
    early = Entry(line=1, reference="T1", expdate=TEN - timedelta(days=9))
    assert is_expired(early, service_says_nothing, TEN_UTC, UTC)
    assert not is_expired(early, PENDING, TEN_UTC, UTC)


@pytest.mark.parametrize("entry", [UNDATED, Entry(line=1, reference="T1", expdate=None)])
def test_no_expiry(entry):
    """Without an expiry on either side, nothing has expired."""
    transaction = Transaction(reference="T1", amount=1, status="pending")
    assert not is_expired(entry, transaction, TEN_UTC.replace(year=9999), UTC)


def test_expiry_rule():
    """The report says in which zone expiry was read, or that none was given."""
    assert "Asia/Jakarta" in expiry_rule(ZoneInfo("Asia/Jakarta"))
    assert "no time zone was given" in expiry_rule(None)

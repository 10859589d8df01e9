"""An expiry has passed only when that is certain."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from payclient import Transaction
from payclient.ledger import Entry
from payclient.reconcile._expiry import expiry_rule, is_expired

TEN = datetime.fromisoformat("2026-11-21 10:00:00")
TEN_UTC = TEN.replace(tzinfo=UTC)
ENTRY = Entry(line=1, reference="T1")
PENDING = Transaction(reference="T1", amount=1, status="pending", expdate=TEN)


@pytest.mark.parametrize(("hours", "expected"), [(-7.001, False), (-6.999, True)])
def test_with_a_zone(hours, expected):
    """With a time zone, the instant decides: ten in Jakarta is three in UTC."""
    assert is_expired(ENTRY, PENDING, TEN_UTC + timedelta(hours=hours), ZoneInfo("Asia/Jakarta")) is expected


@pytest.mark.parametrize(("hours", "expected"), [(0, False), (11.999, False), (12.001, True)])
def test_without_a_zone(hours, expected):
    """Without one, it has passed twelve hours after UTC's clocks showed it: then it has everywhere."""
    assert is_expired(ENTRY, PENDING, TEN_UTC + timedelta(hours=hours), None) is expected


def test_ledgers_expiry():
    """The ledger's expiry counts where the service gives none, and only there."""
    service_says_nothing = Transaction(reference="T1", amount=1, status="pending")
    early = Entry(line=1, reference="T1", expdate=TEN - timedelta(days=9))
    assert is_expired(early, service_says_nothing, TEN_UTC, UTC)
    assert not is_expired(early, PENDING, TEN_UTC, UTC)


@pytest.mark.parametrize("entry", [ENTRY, Entry(line=1, reference="T1", expdate=None)])
def test_no_expiry(entry):
    """Where nobody gives an expiry, nothing has passed."""
    transaction = Transaction(reference="T1", amount=1, status="pending")
    assert not is_expired(entry, transaction, TEN_UTC.replace(year=9999), UTC)


def test_rule():
    """The report says in which zone expiry was read, or that none was given."""
    assert "Asia/Jakarta" in expiry_rule(ZoneInfo("Asia/Jakarta"))
    assert "no time zone was given" in expiry_rule(None)

"""A row is excused only while it is certainly young."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from payclient.ledger import ABSENT, Entry
from payclient.reconcile import Rules
from payclient.reconcile._age import excuse

TEN = datetime.fromisoformat("2026-11-21 10:00:00")
TEN_UTC = TEN.replace(tzinfo=UTC)
ENTRY = Entry(line=1, reference="T1", created_at=TEN)
TWO_HOURS = timedelta(hours=2)


def is_excused(at, zone=UTC, entry=ENTRY, grace=TWO_HOURS):
    return bool(excuse(entry, at, Rules(grace=grace, time_zone=zone)))


@pytest.mark.parametrize(
    ("hours", "expected"), [(0, True), (1.999, True), (2, False), (3, False), (-1.999, True), (-2, False)]
)
def test_grace(hours, expected):
    """A row is excused until it is as old as the grace, and a row from the future only within it."""
    assert is_excused(TEN_UTC + timedelta(hours=hours)) is expected


@pytest.mark.parametrize(("hours", "expected"), [(-5.001, True), (-4.999, False)])
def test_with_a_zone(hours, expected):
    """With a time zone, the instant decides: ten in Jakarta is three in UTC."""
    assert is_excused(TEN_UTC + timedelta(hours=hours), ZoneInfo("Asia/Jakarta")) is expected


@pytest.mark.parametrize(("hours", "expected"), [(-12.001, True), (-11.999, False), (0, False)])
def test_without_a_zone(hours, expected):
    """Without one, it counts as if its clock had stood where the day begins first, so it is young everywhere."""
    assert is_excused(TEN_UTC + timedelta(hours=hours), None) is expected


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

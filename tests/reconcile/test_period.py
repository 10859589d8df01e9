"""The period that a ledger covers."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from payclient.ledger import ABSENT, Entry, RejectedEntry
from payclient.reconcile import Bucket, Row, Rules, StatementSide, Tally
from payclient.reconcile.nights import PreviousRun

JAKARTA = ZoneInfo("Asia/Jakarta")
NOON = datetime(2026, 11, 20, 12)  # noqa: DTZ001  a ledger has no time zone


def row(created, **fields):
    return Row(entry=Entry(line=2, reference="A", created_at=created), bucket=Bucket.OPEN, **fields)


def period(*rows, rules=None):
    tally = Tally(rules or Rules(), previous=PreviousRun(run="20", folder="20", last_observed_at=None))
    for each in rows:
        tally.add(each)
    return tally.summary().period


def test_first_and_last():
    """It is from the first to the last creation that a row states; a time without a zone has that of the rules."""
    east = NOON.replace(tzinfo=timezone(timedelta(hours=9)))
    rows = [row(NOON + timedelta(hours=hours)) for hours in (2, 0, 5)]
    found = period(row(None), *rows, row(ABSENT), row(east), rules=Rules(time_zone=JAKARTA))
    assert (found.first, found.last, found.lines, found.without) == (east, NOON + timedelta(hours=5), 4, 2)
    assert found.sentence == (
        "2026-11-20 12:00:00+09:00 to 2026-11-20 17:00:00, by the creation of 4 rows; 2 rows without a time"
    )


def test_each_line():
    """Each line of a payment counts; a row that was carried over, or that only the statement has, does not."""
    parts = tuple(Entry(line=line, reference="A", created_at=NOON + timedelta(days=line)) for line in (2, 3))
    late = NOON + timedelta(days=9)
    rejected = Row(entry=RejectedEntry(line=4, reason="no amount"), bucket=Bucket.REJECTED, reason="no amount")
    others = [row(late, carried_from="20"), row(late, other_side=StatementSide(settled=None, is_in_ledger=False))]
    found = period(row(NOON + timedelta(days=2), parts=parts), *others, rejected)
    assert (found.first, found.last, found.lines, found.without) == (*(part.created_at for part in parts), 2, 1)


def test_none():
    """Without a time of creation, the period is said not to be stated."""
    assert period(row(ABSENT)).sentence == "not stated: no row of the ledger has a time of creation"

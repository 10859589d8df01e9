"""Business days."""

from datetime import UTC, date, datetime, timedelta

from payclient import Transaction
from payclient.reconcile import Calendar, Rules, StatementRules, StatementSide
from payclient.reconcile._judgement.compare import statement_findings
from payclient.reconcile.ledger import Entry

EID = "2026-11-23"  # a Monday
FRIDAY = "2026-11-20T18:00"


def rules(limit, zone="Asia/Jakarta", **calendar):
    given = {"settles_within": limit}
    return Rules(time_zone=zone, grace=limit, calendar=Calendar(**calendar), statement=StatementRules(**given))


def test_younger(subtests):
    """A row is young until the last of its business days has ended in the zone, and one of the future likewise."""
    cases = (
        # Paid on Friday, two business days: Monday's statement need not have it, Tuesday's must.
        (FRIDAY, "2 business days", {}, "Asia/Jakarta", "2026-11-24T23:59:59+07:00"),
        (FRIDAY, "1 business day", {}, "Asia/Jakarta", "2026-11-23T23:59:59+07:00"),
        (FRIDAY, "0 business days", {}, "Asia/Jakarta", "2026-11-20T23:59:59+07:00"),
        (FRIDAY, "2 business days", {"holidays": [EID]}, "Asia/Jakarta", "2026-11-25T23:59:59+07:00"),
        ("2026-11-23T00:00", "0 business days", {"holidays": [EID]}, "UTC", "2026-11-24T23:59:59+00:00"),
        # 18:00 UTC on Friday is Saturday in Jakarta, and Friday in New York.
        ("2026-11-20T18:00+00:00", "1 business day", {}, "Asia/Jakarta", "2026-11-24T23:59:59+07:00"),
        ("2026-11-20T18:00+00:00", "1 business day", {}, "America/New_York", "2026-11-23T23:59:59-05:00"),
        # The day on which the clocks change has 25 hours.
        ("2026-10-23T12:00", "1 business day", {}, "Europe/Berlin", "2026-10-26T23:59:59+01:00"),
        (FRIDAY, "1d 12h", {"holidays": [EID]}, "UTC", "2026-11-22T05:59:59+00:00"),
    )
    for created, limit, calendar, zone, last in cases:
        with subtests.test(created=created, limit=limit):
            by, last_moment = rules(limit, zone, **calendar), datetime.fromisoformat(last)
            entry = Entry(line=2, reference="T", created_at=datetime.fromisoformat(created))
            then = [last_moment.astimezone(UTC) + timedelta(seconds=more) for more in (0, 1)]
            assert [by.is_younger(entry, at, by.grace) for at in then] == [True, False]
            paid = Transaction(reference="T", amount=100, status="Paid")
            found = [statement_findings(StatementSide(settled=None), entry, paid, at=at, rules=by) for at in then]
            assert [[each.waived for each in some] for some in found] == [[f"the row is younger than {limit}"], [""]]


def test_every_hour():
    """The limit is that of a walk through the days one by one, at every hour of four weeks."""
    holidays = {date(2026, 12, day) for day in (24, 25, 28)}
    by = rules("3 business days", "UTC", holidays=holidays)
    start = datetime(2026, 12, 7, tzinfo=UTC)
    for created in (start + timedelta(hours=hour) for hour in range(0, 672, 5)):
        is_open = {
            start.date() + timedelta(day): (start + timedelta(day)).strftime("%a") not in ("Sat", "Sun")
            and start.date() + timedelta(day) not in holidays
            for day in range(60)
        }
        counted = [day for day, is_one in is_open.items() if is_one and day >= created.date()]
        entry = Entry(line=2, reference="T", created_at=created)
        young = {day for day in is_open if by.is_younger(entry, datetime(*day.timetuple()[:5], tzinfo=UTC), by.grace)}
        assert max(young) == counted[3], created


def test_mistyped_years():
    """A year at either end of time is old, and no error; no age is never young."""
    by = rules("2 business days")
    ends = [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]
    for created in (*ends, *(each.replace(tzinfo=None) for each in ends), None):
        entry = Entry(line=2, reference="T", created_at=created)
        assert not by.is_younger(entry, datetime(2026, 11, 20, tzinfo=UTC), by.grace)
    future = Entry(line=2, reference="T", created_at=datetime(2026, 11, 24, 23))  # noqa: DTZ001
    assert by.is_younger(future, datetime(2026, 11, 20, 10, tzinfo=UTC), by.grace)

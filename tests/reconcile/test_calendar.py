"""Business days."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import attrs
import pytest

from payclient import Transaction
from payclient.ledger import Entry
from payclient.reconcile import (
    STRICT,
    BusinessDays,
    Calendar,
    OtherSide,
    Rules,
    RulesError,
    StatementRules,
    parse_rules,
    read_rules,
    reconcile,
    rules_as_json,
    rules_from_json,
)
from payclient.reconcile.judge._compare import is_younger
from payclient.reconcile.judge._statement import statement_findings

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
        (FRIDAY, "2 business days", {"cut_off": "17:00"}, "Asia/Jakarta", "2026-11-25T23:59:59+07:00"),
        (FRIDAY, "2 business days", {"cut_off": "18:00"}, "Asia/Jakarta", "2026-11-25T23:59:59+07:00"),
        (FRIDAY, "2 business days", {"cut_off": "18:01"}, "Asia/Jakarta", "2026-11-24T23:59:59+07:00"),
        (FRIDAY, "2 business days", {"cut_off": "17:00", "holidays": [EID]}, "+07:00", "2026-11-26T23:59:59+07:00"),
        ("2026-11-21T18:00", "1 business day", {"cut_off": "17:00"}, "UTC", "2026-11-24T23:59:59+00:00"),
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
            assert [is_younger(entry, at, by.grace, by) for at in then] == [True, False]
            paid = Transaction(reference="T", amount=100, status="Paid")
            found = [statement_findings(OtherSide(settled=None), entry, paid, at=at, rules=by) for at in then]
            assert [[each.waived for each in some] for some in found] == [[f"the row is younger than {limit}"], [""]]


def test_every_hour():
    """The limit is that of a walk through the days one by one, at every hour of four weeks."""
    holidays = {date(2026, 12, day) for day in (24, 25, 28)}
    by = rules("3 business days", "UTC", holidays=holidays, cut_off=time(17))
    start = datetime(2026, 12, 7, tzinfo=UTC)
    for created in (start + timedelta(hours=hour) for hour in range(0, 672, 5)):
        is_open = {
            start.date() + timedelta(day): (start + timedelta(day)).strftime("%a") not in ("Sat", "Sun")
            and start.date() + timedelta(day) not in holidays
            for day in range(60)
        }
        first = created.date() + timedelta(days=created.hour >= 17)
        counted = [day for day, is_one in is_open.items() if is_one and day >= first]
        entry = Entry(line=2, reference="T", created_at=created)
        young = {day for day in is_open if is_younger(entry, datetime(*day.timetuple()[:5], tzinfo=UTC), by.grace, by)}
        assert max(young) == counted[3], created


def test_mistyped_years():
    """A year at either end of time is old, and no error; no age is never young."""
    by = rules("2 business days")
    ends = [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)]
    for created in (*ends, *(each.replace(tzinfo=None) for each in ends), None):
        entry = Entry(line=2, reference="T", created_at=created)
        assert not is_younger(entry, datetime(2026, 11, 20, tzinfo=UTC), by.grace, by)
    future = Entry(line=2, reference="T", created_at=datetime(2026, 11, 24, 23))  # noqa: DTZ001
    assert is_younger(future, datetime(2026, 11, 20, 10, tzinfo=UTC), by.grace, by)


def test_rules_file(tmp_path):
    """A rules file names a file of holidays beside it, or lists them; written again, the dates are in the rules."""
    (tmp_path / "holidays.txt").write_text("\ufeff2026-12-25  # Christmas\n\n# 2027\n2027-01-01\n2026-12-25\n")
    text = 'grace = "1 business day"\nstatement.settles_within = "2 business days"\n'
    text += "[calendar]\nholidays = {}\ncut_off = {}\n"
    path = tmp_path / "rules.toml"
    path.write_text(text.format('"holidays.txt"', '"17:00"'))
    by = read_rules(path)
    assert by == parse_rules(text.format("[2027-01-01, '2026-12-25']", "17:00:00"))
    assert by.calendar == Calendar(holidays=[date(2026, 12, 25), date(2027, 1, 1)], cut_off=time(17))
    assert (by.grace, by.statement.settles_within) == (BusinessDays(1), BusinessDays(2))
    plain = rules_as_json(by)
    assert plain["calendar"] == {"holidays": ["2026-12-25", "2027-01-01"], "cut_off": "17:00"}
    assert rules_from_json(plain) == by
    assert by.fingerprint != attrs.evolve(by, calendar=Calendar()).fingerprint
    assert "calendar" not in rules_as_json(STRICT)


def test_refused(tmp_path):
    """What is no calendar is refused with its line."""
    (tmp_path / "no.txt").write_text("25.12.2026\n")
    (tmp_path / "empty.txt").write_text("# none yet\n")
    for text, message in {
        '[calendar]\nholidays = "no.txt"\n': "r.toml, line 2: no.txt, line 1: '25.12.2026' is no date",
        '[calendar]\nholidays = "empty.txt"\n': "r.toml, line 2: the holidays empty.txt have no date",
        '[calendar]\nholidays = "missing.txt"\n': "r.toml, line 2: the holidays missing.txt cannot be read: No",
        "[calendar]\nholidays = [[1]]\n": "r.toml, line 2: calendar.holidays must be a list of dates",
        "[calendar]\nholidays = 3\n": "r.toml, line 2: calendar.holidays must be a list of dates",
        "[calendar]\nholidays = [2026-12-25T00:00:00]\n": "r.toml, line 2: calendar.holidays must be a list of dates",
        '[calendar]\ncut_off = "25:00"\n': "r.toml, line 2: calendar.cut_off must be a time of the day such as 17:00",
        '[calendar]\ncut_off = "5pm"\n': "r.toml, line 2: calendar.cut_off must be a time of the day such as 17:00",
        "[calendar]\nweekend = []\n": "r.toml, line 2: calendar: there is no key 'weekend'",
        'grace = "2 banking days"\n': "r.toml, line 1: grace must be a duration such as '90m', '12h' or '1d 12h', or ",
        'grace = "1000 business days"\n': "r.toml, line 1: grace must be a duration",
    }.items():
        (tmp_path / "r.toml").write_text(text)
        with pytest.raises(RulesError) as caught:
            read_rules(tmp_path / "r.toml")
        assert str(caught.value).startswith(message)


async def test_zone():
    """Business days without a zone are refused before the first lookup."""
    with pytest.raises(RulesError, match="business days need time_zone"):
        await anext(reconcile([], None, rules=Rules(grace="1 business day")))

"""An accepted difference holds until the end of its last day, by the time of the answer."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from payclient.reconcile import Accepted, Code, RulesError

FIELDS = {"code": "underpaid", "reference": "T1", "reason": "agreed", "owner": "Ana", "expires": date(2026, 12, 31)}
ACCEPTED = Accepted(**FIELDS)
JAKARTA = ZoneInfo("Asia/Jakarta")


@pytest.mark.parametrize(
    ("at", "zone", "expected"),
    [
        ("2026-12-31T16:59:59", JAKARTA, True),
        ("2026-12-31T17:00:00", JAKARTA, False),
        ("2026-12-31T23:59:59", UTC, True),
        ("2027-01-01T00:00:00", UTC, False),
        ("2027-01-01T11:59:59", None, True),
        ("2027-01-01T12:00:00", None, False),
    ],
)
def test_last_day(at, zone, expected):
    """It holds on its last day where the zone is, or as long as it is that day anywhere."""
    assert ACCEPTED.is_valid(datetime.fromisoformat(at).replace(tzinfo=UTC), zone) is expected


def test_waiver():
    """Its sentence names the owner, the last day and the reason."""
    assert ACCEPTED.waiver == "accepted by Ana until 2026-12-31: agreed"


def test_hostile_waiver():
    """What stands in a rules file cannot act on the terminal that shows it."""
    waiver = Accepted(**FIELDS | {"reason": "\x1b[2J\u202e" + "x" * 5000}).waiver
    assert (waiver.isprintable(), len(waiver) < 1000) == (True, True)


def test_words():
    """A code may be given by its word, and the day as text."""
    assert Accepted(**FIELDS | {"code": Code.UNDERPAID, "expires": "2026-12-31"}) == ACCEPTED


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("code", "underpayed", "one of paid_twice, "),
        ("code", ["underpaid"], "one of paid_twice, "),
        ("reference", "", "text that is not empty, got ''"),
        ("reference", 1, "text that is not empty, got 1"),
        ("reason", " \n", "text that is not empty"),
        ("owner", None, "text that is not empty, got nothing"),
        ("expires", datetime(2026, 12, 31), "a date such as 2026-12-31, got 2026-12-31 00:00:00"),  # noqa: DTZ001
        ("expires", "31.12.2026", "a date such as 2026-12-31"),
        ("expires", "20261231", "a date such as 2026-12-31"),
        ("expires", "2026-02-30", "a date such as 2026-12-31, got '2026-02-30'"),
    ],
)
def test_refused(field, value, wanted):
    """What cannot be used is refused by the name of its field."""
    with pytest.raises(RulesError) as caught:
        Accepted(**FIELDS | {field: value})
    assert str(caught.value).startswith(f"{field} must be {wanted}")
    assert caught.value.key == (field,)

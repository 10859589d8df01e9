"""An accepted difference holds until the end of its last day, by the time of the answer."""

from __future__ import annotations

from datetime import UTC, date, datetime
from itertools import product
from zoneinfo import ZoneInfo

import pytest

from payclient.reconcile import Accepted, Code, Finding, RulesError

FIELDS = {
    "code": "underpaid",
    "reference": "T1",
    "reason": "agreed",
    "owner": "Ana",
    "expires": date(2026, 12, 31),
    "largest_difference": 500,
}
ACCEPTED = Accepted(**FIELDS)
JAKARTA = ZoneInfo("Asia/Jakarta")


def test_last_day(subtests):
    """It holds on its last day where the zone is, or as long as it is that day anywhere."""
    cases = (
        ("2026-12-31T16:59:59", JAKARTA, True),
        ("2026-12-31T17:00:00", JAKARTA, False),
        ("2026-12-31T23:59:59", UTC, True),
        ("2027-01-01T00:00:00", UTC, False),
        ("2027-01-01T11:59:59", None, True),
        ("2027-01-01T12:00:00", None, False),
    )
    for at, zone, expected in cases:
        with subtests.test(at=at, zone=zone):
            assert ACCEPTED.is_valid(datetime.fromisoformat(at).replace(tzinfo=UTC), zone) is expected


def test_waiver():
    """Its sentence names the owner, the last day and the reason."""
    assert ACCEPTED.waiver == "accepted by Ana until 2026-12-31: agreed"


def test_hostile_waiver():
    """Control characters of a rules file do not reach the terminal."""
    waiver = Accepted(**FIELDS | {"reason": "\x1b[2J\u202e" + "x" * 5000}).waiver
    assert (waiver.isprintable(), len(waiver) < 1000) == (True, True)


def test_words():
    """A code may be given by its word, and the day as text."""
    assert Accepted(**FIELDS | {"code": Code.UNDERPAID, "expires": "2026-12-31"}) == ACCEPTED


def test_refused(subtests):
    """What cannot be used is refused by the name of its field."""
    cases = (
        ("code", "underpayed", "one of not_in_ledger, "),
        ("code", ["underpaid"], "one of not_in_ledger, "),
        ("reference", "", "text that is not empty, got ''"),
        ("reference", 1, "text that is not empty, got 1"),
        ("reason", " \n", "text that is not empty"),
        ("owner", None, "text that is not empty, got nothing"),
        ("ledger", True, "text or a whole number"),
        ("service", 1.5, "text or a whole number"),
        ("largest_difference", -1, "a whole number that is not negative"),
        ("expires", datetime(2026, 12, 31), "a date such as 2026-12-31, got 2026-12-31 00:00:00"),  # noqa: DTZ001
        ("expires", "31.12.2026", "a date such as 2026-12-31"),
        ("expires", "20261231", "a date such as 2026-12-31"),
        ("expires", "2026-02-30", "a date such as 2026-12-31, got '2026-02-30'"),
    )
    for field, value, wanted in cases:
        with subtests.test(field=field, value=value):
            with pytest.raises(RulesError) as caught:
                Accepted(**FIELDS | {field: value})
            assert str(caught.value).startswith(f"{field} must be {wanted}")
            assert caught.value.key == (field,)


@pytest.mark.parametrize(
    "bounds",
    [{}, {"ledger": 100}, {"service": 100}, {"ledger": 100, "largest_difference": 5}],
    ids=str,
)
def test_unbounded(bounds):
    """An acceptance names both values or a largest difference, or else it would hide any later difference."""
    fields = {name: value for name, value in FIELDS.items() if name != "largest_difference"}
    with pytest.raises(RulesError, match="must be given, or both ledger and service"):
        Accepted(**fields, **bounds)


SIDES = {"largest_difference": None, "ledger": 15_000, "service": 14_500}


def test_covers(subtests):
    """It holds for what was accepted, and no longer when either side has changed or more money is at stake."""
    cases = (
        ({}, ("underpaid", 15_000, 14_500), True),
        ({}, ("underpaid", 15_000, 14_499), False),
        ({}, ("underpaid", 99_999, 0), False),
        (SIDES, ("underpaid", 15_000, 14_500), True),
        (SIDES, ("underpaid", 15_000, 14_501), False),
        (SIDES, ("underpaid", 15_001, 14_500), False),
        ({"ledger": 15_000, "service": 14_500, "largest_difference": 499}, ("underpaid", 15_000, 14_500), False),
        ({}, ("fee_differs", None, 500), True),
        ({}, ("fee_differs", None, 501), False),
        ({}, ("recorded_not_paid", "Paid", "Pending"), False),
        ({"largest_difference": 15_000}, ("recorded_not_paid", "Paid", "Pending"), True),
        (SIDES | {"ledger": "Paid", "service": "Pending"}, ("recorded_not_paid", "Paid", "Pending"), True),
        (SIDES | {"ledger": "Paid", "service": "Pending"}, ("recorded_not_paid", "Paid", "Refunded"), False),
        (SIDES | {"service": ""}, ("missing_at_service", 15_000, None), True),
        (SIDES | {"service": ""}, ("missing_at_service", 99_999, None), False),
        (SIDES | {"ledger": "T2", "service": "INV"}, ("paid_twice", "T2", "INV"), True),
        (SIDES | {"ledger": "T2", "service": "INV"}, ("paid_twice", "T2, T3", "INV"), False),
    )
    for fields, finding, expected in cases:
        with subtests.test(fields=fields, finding=finding):
            code, ledger, service = finding
            accepted = Accepted(**FIELDS | {"code": code} | fields)
            found = Finding(Code(code), "", ledger=ledger, service=service).weighed(15_000, 14_500)
            assert accepted.covers(found) is expected


def test_covers_leakage(subtests):
    """Of a leakage, what is lacking is bounded, to either side."""
    for leakage, code in product((500, -500, 501), ("short_received", "fee_off_schedule")):
        with subtests.test(leakage=leakage, code=code):
            finding = Finding(Code(code), "", leakage=leakage)
            assert Accepted(**FIELDS | {"code": code}).covers(finding.weighed(15_000, 15_000)) is (abs(leakage) <= 500)


def test_covers_no_amount():
    """Where no amount is known, no largest difference covers it."""
    finding = Finding(Code.MISSING_AT_SERVICE, "", ledger="T1")
    assert not Accepted(**FIELDS | {"code": "missing_at_service"}).covers(finding.weighed(None, None))

"""
Whether a ledger row is too young for its differences to count.

The two sides do not learn of a payment in the same instant. As for expiry, a clock on the wall without a
zone may stand for any instant of 26 hours, and only what is true for all of them is said.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from payclient.ledger._entry import Entry
from payclient.reconcile._rule_values import duration_text
from payclient.reconcile._rules import Rules

_FIRST_ON_EARTH = timezone(timedelta(hours=14))


def excuse(entry: Entry, at: datetime, rules: Rules) -> str:
    """
    Say why the row may still be missing, or pending on one side; empty if it may not.

    A row that says nothing of its age is not excused. One from the future is excused within the grace, because
    clocks differ, and not beyond, because a mistyped year would hide it for good.
    """
    created = entry.created_at
    if not rules.grace or not isinstance(created, datetime):
        return ""
    age = at - created.replace(tzinfo=rules.time_zone or _FIRST_ON_EARTH)
    return f"the row is younger than the grace of {duration_text(rules.grace)}" if abs(age) < rules.grace else ""

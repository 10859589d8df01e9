"""
Whether a pending payment has expired, although the service shows no time zone.

Without a zone from the user, a clock on the wall may stand for any instant of 26 hours, and only
what is true for all of them is said: a payment has expired when it has expired everywhere.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo

from payclient._models import Transaction
from payclient.ledger._entry import Entry

LAST_ON_EARTH = timezone(timedelta(hours=-12))
"""Where a day, and every time on a clock, passes last."""


def is_expired(entry: Entry, transaction: Transaction, at: datetime, time_zone: tzinfo | None) -> bool:
    """
    Say whether the expiry has certainly passed.

    The service's expiry counts, and the ledger's where the service gives none. Where neither gives
    one, nothing has passed.
    """
    expiry = transaction.expdate or entry.expdate
    return isinstance(expiry, datetime) and expiry.replace(tzinfo=time_zone or LAST_ON_EARTH) < at


def expiry_rule(time_zone: tzinfo | None) -> str:
    """Return one sentence for the report: how expiry was judged."""
    if time_zone is None:
        return "no time zone was given: an expiry counts as passed only when it has passed everywhere (UTC-12)"
    return f"expiry times were read in the time zone {time_zone}"

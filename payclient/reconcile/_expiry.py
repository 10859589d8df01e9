"""
Tell whether a pending payment has expired, although the service states no time zone.

Without a zone from the user, a local time may be any instant within 26 hours. A payment counts as expired
only when it has expired in every zone.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo

from payclient.ledger import Entry
from payclient.protocol import Transaction

LAST_ON_EARTH = timezone(timedelta(hours=-12))
"""The zone in which a local time passes last."""


def is_expired(entry: Entry, transaction: Transaction, at: datetime, time_zone: tzinfo | None) -> bool:
    """
    Say whether the expiry has certainly passed.

    The service's expiry counts, or the ledger's where the service states none. Without either, it has not.
    """
    expiry = transaction.expdate or entry.expdate
    return isinstance(expiry, datetime) and expiry.replace(tzinfo=time_zone or LAST_ON_EARTH) < at


def expiry_rule(time_zone: tzinfo | None) -> str:
    """Return one sentence for the report: how expiry was judged."""
    if time_zone is None:
        return "no time zone was given: an expiry counts as passed only when it has passed everywhere (UTC-12)"
    return f"expiry times were read in the time zone {time_zone}"

"""Tell whether a journal is of the run at hand, and name what is different if it is not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import fields

from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile._errors import JournalError


def check_identity(path: Path | None, stored: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """
    Compare what a run began with and what it has now, word for word.

    Raises:
        JournalError: With the first name that is different, and both values.
    """
    for name in sorted({*stored, *wanted}):
        before, now = stored.get(name, "none"), wanted.get(name, "none")
        if before != now:
            message = f"the journal {path} is of another run: {name} was {before}, and is {now} now"
            raise JournalError(message)


def how_different(stored: Entry | RejectedEntry, entry: Entry | RejectedEntry) -> str:
    """Say what of a ledger row is not the same, by name; the values may be nobody's business."""
    if type(stored) is not type(entry):
        return f"the row was {'rejected' if isinstance(stored, RejectedEntry) else 'usable'}, and is not now"
    names = [each.name for each in fields(type(entry)) if getattr(stored, each.name) != getattr(entry, each.name)]
    return f"{' and '.join(names)} {'was' if len(names) == 1 else 'were'} different"

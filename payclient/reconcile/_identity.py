"""Check that a journal belongs to this run, and name what differs if it does not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import fields

from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile._errors import JournalError


def check_identity(path: Path | None, stored: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """
    Compare the options that a run began with to those it has now.

    Raises:
        JournalError: With the first option that differs, and both values.
    """
    for name in sorted({*stored, *wanted}):
        before, now = stored.get(name, "none"), wanted.get(name, "none")
        if before != now:
            message = f"the journal {path} belongs to another run: {name} was {before}, and is {now} now"
            raise JournalError(message)


def how_different(stored: Entry | RejectedEntry, entry: Entry | RejectedEntry) -> str:
    """Name the fields of a ledger row that differ; not their values, which may be confidential."""
    if type(stored) is not type(entry):
        return f"the row was {'rejected' if isinstance(stored, RejectedEntry) else 'usable'}, and is not now"
    names = [each.name for each in fields(type(entry)) if getattr(stored, each.name) != getattr(entry, each.name)]
    return f"{' and '.join(names)} {'was' if len(names) == 1 else 'were'} different"

"""What a reconciliation would do, said without asking anybody."""

from __future__ import annotations

from collections.abc import Iterator

from payclient._visible import visible
from payclient.cli._progress import duration
from payclient.ledger import Ledger, RejectedEntry
from payclient.reconcile import Journal

_RATES = (10, 100, 500)
"""Lookups per second for which the duration is said; which one the service takes is not known before it is asked."""
_MOST_SHOWN = 5


def dry_run_lines(ledger: Ledger, concurrency: int) -> Iterator[str]:
    """Read the whole ledger, and yield what there is to know about it."""
    rejected: list[RejectedEntry] = []
    with Journal() as journal:
        for entry in ledger:
            journal.add(entry)
            if isinstance(entry, RejectedEntry) and len(rejected) < _MOST_SHOWN:
                rejected.append(entry)
        journal.finish_ledger()
        rows, references, unusable = journal.rows, journal.count_references(), journal.count_rejected()
    used = ledger.columns.used
    yield f"format: {ledger.format}"
    yield "columns: " + (", ".join(f"{field} = {name!r}" for field, name in used.items()) or "none")
    if ledger.columns.ignored:
        yield "not used: " + ", ".join(map(repr, ledger.columns.ignored))
    yield f"rows: {rows:,}"
    yield f"references: {references:,} different ones, so as many lookups, and one more for each difference"
    yield f"listed again: {rows - unusable - references:,} rows"
    yield f"rejected: {unusable:,} rows"
    yield from (f"  line {entry.line}: {visible(entry.reason)}" for entry in rejected)
    yield f"duration, {concurrency} at once at most: " + ", ".join(
        f"{duration(references / rate)} at {rate}/s" for rate in _RATES
    )
    yield from (f"warning: {visible(warning)}" for warning in ledger.warnings)

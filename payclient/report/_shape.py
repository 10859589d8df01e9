"""The shape of one row in a report: what stands in a JSON line, and what in a CSV line."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from payclient.ledger._entry import COMPARED, Entry
from payclient.reconcile import STRICT, Finding, Row, Rules
from payclient.report import _record as record

BREAK_COLUMNS = (
    *("line", "reference", "code", "severity", "sentence", "other_codes", "difference"),
    *(f"{side}_{name}" for name in COMPARED for side in ("ledger", "service")),
    *("observed_at", "confirmed_at", "is_changed_during_run"),
)


def row_as_json(row: Row, rules: Rules = STRICT) -> dict[str, Any]:
    """Return one line of `rows.jsonl`: both sides in full, whatever became of the row."""
    entry = row.entry
    return {
        "line": row.line,
        "reference": row.reference,
        "bucket": row.bucket.value,
        "reason": row.reason,
        "error": row.error,
        "findings": [_finding(finding) for finding in row.findings],
        "status": _statuses(row, rules),
        "is_repeat": row.is_repeat,
        "is_changed_during_run": row.is_changed_during_run,
        "observed_at": _time(row.observed_at),
        "confirmed_at": _time(row.confirmed_at),
        "ledger": record.entry_as_json(entry) if isinstance(entry, Entry) else record.rejected_as_json(entry),
        "service": None if row.transaction is None else record.transaction_as_json(row.transaction),
    }


def break_cells(row: Row) -> tuple[str | int | None, ...]:
    """Return one line of `breaks.csv`, under `BREAK_COLUMNS`; not yet made safe for a spreadsheet."""
    shown = row_as_json(row)
    ledger: dict[str, Any] = shown["ledger"]
    service: dict[str, Any] = shown["service"] or {}
    first, *others = row.findings
    return (
        *(row.line, row.reference, first.code.value, first.severity.word),
        ". ".join(map(in_words, row.findings)),
        " ".join(finding.code for finding in others),
        difference(row),
        *(side.get(name) for name in COMPARED for side in (ledger, service)),
        *(shown["observed_at"], shown["confirmed_at"], "yes" if row.is_changed_during_run else "no"),
    )


def difference(row: Row) -> int | None:
    """Return by how much the service's amount is above the ledger's; None where one of them is not known."""
    ours, theirs = row.ledger_amount, row.service_amount
    return None if ours is None or theirs is None else theirs - ours


def in_words(finding: Finding) -> str:
    """Return the sentence of *finding*, and why it does not count if it does not."""
    return f"{finding.sentence} ({finding.waived})" if finding.waived else finding.sentence


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code.value,
        "severity": finding.severity.word,
        "sentence": finding.sentence,
        "ledger": finding.ledger,
        "service": finding.service,
        "waived": finding.waived,
    }


def _statuses(row: Row, rules: Rules) -> dict[str, Any]:
    """Return both words as they came, next to what they mean; null where it is not known or not there."""
    ours = row.entry.status if isinstance(row.entry, Entry) and isinstance(row.entry.status, str) else None
    theirs = row.transaction.status if row.transaction else None
    return {
        "ledger": ours,
        "ledger_meaning": rules.read_status(ours),
        "service": theirs,
        "service_meaning": rules.read_status(theirs),
    }


def _time(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()

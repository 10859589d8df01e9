"""The shapes of a report: what stands in a JSON line, in a CSV line, in the summary."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Any

from payclient.ledger._csv import CsvLedger
from payclient.ledger._entry import COMPARED, Entry
from payclient.reconcile import _record as record
from payclient.reconcile._expiry import expiry_rule
from payclient.reconcile._finding import Finding
from payclient.reconcile._row import Row
from payclient.reconcile._status import read_status
from payclient.reconcile._summary import COMPLETENESS, Summary, Total
from payclient.reconcile._tie_out import TieOut

SUMMARY_VERSION = 1
"""Grows when a reader of `summary.json` has to change; new names alone do not make it grow."""

BREAK_COLUMNS = (
    *("line", "reference", "code", "severity", "sentence", "other_codes", "difference"),
    *(f"{side}_{name}" for name in COMPARED for side in ("ledger", "service")),
    *("observed_at", "confirmed_at", "is_changed_during_run"),
)


def row_as_json(row: Row) -> dict[str, Any]:
    """Return one line of `rows.jsonl`: both sides in full, whatever became of the row."""
    entry = row.entry
    return {
        "line": row.line,
        "reference": row.reference,
        "bucket": row.bucket.value,
        "reason": row.reason,
        "error": row.error,
        "findings": [_finding(finding) for finding in row.findings],
        "status": _statuses(row),
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
    amounts = row.ledger_amount, row.service_amount
    return (
        *(row.line, row.reference, first.code.value, first.severity.word),
        ". ".join(finding.sentence for finding in row.findings),
        " ".join(finding.code for finding in others),
        None if amounts[0] is None or amounts[1] is None else amounts[1] - amounts[0],
        *(side.get(name) for name in COMPARED for side in (ledger, service)),
        *(shown["observed_at"], shown["confirmed_at"], "yes" if row.is_changed_during_run else "no"),
    )


def summary_as_json(
    summary: Summary, *, time_zone: tzinfo | None = None, ledger: CsvLedger | None = None
) -> dict[str, Any]:
    """Return `summary.json`; `ledger` is null when it was not a file that we read."""
    return {
        "schema": "payclient.reconcile.summary",
        "version": SUMMARY_VERSION,
        "verdict": summary.verdict.value,
        "sentence": summary.sentence,
        "completeness": COMPLETENESS,
        "expiry": expiry_rule(time_zone),
        "rows": summary.rows,
        "buckets": {bucket.value: _total(total) for bucket, total in summary.buckets.items()},
        "findings": {code.value: _total(total) for code, total in summary.codes.items()},
        "breaks_by_severity": {severity.word: rows for severity, rows in summary.breaks.items()},
        "changed_during_run": summary.changed_during_run,
        "first_observed_at": _time(summary.first_observed_at),
        "last_observed_at": _time(summary.last_observed_at),
        "tie_out": _tie_out(summary.tie_out),
        "ledger": None if ledger is None else _ledger(ledger),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code.value,
        "severity": finding.severity.word,
        "sentence": finding.sentence,
        "ledger": finding.ledger,
        "service": finding.service,
    }


def _statuses(row: Row) -> dict[str, Any]:
    """Return both words as they came, next to what they mean; null where it is not known or not there."""
    ours = row.entry.status if isinstance(row.entry, Entry) and isinstance(row.entry.status, str) else None
    theirs = row.transaction.status if row.transaction else None
    return {
        "ledger": ours,
        "ledger_meaning": read_status(ours),
        "service": theirs,
        "service_meaning": read_status(theirs),
    }


def _total(total: Total) -> dict[str, int]:
    return {"rows": total.rows, "ledger_amount": total.ledger_amount, "service_amount": total.service_amount}


def _tie_out(bridge: TieOut) -> dict[str, Any]:
    return {
        "ledger_total": bridge.ledger_total,
        "steps": [{"step": step.step.value, "rows": step.rows, "amount": step.amount} for step in bridge.steps],
        "service_total": bridge.service_total,
        "residual": bridge.residual,
        "rows_without_amount": bridge.rows_without_amount,
    }


def _ledger(ledger: CsvLedger) -> dict[str, Any]:
    fingerprint = ledger.fingerprint
    return {
        "name": fingerprint.name,
        "size_bytes": fingerprint.size_bytes,
        "sha256": fingerprint.sha256,
        "delimiter": ledger.delimiter,
        "columns": dict(ledger.columns.used),
        "ignored_columns": list(ledger.columns.ignored),
        "warnings": list(ledger.warnings),
    }


def _time(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()

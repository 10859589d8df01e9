"""The shape of `summary.json`: what a whole run comes to, for programs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from payclient.reconcile import COMPLETENESS, Rules, Summary, TieOut, Total, expiry_rule, rules_as_json
from payclient.report._about import About
from payclient.report._about_json import ledger_as_json
from payclient.report._matrix import Cell, Matrix

SUMMARY_VERSION = 1
"""Grows when a reader of `summary.json` has to change; new names alone do not make it grow."""


def summary_as_json(summary: Summary, about: About, matrix: Matrix) -> dict[str, Any]:
    """Return `summary.json`; `ledger` is null when it was not a file that we read."""
    return {
        "schema": "payclient.reconcile.summary",
        "version": SUMMARY_VERSION,
        "verdict": summary.verdict.value,
        "sentence": summary.sentence,
        "completeness": COMPLETENESS,
        "expiry": expiry_rule(about.rules.time_zone),
        "rows": summary.rows,
        "buckets": {bucket.value: total_as_json(total) for bucket, total in summary.buckets.items()},
        "findings": {code.value: total_as_json(total) for code, total in summary.codes.items()},
        "breaks_by_severity": {severity.word: rows for severity, rows in summary.breaks.items()},
        "changed_during_run": summary.changed_during_run,
        "first_observed_at": _time(summary.first_observed_at),
        "last_observed_at": _time(summary.last_observed_at),
        "tie_out": _tie_out(summary.tie_out),
        "statuses": _statuses(matrix, about.rules),
        "ledger": None if about.ledger is None else ledger_as_json(about.ledger),
        "service": {
            "base_url": about.base_url,
            "environment": about.environment,
            "key_fingerprint": about.key_fingerprint,
        },
        "rules": {"fingerprint": about.rules.fingerprint, **rules_as_json(about.rules)},
        "canary": about.canary,
        "ended_by": about.ended_by,
        "payclient_version": about.payclient_version,
    }


def total_as_json(total: Total) -> dict[str, int]:
    """Return rows and money in plain values."""
    return {"rows": total.rows, "ledger_amount": total.ledger_amount, "service_amount": total.service_amount}


def _statuses(matrix: Matrix, rules: Rules) -> list[dict[str, Any]]:
    cells: Mapping[Cell, Total] = matrix.by(lambda cell: cell)
    return [
        {
            "ledger": cell.ledger_status,
            "ledger_meaning": rules.read_status(cell.ledger_status),
            "service": cell.service_status,
            "service_meaning": rules.read_status(cell.service_status),
            "payment_method": cell.method,
            **total_as_json(total),
        }
        for cell, total in cells.items()
    ]


def _tie_out(bridge: TieOut) -> dict[str, Any]:
    return {
        "ledger_total": bridge.ledger_total,
        "steps": [{"step": step.step.value, "rows": step.rows, "amount": step.amount} for step in bridge.steps],
        "service_total": bridge.service_total,
        "residual": bridge.residual,
        "rows_without_amount": bridge.rows_without_amount,
    }


def _time(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()

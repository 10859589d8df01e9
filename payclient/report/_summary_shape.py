"""The content of `summary.json`: the figures of a run, for programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import asdict

from payclient.reconcile import (
    AcceptanceNotice,
    Compared,
    Pattern,
    Rules,
    Settlement,
    Summary,
    TieOut,
    Total,
    expiry_rule,
    rules_as_json,
)
from payclient.reconcile.nights import CONFIDENCE, Rechecked, SincePrevious
from payclient.reconcile.result import OpenFindings
from payclient.reconcile.rules import as_json
from payclient.report._about import About, left_out
from payclient.report._matrix import Cell, Matrix, status_of_word
from payclient.report._wording import money_by_status

SUMMARY_VERSION = 2
"""Grows when a reader of `summary.json` has to change; new names alone do not make it grow."""


def summary_as_json(summary: Summary, about: About, matrix: Matrix) -> dict[str, Any]:
    """Return `summary.json`; `ledger` is null when it was not a file that we read."""
    return {
        "schema": "payclient.reconcile.summary",
        "version": SUMMARY_VERSION,
        "verdict": summary.verdict.value,
        "sentence": summary.sentence,
        "compared": compared_as_json(summary.compared),
        "completeness": summary.completeness,
        "expiry": expiry_rule(about.rules.time_zone),
        "rows": summary.rows,
        "lines": summary.lines,
        "ignored_lines": [asdict(each) for each in about.ignored_lines],
        "period": as_json(summary.period),
        "left_out": {side: list(sentences) for side, sentences in left_out(about).items()},
        "buckets": {bucket.value: asdict(total) for bucket, total in summary.buckets.items()},
        "findings": {code.value: asdict(total) for code, total in summary.codes.items()},
        "breaks_by_severity": {severity.word: rows for severity, rows in summary.breaks.items()},
        "open_findings": open_findings_as_json(summary.open_findings),
        "changed_during_run": summary.changed_during_run,
        "first_observed_at": as_json(summary.first_observed_at),
        "last_observed_at": as_json(summary.last_observed_at),
        "tie_out": _tie_out(summary.tie_out),
        "settlement": _settlement(summary.settlement, about),
        "leakage": [asdict(each) for each in summary.leakage],
        "patterns": [_pattern(each) for each in summary.patterns],
        "acceptances": list(map(_acceptance, summary.acceptances)),
        "still_there": [
            {"code": each.code, "reference": each.reference, "sentence": each.still_there}
            for each in summary.still_there
        ],
        "since": None if summary.since is None else _since(summary.since, summary.open_findings),
        "statuses": _statuses(matrix, about.rules),
        "run": about.run,
        "judged_again": as_json(about.judged_again),
        "ledger": as_json(about.ledger),
        "service": about.service,
        "rules": {"fingerprint": about.rules.fingerprint, **rules_as_json(about.rules)},
        "canary": about.canary,
        "ended_by": about.ended_by,
        "payclient_version": about.payclient_version,
    }


def _pattern(pattern: Pattern) -> dict[str, Any]:
    first = {"kind": pattern.kind.value, "sentence": pattern.sentence, "rows": pattern.rows, "is_exact": True}
    return first | asdict(pattern) | {"kind": pattern.kind.value}


_STEPS = ("opening", "new", "reopened", "resolved", "changed", "closing")


def open_findings_as_json(found: OpenFindings) -> dict[str, Any]:
    """Return the open findings and their roll-forward in plain values."""
    return {
        **{name: asdict(getattr(found, name)) for name in _STEPS},
        "by_code": {code.value: asdict(total) for code, total in found.by_code.items()},
        "by_age": {age: asdict(total) for age, total in found.by_age.items()},
        "payments": asdict(found.payments),
    }


def _since(since: SincePrevious, found: OpenFindings) -> dict[str, Any]:
    previous = since.previous
    return {
        "run": previous.run,
        "folder": previous.folder,
        "last_observed_at": as_json(previous.last_observed_at),
        "buckets": dict(previous.buckets),
        "trend": [{"run": run, "breaks": breaks} for run, breaks in previous.trend_with_itself],
        "carried": {bucket.value: rows for bucket, rows in since.carried.items()},
        "breaks": {state.value: total.count for state, total in found.by_state.items()},
        "news_by_severity": {severity.word: count for severity, count in found.news.items()},
        "changed_rules": list(since.changed_rules),
        "removed_by_rules": since.removed_by_rules,
        "added_by_rules": since.added_by_rules,
        "reused": reused_as_json(since),
        **({} if since.rechecked is None else {"rechecked": _rechecked(since.rechecked)}),
    }


def _rechecked(rechecked: Rechecked) -> dict[str, Any]:
    return {
        "population": rechecked.population,
        "looked_at": rechecked.looked_at,
        "unanswered": rechecked.unanswered,
        "changed": rechecked.changed,
        "at_most": rechecked.at_most,
        "confidence": CONFIDENCE,
    }


def reused_as_json(since: SincePrevious) -> dict[str, Any]:
    """Return number and age of the reused answers in plain values."""
    return {
        "rows": since.reused,
        "oldest_at": as_json(since.oldest_reused_at),
        "newest_at": as_json(since.newest_reused_at),
    }


def _statuses(matrix: Matrix, rules: Rules) -> list[dict[str, Any]]:
    cells: Mapping[Cell, Total] = matrix.by(lambda cell: cell)
    return [
        {
            "ledger": cell.ledger_status,
            "ledger_meaning": status_of_word(cell.ledger_status, rules),
            "service": cell.service_status,
            "service_meaning": status_of_word(cell.service_status, rules),
            "payment_method": cell.method,
            **asdict(total),
        }
        for cell, total in cells.items()
    ]


def compared_as_json(compared: Compared) -> dict[str, Any]:
    """Return the comparison in plain values."""
    counts = as_json(compared)
    return {"fields": counts.pop("fields"), "remark": compared.remark, **counts}


def _tie_out(bridge: TieOut) -> dict[str, Any]:
    return {
        "ledger_paid_total": bridge.ledger_paid_total,
        "steps": [{**asdict(step), "step": step.step.value, "amount": step.amount} for step in bridge.steps],
        "service_paid_total": bridge.service_paid_total,
        "residual": bridge.residual,
        "rows_without_amount": bridge.rows_without_amount,
        "money_by_status": {label: asdict(total) for label, total in money_by_status(bridge).items()},
    }


def _acceptance(notice: AcceptanceNotice) -> dict[str, Any]:
    return {
        "code": notice.accepted.code.value,
        "reference": notice.accepted.reference,
        "state": notice.state.value,
        "sentence": notice.sentence,
    }


def _settlement(settlement: Settlement | None, about: About) -> dict[str, Any] | None:
    if settlement is None or about.statement is None:
        return None
    statement = settlement.statement
    return {
        "service_paid_total": settlement.service_paid_total,
        "steps": [{**asdict(step), "step": step.step.value, "amount": step.amount} for step in settlement.steps],
        "statement_total": statement.total,
        "residual": settlement.residual,
        "payout": settlement.payout,
        "payout_difference": settlement.payout_difference,
        "not_in_ledger": settlement.not_in_ledger,
        "lines": statement.lines,
        "rejected_lines": statement.rejected_lines,
        "rejected_amount": statement.rejected_amount,
        "ignored_lines": statement.ignored_lines,
        "ignored_amount": statement.ignored_amount,
        "problems": list(statement.problems),
        "statement": as_json(about.statement.file),
    }

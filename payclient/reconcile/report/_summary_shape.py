"""The content of `summary.json`: the figures of a run, for programs."""

from typing import Any

from payclient.reconcile import (
    Compared,
    Settlement,
    SettlementStep,
    Step,
    Summary,
    TieOut,
    expiry_rule,
    rules_as_json,
)
from payclient.reconcile.nights import SincePrevious
from payclient.reconcile.report._about import About, left_out
from payclient.reconcile.report._wording import money_by_status
from payclient.reconcile.result import OpenFindings
from payclient.reconcile.rules import as_json
from payclient.reconcile.values import Difference

SUMMARY_VERSION = 2
"""Grows when a reader of `summary.json` has to change; new names alone do not make it grow."""


def summary_as_json(summary: Summary, about: About) -> dict[str, Any]:
    """Return `summary.json`; `ledger` is null when it was not a file that we read."""
    return {
        "schema": "payclient.reconcile.summary",
        "version": SUMMARY_VERSION,
        **_of(summary, "verdict", "sentence"),
        "compared": compared_as_json(summary.compared),
        "completeness": summary.completeness,
        "expiry": expiry_rule(about.rules.time_zone),
        **_of(summary, "rows", "lines"),
        "ignored_lines": as_json(about.ignored_lines),
        "period": as_json(summary.period),
        "left_out": left_out(about),
        "buckets": as_json(summary.buckets),
        "findings": as_json(summary.codes),
        "breaks_by_severity": as_json(summary.breaks),
        "open_findings": open_findings_as_json(summary.open_findings),
        **_of(summary, "material", "changed_during_run", "first_observed_at", "last_observed_at"),
        "tie_out": _tie_out(summary.tie_out),
        "settlement": _settlement(summary.settlement, about),
        "leakage": as_json(summary.leakage),
        "patterns": [
            {**_of(each, "kind", "sentence", "rows"), "is_exact": True, **_of(each, "amount", "treatment", "lines")}
            for each in summary.patterns
        ],
        "acceptances": [
            {**_of(each.accepted, "code", "reference"), **_of(each, "state", "sentence")}
            for each in summary.acceptances
        ],
        "still_there": [
            {**_of(each, "code", "reference"), "sentence": each.still_there} for each in summary.still_there
        ],
        "since": None if summary.since is None else _since(summary.since, summary.open_findings),
        "first_seen": [{**_of(each, "kind", "value", "rows", "amount", "sentence")} for each in summary.first_seen],
        "shown": as_json(summary.shown),
        **_of(about, "run", "judged_again", "ledger", "service"),
        "rules": {"fingerprint": about.rules.fingerprint, **rules_as_json(about.rules)},
        **_of(about, "canary", "ended_by", "payclient_version"),
    }


def _of(value: object, *names: str) -> dict[str, Any]:
    return {name: as_json(getattr(value, name)) for name in names}


def open_findings_as_json(found: OpenFindings) -> dict[str, Any]:
    steps = ("opening", "new", "reopened", "resolved", "changed", "closing")
    return _of(found, *steps, "by_code", "by_age", "payments")


def _since(since: SincePrevious, found: OpenFindings) -> dict[str, Any]:
    return {
        **_of(since.previous, "run", "folder", "manifest_sha256", "rows_sha256", "last_observed_at", "buckets"),
        "trend": [{"run": run, "breaks": breaks} for run, breaks in since.previous.trend_with_itself],
        "carried": as_json(since.carried),
        "breaks": {state: total.count for state, total in found.by_state.items()},
        "news_by_severity": as_json(found.news),
        **_of(since, "changed_rules", "rule_changes", "changed_by"),
        "reused": reused_as_json(since),
        "ledger": as_json(since.ledger),
    }


def reused_as_json(since: SincePrevious) -> dict[str, Any]:
    oldest, newest = as_json(since.oldest_reused_at), as_json(since.newest_reused_at)
    return {"rows": since.reused, "oldest_at": oldest, "newest_at": newest}


def compared_as_json(compared: Compared) -> dict[str, Any]:
    return _of(compared, "fields", "remark", "stated", "assumed_paid", "status_left_out", "not_paid")


def _steps(steps: tuple[Difference[Step], ...] | tuple[Difference[SettlementStep], ...]) -> list[dict[str, Any]]:
    return [_of(each, "step", "rows", "added", "taken_off", "amount") for each in steps]


def _tie_out(bridge: TieOut) -> dict[str, Any]:
    return {
        "ledger_paid_total": bridge.ledger_paid_total,
        "steps": _steps(bridge.steps),
        **_of(bridge, "service_paid_total", "residual", "rows_without_amount"),
        "money_by_status": as_json(money_by_status(bridge)),
    }


def _settlement(settlement: Settlement | None, about: About) -> dict[str, Any] | None:
    if settlement is None or about.statement is None:
        return None
    lines = ("lines", "rejected_lines", "rejected_amount", "ignored_lines", "ignored_amount", "problems")
    return {
        "service_paid_total": settlement.service_paid_total,
        "steps": _steps(settlement.steps),
        "statement_total": settlement.statement.total,
        **_of(settlement, "residual", "payout", "payout_difference", "not_in_ledger"),
        **_of(settlement.statement, *lines),
        "payouts": [{**as_json(each), "residual": each.residual} for each in settlement.statement.payouts],
        "statement": as_json(about.statement.file),
    }

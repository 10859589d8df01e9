"""The JSON shape of what a report says about its run, by which a journal keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from payclient.reconcile import rules_as_json, rules_from_json
from payclient.report._about import About, LedgerAbout


def about_as_json(about: About) -> dict[str, Any]:
    """Return *about* in plain values, without `payclient_version`: that is whoever writes the report."""
    return {
        "ledger": None if about.ledger is None else ledger_as_json(about.ledger),
        "rules": rules_as_json(about.rules),
        "base_url": about.base_url,
        "environment": about.environment,
        "key_fingerprint": about.key_fingerprint,
        "canary": about.canary,
        "ended_by": about.ended_by,
    }


def about_from_json(value: Mapping[str, Any]) -> About:
    """Return what `about_as_json` was given."""
    ledger = value["ledger"]
    return About(
        ledger=None if ledger is None else _ledger(ledger),
        rules=rules_from_json(value["rules"]),
        base_url=value["base_url"],
        environment=value["environment"],
        key_fingerprint=value["key_fingerprint"],
        canary=value["canary"],
        ended_by=value["ended_by"],
    )


def ledger_as_json(ledger: LedgerAbout) -> dict[str, Any]:
    """Return what was read in plain values."""
    return {
        "name": ledger.name,
        "format": ledger.format,
        "size_bytes": ledger.size_bytes,
        "sha256": ledger.sha256,
        "columns": dict(ledger.columns),
        "ignored_columns": list(ledger.ignored_columns),
        "warnings": list(ledger.warnings),
    }


def _ledger(value: Mapping[str, Any]) -> LedgerAbout:
    return LedgerAbout(
        name=value["name"],
        format=value["format"],
        size_bytes=value["size_bytes"],
        sha256=value["sha256"],
        columns=value["columns"],
        ignored_columns=tuple(value["ignored_columns"]),
        warnings=tuple(value["warnings"]),
    )

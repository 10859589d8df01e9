"""The run that a report is about: its ledger, service and rules."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from payclient._escape import quote
from payclient.ledger import Excluded
from payclient.reconcile import STRICT, IgnoredLines, Rules, StatementTotals
from payclient.reconcile.rules import as_json, from_json


def _read_only(columns: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(columns))


@frozen(kw_only=True)
class LedgerAbout:
    """
    The ledger that was read.

    Attributes:
        name: The file's name without its folder; empty for a stream.
        format: `csv`, `jsonl`, `xlsx` or `parquet`.
        size_bytes: How much was read.
        sha256: Of all that was read, in hexadecimal.
        columns: The name in the header, by field.
        ignored_columns: The other columns, in their order.
        warnings: Warnings from reading the ledger.
        excluded: Rows that are left out, by reason; each is a warning, too.
    """

    name: str
    format: str
    size_bytes: int
    sha256: str
    columns: Mapping[str, str] = field(converter=_read_only)
    ignored_columns: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    excluded: tuple[Excluded, ...] = ()


@frozen(kw_only=True)
class JudgedAgain:
    """
    The run whose answers were judged a second time.

    Attributes:
        folder: The name of its folder.
        run: Its name.
        rules_fingerprint: Of the rules by which it was judged.
        changed_rules: The names of the rules that are others now.
    """

    folder: str
    run: str
    rules_fingerprint: str
    changed_rules: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """For people."""
        rules = ", ".join(self.changed_rules)
        how = f"by other rules ({rules})" if rules else "by the same rules"
        which = f"the run {self.run}" if self.run else "the run"
        return f"A second judgement of {which} in {quote(self.folder)}, {how}; nothing was asked again for it."


@frozen(kw_only=True)
class StatementAbout:
    """
    The statement that was read.

    Attributes:
        file: What was read.
        totals: What its lines come to.
        payout: What came to the bank for it; None where that was not given.
    """

    file: LedgerAbout
    totals: StatementTotals = field(factory=StatementTotals)
    payout: int | None = None


@frozen(kw_only=True)
class About:
    """
    The run; without clock, so that the same run gives the same bytes.

    Attributes:
        run: Name of the run: when it began, in UTC, and a fingerprint of ledger, service, key and rules, such as
            `20261121T020003Z-3f9a1c2d`. Names sort by time. Empty when it is not known.
        ledger: What was read; None when it was not a file that we read.
        rules: How differences were judged.
        base_url: Address of the service; empty when it is not known.
        environment: `live` or `sandbox`; empty when it is not known.
        key_fingerprint: A short, non-reversible fingerprint of the API key, never the key; empty when not known.
        canary: The reference that was asked first, if one was.
        judged_again: The run whose answers these are, where this is a second judgement.
        ended_by: The failure that ended the run early; empty when it was not.
        ignored_lines: Ledger lines that the rules leave out, by kind.
        statement: The other side; None without one.
        population: How many rows matched in earlier runs, where some or all are looked up again; None without.
        payclient_version: Of the package that wrote the report.
    """

    run: str = ""
    ledger: LedgerAbout | None = None
    rules: Rules = STRICT
    base_url: str = ""
    environment: str = ""
    key_fingerprint: str = ""
    canary: str | None = None
    judged_again: JudgedAgain | None = None
    ended_by: str = ""
    ignored_lines: tuple[IgnoredLines, ...] = ()
    statement: StatementAbout | None = None
    population: int | None = None
    payclient_version: str = field(factory=lambda: version("payclient"))

    @property
    def service(self) -> dict[str, str]:
        """The service and the fingerprint of the key, as reports write them."""
        names = ("base_url", "environment", "key_fingerprint")
        return {name: getattr(self, name) for name in names}

    @property
    def ledger_sha256(self) -> str:
        """Of the ledger; empty where that was not a file."""
        return "" if self.ledger is None else self.ledger.sha256


def run_name(about: About, started_at: datetime) -> str:
    """Return the name of the run that *about* describes; it stays when the run is resumed, or judged again alike."""
    parts = about.ledger_sha256, about.base_url, about.environment, about.key_fingerprint, about.rules.fingerprint
    fingerprint = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return f"{started_at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{fingerprint[:8]}"


def about_as_json(about: About) -> dict[str, Any]:
    """Return *about* in plain values, without `payclient_version`: another version may write the report."""
    return {name: value for name, value in as_json(about).items() if name not in ("payclient_version", "population")}


def about_from_json(value: Mapping[str, Any]) -> About:
    """Return the run from its `about_as_json`."""
    return from_json(value, About)

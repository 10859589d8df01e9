"""The facts of a run: the ledger, the service, the times and the rules."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from attrs import field, frozen

from payclient._shared.escape import plural, quote
from payclient.reconcile import STRICT, IgnoredLines, Rules, StatementTotals, Summary, expiry_rule, rules_as_json
from payclient.reconcile._codec import as_json
from payclient.reconcile.judgement.records import LedgerChange
from payclient.reconcile.judgement.summary import EXIT_STATUSES
from payclient.reconcile.ledger import Excluded, UnreadSheet, UnusedColumn, read_only
from payclient.reconcile.report._wording import (
    at_stake_sentence,
    compared_fields,
    in_words,
    origin_sentence,
    remark,
    reused_sentence,
    rules_sentences,
)


@frozen(kw_only=True)
class LedgerAbout:
    """
    The ledger that was read.

    Attributes:
        name: The file's name without its folder. Empty for a stream.
        format: `csv`, `jsonl`, `xlsx` or `parquet`.
        size_bytes: How much was read.
        sha256: Hash of everything read, in hexadecimal.
        columns: The name in the header, by field.
        ignored_columns: The other columns, in their order.
        warnings: Warnings from reading the ledger.
        excluded: Rows that are left out, by reason. Each is a warning, too.
        unused: Other columns that may change the meaning of a row, and were not ignored by name.
        ignored: The same of those that were ignored by name.
        unread_sheets: Other sheets of the workbook that have rows, if no sheet was chosen by name.
    """

    name: str
    format: str
    size_bytes: int
    sha256: str
    columns: Mapping[str, str] = field(converter=read_only)
    ignored_columns: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    unused: tuple[UnusedColumn, ...] = ()
    ignored: tuple[UnusedColumn, ...] = ()
    unread_sheets: tuple[UnreadSheet, ...] = ()


@frozen(kw_only=True)
class JudgedAgain:
    """The run whose answers were judged a second time, its rules, and the names of those that are others now."""

    folder: str
    run: str
    rules_fingerprint: str
    changed_rules: tuple[str, ...] = ()


@in_words.register
def _(value: JudgedAgain) -> str:
    rules = ", ".join(value.changed_rules)
    how = f"by other rules ({rules})" if rules else "by the same rules"
    which = f"the run {value.run}" if value.run else "the run"
    return f"The answers of {which} in {quote(value.folder)}, judged again {how}; nothing was looked up again."


@frozen(kw_only=True)
class StatementAbout:
    """The statement that was read, the sums of its lines, and the amount that the bank received, if it was given."""

    file: LedgerAbout
    totals: StatementTotals = field(factory=StatementTotals)
    payout: int | None = None


@frozen(kw_only=True)
class About:
    """
    The run. Without clock, so that the same run gives the same bytes.

    Attributes:
        run: Name of the run: when it began, in UTC, and a fingerprint of ledger, service, key and rules, such as
            `20261121T020003Z-3f9a1c2d`. Names sort by time. Empty when it is not known.
        ledger: The file that was read. None if it was not a file.
        rules: How differences were judged.
        base_url: Address of the service. Empty when it is not known.
        environment: `live` or `sandbox`. Empty when it is not known.
        key_fingerprint: A short, non-reversible fingerprint of the API key, never the key. Empty when not known.
        canary: The reference that was asked first, if one was.
        judged_again: The run whose answers these are, if they were judged again.
        ended_by: The failure that ended the run early. Empty when it was not.
        ignored_lines: Ledger lines that the rules leave out, by kind.
        statement: The other side. None without one.
        ledger_change: The rows of the ledger next to the rows of the previous run. None without one.
        payclient_version: Version of the package that wrote the report.
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
    ledger_change: LedgerChange | None = None
    payclient_version: str = field(factory=lambda: version("payclient"))

    @property
    def service(self) -> dict[str, str]:
        """The service and the fingerprint of the key, as reports write them."""
        return {name: getattr(self, name) for name in ("base_url", "environment", "key_fingerprint")}

    @property
    def ledger_sha256(self) -> str:
        """SHA-256 of the ledger. Empty if it was not a file."""
        return "" if self.ledger is None else self.ledger.sha256


def run_name(about: About, started_at: datetime) -> str:
    """Return the name of the run that *about* describes. It stays when the run is resumed, or judged again alike."""
    parts = about.ledger_sha256, about.base_url, about.environment, about.key_fingerprint, about.rules.fingerprint
    fingerprint = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return f"{started_at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{fingerprint[:8]}"


def about_as_json(about: About) -> dict[str, Any]:
    """Return *about* in plain values, without `payclient_version`: another version may write the report."""
    return {name: value for name, value in as_json(about).items() if name != "payclient_version"}


RUN_TERM = "Run"
"""The line with the name of the run, by which a work list is known to be its."""


@frozen
class Fact:
    term: str
    values: tuple[str, ...]
    is_code: bool = False


def when(time: datetime | None) -> str:
    """Return *time* in UTC, to the second. Empty for None."""
    return "" if time is None else time.astimezone(UTC).isoformat(" ", "seconds")[:19]


def facts(summary: Summary, about: About) -> Iterator[Fact]:
    """Yield the run metadata in the order of the page. A missing value is shown as such."""
    yield Fact(RUN_TERM, (about.run or "not recorded",), bool(about.run))
    if about.judged_again is not None:
        yield Fact("Judged again", (in_words(about.judged_again),))
    if about.ledger is None:
        yield Fact("Ledger", ("not a file that payclient read",))
    else:
        yield from _ledger(about.ledger)
    if about.statement is not None:
        yield from _statement(about.statement)
    yield Fact("Compared", tuple(filter(None, (compared_fields(summary.compared), remark(summary.compared)))))
    yield Fact("Service", (about.base_url or "not recorded",), bool(about.base_url))
    yield Fact("Environment", (about.environment or "not recorded",))
    yield Fact("Key fingerprint", (about.key_fingerprint or "not recorded",), bool(about.key_fingerprint))
    yield Fact("Canary", (about.canary or "none was given",), bool(about.canary))
    first, last = when(summary.first_observed_at), when(summary.last_observed_at)
    yield Fact("Answers came", (f"{first} to {last} UTC" if first else "none came",))
    if summary.since is not None and summary.since.reused:
        yield Fact("Reused answers", (reused_sentence(summary.since),))
    yield Fact("Changed during the run", (f"{plural(summary.changed_during_run, 'row')}; judged by the last answer",))
    yield from _rules(about.rules)
    if summary.still_there:
        yield Fact("Marked corrected, still different", tuple(map(in_words, summary.still_there)))
    if summary.acceptances:
        yield Fact("Acceptances to look at", tuple(map(in_words, summary.acceptances)))
    if summary.leakage:
        yield Fact("Leakage by payment method", tuple(map(in_words, summary.leakage)))
    if about.ended_by:
        yield Fact("Ended early", (about.ended_by,))
    status = summary.exit_status()
    yield Fact("Exit status", (f"{status}: {EXIT_STATUSES[status]}",))
    yield Fact("Written by", (f"payclient {about.payclient_version}",))


def to_sign(summary: Summary, about: About) -> Iterator[Fact]:
    """Yield the facts to sign: the period, the parts left out and the reasons, the rules, and the open findings."""
    yield Fact("Period of the ledger", (in_words(summary.period),))
    for side, sentences in left_out(about).items():
        yield Fact(f"Left out of the {side}", sentences or ("nothing",))
    files = (("ledger", about.ledger), ("statement", about.statement and about.statement.file))
    for side, file in files:
        left = set(map(str, file.excluded)) if file else set[str]()
        if file and (others := tuple(each for each in file.warnings if each not in left)):
            yield Fact(f"Warnings about the {side}", others)
    since = summary.since
    if since is None:
        changed: tuple[str, ...] = ("no previous run to compare them with",)
    else:
        same = f"the same as in the previous run, of {in_words(since.previous)}"
        changed = rules_sentences(since) or (same,)
    yield Fact("Rules", changed)
    if (least := about.rules.material_from) is not None:
        yield Fact("Materiality", (f"{plural(summary.material, 'break')} with at least {least:,} at stake",))
    yield Fact("Open findings", (at_stake_sentence(summary.open_findings),))
    if since is not None:
        yield Fact("Opening balance", (origin_sentence(since.previous),))


def left_out(about: About) -> Mapping[str, tuple[str, ...]]:
    """Return the parts of the files that are not in the figures, with reasons: sentences by side."""
    found: dict[str, tuple[str, ...]] = {}
    if about.ledger is not None:
        found["ledger"] = (*_not_read(about.ledger), *map(in_words, about.ignored_lines))
    if about.statement is not None:
        totals = about.statement.totals
        found["statement"] = (*_not_read(about.statement.file), *filter(None, [in_words(totals)]))
    return found


def _not_read(file: LedgerAbout) -> Iterator[str]:
    yield from (f"the column {quote(name)}, which is not used" for name in file.ignored_columns)
    yield from map(str, file.excluded)


def _ledger(ledger: LedgerAbout) -> Iterator[Fact]:
    yield Fact("Ledger", (ledger.name or "standard input",))
    yield Fact("Size", (f"{plural(ledger.size_bytes, 'byte')}, read as {ledger.format}",))
    yield Fact("SHA-256", (ledger.sha256,), is_code=True)
    yield Fact("Columns used", (", ".join(_columns(ledger)) or "none",))


def _statement(statement: StatementAbout) -> Iterator[Fact]:
    file, totals = statement.file, statement.totals
    size = f"{plural(totals.lines, 'line')}, {plural(file.size_bytes, 'byte')}"
    yield Fact("Statement", (f"{file.name}: {size}, read as {file.format}",))
    yield Fact("SHA-256 of the statement", (file.sha256,), is_code=True)
    yield Fact("Columns of the statement", (", ".join(_columns(file)) or "none",))


def _columns(file: LedgerAbout) -> Iterator[str]:
    for name, header in file.columns.items():
        yield name if name == header else f"{name} from {header!r}"


def _rules(rules: Rules) -> Iterator[Fact]:
    plain = rules_as_json(rules)
    yield Fact("Expiry", (expiry_rule(rules.time_zone),))
    yield Fact("Tolerances", tuple(_listed(*each) for each in plain["tolerances"].items()) or ("none",))
    if rules.grace:
        yield Fact("Grace", (f"rows younger than {plain['grace']} may still be on their way",))
    if rules.counts_business_days:
        yield Fact("Business days", (f"{in_words(rules.calendar)}; in the time zone {plain['time_zone']}",))
    if plain["statuses"]:
        yield Fact("Status words", tuple(f"{word} means {status}" for word, status in plain["statuses"].items()))
    if rules.not_found_messages:
        yield Fact("Messages that mean not found", rules.not_found_messages)
    if plain["fees"]:
        yield Fact("Fee schedule", tuple(_listed(*each) for each in plain["fees"].items()))
    if rules.accepted:
        yield Fact("Accepted differences", (f"{len(rules.accepted):,}; each is marked where it occurs",))
    yield Fact("Fingerprint of the rules", (rules.fingerprint,), is_code=True)


def _listed(name: str, values: Mapping[str, Any]) -> str:
    return f"{name}: {', '.join(f'{key} {value}' for key, value in values.items())}"

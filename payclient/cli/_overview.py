"""How a ledger is read, before anything is looked up: what each column is taken for, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Self

from attrs import asdict, define, field

from payclient._escape import escape_unprintable, plural
from payclient.cli._progress import duration
from payclient.cli._streams import aligned
from payclient.ledger import ABSENT, KINDS, Dialect, Entry, Ledger, RejectedEntry, column_names, dialect_as_json
from payclient.reconcile import Journal

VERSION = 1
_RATES = (10, 100, 500)
"""Lookups per second for which the duration is said; which one the service takes is not known before it is asked."""
_MAX_SHOWN = 5
_MAX_WORDS = 50
_QUOTED = re.compile(r"'[^']*'|[0-9]+")
_TOTALS_ROW = "is a totals row"


@define
class Group:
    """Rejected rows with the same reason, apart from the values in it; reason and line are those of the first."""

    reason: str
    line: int
    rows: int = 0


@define
class Overview:
    """
    What is known of a ledger that has been read to its end.

    Attributes:
        first: Its first usable rows.
        statuses: Rows and amount by status word; the words beyond the first fifty are counted under None.
        reasons: The rejected rows, by reason.
        totals_lines: Lines of the first totals rows, whose amounts would be counted twice.
        totals_rows: The number of totals rows.
        references: The number of different references.
        repeated: The first references that are listed again, with the number of their rows.

    Note:
        Memory does not grow with the ledger; its rows wait in a temporary database, to find what is listed again.
    """

    ledger: Ledger
    first: list[Entry] = field(factory=list)
    statuses: dict[str | None, list[int]] = field(factory=dict)
    reasons: dict[str, Group] = field(factory=dict)
    totals_lines: list[int] = field(factory=list)
    totals_rows: int = 0
    rows: int = 0
    rejected: int = 0
    references: int = 0
    repeated: list[tuple[str, int]] = field(factory=list)

    @classmethod
    def of(cls, ledger: Ledger) -> Self:
        """
        Read *ledger* to its end.

        Raises:
            LedgerError: When the rest of it cannot be trusted.
        """
        overview = cls(ledger)
        with Journal() as journal:
            for entry in ledger:
                journal.add(entry)
                if isinstance(entry, RejectedEntry):
                    overview._reject(entry)
                else:
                    overview._take(entry)
            journal.finish_ledger()
            overview.rows, overview.rejected = journal.rows, journal.count_rejected()
            overview.references = journal.count_references()
            overview.repeated = list(journal.repeated(_MAX_SHOWN))
        return overview

    def _take(self, entry: Entry) -> None:
        if len(self.first) < _MAX_SHOWN:
            self.first.append(entry)
        if entry.status is not ABSENT:
            word = entry.status or ""
            known = self.statuses.setdefault(word if len(self.statuses) < _MAX_WORDS else None, [0, 0])
            known[0] += 1
            known[1] += entry.amount if isinstance(entry.amount, int) else 0

    def _reject(self, entry: RejectedEntry) -> None:
        if entry.reason.startswith(_TOTALS_ROW):
            self.totals_rows += 1
            if len(self.totals_lines) < _MAX_SHOWN:
                self.totals_lines.append(entry.line)
        key = _QUOTED.sub("", entry.reason)
        if len(self.reasons) == _MAX_WORDS and key not in self.reasons:
            key = ""
        self.reasons.setdefault(key, Group(entry.reason, entry.line)).rows += 1


def overview_as_json(overview: Overview) -> dict[str, Any]:
    """Return *overview* in plain values."""
    ledger, columns = overview.ledger, overview.ledger.columns
    fields = {place: name for name, place in columns.places.items()}
    return {
        "schema": "payclient.ledger",
        "version": VERSION,
        **asdict(ledger.fingerprint),
        "format": ledger.format,
        "delimiter": ledger.delimiter,
        "header_row": ledger.header_row or None,
        "declared": dialect_as_json(ledger.dialect),
        "columns": [
            {"name": name, "field": fields.get(place), "kind": KINDS[fields[place]] if place in fields else None}
            for place, name in enumerate(columns.header)
        ],
        "rows": overview.rows,
        "references": overview.references,
        "listed_again": {
            "rows": overview.rows - overview.rejected - overview.references,
            "references": [{"reference": reference, "rows": rows} for reference, rows in overview.repeated],
        },
        "first": [{name: _plain(getattr(entry, name)) for name in _shown_names(ledger)} for entry in overview.first],
        "by_status": [
            {"status": word, "rows": rows, "amount": amount} for word, (rows, amount) in overview.statuses.items()
        ],
        "rejected": {"rows": overview.rejected, "reasons": [asdict(each) for each in overview.reasons.values()]},
        "totals_rows": {
            "rows": overview.totals_rows,
            "lines": overview.totals_lines,
            "amount": ledger.totals_amount,
        },
        "excluded": [asdict(each) for each in ledger.excluded],
        "suggestions": [
            {
                "what": each.what,
                "rows": each.rows,
                "cell": each.cell,
                "is_ambiguous": each.is_ambiguous,
                "readings": [asdict(reading) for reading in each.readings],
                "text": str(each),
            }
            for each in ledger.suggestions
        ],
        "warnings": list(ledger.warnings),
    }


def overview_lines(overview: Overview) -> Iterator[str]:
    """Yield *overview* for a terminal; free of control characters."""
    ledger = overview.ledger
    yield f"format: {', '.join(_format(ledger))}"
    yield from _columns(ledger)
    yield f"rows: {overview.rows:,}, with {plural(overview.references, 'different reference')}"
    if overview.first:
        yield "first rows, as read:"
        names = _shown_names(ledger)
        cells = [[_shown(getattr(entry, name)) for name in names] for entry in overview.first]
        money = [place for place, name in enumerate(names) if KINDS.get(name) == "money" or name == "line"]
        yield from (f"  {line}" for line in aligned([list(names), *cells], right=money))
    if overview.statuses:
        yield "by status:"
        words = ["others" if word is None else escape_unprintable(word) or "(empty)" for word in overview.statuses]
        numbers = [(plural(rows, "row"), f"{amount:,}") for rows, amount in overview.statuses.values()]
        table = [[word, *pair] for word, pair in zip(words, numbers, strict=True)]
        yield from (f"  {line}" for line in aligned(table, right=(1, 2)))
    again = overview.rows - overview.rejected - overview.references
    yield f"listed again: {plural(again, 'row')}"
    yield from (f"  {escape_unprintable(reference)}: {plural(rows, 'row')}" for reference, rows in overview.repeated)
    yield f"rejected: {plural(overview.rejected, 'row')}"
    for group in sorted(overview.reasons.values(), key=lambda each: -each.rows):
        yield f"  {plural(group.rows, 'row')}, first on line {group.line}: {escape_unprintable(group.reason)}"
    if overview.totals_rows:
        lines = ", ".join(map(str, overview.totals_lines)) + (" …" if overview.totals_rows > _MAX_SHOWN else "")
        word = "line" if overview.totals_rows == 1 else "lines"
        yield f"totals: {ledger.totals_amount:,} on {word} {lines}, which would be counted twice"
    yield from (f"suggestion: {escape_unprintable(str(each))}" for each in ledger.suggestions)
    yield from (f"warning: {escape_unprintable(warning)}" for warning in ledger.warnings)


def question_lines(overview: Overview, concurrency: int) -> Iterator[str]:
    """Yield how many references would be looked up, and how long that takes."""
    count = overview.references
    yield f"lookups: {count:,}, each reference once, and once more for each difference"
    yield f"duration, {concurrency} at once at most: " + ", ".join(
        f"{duration(count / rate)} at {rate}/s" for rate in _RATES
    )


def _format(ledger: Ledger) -> Iterator[str]:
    yield ledger.format
    if ledger.format in ("csv", "jsonl"):
        yield ledger.dialect.encoding
    if ledger.delimiter is not None:
        yield f"delimiter {ledger.delimiter!r}"
    if ledger.header_row:
        yield f"header in row {ledger.header_row}"
    if ledger.dialect.profile:
        yield f"profile {ledger.dialect.profile}"


def _columns(ledger: Ledger) -> Iterator[str]:
    fields = {place: name for name, place in ledger.columns.places.items()}
    if not ledger.columns.header:
        yield "columns: none"
        return
    yield "columns:"
    names = [escape_unprintable(name, max_length=60) for name in column_names(ledger.columns.header)]
    debits = {name: of for of, name in ledger.dialect.debit_columns.items()}
    taken = [
        (f"{debits[name]}, below zero", "") if name in debits else _taken(fields.get(place), ledger.dialect)
        for place, name in enumerate(names)
    ]
    yield from (f"  {line}" for line in aligned([[name, *each] for name, each in zip(names, taken, strict=True)]))


def _taken(name: str | None, dialect: Dialect) -> tuple[str, str]:
    """Return the field that a column is taken for, and how its cells are read."""
    if name is None:
        return "not used", ""
    kind = KINDS[name]
    if kind == "money":
        marks = [f"{each} {str(value)!r}" for each in ("decimal", "thousands") if (value := getattr(dialect, each))]
        symbols = [repr(each) for each in (dialect.currency_prefix, dialect.currency_suffix) if each]
        units = [f"times {10**dialect.minor_units}"] if dialect.minor_units else []
        return name, ", ".join(["whole number" if not units else "number", *marks, *symbols, *units])
    if kind in ("time", "creation"):
        return name, " or ".join(dialect.date_format) or "YYYY-MM-DD HH:MM:SS"
    return name, "credit or debit" if kind == "direction" else "text"


def _shown_names(ledger: Ledger) -> tuple[str, ...]:
    """Return the names of what an entry keeps."""
    return ("line", *(name for name in ledger.columns.used if name not in ("currency", "direction")))


def _plain(value: object) -> object:
    return value.isoformat(" ") if isinstance(value, datetime) else value


def _shown(value: object) -> str:
    return "" if value is None or value is ABSENT else escape_unprintable(str(_plain(value)), max_length=60)

"""The report of an earlier run: checked against its checksums, only read, and what it says for a run after it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from hashlib import blake2b
from heapq import heappush, heappushpop
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

from attrs import define, evolve, field, frozen

from payclient.reconcile import (
    Answer,
    Bucket,
    Code,
    JournalError,
    JournalWriteError,
    Observation,
    PastRunError,
    Row,
    Status,
    rules_from_json,
    verify_journal,
)
from payclient.reconcile._own_file import read_own
from payclient.reconcile.ledger import Entry
from payclient.reconcile.nights import BreakRecord, PreviousRun, Recheck, ReferenceRecord, breaks_of
from payclient.reconcile.report._manifest import HISTORY, MANIFEST, MATCHED, WORK_LIST, verify
from payclient.reconcile.report._rows_file import (
    GZIP_ROWS,
    ROWS,
    RowLine,
    open_rows,
    read_time,
    row_from_json,
    row_lines_of,
    rows_file,
)
from payclient.reconcile.rules import from_json
from payclient.reconcile.values import FindingTotal, Matched

JOURNAL = "journal.sqlite"
_CACHE_KIB = 16_384
_NEEDED = (("summary.json",), (ROWS, GZIP_ROWS))
_UNFINISHED = frozenset({Bucket.BREAK, Bucket.OPEN, Bucket.UNRESOLVED})
_PAID_ALONE = b""
_WHO = {"base_url": "address", "environment": "environment", "key_fingerprint": "key fingerprint"}


@frozen(kw_only=True)
class PastRun:
    """The report of an earlier run; nothing in its folder is ever changed."""

    folder: Path
    note: PreviousRun
    sha256: str  # of its manifest, which is written again to show decisions
    rows_sha256: str  # of its rows, which stay as they are
    service: Mapping[str, str]
    rows: int
    judged_run: str  # name of the run whose answers were judged again; empty if these are new
    is_work_list_edited: bool
    files: Collection[str]  # their names, as its manifest lists them
    first_observed_at: datetime | None

    def lines(self) -> Iterator[RowLine]:
        with open_rows(rows_file(self.folder)) as file:
            yield from row_lines_of(file)

    def memory(self) -> Iterator[tuple[str, bytes]]:
        """Yield the lines about breaks of earlier runs that it does not have, with their references."""
        for text in self._lines_of(HISTORY):
            yield json.loads(text)["reference"], text

    def remembered(self) -> Iterator[bytes]:
        """Yield the lines about rows that matched and that it did not look up; the first one counts them."""
        return self._lines_of(MATCHED)

    def _lines_of(self, name: str) -> Iterator[bytes]:
        if name in self.files:
            with open_rows(self.folder / name) as file:
                yield from file

    def breaks(self, lines: Iterable[bytes]) -> tuple[Mapping[Code, BreakRecord], list[Row]]:
        """Return the breaks of a reference, and the rows; *lines* are all of its rows and of its memory."""
        found = [json.loads(text) for text in lines]
        remembered = [from_json(each["known"], BreakRecord) for each in found if "known" in each]
        rows = [row_from_json(each) for each in found if "known" not in each]
        return breaks_of(rows, run=self.note.run, remembered=remembered), rows

    def records(
        self, is_listed: Callable[[str], bool], *, recheck: tuple[Recheck, datetime] | None = None
    ) -> Iterator[tuple[ReferenceRecord, Sequence[Entry]]]:
        """Yield its records for a run after it, by reference, merged on the disk."""
        with temporary_database("kept (reference TEXT, text BLOB, again INTEGER)", MATCHED_TABLE) as database:
            database.executemany("INSERT INTO kept VALUES (?, ?, NULL)", self._kept(is_listed))
            if recheck is not None:
                selection = Selection(database, *recheck, self.sha256, is_listed)
                selection.add_rows(self.lines())
                selection.add_remembered(self.remembered())
                database.executemany("INSERT INTO kept VALUES (?, ?, ?)", selection.chosen())
                yield ReferenceRecord(reference="", remembered=selection.header), ()
            stored = database.execute("SELECT reference, text, again FROM kept ORDER BY reference")
            for reference, group in groupby(stored, key=itemgetter(0)):
                texts = [(text, again) for _, text, again in group]
                if texts == [(_PAID_ALONE, None)]:
                    yield ReferenceRecord(reference=reference, is_paid=True), ()
                else:
                    yield self._record(reference, texts, is_listed=is_listed(reference))

    def _kept(self, is_listed: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
        for line in self.lines():
            if line.reference is None:
                continue
            if line.bucket in _UNFINISHED or line.is_listed_again:
                yield line.reference, line.text
            elif is_listed(line.reference) and (line.is_settled or line.is_paid):
                yield line.reference, line.text if line.is_settled else _PAID_ALONE
        yield from self.memory()

    def _record(
        self, reference: str, texts: list[tuple[bytes, int | None]], *, is_listed: bool
    ) -> tuple[ReferenceRecord, Sequence[Entry]]:
        breaks, rows = self.breaks((text for text, again in texts if text and again is None))
        chosen = [row_from_json(json.loads(text)) for text, again in texts if again]
        is_paid = (_PAID_ALONE, None) in texts or any(
            row.service_status is Status.PAID and row.bucket is not Bucket.UNRESOLVED for row in (*rows, *chosen)
        )
        is_carried = not is_listed and any(row.bucket in _UNFINISHED for row in rows)
        asked = rows if is_carried else chosen
        entries = [entry for row in asked for entry in row.parts or (row.entry,)]
        sides = [row.other_side for row in (*rows, *chosen) if row.other_side is not None]
        earlier = ReferenceRecord(
            reference=reference,
            breaks=tuple(breaks.values()),
            is_paid=is_paid,
            settled=next((evolve(each.settled, lines=(), before=None) for each in sides if each.settled), None),
            is_in_ledger=all(side.is_in_ledger for side in sides),
            matched=None if is_listed else self._matched(asked),
            remembered=next((text.decode().rstrip("\n") for text, again in texts if again == 0), ""),
        )
        return earlier, [entry for entry in entries if isinstance(entry, Entry)]

    def _matched(self, rows: Sequence[Row]) -> Matched | None:
        """Return the first of *rows* as it matched; None for a break that never did."""
        row = next((row for row in rows if row.matched is not None or row.bucket is Bucket.MATCHED), None)
        if row is None:
            return None
        if row.matched is not None:
            is_chosen = row.bucket is Bucket.MATCHED or (row.bucket is Bucket.UNRESOLVED and row.is_rechecked)
            return evolve(row.matched, is_chosen=is_chosen)
        found, at = row.transaction, row.confirmed_at or row.observed_at
        if found is None or at is None:
            return None
        return Matched(
            at=at, run=self.note.run, status=found.status, amount=found.amount, amount_received=found.amount_received
        )

    def answers(self) -> Iterator[tuple[Sequence[Entry], Observation]]:
        """Yield its answers that a run after it may reuse."""
        for line in self.lines():
            if line.bucket != Bucket.MATCHED or line.is_listed_again:
                continue
            row = line.row
            at = row.confirmed_at or row.observed_at
            entries = [entry for entry in row.parts or (row.entry,) if isinstance(entry, Entry)]
            if row.transaction is not None and at is not None and entries and not row.carried_from:
                asked_by = row.reused_from or self.note.run
                answer = Observation(answer=Answer.FOUND, at=at, transaction=row.transaction, reused_from=asked_by)
                yield entries, answer

    def check_same_service(self, service: Mapping[str, str], whose: str) -> None:
        """Check that this run asked *service*, with the same key."""
        for name, label in _WHO.items():
            if self.service[name] != service[name]:
                message = (
                    f"{self.folder} cannot be compared: its {label} is {self.service[name] or 'not recorded'!r}, "
                    f"and that of {whose} is {service[name] or 'not recorded'!r}"
                )
                raise PastRunError(message)


def open_past_run(folder: Path) -> PastRun:
    """Check the report in *folder*, and its journal if there is one, without changing anything."""
    # The work list may be edited or missing, because nothing is read from it.
    if not folder.is_dir():
        message = f"there is no report at {folder}"
        raise PastRunError(message)
    problems = {each.file: each.what for each in verify(folder)}
    edited = problems.pop(WORK_LIST, "")
    if problem := _problem(folder, problems):
        message = f"{folder} cannot be compared: {problem} (see payclient verify {folder})"
        raise PastRunError(message)
    manifest, summary = _read(folder / MANIFEST), _read(folder / "summary.json")
    rules = {name: value for name, value in summary["rules"].items() if name != "fingerprint"}
    since: dict[str, Any] = summary.get("since") or {}
    listed = {file["name"]: file["sha256"] for file in manifest["files"]}
    recheck: dict[str, Any] = {}
    if MATCHED in listed:
        with open_rows(folder / MATCHED) as file:
            recheck = json.loads(next(file, b"{}"))
    open_findings = summary.get("open_findings")
    return PastRun(
        folder=folder,
        note=PreviousRun(
            run=manifest.get("run") or folder.resolve().name,
            folder=folder.resolve().name,
            last_observed_at=read_time(summary["last_observed_at"]),
            rules=rules_from_json(rules),
            buckets={name: total["rows"] for name, total in summary["buckets"].items()},
            trend=tuple((each["run"], each["breaks"]) for each in since.get("trend", ())),
            ledger_sha256=_of(manifest["ledger"], "sha256"),
            open_findings=from_json(open_findings["closing"], FindingTotal) if open_findings else None,
            recheck=recheck.get("options", ""),
            matched=recheck.get("rows", 0),
        ),
        sha256=manifest["sha256"],
        rows_sha256=listed[rows_file(folder).name],
        service=manifest["service"],
        rows=summary["rows"],
        judged_run=_of(manifest["judged_again"], "run"),
        is_work_list_edited=bool(edited),
        files=listed,
        first_observed_at=read_time(summary["first_observed_at"]),
    )


@contextmanager
def temporary_database(*tables: str) -> Generator[sqlite3.Connection]:
    """Open a database with *tables* in a temporary file; nothing of it is kept."""
    with closing(sqlite3.connect("", isolation_level=None)) as database:
        for statement in (
            *("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", f"PRAGMA cache_size = -{_CACHE_KIB}"),
            *(f"CREATE TABLE {table}" for table in tables),
            "BEGIN",
        ):
            database.execute(statement)
        yield database


def _problem(folder: Path, problems: Mapping[str, str]) -> str:
    """Return the first problem of a report's files, given *problems* of some; empty if there is none."""
    journal = folder / JOURNAL
    # SQLite would put the log of a killed run into the journal, and so change the folder.
    if os.path.lexists(folder / f"{JOURNAL}-wal"):
        return f"{JOURNAL}-wal is there, so its run is under way or was killed; let it end first"
    for name, what in problems.items():
        return f"{name}: {what}"
    listed = {each["name"] for each in _read(folder / MANIFEST)["files"]}
    if missing := [names for names in _NEEDED if listed.isdisjoint(names)]:
        return f"it was written without {missing[0][0]}"
    if os.path.lexists(journal):  # a report may be kept without it
        try:
            verify_journal(journal)
        except (JournalError, JournalWriteError) as error:
            return f"{JOURNAL}: {error}"
    return ""


def _read(path: Path) -> Any:
    return json.loads(read_own(path))


def _of(part: Any, name: str) -> str:
    return "" if part is None else str(part[name])


# Choice of the rows of earlier runs to look up again, and of those to remember only
#
# A row is remembered in `rows.jsonl` of the run that looked it up, and otherwise in `matched.jsonl.gz` of the last run.
# Rows are in strata: the day on which they matched, and the number of digits of the service's amount. Each stratum has
# its share of the sample. Of one night's rows no more are remembered than a sample of them alone has: its share of a
# sample of several nights is never larger. So what is remembered grows with the sample and the days, and not with the
# ledger. The rows that are not remembered are counted, even if a later ledger lists one again.
# A sample that is larger than one of an earlier night is cut until its strata are in proportion: only then does it say
# something of all rows. The order within a stratum is a checksum of the reference, with the seed and the previous run.
# So the same files give the same sample, and each night has another one.

Stratum: TypeAlias = tuple[str, int]
"""The day, and the number of digits."""

MATCHED_TABLE = "matched (reference TEXT PRIMARY KEY, day TEXT, digits INTEGER, keep INTEGER, text BLOB)"

_TRIM = """
    DELETE FROM matched WHERE reference IN (
        SELECT reference FROM matched WHERE day = ? AND digits = ? ORDER BY keep LIMIT -1 OFFSET ?
    )
"""
_BITS = 60


@define
class Selection:
    """Chooses rows of one previous run; *started* is the time of this one, and *salt* names that one."""

    _database: sqlite3.Connection
    _recheck: Recheck
    _started: datetime
    _salt: str
    _is_listed: Callable[[str], bool]
    _sizes: Counter[Stratum] = field(init=False, factory=Counter)
    _waiting: int = field(init=False, default=0)
    _kept: dict[Stratum, list[int]] = field(init=False, factory=dict[Stratum, list[int]])
    _left: list[tuple[str, int, int]] = field(init=False, factory=list[tuple[str, int, int]])

    def add_rows(self, lines: Iterable[RowLine]) -> None:
        for line in lines:
            if line.bucket not in (Bucket.MATCHED, Bucket.UNRESOLVED) or line.is_listed_again:
                continue
            if line.reference is None or self._is_listed(line.reference):
                continue
            row = line.data
            if line.bucket == Bucket.UNRESOLVED:
                self._waiting += row.get("matched", {}).get("is_chosen", False)
            elif row["service"] is not None and row.get("statement", {}).get("is_in_ledger", True):
                self._add(line.reference, row, line.text)

    def add_remembered(self, lines: Iterator[bytes]) -> None:
        """Take the memory of the previous run: first a line with the number of rows in each stratum."""
        for day, digits, rows in json.loads(next(lines, b"{}")).get("left", ()):
            if day >= self._since:
                self._sizes[day, digits] += rows
        for text in lines:
            row = json.loads(text)
            if _stratum(row)[0] >= self._since:
                self._sizes[_stratum(row)] -= 1
                if not self._is_listed(row["reference"]):
                    self._add(row["reference"], row, text)

    def _add(self, reference: str, row: dict[str, Any], text: bytes) -> None:
        stratum = _stratum(row)
        if stratum[0] >= self._since:
            self._sizes[stratum] += 1
            keep = self._rank(reference, f"keep:{self._salt}")  # another order than that of the sample
            if self._is_among_first(stratum, keep):
                cells = reference, *stratum, keep, text
                self._database.execute("INSERT OR IGNORE INTO matched VALUES (?, ?, ?, ?, ?)", cells)

    def _is_among_first(self, stratum: Stratum, keep: int) -> bool:
        """Return whether a row may be one of those that a sample of its stratum alone would have."""
        if self._recheck.sample is None:
            return True
        first = self._kept.setdefault(stratum, [])
        if len(first) > self._recheck.sample:
            return heappushpop(first, -keep) != -keep
        heappush(first, -keep)
        return True

    @property
    def _since(self) -> str:
        return f"{self._started - self._recheck.max_age:%Y-%m-%d}"

    def _rank(self, reference: str, salt: str) -> int:
        text = f"{self._recheck.seed}:{salt}:{reference}".encode()
        return int.from_bytes(blake2b(text, digest_size=8).digest()) >> (64 - _BITS)

    def _trim(self) -> None:
        sample, days = self._recheck.sample, Counter[str]()
        for (day, _), rows in self._sizes.items():
            days[day] += rows
        for (day, digits), rows in self._sizes.items():
            if sample is not None and rows:
                self._database.execute(_TRIM, (day, digits, -(-sample * rows // days[day]) + 1))

    def chosen(self) -> Iterator[tuple[str, bytes, bool]]:
        """Yield each row that is remembered: its reference, its line, and whether it is to be looked up again."""
        self._database.execute("CREATE INDEX by_stratum ON matched (day, digits, keep)")
        self._trim()
        query = "SELECT reference, text FROM matched WHERE day = ? AND digits = ?"
        for stratum, share in self._shares(sum(self._sizes.values())).items():
            taken, found = 0, self._database.execute(query, stratum)
            is_whole = share == self._sizes[stratum]
            ordered = found if is_whole else sorted(found, key=lambda each: self._rank(each[0], self._salt))
            for reference, text in ordered:
                yield reference, text, taken < share
                taken += taken < share
            self._left.append((*stratum, self._sizes[stratum] - taken))

    def _shares(self, total: int) -> dict[Stratum, int]:
        """Return the number of rows to look up in each stratum."""
        query = "SELECT day, digits, count(*) FROM matched GROUP BY day, digits"
        remembered = {(day, digits): rows for day, digits, rows in self._database.execute(query)}
        sample = total if self._recheck.sample is None else min(self._recheck.sample, total)
        while True:
            # Rounded by one random start, so that each row has the same chance and the parts have the sum.
            start, before, shares = self._rank("", self._salt), 0, dict[Stratum, int]()
            for stratum, rows in sorted(self._sizes.items()):
                ends = (_rounded(end * sample, total, start) for end in (before, before + rows))
                shares[stratum], before = -next(ends) + next(ends), before + rows
            # One less is by rounding.
            short = [(remembered.get(each, 0) + 1, share) for each, share in shares.items()]
            cut = min((sample * has // share for has, share in short if share > has), default=sample)
            if cut == sample:
                return shares
            sample = cut

    @property
    def header(self) -> str:
        """The first line of this run's memory; after all rows were chosen."""
        return json.dumps(
            {
                "since": self._since,
                "sample": self._recheck.sample,
                "seed": self._recheck.seed,
                "rows": sum(self._sizes.values()) + self._waiting,
                "options": self._recheck.options,
                "left": [each for each in self._left if each[2]],
            }
        )


def _rounded(rows: int, total: int, start: int) -> int:
    return 0 if not total else ((rows << _BITS) + start * total) // (total << _BITS)


def _stratum(row: dict[str, Any]) -> Stratum:
    before = row.get("matched")
    at = datetime.fromisoformat(before["at"] if before else row["confirmed_at"] or row["observed_at"])
    return f"{at:%Y-%m-%d}", len(str(abs(row["service"]["amount"] or 0)))

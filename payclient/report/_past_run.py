"""Open the report of an earlier run: checked against its checksums, and only read."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from attrs import field, frozen

from payclient._own_file import own, read_own
from payclient.reconcile import (
    JournalError,
    JournalWriteError,
    KnownBreak,
    PastRunError,
    PreviousRun,
    Row,
    Rules,
    Seen,
    from_json,
    rules_from_json,
    seen_of,
    verify_journal,
)
from payclient.report._manifest import HISTORY, MANIFEST, WORK_LIST, verify
from payclient.report._row_reader import RowLine, read_time, row_from_json, row_lines_of
from payclient.report._rows_file import GZIP_ROWS, ROWS, open_rows, rows_file

JOURNAL = "journal.sqlite"
_CACHE_KIB = 16_384
_NEEDED = (("summary.json",), (ROWS, GZIP_ROWS))
_WHO = {"base_url": "address", "environment": "environment", "key_fingerprint": "key fingerprint"}


@frozen(kw_only=True)
class PastRun:
    """
    A report that was written.

    Attributes:
        folder: Where it is; nothing in it is ever changed.
        name: Of the run; of the folder where the run has none.
        sha256: Of the content of its manifest.
        service: Address, environment and fingerprint of the key.
        rules: The rules by which its rows were judged.
        rows: How many it has.
        buckets: How many rows it has in each bucket.
        trend: The runs before it, the oldest first: name and number of breaks.
        ledger_sha256: Of its ledger; empty where that was not a file.
        judged_run: Name of the run whose answers were judged again; empty where it is no second judgement.
        is_work_list_edited: Whether its work list is another than was written; nothing is read from it.
        has_history: Whether it has a previous run itself.
        first_observed_at: Time of its first answer; None if there was none.
        last_observed_at: Time of its last answer.
    """

    folder: Path
    name: str
    sha256: str
    service: Mapping[str, str]
    rules: Rules = field(repr=False)
    rows: int
    buckets: Mapping[str, int]
    trend: tuple[tuple[str, int], ...]
    ledger_sha256: str
    judged_run: str
    is_work_list_edited: bool
    has_history: bool
    first_observed_at: datetime | None
    last_observed_at: datetime | None

    @property
    def previous(self) -> PreviousRun:
        """What a later run notes of it."""
        folder = self.folder.resolve().name
        return PreviousRun(
            run=self.name,
            folder=folder,
            last_observed_at=self.last_observed_at,
            rules=self.rules,
            buckets=self.buckets,
            trend=self.trend,
            ledger_sha256=self.ledger_sha256,
        )

    def lines(self) -> Iterator[RowLine]:
        """Yield each row, in the order of the ledger."""
        with open_rows(rows_file(self.folder)) as file:
            yield from row_lines_of(file)

    def memory(self) -> Iterator[tuple[str, bytes]]:
        """Yield what it remembers of breaks of earlier runs that it does not have: the reference, and the line."""
        if self.has_history:
            with open(self.folder / HISTORY, "rb", opener=own) as file:
                for text in file:
                    yield json.loads(text)["reference"], text

    def seen(self, reference: str, lines: Iterable[bytes]) -> tuple[Seen, list[Row]]:
        """Return what it says about *reference*, and the rows; *lines* are all of its rows and of its memory."""
        rows: list[Row] = []
        remembered: list[KnownBreak] = []
        for text in lines:
            data = json.loads(text)
            if "known" in data:
                remembered.append(from_json(data["known"], KnownBreak))
            else:
                rows.append(row_from_json(data))
        return seen_of(reference, rows, run=self.name, remembered=remembered), rows

    def check_same_service(self, service: Mapping[str, str], whose: str) -> None:
        """
        Check that this run asked *service*, with the same key.

        Raises:
            PastRunError: When it did not.
        """
        for name, label in _WHO.items():
            if self.service[name] != service[name]:
                message = (
                    f"{self.folder} cannot be compared: its {label} is {self.service[name] or 'not recorded'!r}, "
                    f"and that of {whose} is {service[name] or 'not recorded'!r}"
                )
                raise PastRunError(message)


def open_past_run(folder: Path) -> PastRun:
    """
    Check the report in *folder*, and its journal if there is one, without changing anything.

    Raises:
        PastRunError: When a file is missing or changed, the journal is damaged, or the run has not ended. The work list
            may be edited or missing, because nothing is read from it.
    """
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
    return PastRun(
        folder=folder,
        name=manifest.get("run") or folder.resolve().name,
        sha256=manifest["sha256"],
        service=manifest["service"],
        rules=rules_from_json(rules),
        rows=summary["rows"],
        buckets={name: total["rows"] for name, total in summary["buckets"].items()},
        trend=_trend(summary.get("since")),
        ledger_sha256=_of(manifest["ledger"], "sha256"),
        judged_run=_of(manifest["judged_again"], "run"),
        is_work_list_edited=bool(edited),
        has_history=any(file["name"] == HISTORY for file in manifest["files"]),
        first_observed_at=read_time(summary["first_observed_at"]),
        last_observed_at=read_time(summary["last_observed_at"]),
    )


@contextmanager
def temporary_database(*tables: str) -> Generator[sqlite3.Connection]:
    """Open a database in a temporary file, in which *tables* are created; nothing of it is kept."""
    with closing(sqlite3.connect("", isolation_level=None)) as database:
        for statement in (
            *("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", f"PRAGMA cache_size = -{_CACHE_KIB}"),
            *(f"CREATE TABLE {table}" for table in tables),
            "BEGIN",
        ):
            database.execute(statement)
        yield database


def _trend(since: Any) -> tuple[tuple[str, int], ...]:
    return () if since is None else tuple((each["run"], each["breaks"]) for each in since["trend"])


def _problem(folder: Path, problems: Mapping[str, str]) -> str:
    """Say what is wrong with the files of a report, of which some have *problems*; empty if nothing is."""
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

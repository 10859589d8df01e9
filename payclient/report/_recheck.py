"""
Choice of the rows of earlier runs to look up again, and of those to remember only.

Design rules:

- A row is remembered in `rows.jsonl` of the run that looked it up, and otherwise in `matched.jsonl.gz` of the last run.
- Rows are in strata: the day on which they matched, and the number of digits of the service's amount.
- Each stratum has its share of the sample. Of one night's rows no more are remembered than a sample of them alone has:
  its share of a sample of several nights is never larger. So what is remembered grows with the sample and the days,
  and not with the ledger. The rows that are not remembered are counted, even if a later ledger lists one again.
- A sample that is larger than one of an earlier night is cut until its strata are in proportion: only then does it say
  something of all rows.
- The order within a stratum is a checksum of the reference, with the seed and the previous run. So the same files give
  the same sample, and each night has another one.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from hashlib import blake2b
from heapq import heappush, heapreplace
from typing import Any, TypeAlias

from attrs import define, field

from payclient.reconcile import Bucket
from payclient.reconcile.nights import Recheck
from payclient.report._rows_file import RowLine, read_time

Stratum: TypeAlias = tuple[str, int]
"""The day, and the number of digits."""

TABLE = "matched (reference TEXT PRIMARY KEY, day TEXT, digits INTEGER, keep INTEGER, text BLOB)"

_INDEX = "CREATE INDEX by_stratum ON matched (day, digits, keep)"
_ADD = "INSERT OR IGNORE INTO matched VALUES (?, ?, ?, ?, ?)"
_TRIM = """
    DELETE FROM matched WHERE reference IN (
        SELECT reference FROM matched WHERE day = ? AND digits = ? ORDER BY keep LIMIT -1 OFFSET ?
    )
"""
_COUNT = "SELECT day, digits, count(*) FROM matched GROUP BY day, digits"
_OF_STRATUM = "SELECT reference, text FROM matched WHERE day = ? AND digits = ?"
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
        """Take what the previous run remembers: first a line with the number of rows in each stratum."""
        for day, digits, rows in json.loads(next(lines, b"{}")).get("left", ()):
            if self._counts(day):
                self._sizes[day, digits] += rows
        for text in lines:
            row = json.loads(text)
            if self._counts(_stratum(row)[0]):
                self._sizes[_stratum(row)] -= 1
                if not self._is_listed(row["reference"]):
                    self._add(row["reference"], row, text)

    def _add(self, reference: str, row: dict[str, Any], text: bytes) -> None:
        stratum = _stratum(row)
        if self._counts(stratum[0]):
            self._sizes[stratum] += 1
            keep = self._rank(reference, f"keep:{self._salt}")  # another order than that of the sample
            if self._is_among_first(stratum, keep):
                self._database.execute(_ADD, (reference, *stratum, keep, text))

    def _is_among_first(self, stratum: Stratum, keep: int) -> bool:
        """Return whether a row may be one of those that a sample of its stratum alone would have."""
        if self._recheck.sample is None:
            return True
        first = self._kept.setdefault(stratum, [])
        if len(first) <= self._recheck.sample:
            heappush(first, -keep)
            return True
        is_first = -keep > first[0]
        if is_first:
            heapreplace(first, -keep)
        return is_first

    def _counts(self, day: str) -> bool:
        return day >= self._since

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
        self._database.execute(_INDEX)
        self._trim()
        total = sum(self._sizes.values())
        for stratum, share in self._shares(total).items():
            taken, found = 0, self._database.execute(_OF_STRATUM, stratum)
            is_whole = share == self._sizes[stratum]
            ordered = found if is_whole else sorted(found, key=lambda each: self._rank(each[0], self._salt))
            for reference, text in ordered:
                yield reference, text, taken < share
                taken += taken < share
            self._left.append((*stratum, self._sizes[stratum] - taken))

    def _shares(self, total: int) -> dict[Stratum, int]:
        """Return the number of rows to look up in each stratum."""
        remembered = {(day, digits): rows for day, digits, rows in self._database.execute(_COUNT)}
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
        """The first line of what this run remembers; after all rows were chosen."""
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
    return f"{matched_at(row):%Y-%m-%d}", len(str(abs(row["service"]["amount"] or 0)))


def matched_at(row: dict[str, Any]) -> datetime:
    """Return when a row matched, which was looked up again since or not."""
    before = row.get("matched")
    at = read_time(before["at"] if before else row["confirmed_at"] or row["observed_at"])
    assert at is not None  # noqa: S101  a row that matched has an answer
    return at

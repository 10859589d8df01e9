"""
The difference between two reports: the state of each break.

Rows are merged by reference on the disk, so memory grows neither with them nor with the breaks. Only the rows that
matter are read in full: the breaks of either run, and the later run's rows about them.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any, Self

from payclient.reconcile import BreakState, Bucket, ResolvedBy, Severity, Tally
from payclient.reconcile._codec import as_json
from payclient.reconcile.folders._folder import PastRun
from payclient.reconcile.judgement.records import BreakChange, changes_of, observed_at
from payclient.reconcile.judgement.rules import changed_rules
from payclient.reconcile.judgement.summary import OpenFindings
from payclient.reconcile.judgement.tally import temporary_database
from payclient.reconcile.report import RowLine, change_as_json, moves, open_findings_as_json

DIFF_VERSION = 1
"""Grows when a reader of the difference has to change. New names alone do not make it grow."""

_STATES = list(BreakState)
_TABLES = (
    "rows (is_later INTEGER, reference TEXT, text BLOB)",
    "changes (state INTEGER, severity INTEGER, reference TEXT, code TEXT, text TEXT)",
)
_ADD = "INSERT INTO rows VALUES (?, ?, ?)"


class RunDiff:
    """The state of each break between two runs. A context manager that only reads both reports."""

    def __init__(self, earlier: PastRun, later: PastRun) -> None:
        earlier.check_same_service(later.service, str(later.folder))
        self.earlier: PastRun = earlier
        self.later: PastRun = later
        with ExitStack() as stack:
            self._database = stack.enter_context(closing(temporary_database(*_TABLES)))
            self.open_findings: OpenFindings = self._compare()
            self._close = stack.pop_all().close
        self.counts: Mapping[BreakState, int] = {
            state: total.count for state, total in self.open_findings.by_state.items()
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def changed_rules(self) -> tuple[str, ...]:
        """Names of the rules that differ between the runs, sorted."""
        return changed_rules(self.earlier.note.rules, self.later.note.rules)

    @property
    def verdict(self) -> str:
        """The result in a word or two: `news`, `not known` or `no news`."""
        if any(self.counts[state] for state in BreakState if state.is_news):
            return "news"
        return "not known" if self.counts[BreakState.NOT_KNOWN] else "no news"

    @property
    def is_reversed(self) -> bool:
        """Whether all answers of the later run came before those of the earlier one."""
        ended, began = self.later.note.last_observed_at, self.earlier.first_observed_at
        return ended is not None and began is not None and ended < began

    def exit_status(self, fail_on: Severity = Severity.MEDIUM) -> int:
        """Return 1 for news at least as severe as *fail_on*, else 75 for a break of unknown state, else 0."""
        if any(count for severity, count in self.open_findings.news.items() if severity >= fail_on):
            return 1
        return 75 if self.counts[BreakState.NOT_KNOWN] else 0

    def changes(self, state: BreakState, *, limit: int = -1) -> Iterator[dict[str, Any]]:
        """Yield the breaks in *state*, the most severe first, then by reference. *limit* of them unless it is -1."""
        query = "SELECT text FROM changes WHERE state = ? ORDER BY severity DESC, reference, code LIMIT ?"
        for (text,) in self._database.execute(query, (_STATES.index(state), limit)):
            yield json.loads(text)

    def as_json(self) -> Iterator[str]:
        """Yield the difference as lines of one JSON object: both runs, and a list for each state."""
        head = {
            "schema": "payclient.reconcile.diff",
            "version": DIFF_VERSION,
            "sentence": moves(self.counts, self.earlier.note.folder),
            "earlier": _run_as_json(self.earlier),
            "later": _run_as_json(self.later),
            "changed_rules": list(self.changed_rules),
            "counts": {state.value: self.counts[state] for state in BreakState},
            "open_findings": open_findings_as_json(self.open_findings),
        }
        yield "{"
        yield from (f"  {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items())
        for state in BreakState:
            yield f"  {json.dumps(state.value)}: ["
            left = self.counts[state]
            for change in self.changes(state):
                left -= 1
                yield f"    {json.dumps(change)}{',' if left else ''}"
            yield "  ]" if state is _STATES[-1] else "  ],"
        yield "}"

    # The comparison

    def _compare(self) -> OpenFindings:
        execute, insert = self._database.execute, self._database.executemany
        insert(_ADD, ((False, line.reference, line.text) for line in self.earlier.lines() if _matters(line)))
        insert(_ADD, ((False, *known) for known in self.earlier.memory()))
        execute("CREATE INDEX by_reference ON rows (reference, is_later)")
        later = (line for line in self.later.lines() if _matters(line) or self._texts(line.reference, is_later=False))
        insert(_ADD, ((True, line.reference, line.text) for line in later))
        with closing(Tally()) as tally:
            for change in self._changes():
                tally.add_change(change)
                state, severity = _STATES.index(change.history.state), int(change.now.severity)
                key = state, severity, change.reference, change.now.code.value
                execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", (*key, json.dumps(change_as_json(change))))
            execute("CREATE INDEX changes_in_order ON changes (state, severity DESC, reference, code)")
            return tally.open_findings()

    def _texts(self, reference: str | None, *, is_later: bool) -> list[bytes]:
        query = "SELECT text FROM rows WHERE reference = ? AND is_later = ?"
        return [text for (text,) in self._database.execute(query, (reference, is_later))]

    def _changes(self) -> Iterator[BreakChange]:
        unchanged = self._unchanged()
        for (reference,) in self._database.execute("SELECT DISTINCT reference FROM rows ORDER BY reference"):
            was, before = self.earlier.breaks(self._texts(reference, is_later=False))
            found = changes_of(
                *(reference, was, self.later.breaks(self._texts(reference, is_later=True))[1]),
                run=self.later.note.run,
                before=observed_at(before),
                is_judged=self._is_judged,
                unchanged=unchanged,
            )
            yield from (change for change in found if not change.is_old)

    def _unchanged(self) -> list[ResolvedBy]:
        """Return the sides that are the same in both runs: the whole ledger, or the answers that were judged again."""
        one, other = self.earlier, self.later
        is_ledger = one.note.ledger_sha256 == other.note.ledger_sha256 != ""
        times = [(run.first_observed_at, run.note.last_observed_at) for run in (one, other)]
        are_answers = other.judged_run == one.note.run and times[0] == times[1]
        return [ResolvedBy.LEDGER] * is_ledger + [ResolvedBy.SERVICE] * are_answers

    def _is_judged(self, reference: str) -> bool:
        found = {json.loads(text)["bucket"] for text in self._texts(reference, is_later=True)}
        return bool(found) and found.isdisjoint((Bucket.UNRESOLVED, Bucket.REJECTED))


def _matters(line: RowLine) -> bool:
    return line.reference is not None and (line.bucket == Bucket.BREAK or line.is_listed_again)


def _run_as_json(run: PastRun) -> Mapping[str, Any]:
    return {
        "run": run.note.run,
        "folder": run.note.folder,
        "manifest_sha256": run.note.manifest_sha256,
        "rows": run.rows,
        "first_observed_at": as_json(run.first_observed_at),
        "last_observed_at": as_json(run.note.last_observed_at),
    }

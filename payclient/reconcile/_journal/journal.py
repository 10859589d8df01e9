"""
Internal: the journal of a reconciliation: the ledger and every answer, on disk, so that a run can be resumed.

Design rules:

- One connection with an exclusive lock, so two runs cannot share a journal.
- An answer is committed before its worker takes the next reference, together with all others of the same
  event loop iteration. So a kill loses nothing, and only repeats the lookups in flight.
- A journal belongs to one ledger, one service and one set of rules. It refuses others, and never starts over.
- A row is final only when the whole ledger has been looked up, because a later row may have the same
  reference or merchant_reff. So rows wait here, and memory does not grow with them.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Self, TypeVar

from attrs import evolve, frozen

from payclient._shared.escape import plural
from payclient.reconcile._codec import as_json, from_json
from payclient.reconcile._journal import answers as stored
from payclient.reconcile._journal import tables
from payclient.reconcile._judgement import judge as judgement
from payclient.reconcile._judgement import records
from payclient.reconcile._judgement.compare import settled_by
from payclient.reconcile._judgement.errors import JournalError
from payclient.reconcile._judgement.findings import Bucket, ResolvedBy, Row
from payclient.reconcile._judgement.rules import STRICT, IgnoredLines, LineKinds, Rules
from payclient.reconcile._judgement.sides import Observation, StatementSide, StatementTotals
from payclient.reconcile.ledger import COMPARED, Entry, RejectedEntry

_Kind = TypeVar("_Kind")

# ruff: noqa: S608  no text of a stranger is in a query. What is put together are names of columns

_REPEATS_FIRST = "(SELECT first FROM repeats WHERE repeats.reference = entries.reference)"
_FINISH_LEDGER = (
    """
    INSERT INTO repeats SELECT *, checksum(reference, first, rows) FROM (
        SELECT reference, min(position) AS first, count(*) AS rows FROM entries WHERE rejected IS NULL
        GROUP BY reference HAVING count(*) > 1
    )
    """,
    f"""
    UPDATE entries SET first = {_REPEATS_FIRST},
        checksum = checksum(position, {_REPEATS_FIRST}, {tables.of("entries", tables.ENTRY)})
        WHERE rejected IS NULL AND reference IN (SELECT reference FROM repeats)
    """,
)
_FORGET_FAILURES = """
    DELETE FROM answers WHERE answer = 'failed' OR answer = 'unusable' AND id % 2 = 1
    AND NOT EXISTS (SELECT 1 FROM answers AS given WHERE given.id = answers.id - 1 AND given.answer = 'unusable')
"""
# A transaction that is found is not a probe for itself.
_UNBELIEVED = f"""
    answer IN ('not found', 'unusable')
    AND coalesce((SELECT max(id / 2) {stored.FOUND}), id / 2) = id / 2
    AND coalesce((SELECT min(id / 2) {stored.FOUND}), id / 2) = id / 2
"""
_IS_JUDGED = """
    SELECT 1 FROM entries JOIN answers ON answers.id / 2 = coalesce(entries.first, position)
    WHERE entries.reference = ? AND rejected IS NULL AND answer NOT IN ('failed', 'unusable') LIMIT 1
"""
_WITHOUT_ROW = """
    SELECT reference, data FROM earlier WHERE data LIKE '%"settled"%' AND NOT (? AND EXISTS (
        SELECT 1 FROM entries WHERE entries.reference = earlier.reference AND rejected IS NULL
    )) ORDER BY reference
"""
_NOT_IN_LEDGER = """
    SELECT reference, min(line) FROM statement WHERE rejected IS NULL AND NOT EXISTS (
        SELECT 1 FROM entries WHERE entries.reference = statement.reference AND entries.rejected IS NULL
    ) GROUP BY reference ORDER BY min(position)
"""


_REPEATED = f"""
    SELECT repeats.first, amount, {tables.of("entries", tables.ENTRY)}
    FROM repeats JOIN entries ON entries.reference = repeats.reference AND rejected IS NULL
    ORDER BY repeats.first, position
"""
_PAID_WITH = f"""
    SELECT reference FROM ({stored.LATEST_PAID}) AS paid JOIN entries ON position = paid.id / 2
    WHERE paid_reff = ? AND position != ? ORDER BY paid.id LIMIT 3
"""
_PAID_TWICE = (
    tables.INDEXES[1],
    "CREATE TEMP TABLE IF NOT EXISTS paid_twice (paid_reff TEXT PRIMARY KEY, stands INTEGER) WITHOUT ROWID",
    "DELETE FROM paid_twice",
    "CREATE TEMP TABLE IF NOT EXISTS sums (first INTEGER PRIMARY KEY, duplicated TEXT, apart TEXT)",
    "DELETE FROM sums",
    # The first payment of each merchant_reff is the one that stands.
    f"""
    INSERT OR IGNORE INTO paid_twice SELECT paid.paid_reff, position FROM ({stored.LATEST_PAID}) AS paid
    JOIN answers USING (id) JOIN entries ON position = paid.id / 2
    WHERE paid.paid_reff IN (SELECT paid_reff FROM ({stored.LATEST_PAID}) GROUP BY paid_reff HAVING count(*) > 1)
    ORDER BY CAST(answers.amount AS REAL), entries.reference
    """,
)
_UNUSABLE = """(
    SELECT line FROM entries AS bad WHERE bad.reference = entries.reference AND bad.rejected IS NOT NULL
    ORDER BY rejected, position LIMIT 1
)"""
_CASE = f"""
    position, entries.first, repeats.rows, paid_twice.paid_reff, paid_twice.stands,
    earlier.data, sums.duplicated, sums.apart, {_UNUSABLE},
    {tables.of("entries", tables.ENTRY)}, {tables.of("given", tables.ANSWER)}, {tables.of("second", tables.ANSWER)}
"""
_ENTRY = slice(9, 9 + 2 + len(tables.ENTRY_COLUMNS))
_FIRST = slice(_ENTRY.stop, _ENTRY.stop + len(tables.ANSWER_COLUMNS))
_ANSWERED = """
    LEFT JOIN repeats ON entries.first IS NOT NULL AND repeats.reference = entries.reference
    LEFT JOIN sums ON sums.first = entries.first
    LEFT JOIN answers AS given ON given.id = 2 * coalesce(entries.first, position) AND rejected IS NULL
    LEFT JOIN answers AS second ON second.id = given.id + 1
    LEFT JOIN paid_twice
        ON paid_twice.paid_reff = CASE WHEN second.id IS NULL THEN given.paid_reff ELSE second.paid_reff END
"""
_CASES = f"SELECT {_CASE} FROM entries LEFT JOIN earlier ON earlier.reference = entries.reference {_ANSWERED}"
_EARLIER_CASES = f"""
    SELECT earlier.reference, {_CASE} FROM earlier
    LEFT JOIN entries ON entries.reference = earlier.reference {_ANSWERED}
    WHERE earlier.breaks ORDER BY earlier.reference, position
"""


_STATEMENT = f"SELECT {tables.ENTRY} FROM statement WHERE reference = ? ORDER BY position"


class Journal:
    """
    The journal of one reconciliation: `with Journal(path) as journal`, for one run at a time.

    Args:
        path: The file, created with its folder if missing. None for a temporary one, deleted at the end.
        identity: The facts that must be the same to resume a run, such as the address of the service.
        must_exist: Refuse to create a new one.

    Note:
        A killed process loses nothing. After a power cut, the last answers may be looked up again. Memory stays
        within some 32 MiB. The disk takes about 0.3 KB for each ledger row. The API key is
        never in it. The methods are internal: pass it to `reconcile`.

    Raises:
        JournalError: When it cannot be used: it belongs to another run, is in use, missing or damaged. All of it is
            read once to check.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        identity: Mapping[str, str] | None = None,
        must_exist: bool = False,
    ) -> None:
        self._database = tables.Database(None if path is None else Path(path), must_exist=must_exist)
        self.answers: stored.Answers = stored.Answers(self._database)
        self._ledger = stored.StoredLines(self._database, "entries", "ledger", head=(None,))
        self._statement = stored.StoredLines(self._database, "statement", "statement")
        self.add_to_statement: Callable[[Entry | RejectedEntry], None] = self._statement.add
        with ExitStack() as on_failure:
            on_failure.callback(self.close)
            self._identify(identity)
            self.statement: stored.StoredStatement | None = self.noted("statement", stored.StoredStatement)
            on_failure.pop_all()
        self.begin_ledger()

    def _identify(self, identity: Mapping[str, str] | None) -> None:
        before = self.noted("identity", dict[str, str])
        if before is None:
            self.set_note("identity", dict(identity or {}))
        elif identity is not None:
            pairs = {name: [part.get(name, "none") for part in (before, identity)] for name in {*before, *identity}}
            different = sorted(name for name, (was, now) in pairs.items() if was != now)
            # The parts that describe how both sides are written, read and judged may change before the first answer.
            if different and {"ledger", "rules", "statement"}.issuperset(different) and not self._count("FROM answers"):
                with self._database.writing() as db:  # start over
                    for table in tables.NAMES:
                        db.execute(f"DELETE FROM {table}")
                self.set_note("identity", dict(identity))
            elif different:
                name = different[0]
                was, now = pairs[name]
                parts = _different_keys(was, now)
                how = f"its {name}: {', '.join(parts)}" if parts else f"{name} was {was}, and is {now} now"
                message = f"the journal {self._database.path} belongs to another run: {how}"
                raise JournalError(message, rules=parts if different == ["rules"] else ())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit pending writes, and release the file."""
        with closing(self._database):
            self.answers.close()

    # Notes

    def note(self, name: str) -> str | None:
        """Return the note called *name*. None without one."""
        rows = self._database.fetch("SELECT value FROM notes WHERE name = ?", (name,))
        return str(rows[0][0]) if rows else None

    def noted(self, name: str, kind: type[_Kind]) -> _Kind | None:
        """Return the value of a note that is JSON. None without one."""
        text = self.note(name)
        return None if text is None else from_json(json.loads(text), kind)

    def set_note(self, name: str, value: object) -> None:
        """Store a note called *name* with the run: text, or another value as JSON. None deletes it."""
        self._set_notes({name: value})

    def _set_notes(self, notes: Mapping[str, object]) -> None:
        with self._database.writing() as db:
            for name, value in notes.items():
                if value is None:
                    db.execute("DELETE FROM notes WHERE name = ?", (name,))
                else:
                    text = value if isinstance(value, str) else json.dumps(as_json(value))
                    db.execute(tables.SET_NOTE, tables.with_checksum(name, text))
        self._database.commit()

    def _count(self, rows: str) -> int:
        return int(self._database.fetch(f"SELECT count(*) {rows}")[0][0])

    # The ledger

    @property
    def is_ledger_complete(self) -> bool:
        """Whether the ledger was read to its end."""
        return self.note("ledger") == "complete"

    @property
    def rows(self) -> int:
        """The number of stored rows: ledger rows, references that only the statement has, and carried rows."""
        return self._count("FROM entries")

    def count_rejected(self) -> int:
        """Return the number of stored rows that cannot be used."""
        return self._count("FROM entries WHERE rejected IS NOT NULL")

    def repeated(self, limit: int) -> Iterator[tuple[str, int]]:
        """Yield the first references that several rows have, at most *limit*, with the number of their rows."""
        yield from self._database.fetch("SELECT reference, rows FROM repeats ORDER BY first LIMIT ?", (limit,))

    def begin_ledger(self) -> None:
        """Start again at the first ledger row, for another run with the same journal."""
        self._ledger.begin(self._last_of_ledger(), is_complete=self.is_ledger_complete)

    def add(self, entry: Entry | RejectedEntry) -> None:
        """Add the next ledger row, the same that an earlier run has stored, or raise `JournalError`."""
        self._ledger.add(entry)

    def finish_ledger(
        self,
        ignored: Sequence[IgnoredLines] = (),
        *,
        previous: tuple[records.PreviousRun, records.Records] | None = None,
        rules: Rules = STRICT,
    ) -> None:
        """Record that all rows were added, with those *ignored* by the rules and the *previous* record of each."""
        if self._ledger.finish():
            return
        notes: dict[str, object] = {"ignored": ignored} if ignored else {}
        with self._database.writing() as db:
            db.execute(tables.INDEXES[0])
            if previous is not None:
                run, remembered = previous
                notes["previous"] = evolve(run, rows=self._ledger.count)
                change = stored.carry_over(db, remembered, after=self._ledger.count, rules=rules)
                notes["ledger change"] = change
            for statement in _FINISH_LEDGER:
                db.execute(statement)
        self._set_notes({**notes, "ledger": "complete"})

    @property
    def ignored(self) -> tuple[IgnoredLines, ...]:
        """The lines of the ledger that the rules leave out, counted. Known at its end."""
        return self.noted("ignored", tuple[IgnoredLines, ...]) or ()

    @property
    def ledger_change(self) -> records.LedgerChange | None:
        """The rows of the ledger next to the rows of the previous run. None without one."""
        return self.noted("ledger change", records.LedgerChange)

    def _last_of_ledger(self) -> int:
        if self.previous is not None:
            return self.previous.rows
        return self.rows if self.statement is None else self.statement.after

    def begin_statement(self) -> None:
        """Start at its first line, after the ledger is complete. A statement not read to its end is forgotten."""
        if self.statement is None:
            with self._database.writing() as db:
                db.execute("DELETE FROM statement")
        self._statement.begin(is_complete=self.statement is not None)

    def finish_statement(self, totals: StatementTotals) -> None:
        """Record that the whole statement was added, and add the references that only it has."""
        if self._statement.finish():
            return
        statement = stored.StoredStatement(totals=totals, after=self.rows)
        with self._database.writing() as db:
            db.execute(tables.INDEXES[-1])
            for position, (reference, line) in enumerate(self._database.read(_NOT_IN_LEDGER), statement.after + 1):
                cells = tables.entry_cells(Entry(line=line, reference=reference))
                db.execute(tables.ADD_ENTRY, tables.with_checksum(position, None, *cells))
        self.statement = statement
        self.set_note("statement", statement)

    def side_of(self, lookup: judgement.PendingLookup, rules: Rules) -> StatementSide | None:
        """Return the side of the statement, and of earlier ones, about a reference. None if none lists it."""
        earlier, statement = lookup.earlier, self.statement
        if earlier is None or earlier.is_in_ledger:
            last = stored.MAX_POSITION if statement is None else statement.after
        else:
            last = self._last_of_ledger()
        is_in_ledger = lookup.position <= last
        if statement is None and is_in_ledger:
            return None
        lines = list(map(tables.entry_from, self._database.fetch(_STATEMENT, (lookup.reference,))))
        usable = [line for line in lines if isinstance(line, Entry)]
        return StatementSide(
            settled=settled_by(usable, rules, None if earlier is None else earlier.settled),
            is_in_ledger=is_in_ledger,
            was_in_ledger=not is_in_ledger and earlier is not None and earlier.was_in_ledger,
            unusable_line=next((line.line for line in lines if isinstance(line, RejectedEntry)), None),
        )

    def count_references(self) -> int:
        """Return the number of different references in usable rows."""
        return self._count("FROM entries WHERE rejected IS NULL AND (first IS NULL OR first = position)")

    def forget_failures(self) -> None:
        """Delete failed answers, and those without a known-good probe, so they are looked up again."""
        notes: dict[str, object] = {"ended_by": None}
        with self._database.writing() as db:
            db.execute(_FORGET_FAILURES)
            if self._is_nothing_believed():
                db.execute(f"DELETE FROM answers WHERE {_UNBELIEVED}")
                notes["canary"] = None
        self._set_notes(notes)

    def count_answered(self) -> int:
        """Count the references that a resumed run does not look up again."""
        kept = f"AND NOT ({_UNBELIEVED})" if self._is_nothing_believed() else ""
        return self._count(f"FROM answers WHERE id % 2 = 0 AND answer != 'failed' {kept}")

    def _is_nothing_believed(self) -> bool:
        return self.note("canary") == "none"  # the run ended, rather than being killed

    # The result

    def end(self, failure: Observation | None, *, is_canary_found: bool) -> None:
        """Record the failure that ended the lookups, if one did. A canary is a reference that is known to exist."""
        self.answers.write()
        cells = None if failure is None else tables.observation_cells(failure)
        self._set_notes({"ended_by": cells, "canary": "found" if is_canary_found else "none"})

    @property
    def ended_by(self) -> Observation | None:
        """The failure that ended the last run early."""
        cells = self.note("ended_by")
        return None if cells is None else tables.observation_from(json.loads(cells))

    def cases(self, reference: str | None = None, *, rules: Rules = STRICT) -> Iterator[judgement.Case]:
        """Yield the case of each ledger row in order, as *rules* put rows together, or only of *reference*."""
        where, parameters = ("", ()) if reference is None else ("WHERE entries.reference = ?", (reference,))
        rows = self._database.read(f"{_CASES} {where} ORDER BY position", parameters)
        yield from filter(None, map(self._reading_cases(rules), rows))

    def earlier_cases(self, *, rules: Rules = STRICT) -> Iterator[tuple[records.ReferenceRecord, list[judgement.Case]]]:
        """Yield the record of the previous run about each reference with a break, by reference, and its cases now."""
        case_of = self._reading_cases(rules)
        for (reference, data), rows in groupby(self._database.read(_EARLIER_CASES), key=itemgetter(0, 6)):
            cases = (case_of(cells[1:]) for cells in rows if cells[1] is not None)
            yield records.record_from(reference, data), list(filter(None, cases))

    def settled_without_row(self) -> Iterator[records.ReferenceRecord]:
        """Yield the settlements in earlier statements that the rows of a reference do not show, for the next run."""
        for reference, data in self._database.read(_WITHOUT_ROW, (self.statement is not None,)):
            record = records.record_from(reference, data)
            if record.settled is not None and record.gone_for < records.MAX_GONE_FOR:
                facts = {name: getattr(record, name) for name in ("reference", "settled", "was_in_ledger")}
                yield records.ReferenceRecord(**facts, gone_for=record.gone_for + 1)

    def _reading_cases(self, rules: Rules) -> Callable[[Sequence[Any]], judgement.Case | None]:
        """Find the payments that were paid twice. Return the function that makes a case of a row of `_CASES`."""
        with self._database.writing() as db:
            for statement in _PAID_TWICE:
                db.execute(statement)
            for first, rows in groupby(self._database.read(_REPEATED), key=itemgetter(0)):
                lines = list(rows)
                entries = (_usable(cells) for _, _, *cells in lines)
                apart = judgement.why_not_summed(entries, rules) if rules.lines.are_summed else ""
                duplicated = _without_smallest([amount for _, amount, *_ in lines])
                db.execute("INSERT INTO sums VALUES (?, ?, ?)", (first, duplicated, apart))
        found = self.answers.count_found() + (self.note("canary") == "found")
        return partial(self._case, rules, self.previous, found, self.ended_by)

    def _case(
        self,
        rules: Rules,
        previous: records.PreviousRun | None,
        found: int,
        ended_by: Observation | None,
        cells: Sequence[Any],
    ) -> judgement.Case | None:
        """Return the case of a row of `_CASES`. None if it is part of another."""
        position, first_position, rows, paid_reff, stands, data, duplicated, apart, unusable = cells[: _ENTRY.start]
        entry, reference = tables.entry_from(cells[_ENTRY]), cells[_ENTRY.start + 2] or ""
        earlier, carried_from = None, ""
        if previous is not None:
            earlier = records.record_from(reference, data)
            if previous.rows < position <= (stored.MAX_POSITION if self.statement is None else self.statement.after):
                carried_from = earlier.carried_from or previous.run
        side = None
        if self.statement is not None or carried_from:
            side = self.side_of(judgement.PendingLookup(reference, position, (), earlier), rules)
        if isinstance(entry, RejectedEntry):
            return judgement.Case(entry=entry, earlier=earlier, carried_from=carried_from)
        first, second = tables.observation_from(cells[_FIRST]), tables.observation_from(cells[_FIRST.stop :])
        is_found = any(answer and answer.transaction and not answer.reused_from for answer in (first, second))
        own = first_position or position
        paid_with = [] if paid_reff is None else self._database.fetch(_PAID_WITH, (paid_reff, own))
        case = judgement.Case(
            entry=entry,
            first=first,
            second=second,
            rows=rows or 1,
            duplicated=None if duplicated is None else int(duplicated),
            is_repeat=first_position is not None and first_position != position,
            paid_with=tuple(other for (other,) in paid_with),
            stands=bool(paid_with) and stands == own,
            other_found=found - is_found,
            ended_by=ended_by,
            earlier=earlier,
            carried_from=carried_from,
            other_side=side,
        )
        if not rules.lines.are_summed or (side is not None and not side.is_in_ledger):
            return case
        if apart:
            return evolve(case, apart=apart, unusable_line=unusable)
        if case.is_repeat:
            return None
        parts: tuple[Entry, ...] = (entry,)
        if first_position is not None:
            parts = tuple(map(_usable, self._database.fetch(tables.ENTRIES_OF, (entry.reference,))))
        return evolve(case, parts=parts if judgement.are_parts(parts, rules) else (), unusable_line=unusable, rows=1)

    def is_judged(self, reference: str) -> bool:
        """Return whether the service gave an answer about *reference* that can be used."""
        return bool(self._database.fetch(_IS_JUDGED, (reference,)))

    @property
    def previous(self) -> records.PreviousRun | None:
        """The facts of the previous run. None without one."""
        return self.noted("previous", records.PreviousRun)

    @property
    def run(self) -> str:
        """The name of this run, as noted by its caller. Empty without one."""
        return self.note("run") or ""


def _different_keys(was: str, now: str) -> tuple[str, ...]:
    """Return the keys that differ between two parts of an identity that are JSON. None between other texts."""
    try:
        parts: list[dict[str, Any]] = [{} if text == "none" else json.loads(text) for text in (was, now)]
        one, other = parts
        return tuple(name for name in sorted({*one, *other}) if one.get(name) != other.get(name))
    except (ValueError, TypeError, AttributeError):  # an address, a checksum
        return ()


def _without_smallest(amounts: Sequence[tables.StoredCell]) -> str | None:
    """Return the sum of some amounts without the smallest. None without one."""
    # Not without the first row's amount: the order of a ledger means nothing, and may be another tomorrow.
    sizes = [abs(int(cell or 0)) for cell in amounts]  # text beyond 64 bits, and empty bytes if it is not stated
    return str(sum(sizes) - min(sizes)) if any(cell != b"" for cell in amounts) else None


def _usable(cells: Sequence[Any]) -> Entry:
    entry = tables.entry_from(cells)
    assert isinstance(entry, Entry)  # noqa: S101  the query reads no other
    return entry


REUSED = "reused"
"""The note of a journal that answers were taken over into."""

_same = attrgetter(*COMPARED, "kind")


@frozen(kw_only=True)
class Reuse:
    """The answers of the previous run that stand, and the age of the oldest at the start of this run."""

    # Only for rows that matched then and match now, with a final status by the rules, and an unchanged ledger row. All
    # others are looked up. The age counts from the answer, and stays when it is reused again. A reused answer confirms
    # nothing in this run: it is not a probe, and no difference rests on it.

    max_age: timedelta
    answers: Callable[[], Iterator[tuple[Sequence[Entry], Observation]]]  # rows that matched, with their entries


def take_over(journal: Journal, reuse: Reuse, *, rules: Rules, now: datetime) -> Iterator[int]:
    """Store the answers that can be reused, once for each journal. Yield the number read, for a turn of the loop."""
    if journal.note(REUSED) is not None:
        return
    answers, previous = reuse.answers(), journal.previous
    # Those after the last row of the ledger are of the previous run, and looked up again.
    last = journal.rows if previous is None else previous.rows
    while some := list(islice(answers, 1_000)):
        for entries, answer in some:
            if timedelta(0) <= now - answer.at <= reuse.max_age:
                _take(journal, entries, answer, rules, last=last)
        yield len(some)
    journal.answers.write()
    journal.set_note(REUSED, "done")


def _take(journal: Journal, entries: Sequence[Entry], answer: Observation, rules: Rules, *, last: int) -> None:
    transaction = answer.transaction
    if transaction is None or rules.read_status(transaction.status) not in rules.final_statuses:
        return
    pending = journal.answers.pending(entries[0].reference)
    if pending is None or pending.position > last or _fields(pending.entries) != _fields(entries):
        return
    judged = judgement.judged_entries(pending.entries, transaction, rules)
    if len(judged) > 1:
        return
    case = judgement.Case(entry=judged[0], first=answer, other_side=journal.side_of(pending, rules))
    if judgement.judge(case, rules=rules).bucket is Bucket.MATCHED:
        journal.answers.add(pending.position, answer, paid_reff=judgement.paid_reff_of(answer, rules=rules))


def _fields(entries: Sequence[Entry]) -> list[str]:
    return sorted(repr(_same(entry)) for entry in entries)


# Judging it, without any lookup: by its own rules, or a copy of it by others


def replay(journal: Journal, *, rules: Rules = STRICT) -> Iterator[Row]:
    """Judge each row of a journal lazily, in the order of the ledger. Rows that were not looked up are unresolved."""
    return map(judging(journal, rules), journal.cases(rules=rules))


def judging(journal: Journal, rules: Rules) -> Callable[[judgement.Case], Row]:
    """Return the judgement of a case, with the row's history from the previous run."""
    if journal.previous is None:
        return partial(judgement.judge, rules=rules)
    with_history = partial(records.with_history, run=journal.run, is_judged=journal.is_judged)
    return lambda case: with_history(judgement.judge(case, rules=rules), case.earlier)


def break_changes(journal: Journal, *, rules: Rules = STRICT, ledger_sha256: str = "") -> Iterator[records.BreakChange]:
    """Yield the change of each break of the previous run, by reference. Nothing without one."""
    # Resolved breaks stay among them for 400 runs, so that a returning break is not taken as new.
    # A break that the same ledger no longer shows was resolved by the rules: hence its checksum.
    previous = journal.previous
    if previous is None:
        return
    unchanged = [ResolvedBy.LEDGER] if ledger_sha256 and ledger_sha256 == previous.ledger_sha256 else []
    judged = judging(journal, rules)
    for earlier, cases in journal.earlier_cases(rules=rules):
        rows = list(map(judged, cases))
        for change in records.changes_of(
            *(earlier.reference, earlier.by_code, rows),
            run=journal.run,
            before=previous.last_observed_at,
            is_judged=journal.is_judged,
            unchanged=unchanged,
        ):
            if change.was is not None and change.now.gone_for <= records.MAX_GONE_FOR:
                yield change


def judge_again(journal: Journal, *, rules: Rules) -> int:
    """Judge a copy of a journal by other *rules*. Return the number of second lookups that they need and it lacks."""
    # The ledger and the answers stay as they are. A difference without a second lookup is unresolved.
    rules.check_zone()
    for case in islice(journal.cases(rules=STRICT), 1):  # if one row has a kind, all have
        LineKinds(rules.lines.kind).check(case.entry)
    if not journal.is_ledger_complete:
        raise JournalError("the run hasn't read its whole ledger, so it can't be judged: run the same command again")
    identity, change = json.loads(journal.note("identity") or "{}"), journal.ledger_change
    might_leave = json.loads(identity.get("rules", "{}")).get("may_leave")
    if might_leave and not rules.may_leave and change is not None and change.missing.rows:
        message = f"{plural(change.missing.rows, 'row')} left the ledger by may_leave = true, and was not looked up"
        raise JournalError(f"{message}; without may_leave, reconcile again")
    journal.answers.mark_again(rules, journal.side_of)
    journal.set_note("identity", {**identity, "rules": evolve(rules, accepted=()).judging})
    return journal.answers.count_to_confirm()

"""
Look up and reconcile Arrow batches: the kernel that every engine runs in its workers.

Results have the order of the batches. A failed row does not raise. Its columns have the outcome. An error that is the
same for every row does: a refused key, an untrusted certificate, a wrong address. The extra `parquet` installs pyarrow.

Design rules:

- Each process has one client for each specification, in a thread, which all batches and tasks share: its connections
  stay open, and its limiter keeps what it has learnt.
- The caller's thread reads the source and returns batches. The event loop's thread runs the lookups, and has all of
  their state. The threads exchange whole batches, never single rows.
- The next batch is read while slow rows of earlier batches are in flight.
- A reference is looked up once for all rows and batches of the window.
- Backpressure: the number of rows in memory is bounded, and the source is read only as the results are.
"""

import asyncio
import atexit
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import chain, islice
from typing import Any, Final, TypeAlias, cast

import attrs

from payclient import reconcile
from payclient._shared.escape import escape_unprintable, quote
from payclient._shared.logger import logger
from payclient._shared.options import OPTIONS, STALL_TIMEOUT
from payclient._shared.version import from_extra
from payclient.blocking import LoopThread
from payclient.client import AsyncClient, Attempt, ClientOptions
from payclient.engines._spec import LookupSpec, ReconcileSpec, key_of, rules_of
from payclient.errors import ClientClosedError, ConfigurationError, InvalidReferenceError, RejectedError
from payclient.protocol import DOCUMENTED, Found, Outcome, Transaction, documented_values
from payclient.reconcile.ledger import Columns, Entry, LedgerError, RejectedEntry, RowReader, check_use, find_columns
from payclient.reconcile.ledger._parquet import column_values

__all__ = ["lookup_batches", "lookup_schema", "reconcile_batches", "reconcile_schema"]

with from_extra("parquet", "payclient.engines.arrow needs pyarrow"):
    _arrow: Any = import_module("pyarrow")  # it lacks type hints
_RecordBatch: TypeAlias = Any
_Schema: TypeAlias = Any

_MAX_REASON = 400
_TEXT = _arrow.string()
_AT = _arrow.timestamp("us", tz="UTC")
_FIELDS = {name: _arrow.int64() if kind is int else _TEXT for name, kind in DOCUMENTED.items()}
_FIELDS["expdate"] = _arrow.timestamp("us")
_ACCOUNT = {
    "outcome": _TEXT,
    "reason": _TEXT,
    "status_code": _arrow.int32(),
    "attempts": _arrow.int32(),
    "observed_at": _AT,
    "deviations": _arrow.list_(_TEXT),
}
_FINDING = dict.fromkeys(("code", "severity", "sentence", "ledger", "service", "waived"), _TEXT)
_JUDGEMENT = {
    "bucket": _TEXT,
    "bucket_reason": _TEXT,
    "finding": _TEXT,
    "severity": _TEXT,
    "findings": _arrow.list_(_arrow.struct(list(_FINDING.items()))),
    "confirmed_at": _AT,
}
_LOOKUP = {**_FIELDS, **_ACCOUNT}
_RECONCILE = {**_LOOKUP, **_JUDGEMENT}
_NO_FIELDS = (None,) * (len(_FIELDS) - 1)
_OUTCOMES = {reconcile.Answer.FOUND: "ok", reconcile.Answer.NOT_FOUND: "not_found"}


def lookup_batches(batches: Iterable[_RecordBatch], spec: LookupSpec) -> Iterator[_RecordBatch]:
    """
    Look up the references of *batches*.

    Args:
        batches: `pyarrow.RecordBatch` with the column that *spec* names, all of one schema.
        spec: The columns, the service and its limits.

    Note:
        One batch of `lookup_schema` per batch, with the rows in their order. *batches* is read in the thread that reads
        the result, a few thousand rows ahead. Memory grows with `window` and the largest batch, not with their number.
        A row with transient failures delays the rows after it by some minutes at most.

    Raises:
        ConfigurationError: When the worker's key is missing, or the columns do not fit *spec*.
        PayClientError: When no further lookup can succeed, such as `AuthenticationError`. Batches answered before are
            yielded first.
    """
    return _results(batches, spec, _Lookup)


def reconcile_batches(batches: Iterable[_RecordBatch], spec: ReconcileSpec) -> Iterator[_RecordBatch]:
    """
    Look up the references of *batches*, and compare each answer with the row's own columns.

    A second lookup must confirm a difference, as in `payclient.reconcile`. Findings that need the whole ledger are
    missing: `duplicate_reference` and `paid_twice`.

    Args:
        batches: `pyarrow.RecordBatch` with the columns of a ledger, all of one schema.
        spec: The columns, the service and the rules.

    Note:
        As with `lookup_batches`. The batches have `reconcile_schema`.

    Raises:
        ConfigurationError: As with `lookup_batches`, and when the canary is not found.
        LedgerError: When the columns cannot be understood, or if an unused one may contain money or decides what a row
            means, then at the first batch that shows it.
        PayClientError: As with `lookup_batches`.
    """
    return _results(batches, spec, _Reconciliation)


def _results(
    batches: Iterable[_RecordBatch], spec: Any, kind: "type[_Lookup | _Reconciliation]"
) -> Iterator[_RecordBatch]:
    source = iter(batches)
    if (first := next(source, None)) is None:  # an empty partition needs no key and no connection
        return
    background = background_client(spec)
    kernel = kind(spec, first.schema)

    def to_batch(batch: _RecordBatch) -> Batch:
        if not batch.schema.equals(first.schema):
            problem = f"the batches must have one schema; {first.schema.names} is followed by {batch.schema.names}"
            raise ConfigurationError(f"{problem}, or other types")
        return kernel.read(batch)

    window = Window(background, rows=spec.window, stall_timeout=spec.stall_timeout, **kernel.options)
    for batch in window.through(map(to_batch, chain([first], source))):
        origin, rows = batch.payload
        yield _answered(origin, kernel.answered(rows, batch, window.found), spec, kernel.schema)


class _Lookup:
    def __init__(self, spec: LookupSpec, schema: _Schema) -> None:
        self.schema = lookup_schema(spec, schema)
        self.options: dict[str, Any] = {}
        self._place = _place(schema, spec.reference)

    def read(self, batch: _RecordBatch) -> "Batch":
        references: list[str | None] = batch.column(self._place).to_pylist()
        distinct = dict.fromkeys(reference for reference in references if reference is not None)
        return Batch((batch, references), len(references), tuple(distinct))

    def answered(self, references: list[str | None], batch: "Batch", _: int) -> list[tuple[Any, ...]]:
        unnamed = _not_asked("reference is null")
        return [
            (each, *(unnamed if each is None else _cells(seen := batch.first[each], seen.transaction)))
            for each in references
        ]


class _Reconciliation:
    def __init__(self, spec: ReconcileSpec, schema: _Schema) -> None:
        self.schema = reconcile_schema(spec, schema)
        self._rules = rules_of(spec)
        self._columns = ledger_columns(spec, schema.names)
        self._rules.check_columns(self._columns.used)
        self._places = tuple(self._columns.places.values())
        _check_text(schema.field(self._places[0]))
        used = self._columns.used
        places = {field: place for place, field in enumerate(used)}
        self._reader = RowReader(Columns(used, (), places, (*used.values(),)), self._rules.ledger)
        self._line = 0
        confirmation = partial(reconcile.needs_confirmation, rules=self._rules)
        self.options: dict[str, Any] = {"needs_confirmation": confirmation, "canary": spec.canary}

    def read(self, batch: _RecordBatch) -> "Batch":
        cells = zip(*(column_values(batch.column(place)) for place in self._places), strict=True)
        entries = [self._entry(row) for row in cells]
        self._reader.check_cells()
        wanted: dict[str, list[Entry]] = {}
        for entry in entries:
            if isinstance(entry, Entry):
                wanted.setdefault(entry.reference, []).append(entry)
        return Batch((batch, entries), len(entries), tuple(wanted), wanted)

    def _entry(self, cells: Sequence[Any]) -> Entry | RejectedEntry:
        self._line += 1
        told = len(self._reader.warnings)
        entry = self._reader.read(self._line, cells)
        if entry is None:  # only a scope skips rows, and batches don't have one
            raise AssertionError("a row of a batch was left out")
        for warning in self._reader.warnings[told:]:  # they stay: later rows may count in one of them
            logger.warning("%s", warning)
        return entry

    def answered(
        self, entries: list[Entry | RejectedEntry], batch: "Batch", other_found: int
    ) -> Iterator[tuple[Any, ...]]:
        for entry in entries:
            first = second = None
            if isinstance(entry, Entry):
                first, second = batch.first[entry.reference], batch.second.get(entry.reference)
            case = reconcile.Case(entry=entry, other_found=other_found, first=first, second=second)
            row = reconcile.judge(case, rules=self._rules)
            last = second or first
            seen = _not_asked(row.reason) if last is None else _cells(last, last.transaction or row.transaction)
            yield row.reference, *seen, *_judgement(row)


def ledger_columns(spec: ReconcileSpec, header: Sequence[str]) -> Columns:
    """Return the columns of a ledger with *header*, the reference first. Each other column is kept or left out."""
    chosen = dict(rules_of(spec).columns)
    if spec.reference != "reference":
        chosen["reference"] = spec.reference
    columns = find_columns(header, chosen, spec.ignore)
    known = {*check_use(columns, chosen=chosen, ignored=spec.ignore), *(spec.keep or ())}
    if unused := [name for name in columns.ignored if name not in known]:
        # A verdict, which could name them, is missing, and a batch is too small to judge by their cells.
        message = f"nothing uses the columns {', '.join(map(quote, unused))}: choose each in the columns of the rules"
        raise LedgerError(f"{message}, or leave it out with ignore={(*spec.ignore, *unused)!r}", line=1)
    return columns


def lookup_schema(spec: LookupSpec, schema: _Schema = None) -> _Schema:
    """
    Return the schema of the batches of `lookup_batches`.

    Args:
        spec: Its `keep`, `prefix` and `reference` decide the columns.
        schema: Schema of the input. Needed only if *spec* keeps columns.

    Raises:
        ConfigurationError: When a column is missing, two would have the same name, or references are not text.
    """
    if schema is not None:
        _check_text(schema.field(_place(schema, spec.reference)))
    return _schema(spec, schema, _LOOKUP)


def reconcile_schema(spec: ReconcileSpec, schema: _Schema = None) -> _Schema:
    """
    Return the schema of the batches of `reconcile_batches`.

    Args:
        spec: Its `keep`, `prefix` and `reference` decide the columns.
        schema: Schema of the input. Needed only if *spec* keeps columns.

    Raises:
        ConfigurationError: As `lookup_schema`.
    """
    return _schema(spec, schema, _RECONCILE)


def _schema(spec: LookupSpec, schema: _Schema, ours: dict[str, Any]) -> _Schema:
    if schema is None and spec.keep != ():
        raise ConfigurationError("the schema of the batches is needed, because columns of theirs are kept")
    kept = [] if schema is None else [schema.field(_place(schema, name)) for name in _kept(spec, schema)]
    fields = [_arrow.field(spec.prefix + name, kind) for name, kind in ours.items()]
    if taken := {field.name for field in kept} & {field.name for field in fields}:
        problem = f"a kept column has the name of an output column: {', '.join(sorted(taken))}, so set a prefix"
        raise ConfigurationError(problem)
    return _arrow.schema([*kept, *fields])


def _kept(spec: LookupSpec, schema: _Schema) -> Sequence[str]:
    return [name for name in schema.names if name != spec.reference] if spec.keep is None else spec.keep


def _place(schema: _Schema, name: str) -> int:
    places: list[int] = schema.get_all_field_indices(name)
    if len(places) != 1:
        found = f"{len(places)} columns are" if places else "no column is"
        raise ConfigurationError(f"{found} called {name!r}: the columns are {', '.join(schema.names)}")
    return places[0]


def _check_text(field: Any) -> None:
    kind = field.type.value_type if _arrow.types.is_dictionary(field.type) else field.type
    kinds = (_arrow.types.is_string, _arrow.types.is_large_string, _arrow.types.is_string_view, _arrow.types.is_null)
    if not any(is_kind(kind) for is_kind in kinds):
        problem = f"the column {field.name!r} must be text, so that no zero and no digit is lost, and is {kind}"
        raise ConfigurationError(problem)


def _answered(batch: _RecordBatch, rows: Iterable[Sequence[Any]], spec: LookupSpec, schema: _Schema) -> _RecordBatch:
    """Return the columns of *batch* that are kept, and *rows* as columns after them."""
    kept = [batch.column(_place(batch.schema, name)) for name in _kept(spec, batch.schema)]
    kinds = schema.types[len(kept) :]
    columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
    ours = [_arrow.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return _arrow.record_batch([*kept, *ours], schema=schema)


def _cells(seen: reconcile.Observation, found: Transaction | None) -> tuple[Any, ...]:
    """Return the columns of a lookup, with the transaction that it has *found*, or the one before it."""
    if seen.answer is reconcile.Answer.UNASKABLE:
        return _not_asked(seen.message)
    is_rejected = seen.error == RejectedError.__name__
    outcome = "rejected" if is_rejected else _OUTCOMES.get(seen.answer, "unresolved")
    reason = f"{seen.error}: {seen.message}" if seen.transaction is None else ""
    fields = _NO_FIELDS if found is None else documented_values(found)[1:]
    account = outcome, escape_unprintable(reason, max_length=_MAX_REASON) or None, seen.status_code, seen.attempts
    return (*fields, *account, seen.at, None if found is None else found.deviations)


def _not_asked(problem: str) -> tuple[Any, ...]:
    reason = escape_unprintable(f"{InvalidReferenceError.__name__}: {problem}", max_length=_MAX_REASON)
    return (*_NO_FIELDS, "rejected", reason, None, 0, None, None)


def _judgement(row: reconcile.Row) -> tuple[Any, ...]:
    first = row.primary
    leading = (None, None) if first is None else (first.code.value, first.severity.word)
    return (row.bucket.value, row.reason or None, *leading, list(map(_finding, row.findings)), row.confirmed_at)


def _finding(finding: reconcile.Finding) -> tuple[str | None, ...]:
    sides = (None if side is None else str(side) for side in (finding.ledger, finding.service))
    return (finding.code.value, finding.severity.word, finding.sentence, *sides, finding.waived or None)


_HELD_WINDOWS = 4
"""Maximum of rows in memory, in windows, while the first batch waits for a slow row and later rows are answered."""

_CLOSE_SECONDS: Final = 2.0
"""Seconds that the exit of the process waits for connections to close."""

_registries: Final[dict[int, tuple[threading.Lock, dict[LookupSpec, LoopThread]]]] = {}
"""The clients of each process. The lock is per process, too, because a fork may have copied a locked one."""


def background_client(spec: LookupSpec) -> LoopThread:
    """Return this process's client for *spec*. It lives as long as the process."""
    lock, clients = _registries.setdefault(os.getpid(), (threading.Lock(), {}))
    with lock:
        if spec not in clients:
            clients[spec] = LoopThread(_connect(spec))
        return clients[spec]


def _connect(spec: LookupSpec) -> AsyncClient:
    options = {name: getattr(spec, name) for name in OPTIONS if hasattr(spec, name)}
    of_rules = rules_of(spec).not_found_messages if isinstance(spec, ReconcileSpec) else ()
    options |= {**dict(spec.network), "not_found_messages": (*spec.not_found_messages, *of_rules)}
    return AsyncClient(**cast("ClientOptions", {**options, "api_key": key_of(spec)}))  # the key is in no variable


@atexit.register
def _close_all() -> None:
    _, clients = _registries.setdefault(os.getpid(), (threading.Lock(), {}))
    for client in clients.values():
        client.stop(at_once=True)
        with suppress(TimeoutError):
            client.join(_CLOSE_SECONDS)


@attrs.define(eq=False)
class Batch:
    """Rows that are read and returned together."""

    # `payload` is the owner's data. `references` has each once. `entries`, by reference, is empty without a comparison.

    payload: Any
    rows: int
    references: Sequence[str]
    entries: Mapping[str, Sequence[Any]] = attrs.field(factory=dict[str, Sequence[Any]])
    first: dict[str, reconcile.Observation] = attrs.field(init=False, factory=dict)
    second: dict[str, reconcile.Observation] = attrs.field(init=False, factory=dict)

    @property
    def is_answered(self) -> bool:
        return len(self.first) == len(self.references)


NeedsConfirmation: TypeAlias = Callable[[Any, reconcile.Observation], bool]
"""Decides whether a second lookup must confirm a first answer for a ledger row."""


@attrs.define(eq=False)
class Window:
    """One pass over a source of batches."""

    # The next batch is read when fewer than `rows` references are in flight. The pass ends after `stall_timeout`
    # seconds without any answer.
    _background: LoopThread
    _rows: int = attrs.field(alias="rows", kw_only=True)
    _stall_timeout: float = attrs.field(default=STALL_TIMEOUT, alias="stall_timeout", kw_only=True)
    _needs_confirmation: NeedsConfirmation | None = attrs.field(default=None, alias="needs_confirmation", kw_only=True)
    _canary: str | None = attrs.field(default=None, alias="canary", kw_only=True)
    found: int = attrs.field(init=False, default=0)  # references found so far
    # Used in the event loop's thread.
    _held: deque[Batch] = attrs.field(init=False, factory=deque)
    _pending: dict[str, list[Batch]] = attrs.field(init=False, factory=dict)  # the batches that have each reference
    _statuses: dict[str, list[int | None]] = attrs.field(init=False, factory=dict)  # one per attempt
    _first: dict[str, reconcile.Observation] = attrs.field(init=False, factory=dict)  # to be confirmed by a second
    _feed: asyncio.Queue[str | None] = attrs.field(init=False, factory=asyncio.Queue)  # None: the end
    _is_read: bool = attrs.field(init=False, default=False)  # the source, to its end
    _changed: asyncio.Event = attrs.field(init=False, factory=asyncio.Event)
    _task: asyncio.Task[None] = attrs.field(init=False)

    def through(self, batches: Iterator[Batch]) -> Generator[Batch]:
        """Look up the references of *batches*, and yield each batch, in order, when it is answered."""
        # *batches* is read in the caller's thread, about a window ahead. Leaving early ends every lookup. When no
        # further lookup can succeed, the batches answered before are yielded first.
        wait = partial(self._background.wait, may_block_loop=True)
        wait(self._start)
        try:
            while step := wait(self._next):
                if isinstance(step, Batch):
                    yield step
                else:
                    wait(partial(self._take, *islice(batches, 1)))
        finally:
            if self._background.is_this_thread:  # there, the garbage collector may close an abandoned generator
                self._task.cancel()
            else:
                with suppress(ClientClosedError):  # it has ended them, or this is another process
                    wait(self._end)

    # The event loop's thread

    async def _start(self) -> None:
        self._task = asyncio.create_task(self._ask(), name="payclient-window")
        self._task.add_done_callback(lambda _: self._changed.set())

    async def _next(self) -> Batch | bool:
        """Return the first batch when it is answered, or whether another one is wanted. If not, this is the end."""
        while self._held or not self._is_read:
            self._changed.clear()
            held_rows = sum(max(1, each.rows) for each in self._held)
            is_full = len(self._held) > 1 and held_rows >= self._rows * _HELD_WINDOWS
            if self._wants_more() and not is_full and not self._task.done():
                return True
            if self._held and self._held[0].is_answered:
                return self._held.popleft()
            if self._task.done():
                self._task.result()
            await self._changed.wait()
        return False

    def _wants_more(self) -> bool:
        return not self._is_read and len(self._pending) < self._rows

    async def _end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _take(self, *batches: Batch) -> None:
        self._is_read = not batches
        for batch in batches:
            self._held.append(batch)
            for reference in batch.references:
                if reference not in self._pending:
                    self._pending[reference], self._statuses[reference] = [], []
                    self._feed.put_nowait(reference)
                self._pending[reference].append(batch)
        self._end_feed()

    def _end_feed(self) -> None:
        # A second lookup goes through the feed again, so the feed cannot end before the last answer.
        if self._is_read and not (self._needs_confirmation and self._pending):
            self._feed.put_nowait(None)

    async def _ask(self) -> None:
        client = self._background.client.with_options(on_attempt=self._note)
        stream = partial(client.stream_transactions, stall_timeout=self._stall_timeout)
        if self._canary is not None:
            self.found += await reconcile.ask_canary(self._canary, stream([self._canary]))
        async with stream(self._fed(), fresh=self._first) as outcomes:
            async for outcome in outcomes:
                self._note_outcome(outcome)

    async def _fed(self) -> AsyncIterator[str]:
        while (reference := await self._feed.get()) is not None:
            yield reference

    def _note(self, attempt: Attempt) -> None:
        if (statuses := self._statuses.get(attempt.reference)) is not None:
            statuses.append(attempt.status)

    def _note_outcome(self, outcome: Outcome) -> None:
        reference, first = outcome.reference, self._first.get(outcome.reference)
        batches, statuses = self._pending[reference], self._statuses[reference]
        seen = reconcile.observe(
            outcome.transaction if isinstance(outcome, Found) else outcome.error,
            at=reconcile.utc_now(),
            status_code=statuses[-1] if statuses else None,
            attempts=len(statuses),
        )
        self.found += seen.answer is reconcile.Answer.FOUND
        ask_again = self._needs_confirmation if first is None else None
        if ask_again and any(ask_again(entry, seen) for batch in batches for entry in batch.entries[reference]):
            self._first[reference] = seen
            self._feed.put_nowait(reference)
            return
        for notes in (self._pending, self._statuses, self._first):
            notes.pop(reference, None)
        for batch in batches:
            batch.first[reference] = first or seen
            if first is not None:
                batch.second[reference] = seen
        if self._wants_more() or any(batch.is_answered for batch in batches):
            self._changed.set()
        self._end_feed()

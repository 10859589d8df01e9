"""
Look up and reconcile Arrow batches: the kernel that every engine runs in its workers.

Results have the order of the batches. A failed row does not raise. Its columns have the outcome. An error that is the
same for every row does: a refused key, an untrusted certificate, a wrong address. The extra `parquet` installs pyarrow.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, TypeAlias

try:
    import pyarrow as pa  # type: ignore[import-untyped]
except ModuleNotFoundError as _missing:
    _message = "payclient.engines.arrow needs pyarrow; install it with: pip install 'payclient[parquet]'"
    raise ModuleNotFoundError(_message, name=_missing.name) from _missing

from payclient._shared.escape import escape_unprintable, quote
from payclient._shared.logger import logger
from payclient.engines._spec import LookupSpec, ReconcileSpec, rules_of
from payclient.engines._window import Batch, Window, background_client
from payclient.errors import ConfigurationError, InvalidReferenceError, RejectedError
from payclient.protocol import DOCUMENTED
from payclient.reconcile import Answer, Case, Finding, Observation, Row, judge, needs_confirmation
from payclient.reconcile.ledger import Columns, Entry, LedgerError, RejectedEntry, RowReader, check_use, find_columns
from payclient.reconcile.ledger._parquet import column_values, only_used

__all__ = ["lookup_batches", "lookup_schema", "reconcile_batches", "reconcile_schema"]

_arrow: Any = pa  # it lacks type hints
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
_fields = attrgetter(*list(_FIELDS)[1:])
_NO_FIELDS = (None,) * (len(_FIELDS) - 1)


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
        ConfigurationError: When the worker has no key, or the columns do not fit *spec*.
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
    first = next(source, None)
    if first is None:  # an empty partition needs no key and no connection
        return
    background = background_client(spec)
    kernel = kind(spec, first.schema)

    def to_batch(batch: _RecordBatch) -> Batch:
        if not batch.schema.equals(first.schema):
            problem = f"the batches must have one schema; after {first.schema.names} came {batch.schema.names}"
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

    def read(self, batch: _RecordBatch) -> Batch:
        references: list[str | None] = batch.column(self._place).to_pylist()
        distinct = dict.fromkeys(reference for reference in references if reference is not None)
        return Batch((batch, references), len(references), tuple(distinct))

    def answered(self, references: list[str | None], batch: Batch, _: int) -> list[tuple[Any, ...]]:
        unnamed = _not_asked("reference is null")
        return [(each, *(unnamed if each is None else _cells(batch.first[each]))) for each in references]


class _Reconciliation:
    def __init__(self, spec: ReconcileSpec, schema: _Schema) -> None:
        self.schema = reconcile_schema(spec, schema)
        self._rules = rules_of(spec)
        self._columns = ledger_columns(spec, schema.names)
        self._rules.check_columns(self._columns.used)
        self._places = tuple(self._columns.places.values())
        _check_text(schema.field(self._places[0]))
        self._reader = RowReader(only_used(self._columns), self._rules.ledger)
        self._line = 0
        confirmation = partial(needs_confirmation, rules=self._rules)
        self.options: dict[str, Any] = {"needs_confirmation": confirmation, "canary": spec.canary}

    def read(self, batch: _RecordBatch) -> Batch:
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
        self, entries: list[Entry | RejectedEntry], batch: Batch, other_found: int
    ) -> Iterator[tuple[Any, ...]]:
        for entry in entries:
            first = second = None
            if isinstance(entry, Entry):
                first, second = batch.first[entry.reference], batch.second.get(entry.reference)
            row = judge(Case(entry=entry, other_found=other_found, first=first, second=second), rules=self._rules)
            yield row.reference, *_seen(row, second or first), *_judgement(row)


def ledger_columns(spec: ReconcileSpec, header: Sequence[str]) -> Columns:
    """Return the columns of a ledger with *header*, the reference first. Each other column is kept or left out."""
    rules = rules_of(spec)
    chosen = dict(rules.columns)
    if spec.reference != "reference":
        chosen["reference"] = spec.reference
    columns = find_columns(header, chosen, spec.ignore)
    known = {*check_use(columns, rules.ledger, chosen=chosen, ignored=spec.ignore), *(spec.keep or ())}
    if unused := [name for name in columns.ignored if name not in known]:
        # A verdict, which could name them, is missing, and a batch is too small to judge by their cells.
        message = f"nothing uses the columns {', '.join(map(quote, unused))}; choose each in the columns of the rules"
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
        problem = f"a kept column has the name of an output column: {', '.join(sorted(taken))}; set a prefix"
        raise ConfigurationError(problem)
    return _arrow.schema([*kept, *fields])


def _kept(spec: LookupSpec, schema: _Schema) -> Sequence[str]:
    return [name for name in schema.names if name != spec.reference] if spec.keep is None else spec.keep


def _place(schema: _Schema, name: str) -> int:
    places: list[int] = schema.get_all_field_indices(name)
    if len(places) != 1:
        found = f"{len(places)} columns are" if places else "no column is"
        raise ConfigurationError(f"{found} called {name!r}; the columns are {', '.join(schema.names)}")
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


def _cells(seen: Observation) -> tuple[Any, ...]:
    found = seen.transaction
    if seen.answer is Answer.UNASKABLE:
        return _not_asked(seen.message)
    if found is not None:
        return (*_fields(found), "ok", None, seen.status_code, seen.attempts, seen.at, found.deviations)
    outcome = "not_found" if seen.answer is Answer.NOT_FOUND else "unresolved"
    if seen.error == RejectedError.__name__:
        outcome = "rejected"
    reason = escape_unprintable(f"{seen.error}: {seen.message}", max_length=_MAX_REASON)
    return (*_NO_FIELDS, outcome, reason, seen.status_code, seen.attempts, seen.at, None)


def _not_asked(problem: str) -> tuple[Any, ...]:
    reason = escape_unprintable(f"{InvalidReferenceError.__name__}: {problem}", max_length=_MAX_REASON)
    return (*_NO_FIELDS, "rejected", reason, None, 0, None, None)


def _seen(row: Row, last: Observation | None) -> tuple[Any, ...]:
    """Return the columns of the last lookup, with the transaction that the row was judged by."""
    cells = _not_asked(row.reason) if last is None else _cells(last)
    if row.transaction is None or last is None or last.transaction is not None:
        return cells
    # The first lookup found it and the second failed: the first answer is still worth showing.
    return (*_fields(row.transaction), *cells[len(_NO_FIELDS) : -1], row.transaction.deviations)


def _judgement(row: Row) -> tuple[Any, ...]:
    first = row.primary
    leading = (None, None) if first is None else (first.code.value, first.severity.word)
    return (row.bucket.value, row.reason or None, *leading, list(map(_finding, row.findings)), row.confirmed_at)


def _finding(finding: Finding) -> tuple[str | None, ...]:
    sides = (None if side is None else str(side) for side in (finding.ledger, finding.service))
    return (finding.code.value, finding.severity.word, finding.sentence, *sides, finding.waived or None)

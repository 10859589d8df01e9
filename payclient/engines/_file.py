"""Look up the references of one Parquet file, and write the answers to another atomically."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from payclient._atomic import AtomicFiles
from payclient._own_file import own
from payclient.engines._spec import LookupSpec
from payclient.engines.arrow import lookup_batches, lookup_schema
from payclient.errors import ConfigurationError
from payclient.ledger import LedgerError
from payclient.ledger._parquet import DAMAGE, damaged

_arrow: Any = pa  # it says nothing of its types
_parquet: Any = pq
_BATCH_ROWS = 2000
_GROUP_ROWS = 1 << 16
_SPEC = b"payclient.spec"
_OUTCOMES = b"payclient.outcomes"


def look_up_file(path: Path, out: Path, spec: LookupSpec) -> Mapping[str, int]:
    """
    Look up the references in *path*; write a file of the same name in the folder *out*.

    Returns:
        The number of rows by outcome.

    Raises:
        LedgerError: When the file cannot be read.
        ConfigurationError: When its columns are not as *spec* says.
        PayClientError: As `lookup_batches`.
    """
    counts = Counter[str]()
    with path.open("rb") as file:
        source = _open(file, path)
        try:
            schema = lookup_schema(spec, source.schema_arrow)
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}: {error.message}") from error
        with AtomicFiles(out, [path.name]) as files:
            with _parquet.ParquetWriter(files.binary(path.name), schema) as writer:
                for table in _tables(lookup_batches(_batches(source, path, spec), spec), schema):
                    writer.write_table(table, row_group_size=_GROUP_ROWS)
                    counted = table.column(f"{spec.prefix}outcome").value_counts().to_pylist()
                    counts.update({each["values"]: each["counts"] for each in counted})
                writer.add_key_value_metadata({_SPEC: _result_spec(spec), _OUTCOMES: json.dumps(counts)})
            files.commit()
    return counts


def known_outcomes(path: Path, out: Path, spec: LookupSpec) -> Mapping[str, int] | None:
    """
    Return the outcomes of an earlier run for *path*; None when there is no result yet.

    Raises:
        ConfigurationError: When there is a result of another file, or of other options.
    """
    done = out / path.name
    if not os.path.lexists(done):
        return None
    with open(done, "rb", opener=own) as result, path.open("rb") as source:
        footer, rows = _open(result, done).metadata, _open(source, path).metadata.num_rows
    stored: dict[bytes, bytes] = footer.metadata or {}
    problem = ""
    if _OUTCOMES not in stored:
        problem = "was not written by payclient"
    elif stored[_SPEC].decode() != _result_spec(spec):
        problem = f"was made with other options, {stored[_SPEC].decode()}"
    elif footer.num_rows != rows:
        problem = f"has {footer.num_rows} rows and {path} has {rows}, so one of them has changed"
    if problem:
        message = f"{done} {problem}; choose another folder, or delete it to make it again"
        raise ConfigurationError(message)
    outcomes: dict[str, int] = json.loads(stored[_OUTCOMES])
    return outcomes


def _result_spec(spec: LookupSpec) -> str:
    """Return the options that the content of a result depends on."""
    names = ("base_url", "environment", "reference", "keep", "prefix", "not_found_messages")
    return json.dumps({name: getattr(spec, name) for name in names})


def _open(file: Any, path: Path) -> Any:
    try:
        return _parquet.ParquetFile(file)
    except DAMAGE as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> LedgerError:
    return LedgerError(f"{path}: {damaged(error).message}")


def _batches(source: Any, path: Path, spec: LookupSpec) -> Iterator[Any]:
    columns = None if spec.keep is None else list(dict.fromkeys((spec.reference, *spec.keep)))
    try:
        batches = source.iter_batches(batch_size=_BATCH_ROWS, columns=columns, use_threads=False)
        while (batch := next(batches, None)) is not None:
            yield batch
    except DAMAGE as error:
        raise _unreadable(path, error) from error


def _tables(batches: Iterator[Any], schema: Any) -> Iterator[Any]:
    """Combine *batches* into tables the size of a row group."""
    held: list[Any] = []
    for batch in batches:
        held.append(batch)
        if sum(each.num_rows for each in held) >= _GROUP_ROWS:
            yield _arrow.Table.from_batches(held, schema)
            held.clear()
    if held:
        yield _arrow.Table.from_batches(held, schema)

"""
Look up the references of Parquet files in several local processes, without an engine.

The extra `parquet` brings what it needs.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any

from attrs import frozen

try:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]
except ModuleNotFoundError as _missing:
    _message = "payclient.engines.processes needs pyarrow; install it with: pip install 'payclient[parquet]'"
    raise ModuleNotFoundError(_message, name=_missing.name) from _missing

from payclient._atomic import AtomicFiles, remove_stale_files
from payclient._own_file import own
from payclient.engines._pool import WorkerLostError, run_in_processes
from payclient.engines._spec import LookupSpec
from payclient.engines.arrow import lookup_batches, lookup_schema
from payclient.errors import ConfigurationError
from payclient.ledger import LedgerError
from payclient.ledger._parquet import DAMAGE, damaged

__all__ = ["FileResult", "WorkerLostError", "look_up_files"]

_arrow: Any = pa  # it says nothing of its types
_parquet: Any = pq
_BATCH_ROWS = 2000
_GROUP_ROWS = 1 << 16
_SPEC = b"payclient.spec"
_OUTCOMES = b"payclient.outcomes"


@frozen(kw_only=True)
class FileResult:
    """
    The result of one file.

    Attributes:
        source: The file with the references.
        result: The file with the answers.
        outcomes: The number of rows by outcome.
        is_new: Whether this run made it, rather than an earlier one.
    """

    source: Path
    result: Path
    outcomes: Mapping[str, int]
    is_new: bool

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(self.outcomes.values())


def look_up_files(
    sources: Iterable[str | os.PathLike[str]],
    *,
    out: str | os.PathLike[str],
    spec: LookupSpec,
    processes: int = 1,
) -> Iterator[FileResult]:
    """
    Look up the references of each file, into a file of the same name in another folder.

    A result appears atomically, once it is safely on disk. The next run skips files that have one. When a process
    dies, another restarts its file. The rate limit of the key, not the number of processes, decides how long it takes.

    Args:
        sources: Parquet files, all with different names.
        out: Folder for the results; created if missing.
        spec: What is asked, and how. Its `max_concurrency` applies to each process; set its `workers` to *processes*.
        processes: How many files are done at once. Processes are spawned, so a program must call this under
            `if __name__ == "__main__"`.

    Note:
        Results of an earlier run come first, then each file as it completes. Leaving early kills the processes.

    Raises:
        TypeError: When *sources* is one path.
        ConfigurationError: When two files have the same name, or a result was made with other options.
        LedgerError: When a file cannot be read.
        WorkerLostError: When a file has crashed its process for the third time.
        PayClientError: When no other lookup could succeed, such as `AuthenticationError`.
    """
    if isinstance(sources, str | bytes | os.PathLike):
        problem = f"sources must be an iterable of paths, got one {type(sources).__name__}; put it in a list"
        raise TypeError(problem)
    folder, paths = Path(out), [Path(source) for source in sources]
    if processes < 1:
        problem = f"processes must be at least 1, got {processes}"
        raise ConfigurationError(problem)
    _check_names(paths, folder)
    done = {path: known_outcomes(path, folder, spec) for path in paths}
    return _results(done, folder, spec, processes)


def _check_names(paths: Iterable[Path], folder: Path) -> None:
    seen: dict[str, Path] = {}
    for path in paths:
        if path.name in seen:
            problem = f"{seen[path.name]} and {path} would have the same result {folder / path.name}; rename one"
            raise ConfigurationError(problem)
        seen[path.name] = path
        if path.resolve().parent == folder.resolve():
            problem = f"{path} is in the folder for the results, and its result would replace it; choose another"
            raise ConfigurationError(problem)


def _results(
    done: Mapping[Path, Mapping[str, int] | None],
    folder: Path,
    spec: LookupSpec,
    processes: int,
) -> Iterator[FileResult]:
    for path, outcomes in done.items():
        if outcomes is not None:
            yield FileResult(source=path, result=folder / path.name, outcomes=outcomes, is_new=False)
    to_do = [path for path, outcomes in done.items() if outcomes is None]
    try:
        for path, found in run_in_processes(partial(look_up_file, out=folder, spec=spec), to_do, processes=processes):
            yield FileResult(source=path, result=folder / path.name, outcomes=found, is_new=True)
    finally:
        for path in to_do:  # of processes that were killed
            remove_stale_files(folder, f".{escape(path.name)}.*.partial")


# One file


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
        yield from source.iter_batches(batch_size=_BATCH_ROWS, columns=columns, use_threads=False)
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

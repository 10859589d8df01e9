"""
Look up the references of Parquet files in several local processes, without an engine.

The extra `parquet` brings what it needs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from glob import escape
from pathlib import Path

from attrs import frozen

try:
    from payclient.engines._file import known_outcomes, look_up_file
except ModuleNotFoundError as _missing:
    _message = "payclient.engines.processes needs pyarrow; install it with: pip install 'payclient[parquet]'"
    raise ModuleNotFoundError(_message, name=_missing.name) from _missing

from payclient._atomic import remove_stale_files
from payclient.engines._pool import WorkerLostError, run_in_processes
from payclient.engines._spec import LookupSpec
from payclient.errors import ConfigurationError

__all__ = ["FileResult", "WorkerLostError", "look_up_files"]


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

"""
Look up the references of Parquet files in several processes of this machine, where there is no engine.

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

from payclient.engines._pool import WorkerLostError, spread
from payclient.engines._spec import LookupSpec
from payclient.errors import ConfigurationError
from payclient.report._leftover import clear_leftovers

__all__ = ["FileResult", "WorkerLostError", "look_up_files"]


@frozen(kw_only=True)
class FileResult:
    """
    What became of one file.

    Attributes:
        source: The file with the references.
        result: The file with the answers.
        outcomes: How many rows have each outcome.
        is_new: Whether it was made now, and not by an earlier run.
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
    sources: Iterable[str | os.PathLike[str]], *, out: str | os.PathLike[str], spec: LookupSpec, processes: int = 1
) -> Iterator[FileResult]:
    """
    Look up the references of each file, into a file of the same name in another folder.

    A result takes its place whole, when it is safely on the disk; what is there is done, and skipped by the next run. A
    file whose process dies is begun again by another one. Each process has a client of its own: the key's rate limit,
    and not the number of processes, says how long it takes.

    Args:
        sources: Parquet files, all with different names.
        out: Folder for the results; made if it is not there.
        spec: What is asked, and how. Its `max_concurrency` is that of each process; let its `workers` be *processes*.
        processes: How many work at once, each on one file. They are started afresh, so a program that calls this does
            so under `if __name__ == "__main__"`.

    Shape:
        First what an earlier run has done, then each file as it is done. Leaving early ends the processes.

    Raises:
        ConfigurationError: When two files have one name, or a result is of another question; nothing was asked.
        LedgerError: When a file cannot be read.
        WorkerLostError: When a file has ended its process for the third time.
        PayClientError: When no other lookup could succeed either, such as `AuthenticationError`.
    """
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
            problem = f"{seen[path.name]} and {path} would have one result, {folder / path.name}; rename one"
            raise ConfigurationError(problem)
        seen[path.name] = path
        if path.resolve().parent == folder.resolve():
            problem = f"{path} is in the folder for the results, where its own would replace it; choose another folder"
            raise ConfigurationError(problem)


def _results(
    done: Mapping[Path, Mapping[str, int] | None], folder: Path, spec: LookupSpec, processes: int
) -> Iterator[FileResult]:
    for path, outcomes in done.items():
        if outcomes is not None:
            yield FileResult(source=path, result=folder / path.name, outcomes=outcomes, is_new=False)
    to_do = [path for path, outcomes in done.items() if outcomes is None]
    try:
        for path, found in spread(partial(look_up_file, out=folder, spec=spec), to_do, processes=processes):
            yield FileResult(source=path, result=folder / path.name, outcomes=found, is_new=True)
    finally:
        for path in to_do:  # of processes that were ended, or killed
            clear_leftovers(folder, f".{escape(path.name)}.*.partial")

"""Replace a set of files in one folder so that a reader sees each whole: the old one, or the new one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Self


class Replacement:
    """
    New files that take the places of old ones together, once all of them are safely on the disk.

    Args:
        folder: Made if it is not there.
        names: Of the files; the last takes its place last.

    Shape:
        Use it as a context manager, write to `files[name]`, then call `commit`. Without that the old
        files stay as they are, and nothing else is left behind.
    """

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self._folder = folder
        # In the same folder, because a rename is atomic only within one file system.
        self._partial = {name: folder / f".{name}.{os.getpid()}.partial" for name in names}
        self.files: dict[str, IO[str]] = {}

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as on_failure:
            on_failure.callback(self._discard)
            for name, path in self._partial.items():
                path.unlink(missing_ok=True)  # of a run that was killed and had this process's number
                self.files[name] = path.open("x", encoding="utf-8", newline="")
            on_failure.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._discard()

    def commit(self) -> None:
        """Put every file in its place; a full disk shows before the first one is."""
        for file in self.files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
        for name, path in self._partial.items():
            path.replace(self._folder / name)
        _sync(self._folder)

    def _discard(self) -> None:
        for file in self.files.values():
            try:
                file.close()
            except OSError:  # its last bytes do not fit on the disk, and are not wanted any more
                continue
        for path in self._partial.values():
            path.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Make the renames survive a power cut; where folders cannot be opened, they already do or cannot."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Replace a set of files in one folder so that a reader sees each whole: the old one, or the new one."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable
from contextlib import ExitStack
from glob import escape
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from payclient.ledger import Fingerprint
from payclient.report._leftover import clear_leftovers, lock

_ROOM_BYTES = 1 << 18


class Replacement:
    """
    New files that take the places of old ones together, once all of them are safely on the disk.

    Args:
        folder: Made if it is not there.
        names: Of the files; the last takes its place last.

    Shape:
        Use it as a context manager, write to each `text(name)` or `binary(name)`, then call `commit`. Without that the
        old files stay as they are, and nothing else is left behind, also of runs that were killed.
    """

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self._folder = folder
        # In the same folder, because a rename is atomic only within one file system.
        self._partial = {name: folder / f".{name}.{os.getpid()}.partial" for name in names}
        self._files: dict[str, io.BufferedRandom] = {}
        self._texts: dict[str, io.TextIOWrapper] = {}
        self._sealed: dict[str, Fingerprint] = {}

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as on_failure:
            on_failure.callback(self._discard)
            for name, path in self._partial.items():
                clear_leftovers(self._folder, f".{escape(name)}.*.partial")
                path.unlink(missing_ok=True)  # of a killed run with this process's number, where nothing can be locked
                self._files[name] = io.BufferedRandom(path.open("x+b", buffering=0), _ROOM_BYTES)
                lock(self._files[name])
            on_failure.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._discard()

    def binary(self, name: str) -> IO[bytes]:
        """Return the new file for bytes."""
        return self._files[name]

    def text(self, name: str) -> IO[str]:
        """Return the new file for text, in UTF-8 and without translation of line ends; call it once."""
        self._texts[name] = text = io.TextIOWrapper(self._files[name], encoding="utf-8", newline="")
        return text

    def seal(self, name: str) -> Fingerprint:
        """
        Put all of one file on the disk, so that a full one shows; nothing more can be written to it.

        Returns:
            By what its content is known again.
        """
        file = self._files[name]
        if name in self._texts:
            self._texts[name].flush()
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        self._sealed[name] = Fingerprint(name=name, size_bytes=file.tell(), sha256=sha256)
        file.close()
        return self._sealed[name]

    def commit(self) -> None:
        """Put every file in its place, after all of them are on the disk."""
        for name in self._partial.keys() - self._sealed.keys():
            self.seal(name)
        for name, path in self._partial.items():
            path.replace(self._folder / name)
        _sync(self._folder)

    def _discard(self) -> None:
        for file in self._files.values():
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

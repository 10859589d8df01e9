"""Our own files: opened only if they are regular files, and replaced as a set: all of them are the old, or the new."""

import errno
import hashlib
import io
import os
import shutil
import stat
import sys
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, Self

from attrs import frozen

FOLDER_MODE = 0o700
"""Mode of the folders that are created for them."""

_BUFFER_BYTES = 1 << 18
_LOCKED = "lock"
"""The file of a temporary folder that its writer has locked, so that others know that it is alive."""
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def own(path: str, flags: int) -> int:
    """Open *path*, as the `opener` of `open`. A new file is readable only by its owner."""
    try:
        descriptor = os.open(path, flags | _FLAGS, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _no_regular_file(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _no_regular_file(path)
    return descriptor


def read_own(path: Path) -> bytes:
    with open(path, "rb", opener=own) as file:
        return file.read()


def check_own(path: Path) -> None:
    """Check that *path* is a regular file, or does not exist."""
    if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        raise _no_regular_file(str(path))


def _no_regular_file(path: str) -> OSError:
    return OSError(errno.EINVAL, "not a regular file: remove it, or choose another folder", path)


@frozen(kw_only=True)
class Fingerprint:
    """Size and checksum of a file."""

    name: str
    size_bytes: int
    sha256: str


class AtomicFiles:
    """New files that replace old ones together, after all of them have been synced to disk."""

    # Use it as a context manager, write to each `text(name)` or `binary(name)`, then call `commit`. Without `commit`
    # the old files stay as they are. The new ones are in a temporary folder, which is removed at the end, and the
    # folders of killed runs at the start.

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self._folder = folder
        self._names = tuple(names)
        # In the same folder, because a rename is atomic only within one file system.
        self.temporary: Path = folder / f".{self._names[0]}.{os.getpid()}.partial"
        self._files: dict[str, IO[Any]] = {}

    def __enter__(self) -> Self:
        self._folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        remove_stale(self._folder)
        shutil.rmtree(self.temporary, ignore_errors=True)  # a killed run with this id left it, without locks
        with ExitStack() as on_failure:
            on_failure.callback(self._discard)
            self.temporary.mkdir(FOLDER_MODE)
            for name in (_LOCKED, *self._names):
                check_own(self._folder / name)
                self._files[name] = open(self.temporary / name, "xb", _BUFFER_BYTES, opener=own)
                lock(self._files[name])
            on_failure.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._discard()

    def binary(self, name: str) -> IO[bytes]:
        return self._files[name]

    def text(self, name: str) -> IO[str]:
        """Return the new file for text, in UTF-8 and without translation of line ends. Call it once."""
        self._files[name] = io.TextIOWrapper(self._files[name], encoding="utf-8", newline="")
        return self._files[name]

    def fsync_and_hash(self, name: str) -> Fingerprint:
        """Sync one file to disk, so that a full disk is noticed now. The file is closed."""
        file = self._files[name]
        file.flush()
        os.fsync(file.fileno())
        with (self.temporary / name).open("rb") as written:
            sha256 = hashlib.file_digest(written, "sha256").hexdigest()
            fingerprint = Fingerprint(name=name, size_bytes=written.tell(), sha256=sha256)
        file.close()
        return fingerprint

    def commit(self) -> None:
        for name in [name for name in self._names if not self._files[name].closed]:
            self.fsync_and_hash(name)
        for name in self._names:
            (self.temporary / name).replace(self._folder / name)
        _sync(self._folder)

    def _discard(self) -> None:
        for file in self._files.values():
            with suppress(OSError):  # the disk may be full. The content is discarded anyway
                file.close()
        shutil.rmtree(self.temporary, ignore_errors=True)


def lock(file: IO[bytes]) -> bool:
    """Lock *file* while it is open. Return False if another process has locked it."""
    if sys.platform != "win32":  # where an open file cannot be removed
        import fcntl  # noqa: PLC0415  Windows has none

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # it is in use, or the file system lacks locks
            return False
    return True


def remove_stale(folder: Path) -> None:
    """Remove the temporary folders of killed runs."""
    for path in folder.glob(".*.partial"):
        with suppress(OSError):  # it is in use on Windows, or not ours. What remains does no harm
            with open(path / _LOCKED, "rb", opener=own) as file:
                is_stale = lock(file)
            if is_stale:
                shutil.rmtree(path)


def _sync(folder: Path) -> None:
    """Make the renames survive a power cut. Windows, SMB and some file systems of FUSE cannot sync a folder."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


class GivenFile:
    """A file that a library writes to, and may write to again at its end: replace `file` when that is given up."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

"""Find out which unfinished files nobody writes any more, and clear them away."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO

if sys.platform == "win32":  # pragma: no cover  needs that system, where a file that is open cannot be removed

    def lock(file: IO[bytes]) -> bool:
        """Return true."""
        return file.readable()

else:
    import fcntl

    def lock(file: IO[bytes]) -> bool:
        """Mark *file* as written for as long as it is open; return whether nobody else has marked it."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # it is somebody's, or the file system has no locks and it may be
            return False
        return True


def clear_leftovers(folder: Path, pattern: str) -> None:
    """
    Remove the files in *folder* whose writers were killed.

    Args:
        folder: Where they are.
        pattern: Of their names, as `Path.glob` takes it.
    """
    for path in folder.glob(pattern):
        try:
            with path.open("rb") as file:
                is_nobodys = lock(file)
            if is_nobodys:
                path.unlink(missing_ok=True)
        except OSError:  # in use on Windows, or not ours; a file too many does no harm
            continue

"""Find out which unfinished files nobody writes any more, and clear them away."""

from __future__ import annotations

from pathlib import Path
from typing import IO

try:
    import fcntl
except ModuleNotFoundError:  # pragma: no cover  Windows, where a file that is open cannot be removed anyway
    fcntl = None  # type: ignore[assignment]


def lock(file: IO[bytes]) -> bool:
    """Mark *file* as written for as long as it is open; return whether nobody else has marked it."""
    if fcntl is None:  # pragma: no cover  Windows
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks; nothing is known of the others then
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

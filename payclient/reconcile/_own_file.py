"""Open our own files safely: a link, pipe or device in their place is refused."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

FOLDER_MODE = 0o700
"""Mode of the folders that are created for them."""

_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def own(path: str, flags: int) -> int:
    """Open *path*, as the `opener` of `open`; a new file is readable by its owner only."""
    try:
        descriptor = os.open(path, flags | _FLAGS, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _refusal(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _refusal(path)
    return descriptor


def read_own(path: Path) -> bytes:
    with open(path, "rb", opener=own) as file:
        return file.read()


def check_own(path: Path) -> None:
    """Check that *path* is a regular file, or does not exist."""
    try:
        mode = path.lstat().st_mode
    except OSError:  # it does not exist, or opening it will raise
        return
    if not stat.S_ISREG(mode):
        raise _refusal(str(path))


def _refusal(path: str) -> OSError:
    return OSError(errno.EINVAL, "no regular file, so it is not used; remove it, or choose another folder", path)

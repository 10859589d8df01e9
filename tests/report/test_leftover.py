"""What killed runs left behind is cleared away, and what others are writing is not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from payclient.report._leftover import clear_leftovers, lock

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files that are open cannot be removed there")


def test_nobodys(tmp_path):
    """A file that nobody writes is removed, and one with another name is not."""
    for name in (".a.1.partial", ".b.1.partial"):
        (tmp_path / name).touch()
    clear_leftovers(tmp_path, ".a.*.partial")
    assert [path.name for path in tmp_path.iterdir()] == [".b.1.partial"]


def test_somebodys(tmp_path):
    """A file that is being written stays, also where its writer is this process."""
    path = tmp_path / ".a.1.partial"
    with path.open("xb") as file:
        assert lock(file)
        clear_leftovers(tmp_path, ".a.*.partial")
        assert path.exists()
    clear_leftovers(tmp_path, ".a.*.partial")
    assert not path.exists()


def test_writer_killed(tmp_path):
    """The death of a writer, whatever its cause, makes its file nobody's."""
    path = tmp_path / ".a.1.partial"
    program = (
        "import os, sys; from payclient.report._leftover import lock\n"
        "file = open(sys.argv[1], 'xb'); assert lock(file); print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline().strip() == b"locked"
        clear_leftovers(tmp_path, ".a.*.partial")
        assert path.exists()
        process.kill()
    clear_leftovers(tmp_path, ".a.*.partial")
    assert not path.exists()


def test_a_folder_of_that_name(tmp_path):
    """What cannot be removed is in nobody's way."""
    (tmp_path / ".a.1.partial").mkdir()
    clear_leftovers(tmp_path, ".a.*.partial")
    assert (tmp_path / ".a.1.partial").is_dir()

"""A set of files is replaced whole, or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from payclient.report._replacement import Replacement

NAMES = ("rows", "summary")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    for name in NAMES:
        (folder / name).write_text("old")
    return folder


def content(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


OLD = dict.fromkeys(NAMES, "old")
NEW = dict.fromkeys(NAMES, "new")


def write(replacement, text="new"):
    for file in replacement.files.values():
        file.write(text)


def test_commit(folder):
    """After the commit the new files are there, and nothing else."""
    with Replacement(folder, NAMES) as replacement:
        write(replacement)
        assert {name: text for name, text in content(folder).items() if name in NAMES} == OLD
        replacement.commit()
    assert content(folder) == NEW


def test_folder_is_made(tmp_path):
    """A folder that is not there is made, with those above it."""
    with Replacement(tmp_path / "a" / "b", NAMES) as replacement:
        write(replacement)
        replacement.commit()
    assert content(tmp_path / "a" / "b") == NEW


def test_without_commit(folder):
    """Without a commit the old files are there, and nothing else."""
    with Replacement(folder, NAMES) as replacement:
        write(replacement)
    assert content(folder) == OLD


def test_error_inside(folder):
    """An error inside the block comes out as itself, and the old files are there."""

    def fail():
        with Replacement(folder, NAMES) as replacement:
            write(replacement)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert content(folder) == OLD


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_disk_full(folder):
    """A disk that is full shows before the first file is replaced."""
    with Replacement(folder, NAMES) as replacement:
        write(replacement)
        replacement.files["summary"].close()
        replacement.files["summary"] = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115  it is closed with the others
        replacement.files["summary"].write("new")
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            replacement.commit()
    assert content(folder) == OLD


def test_unsafe_disk(folder, monkeypatch):
    """A disk that does not confirm the bytes keeps the old files; a rename alone would not have noticed."""

    def fail(_descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with Replacement(folder, NAMES) as replacement:
        write(replacement)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            replacement.commit()
    assert content(folder) == OLD


def test_left_by_a_killed_run(folder):
    """What a killed run of the same process number left behind is in nobody's way."""
    for name in NAMES:
        (folder / f".{name}.{os.getpid()}.partial").write_text("half")
    with Replacement(folder, NAMES) as replacement:
        write(replacement)
        replacement.commit()
    assert content(folder) == NEW


def test_folder_cannot_be_made(tmp_path):
    """A file where the folder should be is an error of the operating system."""
    (tmp_path / "out").write_text("x")
    with pytest.raises(FileExistsError), Replacement(tmp_path / "out", NAMES):
        pass

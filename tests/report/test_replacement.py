"""A set of files is replaced whole, or not at all."""

from __future__ import annotations

import errno
import hashlib
import os

import pytest

from payclient.report._leftover import lock
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
    for name in NAMES:
        replacement.text(name).write(text)


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


def test_disk_full(folder, full_after):
    """A disk that is full shows before the first file is replaced, also where the last byte did not fit."""
    with Replacement(folder, NAMES) as replacement:
        write(replacement)
        with full_after(2), pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
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


@pytest.mark.parametrize("number", [os.getpid(), 1], ids=["same process", "other process"])
def test_left_by_a_killed_run(folder, number):
    """What a killed run left behind is cleared away, whatever its process number was."""
    for name in NAMES:
        (folder / f".{name}.{number}.partial").write_text("half")
    with Replacement(folder, NAMES) as replacement:
        write(replacement)
        replacement.commit()
    assert content(folder) == NEW


def test_written_by_another(folder):
    """What another process is writing at the same time is left alone."""
    path = folder / ".rows.1.partial"
    with path.open("xb") as file:
        assert lock(file)
        with Replacement(folder, NAMES) as replacement:
            write(replacement)
            replacement.commit()
    assert content(folder) == NEW | {path.name: ""}


def test_seal(folder):
    """A sealed file is known by its size and SHA-256, text and bytes alike, and is put in its place as it is."""
    with Replacement(folder, NAMES) as replacement:
        replacement.text("rows").write("gr\u00fcn\n")
        replacement.binary("summary").write(b"\x00\r\n")
        sealed = [replacement.seal(name) for name in NAMES]
        replacement.commit()
    written = {name: (folder / name).read_bytes() for name in NAMES}
    assert written == {"rows": b"gr\xc3\xbcn\n", "summary": b"\x00\r\n"}
    assert [(each.name, each.size_bytes, each.sha256) for each in sealed] == [
        (name, len(content), hashlib.sha256(content).hexdigest()) for name, content in written.items()
    ]


def test_last_in_place_last(folder):
    """Where a rename fails, the files after it in the order keep their old content."""
    (folder / "summary").unlink()
    (folder / "summary").mkdir()
    with Replacement(folder, ("summary", "rows")) as replacement:
        for name in NAMES:
            replacement.text(name).write("new")
        with pytest.raises(OSError, match="summary"):
            replacement.commit()
    assert (folder / "rows").read_text() == "old"


def test_folder_cannot_be_made(tmp_path):
    """A file where the folder should be is an error of the operating system."""
    (tmp_path / "out").write_text("x")
    with pytest.raises(FileExistsError), Replacement(tmp_path / "out", NAMES):
        pass

"""A set of files is replaced whole, or not at all."""

import errno
import hashlib
import os
import shutil
import stat
import subprocess
import sys
from contextlib import nullcontext

import pytest

from payclient.reconcile._atomic import AtomicFiles, lock, remove_stale

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


def write(files, text="new"):
    for name in NAMES:
        files.text(name).write(text)


def test_folder_is_made(tmp_path):
    """A folder that is not there is made, with those above it."""
    with AtomicFiles(tmp_path / "a" / "b", NAMES) as files:
        write(files)
        files.commit()
    assert content(tmp_path / "a" / "b") == NEW


def test_unsafe_disk(folder, monkeypatch):
    """A disk that does not confirm the bytes keeps the old files; a rename alone would not have noticed."""

    def fail(_descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with AtomicFiles(folder, NAMES) as files:
        write(files)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            files.commit()
    assert content(folder) == OLD


@pytest.mark.parametrize(
    ("number", "expected"), [(errno.EINVAL, None), (errno.ENOTSUP, None), (errno.EIO, OSError)], ids=errno.errorcode.get
)
def test_folder_that_cannot_be_synced(folder, monkeypatch, number, expected):
    """A file system that cannot sync a folder gets its files all the same; a disk that fails is an error."""
    fsync = os.fsync

    def fail(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with AtomicFiles(folder, NAMES) as files:
        write(files)
        with pytest.raises(expected) if expected else nullcontext():
            files.commit()
    assert content(folder) == NEW


def stale(folder, number):
    """Leave what a killed run has written, with temporary files of a library."""
    path = folder / f".rows.{number}.partial"
    path.mkdir()
    for name in ("lock", "rows", "sheet"):
        (path / name).write_text("half")
    return path


@pytest.mark.parametrize("number", [os.getpid(), 1], ids=["same process", "other process"])
def test_left_by_a_killed_run(folder, number):
    """The temporary folder of a killed run is removed, whatever its process id."""
    stale(folder, number)
    with AtomicFiles(folder, NAMES) as files:
        assert sorted(path.name for path in files.temporary.iterdir()) == ["lock", *NAMES]
        write(files)
        files.commit()
    assert content(folder) == NEW


def test_written_by_another(folder):
    """What another process is writing at the same time is left alone."""
    path = stale(folder, 1)
    with (path / "lock").open("rb") as file:
        assert lock(file)
        with AtomicFiles(folder, NAMES) as files:
            write(files)
            files.commit()
    assert content(path) == dict.fromkeys(("lock", "rows", "sheet"), "half")
    shutil.rmtree(path)
    assert content(folder) == NEW


def test_fsync_and_hash(folder):
    """The fingerprint of a file is its size and SHA-256, for text and bytes alike; the file holds just that."""
    with AtomicFiles(folder, NAMES) as files:
        files.text("rows").write("gr\u00fcn\n")
        files.binary("summary").write(b"\x00\r\n")
        found = [files.fsync_and_hash(name) for name in NAMES]
        files.commit()
    written = {name: (folder / name).read_bytes() for name in NAMES}
    assert written == {"rows": b"gr\xc3\xbcn\n", "summary": b"\x00\r\n"}
    assert [(each.name, each.size_bytes, each.sha256) for each in found] == [
        (name, len(content), hashlib.sha256(content).hexdigest()) for name, content in written.items()
    ]


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files that are open cannot be removed there")


def test_writer_killed(tmp_path):
    """The file of a dead writer is stale."""
    path = stale(tmp_path, 1)
    (path / "lock").unlink()
    program = (
        "import os, sys; from payclient.reconcile._atomic import lock\n"
        "file = open(sys.argv[1], 'xb'); assert lock(file); print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline().strip() == b"locked"
        remove_stale(tmp_path)
        assert path.exists()
        process.kill()
    remove_stale(tmp_path)
    assert not path.exists()


def test_temporary_folder(folder):
    """Temporary files of a library are removed, after a commit and without one."""
    for is_committed in (False, True):
        with AtomicFiles(folder, NAMES) as files:
            (files.temporary / "sheet").write_text("x")
            write(files)
            if is_committed:
                files.commit()
        assert content(folder) == (NEW if is_committed else OLD)

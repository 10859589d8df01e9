"""Nothing in the place of a file of ours is followed, filled or waited for, and what we make is its owner's alone."""

import os
import stat

import pytest

from payclient.reconcile import Journal, JournalError
from payclient.reconcile._atomic import AtomicFiles, own, remove_stale
from payclient.reconcile.report import ReportFiles, verify
from payclient.reconcile.report.integrity import MANIFEST, earlier_decisions, verify_decisions

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links, pipes and modes are those of POSIX")


def link(path):
    victim = path.parent.parent / "victim"
    victim.write_text("precious")
    path.symlink_to(victim)


def nowhere(path):
    path.symlink_to(path.parent.parent / "nowhere")


KINDS = [link, nowhere, os.mkfifo, os.mkdir]


@pytest.fixture
def folder(tmp_path):
    """Make a folder; afterwards nothing beside it was written."""
    folder = tmp_path / "report"
    folder.mkdir()
    yield folder
    assert not (tmp_path / "nowhere").exists()
    assert not (tmp_path / "victim").exists() or (tmp_path / "victim").read_text() == "precious"


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_journal(folder, kind, suffix):
    """A journal refuses anything but regular files at its paths."""
    path = folder / f"journal.sqlite{suffix}"
    kind(path)
    for must_exist in (True, False):
        with pytest.raises(JournalError) as caught:
            Journal(folder / "journal.sqlite", must_exist=must_exist)
        assert str(caught.value).startswith(f"{path} is not a regular file")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", ["rows.jsonl", MANIFEST])
def test_report(folder, kind, name):
    """A report refuses anything but regular files at its paths before it replaces any; `verify` reports them."""
    kind(folder / name)
    with pytest.raises(OSError, match="not a regular file"), ReportFiles(folder, formats=["rows.jsonl"]):
        pass
    assert [each.name for each in folder.iterdir()] == [name]
    assert next(problem.what for problem in verify(folder)).startswith(("it cannot be read", "it is missing"))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_decisions(folder, kind):
    """The manifest that decisions are compared with is neither followed nor waited for."""
    kind(folder / MANIFEST)
    assert (earlier_decisions(folder), verify_decisions(folder)) == ((), ())


@pytest.mark.parametrize("name", [".rows.jsonl.1.partial", ".rows.jsonl.1.partial/lock"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_stale_file(folder, kind, name):
    """A link or pipe with the name of a stale folder, or of its lock, is neither followed nor waited for."""
    (folder / name).parent.mkdir(exist_ok=True)
    kind(folder / name)
    remove_stale(folder)
    assert os.path.lexists(folder / ".rows.jsonl.1.partial")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_opener(folder, kind):
    """Neither reading nor writing goes through anything but a regular file."""
    kind(folder / "file")
    for mode in ("rb", "wb", "ab", "xb"):
        # Which error it is depends on the system.
        with pytest.raises(OSError), open(folder / "file", mode, opener=own):  # noqa: PT011
            pass


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_modes(tmp_path):
    """Journal and report can be read by their owner alone, as can the folders that are made for them."""
    before = os.umask(0o022)
    try:
        with Journal(tmp_path / "a" / "journal.sqlite") as journal:
            journal.set_note("colour", "green")
            modes = {each.name: mode_of(each) for each in (tmp_path / "a").iterdir()}
        with AtomicFiles(tmp_path / "b", ["one", "two"]) as files:
            files.text("one").write("1")
            files.commit()
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("journal.sqlite", "journal.sqlite-wal"), 0o600)
    assert [mode_of(tmp_path / name) for name in ("a", "b", "b/one", "b/two")] == [0o700, 0o700, 0o600, 0o600]

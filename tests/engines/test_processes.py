"""The kernel in processes of this machine, over HTTP: complete, whoever is killed."""

import multiprocessing
import os
import signal
import subprocess
import sys

import pytest

from payclient import AuthenticationError, ConfigurationError
from payclient.engines import LookupSpec
from payclient.engines.processes import look_up_files

pytestmark = pytest.mark.skipif(os.name == "nt", reason="it kills processes, as POSIX does")

ROWS, FILES = 600, 4


def test_complete(served, tmp_path):
    """Every reference is in the results once, in its place, and was asked for once; a second run asks for nothing."""
    service = served(ROWS)
    paths = service.write(tmp_path / "in", FILES)
    first = list(look_up_files(paths, out=tmp_path / "out", spec=LookupSpec(), processes=2))
    assert service.answered(tmp_path / "out") == (service.references, {"ok"})
    assert service.counts() == [1] * ROWS
    again = list(look_up_files(paths, out=tmp_path / "out", spec=LookupSpec(), processes=2))
    assert ([each.is_new for each in first], [each.is_new for each in again]) == ([True] * FILES, [False] * FILES)
    assert ({each.rows for each in again}, service.fake.total) == ({ROWS // FILES}, ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [1, 250])
def test_worker_killed(served, tmp_path, moment):
    """When a worker is killed, its file is begun again, and no other: the result is the same."""
    service = served(ROWS)
    paths = service.write(tmp_path / "in", FILES)

    killed = []

    def kill(number):
        if number == moment:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    service.on_request = kill
    done = list(look_up_files(paths, out=tmp_path / "out", spec=LookupSpec(), processes=2))
    assert (len(killed), sorted(each.source for each in done)) == (1, paths)
    assert service.answered(tmp_path / "out") == (service.references, {"ok"})
    assert set(service.counts()) <= {1, 2}
    assert service.fake.total <= ROWS + ROWS // FILES
    assert [path.name for path in (tmp_path / "out").iterdir() if path.name.startswith(".")] == []


@pytest.mark.slow
def test_run_killed(served, tmp_path):
    """When the whole run is killed, its workers end at once, and the same command goes on with what is missing."""
    service = served(3 * ROWS)
    paths = service.write(tmp_path / "in", 3)
    command = [sys.executable, "-m", "payclient", "lookup", *paths, "--out", tmp_path / "out", "--processes", "2"]
    running = []

    def kill(number):
        if number == ROWS + 300:  # so that one file of three may be done, and two or three are not
            running[0].kill()

    service.on_request = kill
    running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    running[0].communicate(timeout=60)  # until the workers have closed the stream too
    before = service.fake.total
    assert (running[0].returncode, before < ROWS + 300 + 150) == (-signal.SIGKILL, True)  # those under way, and some
    assert all(path.name.startswith(".") or path in paths_of(tmp_path) for path in (tmp_path / "out").iterdir())
    again = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert (again.returncode, again.stdout.decode()) == (0, "3 files: 1,800 rows, 1,800 ok\n")
    assert service.answered(tmp_path / "out") == (service.references, {"ok"})
    assert set(service.counts()) <= {1, 2}
    assert [path.name for path in (tmp_path / "out").iterdir() if path.name.startswith(".")] == []


def paths_of(tmp_path):
    return [tmp_path / "out" / path.name for path in (tmp_path / "in").iterdir()]


def test_refused_key(served, tmp_path, monkeypatch):
    """A refused key ends the run, with the error as it was and without results."""
    service = served(10)
    paths = service.write(tmp_path / "in", 2)
    monkeypatch.setenv("PAYCLIENT_API_KEY", "another-key-0123456789")
    with pytest.raises(AuthenticationError):
        list(look_up_files(paths, out=tmp_path / "out", spec=LookupSpec(), processes=2))
    assert list((tmp_path / "out").iterdir()) == []


def test_same_name(tmp_path):
    """Two files that with the same result are refused before anything is asked."""
    spec = LookupSpec(base_url="https://pay.example")
    with pytest.raises(ConfigurationError, match="would have the same result"):
        look_up_files(["a/x.parquet", "b/x.parquet"], out=tmp_path, spec=spec)


@pytest.mark.parametrize("kind", [str, os.fsencode, lambda path: path], ids=["str", "bytes", "path"])
def test_one_path(tmp_path, kind):
    """One path in the place of several is refused: its characters are no files."""
    with pytest.raises(TypeError, match="sources must be an iterable of paths, got one"):
        look_up_files(kind(tmp_path), out=tmp_path / "out", spec=LookupSpec(base_url="https://pay.example"))


def test_same_folder(tmp_path):
    """So is a file that its own result would replace."""
    spec = LookupSpec(base_url="https://pay.example")
    with pytest.raises(ConfigurationError, match="is in the folder for the results"):
        look_up_files([tmp_path / "x.parquet"], out=tmp_path, spec=spec)


def test_no_process(tmp_path):
    """So is a run without processes."""
    with pytest.raises(ConfigurationError, match="processes must be at least 1"):
        look_up_files([], out=tmp_path, spec=LookupSpec(base_url="https://pay.example"), processes=0)

"""The kernel in processes of this machine, over HTTP: complete, whoever is killed."""

import multiprocessing
import os
import signal
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from payclient import AuthenticationError, ConfigurationError
from payclient.engines import LookupSpec
from payclient.engines._background import _registries
from payclient.engines.processes import known_outcomes, look_up_file, look_up_files
from payclient.ledger import LedgerError

posix = pytest.mark.skipif(os.name == "nt", reason="it kills processes, as POSIX does")

ROWS, FILES = 600, 4


@pytest.mark.slow
@posix
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


@posix
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
@posix
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


@posix
@pytest.mark.slow
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


# One file


@pytest.fixture(autouse=True)
def clean():
    yield
    for background in (_registries.pop(os.getpid()).clients if os.getpid() in _registries else {}).values():
        background.close()


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "part[0].parquet"
    references = [f"T{n}" for n in range(30)] + ["NONE", "", None]
    pq.write_table(pa.table({"id": range(33), "reference": references, "x": ["x"] * 33}), path, row_group_size=10)
    return path


def test_answers(served, source, tmp_path):
    """The result has a row for each row, in their order, with the columns that were kept."""
    served(30)
    counts = look_up_file(source, tmp_path / "out", LookupSpec(keep=["id"]))
    table = pq.read_table(tmp_path / "out" / source.name)
    assert counts == {"ok": 30, "not_found": 1, "rejected": 2}
    assert (table["id"].to_pylist(), table.column_names[:2]) == (list(range(33)), ["id", "reference"])
    assert table["outcome"].to_pylist() == ["ok"] * 30 + ["not_found", "rejected", "rejected"]


def test_known(served, source, tmp_path):
    """What is done is known by its result, and nothing is before."""
    served(30)
    spec = LookupSpec(keep=["id"])
    assert known_outcomes(source, tmp_path / "out", spec) is None
    counts = look_up_file(source, tmp_path / "out", spec)
    assert known_outcomes(source, tmp_path / "out", spec) == counts


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("in", r"has 33 rows and .* has 1"),
        ("out", r"was not written by payclient"),
    ],
)
def test_changed(served, source, tmp_path, changed, message):
    """A result that does not fit its input is refused, and not taken for done."""
    served(30)
    look_up_file(source, tmp_path / "out", LookupSpec())
    pq.write_table(pa.table({"reference": ["T1"]}), source if changed == "in" else tmp_path / "out" / source.name)
    with pytest.raises(ConfigurationError, match=message):
        known_outcomes(source, tmp_path / "out", LookupSpec())


def test_other_options(served, source, tmp_path):
    """A result of the sandbox is not taken for one of the live service."""
    served(30)
    look_up_file(source, tmp_path / "out", LookupSpec())
    with pytest.raises(ConfigurationError, match=r'was made with other options.*"environment": "live"'):
        known_outcomes(source, tmp_path / "out", LookupSpec(environment="sandbox"))


def test_empty(served, tmp_path):
    """A file without rows has a result without rows."""
    served(1)
    pq.write_table(pa.table({"reference": pa.array([], pa.string())}), tmp_path / "none.parquet")
    assert look_up_file(tmp_path / "none.parquet", tmp_path / "out", LookupSpec()) == {}
    assert pq.read_table(tmp_path / "out" / "none.parquet").num_rows == 0
    assert known_outcomes(tmp_path / "none.parquet", tmp_path / "out", LookupSpec()) == {}


def test_failure(served, source, tmp_path, monkeypatch):
    """A lookup that fails leaves nothing behind, not even a hidden file."""
    served(30)
    monkeypatch.setenv("PAYCLIENT_API_KEY", "another-key-0123456789")
    with pytest.raises(AuthenticationError):
        look_up_file(source, tmp_path / "out", LookupSpec())
    assert list((tmp_path / "out").iterdir()) == []


def test_damaged(served, source, tmp_path):
    """A file that cannot be read is named."""
    served(30)
    source.write_bytes(source.read_bytes()[:-20])
    with pytest.raises(LedgerError, match=r"part\[0\].parquet: the Parquet file is damaged"):
        look_up_file(source, tmp_path / "out", LookupSpec())


def test_no_column(served, source, tmp_path):
    """So is one without the column."""
    served(30)
    with pytest.raises(ConfigurationError, match=r"part\[0\].parquet: no column is called 'ref'"):
        look_up_file(source, tmp_path / "out", LookupSpec(reference="ref"))

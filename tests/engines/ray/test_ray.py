"""Lookups in the actors of Ray Data, over HTTP: complete, whoever is killed."""

import os
import runpy
import signal
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from payclient.engines import LookupSpec
from payclient.errors import ConfigurationError

from .conftest import TESTS

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]  # Ray warns of itself

ROWS = 20_000
SPEC = LookupSpec(base_url="https://pay.example")


@pytest.fixture
def engine(ray):
    import payclient.engines.ray as engine  # noqa: PLC0415  only the session ray installs what it needs

    return engine


@pytest.fixture
def dataset(ray):
    """Give what makes a dataset of so many references."""
    return lambda rows: ray.data.from_arrow(pa.table({"trx": [f"T{n}" for n in range(rows)], "order_id": range(rows)}))


@pytest.fixture
def run(engine, dataset, tmp_path):
    """Give what looks so many references up and writes the answers."""

    def run(rows, *, size=2500, **options):
        spec = LookupSpec(keep=["order_id"], **options)
        engine.write(engine.lookup(dataset(rows), spec, "trx", workers=2, rows=size), str(tmp_path / "out"))

    return run


def test_complete(served, run, tmp_path):
    """Every reference is in the result once, with the columns that were kept, and was asked for once."""
    service = served(ROWS)
    run(ROWS)
    names, outcomes = service.answered(tmp_path / "out")
    assert (sorted(names), outcomes) == (sorted(service.references), {"ok"})
    assert service.counts() == [1] * ROWS
    assert (tmp_path / "out" / "_SUCCESS").exists()


def test_worker_killed(served, run, tmp_path):
    """When a worker is killed, its tasks are done again, and no others: the result is the same."""
    service = served(ROWS)
    killed = []
    service.on_request = lambda number: number == ROWS // 2 and killed.append(service.kill_asker())
    run(ROWS)
    names, outcomes = service.answered(tmp_path / "out")
    assert (sorted(names), outcomes, len(killed)) == (sorted(service.references), {"ok"}, 1)
    assert set(service.counts()) <= {1, 2}
    assert service.fake.total <= ROWS + 2 * 2500


def test_poison(served, run, ray):
    """A row that kills its worker fails the job, after the allowed number of attempts."""
    service = served(400)
    service.poison = "T7"
    with pytest.raises(ray.exceptions.RayError):
        run(400, size=100)
    assert service.poisoned == 4


def test_refused_key(served, run, monkeypatch):
    """A refused key fails the job with the error as it was, and at once."""
    service = served(100)
    service.fake.api_key = "another-key-0123456789"
    with pytest.raises(Exception, match="AuthenticationError"):
        run(100)
    assert service.fake.total < 100


@pytest.fixture
def drive(ray, tmp_path):
    """Give what starts a driver of its own that looks 4,000 references up."""

    def drive(output, *variables):
        address = ray.get_runtime_context().gcs_address
        command = [sys.executable, "-m", "engines.ray.driver", address, "4000", str(tmp_path / output), *variables]
        environment = {**os.environ, "PYTHONPATH": str(TESTS)}
        return subprocess.Popen(command, cwd=TESTS, stderr=subprocess.PIPE, env=environment)

    return drive


def test_driver_killed(served, drive, tmp_path):
    """When the driver is killed, what it left is not added to; the same into a fresh folder is complete."""
    service = served(4000)
    first = drive("out")
    service.on_request = lambda number: number == 2500 and os.kill(first.pid, signal.SIGKILL)
    first.communicate(timeout=280)
    again = drive("out")
    assert (first.returncode, b"is not empty" in again.communicate(timeout=280)[1]) == (-signal.SIGKILL, True)
    assert not (tmp_path / "out" / "_SUCCESS").exists()
    service = served(4000)  # another one, because workers of the killed driver may still ask the first
    fresh = drive("fresh")
    assert (fresh.communicate(timeout=280)[1][-2000:], fresh.returncode)[1] == 0
    assert service.counts() == [1] * 4000
    names, outcomes = service.answered(tmp_path / "fresh")
    assert (sorted(names), outcomes) == (sorted(service.references), {"ok"})


def test_shown_key(served, drive):
    """A key in the runtime environment, which Ray shows, is refused without showing it again."""
    service = served(1)
    said = drive("out", "PAYCLIENT_API_KEY=shown-0123456789").communicate(timeout=280)[1]
    assert (b"Ray shows on the dashboard" in said, b"shown-0123456789" in said, service.fake.total) == (True, False, 0)


def test_example(served, ray, tmp_path):
    """The example of the documentation does what it says."""
    service = served(300)
    example = runpy.run_path(str(TESTS.parent / "docs" / "examples" / "on_ray.py"))
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"trx_id": service.references, "order_id": range(300)}), tmp_path / "in" / "part.parquet")
    example["look_up"](str(tmp_path / "in"), str(tmp_path / "out"), {}, workers=2)
    names, outcomes = service.answered(tmp_path / "out")
    assert (sorted(names), outcomes, service.counts()) == (sorted(service.references), {"ok"}, [1] * 300)


def test_too_few_cpus(engine, dataset):
    """More workers than CPUs, but one for reading and writing, are refused, where Ray would wait for ever."""
    with pytest.raises(
        ConfigurationError, match="need 4 CPUs, and reading and writing one more, but the cluster has 4"
    ):
        engine.lookup(dataset(1), SPEC, "trx", workers=4)
    engine.lookup(dataset(1), SPEC, "trx", workers=6, cpus=0.5)


def test_lost_blocks(engine, dataset):
    """A dataset that may lose blocks is refused."""
    ds = dataset(1)
    ds.context.max_errored_blocks = 5
    with pytest.raises(ConfigurationError, match="max_errored_blocks must be 0"):
        engine.lookup(ds, SPEC, "trx", workers=1)


@pytest.mark.parametrize("option", ["workers", "rows", "retries"])
def test_numbers(engine, dataset, option):
    """Numbers below their least are refused."""
    with pytest.raises(ConfigurationError, match=f"{option} must be at least"):
        engine.lookup(dataset(1), SPEC, "trx", **{"workers": 1, option: -1})


def test_empty(served, run, engine, dataset, tmp_path):
    """No rows are looked up as no rows."""
    service = served(1)
    run(0)
    assert (service.fake.total, (tmp_path / "out" / "_SUCCESS").exists()) == (0, True)

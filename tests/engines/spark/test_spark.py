"""Lookups in Spark's Python workers, over HTTP: complete, whoever is killed."""

import os
import runpy
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from payclient.engines import LookupSpec, ReconcileSpec
from payclient.errors import ConfigurationError

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="no Java is installed (Debian: openjdk-17-jre-headless)"),
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

ROWS = 20_000


@pytest.fixture
def engine():
    from payclient.engines import spark  # noqa: PLC0415  only the session spark installs what it needs

    return spark


@pytest.fixture
def run(session, engine, tmp_path):
    """Give what looks so many references up, writes the answers, and returns the path they are at."""

    def run(rows, *, spec=None, partitions=8):
        df = session.range(rows).selectExpr("concat('T', id) as trx", "id as order_id")
        spec = LookupSpec(keep=["order_id"], workers=2) if spec is None else spec
        engine.lookup(df, spec, "trx", partitions=partitions).write.parquet(str(tmp_path / "out"))

    return run


def test_complete(served, run, tmp_path):
    """Every reference is in the result once, with the columns that were kept, and was asked for once."""
    service = served(ROWS)
    run(ROWS)
    names, outcomes = service.answered(tmp_path / "out")
    assert (sorted(names), outcomes) == (sorted(service.references), {"ok"})
    assert service.counts() == [1] * ROWS


def test_worker_killed(served, run, tmp_path):
    """When a worker is killed, its task is done again, and no other: the result is the same."""
    service = served(ROWS)
    killed = []
    service.on_request = lambda number: number == ROWS // 2 and killed.append(service.kill_asker())
    run(ROWS)
    names, outcomes = service.answered(tmp_path / "out")
    assert (sorted(names), outcomes, len(killed)) == (sorted(service.references), {"ok"}, 1)
    assert set(service.counts()) <= {1, 2}
    assert service.fake.total <= ROWS * 1.2  # an eighth of the rows, more or less


def test_poison(served, run):
    """A row that kills its worker fails the job, after Spark's configured number of attempts."""
    service = served(400)
    service.poison = "T7"
    with pytest.raises(Exception, match="Python worker exited unexpectedly"):
        run(400)
    assert service.poisoned == 4


def drive(*arguments, **options):
    """Start a driver in a process group of its own, and return it."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "engines.spark.driver", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.PIPE, **options)


def test_driver_killed(served, session, tmp_path):
    """When the driver and its JVM are killed, the same call goes on: no row twice, one micro-batch asked twice."""
    service, files = served(4000), 4
    for path in service.write(tmp_path / "in", files):
        table = pq.read_table(path)
        pq.write_table(table.append_column("amount", pa.array([15000] * table.num_rows)), path)
    command = ["reconcile", tmp_path / "in", tmp_path / "out", tmp_path / "state"]
    running = [drive(*command)]
    service.on_request = lambda number: number == 2500 and os.killpg(running[0].pid, signal.SIGKILL)
    running[0].communicate(timeout=280)
    assert running[0].returncode == -signal.SIGKILL
    before = service.fake.total
    again = drive(*command)
    assert (again.communicate(timeout=280)[1][-1000:], again.returncode)[1] == 0
    rows = session.read.parquet(str(tmp_path / "out")).select("reference", "outcome", "bucket").collect()
    assert sorted(row.reference for row in rows) == sorted(service.references)
    assert {row.outcome for row in rows} == {"ok"}
    assert (2500 <= before < 4000, set(service.counts())) == (True, {1, 2})
    assert service.fake.total <= 4000 + 4000 // files


def test_examples(served, session, tmp_path):
    """The examples of the documentation do what they say; the one that goes on has nothing more to do."""
    service = served(300)
    example = runpy.run_path(str(Path(__file__).parents[3] / "docs" / "examples" / "on_spark.py"))
    columns = {"trx_id": service.references, "order_id": range(300), "amount": range(300)}
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "in" / "part.parquet")
    ask, folders = {"workers": 2}, [str(tmp_path / name) for name in ("in", "out", "state")]
    example["look_up"](session, folders[0], str(tmp_path / "answers"), ask)
    for _ in range(2):
        example["reconcile"](session, *folders, ask)
    counts = [session.read.parquet(str(tmp_path / name)).count() for name in ("answers", "out")]
    assert (counts, session.read.parquet(folders[1]).columns[0]) == ([300, 300], "reference")
    asked = service.counts()
    assert set(asked) == {3}, "each example asks once, and reconciliation again where it found a difference"


def test_no_stream(session, engine):
    """A data frame that is not a stream is refused, because it cannot be resumed."""
    spec = ReconcileSpec(base_url="https://pay.example")
    with pytest.raises(ConfigurationError, match="needs a streaming data frame"):
        engine.reconcile(session.sql("select 'T1' as reference"), spec, output="out", checkpoint="state")


def test_connect(served, tmp_path):
    """It is the same over Spark Connect."""
    service = served(100)
    driver = drive("connect", tmp_path / "out")
    assert (driver.communicate(timeout=280)[1].decode()[-3000:], driver.returncode)[1] == 0
    assert service.answered(tmp_path / "out")[1] == {"ok"}
    assert service.counts() == [1] * 100


def test_same_reference(served, session, engine):
    """With `partitions`, a reference in many rows is looked up once."""
    service = served(10)
    df = session.range(500, numPartitions=5).selectExpr("concat('T', id % 10) as reference")
    rows = engine.lookup(df, LookupSpec(), partitions=2).collect()
    assert (len(rows), {row.outcome for row in rows}) == (500, {"ok"})
    assert service.counts() == [1] * 10


def test_schema(session, engine):
    """The columns have the types that Spark has for them, and kept columns their own."""
    df = session.sql("select 'T1' as `a b`, timestamp '2026-01-01' as `at`, cast(1 as decimal(9, 2)) as sum")
    spec = LookupSpec(base_url="https://pay.example", keep=["at", "sum"], prefix="pay_")
    types = dict(engine.lookup(df, spec, "a b").dtypes)
    assert (types["at"], types["sum"], types["pay_reference"]) == ("timestamp", "decimal(9,2)", "string")
    assert (types["pay_expdate"], types["pay_observed_at"]) == ("timestamp_ntz", "timestamp")
    assert (types["pay_amount"], types["pay_deviations"]) == ("bigint", "array<string>")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("spark.speculation", "true", "spark.speculation must be off"),
        ("spark.executorEnv.PAYCLIENT_API_KEY", "secret-0123456789", "Spark shows it on its pages"),
    ],
)
def test_refused_session(session, engine, name, value, problem):
    """What makes Spark ask twice, or show the key, is refused without showing it again."""
    df = session.sql("select 'T1' as reference")
    session.conf.set(name, value)
    try:
        with pytest.raises(ConfigurationError, match=problem) as caught:
            engine.lookup(df, LookupSpec(base_url="https://pay.example"))
    finally:
        session.conf.unset(name)
    assert "secret" not in str(caught.value).replace("use a secret", "")


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("select 1 as id", "no column is called 'reference': the columns are id"),
        ("select 17 as reference", "must be text, so that no zero and no digit is lost, and is integer"),
        ("select 'T1' as reference, 'x' as status", "an output column: status"),
    ],
)
def test_refused_columns(session, engine, query, problem):
    """Columns that are not as the specification says are refused before a job begins."""
    with pytest.raises(ConfigurationError, match=problem):
        engine.lookup(session.sql(query), LookupSpec(base_url="https://pay.example", keep=None))

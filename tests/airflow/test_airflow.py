"""The DAG of the page about nightly jobs, in a real Airflow: which exit status is tried again, and which is not."""

import os
import runpy
import sys
from pathlib import Path

import pytest

from payclient.cli._process import Exit

pytestmark = pytest.mark.airflow
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "airflow_dag.py"
PROGRAM = """#!{python}
import os, pathlib, sys
if sys.argv[1] == "verify":
    sys.exit(not pathlib.Path(sys.argv[-1], "manifest.json").exists())
print(*sys.argv[1:], sep="\\n", file=open(os.environ["SAID"], "w"))
sys.exit(int(os.environ["STATUS"]))
"""


@pytest.fixture(scope="module")
def example():
    """Run the file as Airflow does."""
    pytest.importorskip("airflow", reason="needs Airflow, which is installed by the session of this name")
    return runpy.run_path(str(EXAMPLE))


@pytest.fixture(scope="module")
def dag(example):
    """Give the DAG in it."""
    return example["reconcile_every_night"]()


@pytest.fixture
def payclient(tmp_path, monkeypatch):
    """Put a program in the place of the command, which ends with a status and keeps its arguments."""

    def payclient(status):
        program = tmp_path / "bin" / "payclient"
        program.parent.mkdir(exist_ok=True)
        program.write_text(PROGRAM.format(python=sys.executable))
        program.chmod(0o700)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("SAID", str(tmp_path / "said"))
        monkeypatch.setenv("STATUS", str(status))
        return tmp_path / "said"

    return payclient


def test_done(dag, payclient):
    """A night without breaks is a success, in the folder of its day."""
    said = payclient(0)
    assert dag.get_task("reconcile").python_callable(ds="2026-11-21") is None
    assert said.read_text().splitlines()[:4] == [
        *("reconcile", "/srv/reconcile/ledger.csv", "--out", "/srv/reconcile/reports/2026-11-21")
    ]


def test_previous(dag, payclient, tmp_path, monkeypatch):
    """The last night before this one with a whole report is the previous run, and only news count then."""
    reconcile = dag.get_task("reconcile").python_callable
    monkeypatch.setitem(reconcile.__globals__, "REPORTS", tmp_path)
    for name in ("2026-11-18", "2026-11-19", "2026-11-20", "2026-11-21", "2026-11-22"):
        (tmp_path / name).mkdir()
        if name != "2026-11-20":
            (tmp_path / name / "manifest.json").touch()
    said = payclient(0)
    reconcile(ds="2026-11-21")
    assert said.read_text().splitlines()[-4:] == [
        *("--previous", str(tmp_path / "2026-11-19"), "--fail-on-new", "medium")
    ]


def test_incomplete(dag, payclient):
    """An incomplete night is tried again."""
    from airflow.sdk.exceptions import AirflowException, AirflowFailException  # noqa: PLC0415  see above

    payclient(75)
    with pytest.raises(AirflowException, match="tried again") as caught:
        dag.get_task("reconcile").python_callable(ds="2026-11-21")
    assert not isinstance(caught.value, AirflowFailException)


@pytest.mark.parametrize("status", [1, 2, 3, 70, 130])
def test_failed(dag, payclient, status):
    """Any other status fails at once: trying again would say the same."""
    from airflow.sdk.exceptions import AirflowFailException  # noqa: PLC0415  see above

    payclient(status)
    with pytest.raises(AirflowFailException):
        dag.get_task("reconcile").python_callable(ds="2026-11-21")


def test_statuses(example):
    """Every status of the command has its meaning, and no other."""
    named = {*example["MEANINGS"], example["INCOMPLETE"], 0}
    assert {int(each) for each in Exit} - named == {Exit.BUG, Exit.CLOSED}
    assert named <= {int(each) for each in Exit}


def test_schedule(dag):
    """One night runs at a time, and nights before the first are not made up for."""
    assert (dag.max_active_runs, dag.catchup, dag.get_task("reconcile").retries) == (1, False, 12)

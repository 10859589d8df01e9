"""The DAG of the page about nightly jobs, in a real Airflow: which exit status is tried again, and which is not."""

import runpy
from pathlib import Path

import pytest

from payclient.cli._process import Exit

pytestmark = pytest.mark.airflow
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "airflow_dag.py"


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
def reconcile(dag, tmp_path, monkeypatch):
    """Run the task, with a script in the place of nightly.sh, which ends with a status and says where it ran."""

    def reconcile(status):
        (tmp_path / "nightly.sh").write_text(f"touch done-here\nexit {status}\n")
        function = dag.get_task("reconcile").python_callable
        monkeypatch.setitem(function.__globals__, "FOLDER", tmp_path)
        return function()

    return reconcile


def test_done(reconcile, tmp_path):
    """A night without breaks is a success, where the ledger and the reports are."""
    assert reconcile(0) is None
    assert (tmp_path / "done-here").exists()


@pytest.mark.parametrize("status", [75, 130])
def test_incomplete(reconcile, status):
    """An incomplete night is tried again, and so is a night that somebody stopped."""
    from airflow.sdk.exceptions import AirflowException, AirflowFailException  # noqa: PLC0415  see above

    with pytest.raises(AirflowException, match="tried again") as caught:
        reconcile(status)
    assert not isinstance(caught.value, AirflowFailException)


@pytest.mark.parametrize("status", [1, 2, 3, 70])
def test_failed(reconcile, status):
    """Any other status fails at once: trying again would say the same."""
    from airflow.sdk.exceptions import AirflowFailException  # noqa: PLC0415  see above

    with pytest.raises(AirflowFailException):
        reconcile(status)


def test_statuses(example):
    """Every status of the command has its meaning, and no other."""
    named = {*example["MEANINGS"], *example["AGAIN"], 0}
    assert {int(each) for each in Exit} - named == {Exit.BUG, Exit.CLOSED}
    assert named <= {int(each) for each in Exit}


def test_schedule(dag):
    """One night runs at a time, and nights before the first are not made up for."""
    assert (dag.max_active_runs, dag.catchup, dag.get_task("reconcile").retries) == (1, False, 3)

"""Reconcile every night with Airflow, and try again only if that can help."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

REPORTS = Path("/srv/reconcile/reports")
INCOMPLETE = 75  # the same command resumes
MEANINGS = {
    1: "breaks, or rejected rows",
    2: "the ledger cannot be read, or an option is wrong",
    3: "no key or address, the service refuses this caller, or nothing was found",
    130: "stopped",
}


def last_whole_night(before):
    # Decisions are taken in the night itself, and not in where it was rejudged.
    for night in sorted({*REPORTS.glob("*/")} - {*REPORTS.glob("*-rejudged*/")}, reverse=True):
        verify = ["payclient", "verify", "--allow-edits", night]
        if night.name < before and subprocess.run(verify, check=False).returncode == 0:
            return night
    return None


@dag(schedule="0 2 * * *", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False, max_active_runs=1)
def reconcile_every_night():
    @task(retries=12, retry_delay=timedelta(minutes=10))
    def reconcile(ds=None):
        folder = REPORTS / ds  # of the night, so that a retry resumes
        command = ["payclient", "reconcile", REPORTS.parent / "ledger.csv", "--out", folder]
        night = last_whole_night(before=ds)
        command += ["--previous", night, "--fail-on-new", "medium"] if night else ["--fail-on", "partial"]
        status = subprocess.run(command, check=False).returncode
        if status == INCOMPLETE:
            raise AirflowException(f"{folder}: incomplete, so it is tried again")
        if status:
            raise AirflowFailException(f"{folder}: {MEANINGS.get(status, f'status {status}')}")

    reconcile()


reconcile_every_night()

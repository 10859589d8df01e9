"""Reconcile every night with Airflow: nightly.sh does it, and Airflow shows how it ended."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

# nightly.sh, rules.toml and reports are here, and the ledger arrives here. If no mail is wanted, leave
# `| mail …` out of nightly.sh: then the log of the task has the verdict.
FOLDER = Path("/srv/reconcile")
AGAIN = {75: "incomplete", 130: "stopped"}  # the same command resumes
MEANINGS = {
    1: "breaks, or rejected rows",
    2: "a ledger cannot be compared, or an option is wrong",
    3: "no key or address, the service refuses this caller, or nothing was found",
}


@dag(schedule="0 2 * * *", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False, max_active_runs=1)
def reconcile_every_night():
    @task(retries=3, retry_delay=timedelta(minutes=10))
    def reconcile():
        status = subprocess.run(["bash", "nightly.sh"], cwd=FOLDER, check=False).returncode
        if status in AGAIN:
            raise AirflowException(f"{AGAIN[status]}, so it is tried again")
        if status:
            raise AirflowFailException(MEANINGS.get(status, f"status {status}"))

    reconcile()


reconcile_every_night()

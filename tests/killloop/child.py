"""One reconciliation in a process of its own, as the command line does it, and ways for it to be killed."""

import asyncio
import io
import itertools
import os
import resource
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from payclient import AsyncClient, RetryPolicy
from payclient.cli._connection import ConnectionOptions
from payclient.cli._options import EarlierRunOptions, OutputOptions, StatementOptions
from payclient.cli._process import Streams
from payclient.cli._reconcile import Reconciliation
from payclient.reconcile.folders import open_past_run
from payclient.reconcile.ledger import open_ledger

CONCURRENCY = 8
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
TOUCHES = frozenset({"open", "os.rename", "os.remove", "sqlite3.connect"})
"""What Python tells an audit hook before a file is opened, put in its place or removed."""


def reconcile(folder, url, key, kind, at):
    """
    Reconcile `ledger.csv` of *folder* and `settlement.csv` into `report`, with a clock that stands still, after the run
    in `previous`, whose answers are reused.

    Args:
        folder: Where the ledger is.
        url: Of the service.
        key: Of the service.
        kind: What this process dies of: `call` (the n-th call of a function), `file` (it touches the report folder for
            the n-th time), `place` (it puts the n-th file there in its place), `size` (a file grows beyond n bytes, in
            the middle of the write that does it). Of `count` it does not die, but writes the number of its calls to
            `calls`; with any other kind, it does nothing to itself.
        at: The n.
    """
    report = Path(folder, "report")
    if kind in {"call", "count"}:
        calls = die_at_call(at)
    elif kind in {"file", "place"}:
        die_at_touch(str(report), at, TOUCHES if kind == "file" else frozenset({"os.rename"}))
    elif kind == "size":
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (at, at))
    status = asyncio.run(_reconcile(Path(folder, "ledger.csv"), report, url, key))
    if kind == "count":
        Path(folder, "calls").write_text(str(next(calls)))
    sys.exit(status)


def die_at_call(number):
    """Kill this process at the n-th call of a function, in Python or in C; return the count of the calls."""
    calls = itertools.count()

    def hook(_frame, event, _argument):
        if event in {"call", "c_call"} and next(calls) == number - 1:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(hook)
    return calls


def die_at_touch(folder, times, touches):
    """Kill this process just before it touches a file of *folder* for the n-th time."""
    count = itertools.count(1)

    def hook(event, arguments):
        if event in touches and str(arguments[0]).startswith(folder) and next(count) == times:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


async def _reconcile(path, report, url, key):
    previous = report.with_name("previous")
    before = open_past_run(previous) if previous.exists() else None
    streams = Streams(stdin=io.BytesIO(), stdout=io.StringIO(), stderr=io.StringIO())
    retry = RetryPolicy(initial_backoff=0.01)
    async with AsyncClient(api_key=key, base_url=url, max_concurrency=CONCURRENCY, retry=retry) as client:
        settlement = path.with_name("settlement.csv")
        with open_ledger(path) as ledger, open_ledger(settlement, is_statement=True) as statement:
            job = Reconciliation(
                ledger=ledger,
                statement=statement,
                other=StatementOptions(payout=1_000_000),
                out=report,
                client=client,
                connection=ConnectionOptions(max_concurrency=CONCURRENCY),
                previous=before,
                earlier=EarlierRunOptions(reuse=before and timedelta(days=7)),
                output=OutputOptions(quiet=True),
                streams=streams,
                clock=lambda: NOON,
            )
            done = await job.run()
    return int(done.summary.exit_status())

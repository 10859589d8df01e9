"""`payclient demo`: a reconciliation from end to end, on data in which every break is known."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from attrs import define, field
from cyclopts import Parameter, validators

from payclient import AsyncClient, Environment
from payclient._escape import plural
from payclient.cli._dataset import MIN_ROWS, Dataset, Expected, as_expected, generate, write_ledger
from payclient.cli._progress import ProgressMode
from payclient.cli._reconciliation import Reconciliation, write_again
from payclient.cli._sandbox import faults_of, limit_of, serving
from payclient.cli._status import Exit
from payclient.cli._streams import Streams
from payclient.cli._verdict import Worst, verdict_lines
from payclient.ledger import open_ledger
from payclient.reconcile import Row
from payclient.report import verify
from payclient.testing import FakeService, Latency

EXAMPLES = """
```console
$ payclient demo
$ payclient demo --rows 500 --out demo-report
```
"""

_RATE_LIMIT = "500/s"
_FAULT_SHARE = 0.02
_LATENCY = 0.01
_MAX_SHOWN = 20
_CONCURRENCY = 32
_KILL_AFTER = 5.0
"""Seconds until the first run is killed: long enough to start, too short to finish with the default rows."""
_REPRODUCED = "CHECKED: the report was written again from its journal, and every file has the same bytes."


async def demo(
    *,
    rows: Annotated[int, Parameter(validator=validators.Number(gte=MIN_ROWS))] = 10_000,
    seed: int = 1,
    out: Path | None = None,
    progress: ProgressMode = ProgressMode.AUTO,
    streams: Annotated[Streams, Parameter(parse=False)],
) -> int:
    """
    Reconcile a generated ledger with the sandbox, and check that exactly the planted breaks are found.

    The sandbox runs on a loopback port, limits the rate, and fails now and then with status 500, web pages, truncated
    answers or closed connections. The first run is killed midway; the second resumes from its journal. Then the report
    is written again from the journal alone, and must have the same bytes.

    Args:
        rows: Number of ledger rows.
        seed: Seed of the ledger and of the faults.
        out: Folder for the ledger and the report; a new temporary folder, which is kept, if not given.
        progress: How progress is shown on standard error.
        streams: Streams of the process.
    """
    folder = out or Path(tempfile.mkdtemp(prefix="payclient-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    service = FakeService(
        latency=Latency(seconds=_LATENCY), limits=[limit_of(_RATE_LIMIT)], faults=faults_of(_FAULT_SHARE), seed=seed
    )
    is_passed = await _run_once(generate(rows, seed=seed), folder, service, progress, streams)
    return Exit.DONE if is_passed else Exit.DIFFERENT


async def _run_once(
    dataset: Dataset, folder: Path, service: FakeService, progress: ProgressMode, streams: Streams
) -> bool:
    """Reconcile *dataset*, killed once and resumed, and return whether exactly what was planted is found."""
    write_ledger(dataset.ledger, folder / "ledger.csv")
    streams.tell(
        f"{plural(len(dataset.ledger), 'row')} in {folder / 'ledger.csv'}; the sandbox takes {_RATE_LIMIT}, and "
        f"{_FAULT_SHARE:.0%} of its responses fail",
    )
    check, worst = Check(dataset.expected), Worst()
    report = folder / "report"
    service.load(dataset.transactions)
    async with (
        serving(service) as base_url,
        AsyncClient(
            api_key=service.api_key,
            base_url=base_url,
            environment=Environment.SANDBOX,
            max_concurrency=_CONCURRENCY,
        ) as client,
    ):
        streams.tell(await _run_and_kill(folder, base_url, service.api_key))
        with open_ledger(folder / "ledger.csv") as ledger:
            job = Reconciliation(
                ledger=ledger,
                out=report,
                client=client,
                environment=Environment.SANDBOX,
                concurrency=_CONCURRENCY,
                progress=progress,
                streams=streams,
            )
            summary = await job.run(worst.add, check.add)
    manifest = (report / "manifest.json").read_bytes()
    write_again(report)
    is_same = not verify(report) and (report / "manifest.json").read_bytes() == manifest
    files = (f"{path}  {path.stat().st_size:,} bytes" for path in sorted(report.iterdir()) if path.is_file())
    written = _REPRODUCED if is_same else "CHECK FAILED: the report written again from its journal differs."
    streams.show([*verdict_lines(summary, worst, rules=job.rules), "", *files, "", *check.lines(), written])
    return check.is_passed and is_same


async def _run_and_kill(folder: Path, base_url: str, api_key: str) -> str:
    """Start the reconciliation in another process, kill it, and return what happened."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "payclient", "reconcile", str(folder / "ledger.csv")),
        *("--out", str(folder / "report"), "--quiet", "--max-concurrency", str(_CONCURRENCY)),
        env={
            **os.environ,
            "PAYCLIENT_API_KEY": api_key,
            "PAYCLIENT_BASE_URL": base_url,
            "PAYCLIENT_ENVIRONMENT": "sandbox",
        },
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_KILL_AFTER):
            await process.wait()
    except TimeoutError:
        return f"the first run was killed after {_KILL_AFTER:g} s, without a warning"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return f"the first run ended by itself within {_KILL_AFTER:g} s, so there was nothing to kill"


@define
class Check:
    """Compares each row with its expected result."""

    _expected: Sequence[Expected]
    _rows: int = field(init=False, default=0)
    _differences: list[tuple[Row, Expected]] = field(init=False, factory=list)

    def add(self, row: Row) -> None:
        expected = self._expected[self._rows]
        self._rows += 1
        if as_expected(row) != expected:
            self._differences.append((row, expected))

    @property
    def is_passed(self) -> bool:
        """Whether every row was there, and none differs."""
        return self._rows == len(self._expected) and not self._differences

    def lines(self) -> list[str]:
        planted = sum(len(verdict.findings) for verdict in self._expected)
        if self.is_passed:
            return [f"CHECKED: {planted} findings were planted; exactly these were found, and no other."]
        missed = len(self._expected) - self._rows
        head = f"CHECK FAILED: {plural(len(self._differences), 'row')} not as planted, {plural(missed, 'row')} missing"
        shown = self._differences[:_MAX_SHOWN]
        return [head, *(f"  line {row.line}: {_words(as_expected(row))}, planted {_words(it)}" for row, it in shown)]


def _words(verdict: Expected) -> str:
    findings = sorted(f"{code} ({severity.word})" for code, severity in verdict.findings)
    return " ".join((verdict.bucket, *findings))

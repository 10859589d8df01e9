"""`payclient demo`: the main job from end to end, on data in which every break is known."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

from attrs import define, field
from cyclopts import Parameter, validators

from payclient import AsyncClient, Environment
from payclient.cli._planting import COLUMNS, FEWEST_ROWS, Plantation, Verdict, plant, verdict_of
from payclient.cli._progress import ProgressMode
from payclient.cli._reconciliation import Reconciliation
from payclient.cli._sandbox_process import sandbox_process
from payclient.cli._status import Exit
from payclient.cli._streams import Streams
from payclient.cli._verdict import Worst, verdict_lines
from payclient.ledger import CsvLedger
from payclient.reconcile import Row

EXAMPLES = """
```console
$ payclient demo
$ payclient demo --rows 500 --out demo-report
```
"""

_RATE_LIMIT = "500/s"
_FAULT_SHARE = "0.02"
_LATENCY = "0.01"
_CONCURRENCY = 32
_MOST_SHOWN = 20


async def demo(
    *,
    rows: Annotated[int, Parameter(validator=validators.Number(gte=FEWEST_ROWS))] = 10_000,
    seed: int = 1,
    out: Path | None = None,
    progress: ProgressMode = ProgressMode.AUTO,
    streams: Annotated[Streams, Parameter(parse=False)],
) -> int:
    """
    Reconcile a made-up ledger with the sandbox, and check that exactly the breaks planted in it are found.

    The sandbox runs on a loopback port, limits the rate, and fails now and then: status 500, web pages, cut answers
    and cut connections.

    Args:
        rows: In the ledger.
        seed: Of the ledger and of the faults.
        out: Folder for ledger and report; a new one for temporary files if not given, which is kept.
        progress: How progress is shown on standard error.
        streams: Of the process.

    Returns:
        The exit status: 0 when what was found is what was planted.
    """
    folder = out or Path(tempfile.mkdtemp(prefix="payclient-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    plantation = plant(rows, seed=seed)
    _write(plantation, folder)
    streams.tell(
        f"{rows:,} rows in {folder / 'ledger.csv'}; the sandbox takes {_RATE_LIMIT} and fails {_FAULT_SHARE} of them"
    )
    check, worst = Check(plantation.expected), Worst()
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(
            sandbox_process(
                *("--transactions", str(folder / "transactions.jsonl"), "--rate-limit", _RATE_LIMIT),
                *("--fault-share", _FAULT_SHARE, "--latency", _LATENCY, "--seed", str(seed)),
                log=folder / "sandbox.log",
            )
        )
        client = await stack.enter_async_context(
            AsyncClient(
                api_key=address.api_key,
                base_url=address.base_url,
                environment=Environment.SANDBOX,
                max_concurrency=_CONCURRENCY,
            )
        )
        job = Reconciliation(
            ledger=stack.enter_context(CsvLedger(folder / "ledger.csv")),
            out=folder,
            client=client,
            concurrency=_CONCURRENCY,
            progress=progress,
            streams=streams,
        )
        summary = await job.carry_out(worst.add, check.add)
    for line in (*verdict_lines(summary, worst, time_zone=None), "", f"Report: {folder}", "", *check.lines()):
        streams.write(line)
    return Exit.DONE if check.is_passed else Exit.DIFFERENT


@define
class Check:
    """Compares each row with what was planted."""

    _expected: Sequence[Verdict]
    _rows: int = field(init=False, default=0)
    _differences: list[tuple[Row, Verdict]] = field(init=False, factory=list)

    def add(self, row: Row) -> None:
        """Take the next row of the ledger."""
        expected = self._expected[self._rows]
        self._rows += 1
        if verdict_of(row) != expected:
            self._differences.append((row, expected))

    @property
    def is_passed(self) -> bool:
        """Whether every row was there, and none differs."""
        return self._rows == len(self._expected) and not self._differences

    def lines(self) -> list[str]:
        """Return the result for people."""
        planted = sum(len(verdict.findings) for verdict in self._expected)
        if self.is_passed:
            return [f"CHECKED: {planted} findings were planted; exactly these were found, and no other."]
        missed = len(self._expected) - self._rows
        head = f"CHECK FAILED: {len(self._differences)} rows are not as planted, {missed} rows are missing"
        shown = self._differences[:_MOST_SHOWN]
        return [head, *(f"  line {row.line}: {_words(verdict_of(row))}, planted {_words(it)}" for row, it in shown)]


def _words(verdict: Verdict) -> str:
    findings = sorted(f"{code} ({severity.word})" for code, severity in verdict.findings)
    return " ".join((verdict.bucket, *findings))


def _write(plantation: Plantation, folder: Path) -> None:
    with (folder / "ledger.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(plantation.ledger)
    with (folder / "transactions.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(fields)}\n" for fields in plantation.transactions)

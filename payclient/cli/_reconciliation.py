"""One ledger file reconciled, shown and written: what `reconcile` and `demo` have in common."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from datetime import tzinfo
from pathlib import Path

from attrs import frozen

from payclient import AsyncClient
from payclient.cli._progress import ProgressMode, shown
from payclient.cli._status import Exit, status_of
from payclient.cli._streams import Streams
from payclient.errors import PayClientError
from payclient.ledger import CsvLedger
from payclient.reconcile import Row, Rules, Summary, reconcile
from payclient.report import ReportFiles


@frozen(kw_only=True)
class Reconciliation:
    """
    What is to be done.

    Attributes:
        ledger: Open, with its header read.
        out: Folder for the report.
        client: Asks the service.
        concurrency: Lookups under way at once.
        canary: A reference that is known to exist.
        time_zone: What the service's expiry times mean.
        progress: How to show progress.
        streams: Of the process.
    """

    ledger: CsvLedger
    out: Path
    client: AsyncClient
    concurrency: int
    canary: str | None = None
    time_zone: tzinfo | None = None
    progress: ProgressMode
    streams: Streams

    async def carry_out(self, *on_row: Callable[[Row], object]) -> Summary:
        """
        Write the report and return what it comes to; each row is also given to each of *on_row*.

        Raises:
            PayClientError: When the service refuses the caller, or the ledger cannot be trusted; no
                report is written then. What may pass makes an incomplete report instead.
        """
        with ReportFiles(self.out) as files:
            try:
                await self._ask((files.add, *on_row))
            except PayClientError as error:
                if status_of(error) is not Exit.AGAIN:
                    raise
                self.streams.tell(f"payclient: the run ended early: {error}")
            return files.finish(time_zone=self.time_zone, ledger=self.ledger)

    async def _ask(self, on_row: tuple[Callable[[Row], object], ...]) -> None:
        async with shown(self.progress, self.streams, lambda: self.client.stats) as on_progress:
            rows = reconcile(
                self.ledger,
                # Without a deadline: a lookup may have to wait for its turn, and for pauses, as long as it takes.
                self.client.with_options(deadline=None).get_transaction,
                concurrency=self.concurrency,
                canary=self.canary,
                rules=Rules(time_zone=self.time_zone),
                on_progress=on_progress,
            )
            async with aclosing(rows):
                async for row in rows:
                    for take in on_row:
                        take(row)

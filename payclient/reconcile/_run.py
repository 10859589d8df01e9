"""
Reconcile a ledger with what a lookup function answers.

Phases, one after the other: read the whole ledger; ask for each reference; ask again for each that
differed; judge every row. No lookup is under way when a row is given, so leaving early leaves nothing behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, closing
from datetime import UTC, datetime
from typing import TypeAlias

from attrs import define, field

from payclient._models import Found, Outcome
from payclient._stream import Lookup, stream
from payclient.errors import ConfigurationError, PayClientError, TransactionNotFoundError
from payclient.ledger._entry import Entry, RejectedEntry
from payclient.reconcile._judge import judge, needs_confirmation
from payclient.reconcile._observation import Answer, Observation, failure, observe
from payclient.reconcile._progress import OnProgress, Phase, Progress
from payclient.reconcile._row import Row
from payclient.reconcile._rules import STRICT, Rules
from payclient.reconcile._store import Round, Store

Entries: TypeAlias = Iterable[Entry | RejectedEntry] | AsyncIterable[Entry | RejectedEntry]

_ROWS_PER_TURN = 200
"""After so many rows without waiting for anything, the rest of the event loop gets its turn."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


async def reconcile(
    entries: Entries,
    lookup: Lookup,
    *,
    concurrency: int = 50,
    canary: str | None = None,
    rules: Rules = STRICT,
    stall_timeout: float = 900.0,
    clock: Callable[[], datetime] = _utc_now,
    on_progress: OnProgress | None = None,
) -> AsyncGenerator[Row, None]:
    """
    Compare each ledger entry with what the service says about its reference.

    Args:
        entries: The ledger; read once, completely, before anything is asked.
        lookup: Asks for one reference, such as `client.get_transaction`; raises a `PayClientError`
            when it cannot.
        concurrency: Lookups under way at once.
        canary: A reference that is known to exist. It is asked first, and that it is found is what
            makes "not found" credible when nothing else is found.
        rules: How differences are judged.
        stall_timeout: Seconds without any answer after which the run ends.
        clock: Tells the time of each answer; aware.
        on_progress: Gets a snapshot after each answer, and now and then between.

    Shape:
        One row per entry, in the order of the ledger, each final. A reference is asked once however
        many rows have it, and a second time when it differs. Rows wait in a temporary database, so
        memory does not grow with the ledger; `Transaction.raw` is not kept.

    Raises:
        PayClientError: After the last row, when the run ended early because no other lookup could
            succeed. Rows that were not asked, or not confirmed, are unresolved then.
        ConfigurationError: In the same way, when the canary is not found.
    """
    with closing(Store()) as store:
        run = _Run(store, lookup, concurrency, stall_timeout, rules, clock, on_progress)
        await run.read(entries)
        if store.references:
            await run.ask(canary)
        for row in run.rows():
            yield row
            await run.turn(Phase.JUDGING, store.rows)
        if run.ended_by is not None:
            raise run.ended_by


@define
class _Run:
    """One reconciliation under way."""

    _store: Store
    _lookup: Lookup
    _concurrency: int
    _stall_timeout: float
    _rules: Rules
    _clock: Callable[[], datetime]
    _on_progress: OnProgress | None
    _done: int = field(init=False, default=0)
    _unresolved: int = field(init=False, default=0)
    _differences: int = field(init=False, default=0)
    _differences_amount: int = field(init=False, default=0)
    _is_canary_found: bool = field(init=False, default=False)
    ended_by: PayClientError | None = field(init=False, default=None)

    # Read

    async def read(self, entries: Entries) -> None:
        """Take the whole ledger into the store."""
        self._begin()
        if isinstance(entries, AsyncIterable):
            async for entry in entries:
                await self._keep(entry)
        else:
            for entry in entries:
                await self._keep(entry)
        self._store.finish_ledger()
        self._tell(Phase.READING, self._done)

    async def _keep(self, entry: Entry | RejectedEntry) -> None:
        self._store.add(entry)
        await self.turn(Phase.READING, None)

    # Ask

    async def ask(self, canary: str | None) -> None:
        """Ask for everything once, and again for what differs, unless something ends it early."""
        try:
            if canary is not None:
                await self._ask_canary(canary)
            await self._ask_all(self._store.to_ask(), Phase.ASKING, self._store.references)
            # Two answers that were confirmed can make a third one doubtful, so until there is no doubt.
            while self._has_witness() and (doubted := self._store.count_to_confirm()):
                await self._ask_all(self._store.to_confirm(), Phase.CONFIRMING, doubted)
        except PayClientError as error:
            self.ended_by = error

    def _has_witness(self) -> bool:
        # Where nothing was found, "not found" is not believed, however often it is said.
        return self._is_canary_found or self._store.count_found() > 0

    async def _ask_canary(self, canary: str) -> None:
        async with self._stream([canary]) as outcomes:
            async for outcome in outcomes:
                self._is_canary_found = isinstance(outcome, Found)
                if not isinstance(outcome, Found) and isinstance(outcome.error, TransactionNotFoundError):
                    message = f"the service does not know the canary {canary!r}: is it the right key and environment?"
                    raise ConfigurationError(message) from outcome.error

    async def _ask_all(self, references: Iterable[str], phase: Phase, total: int) -> None:
        self._begin()
        self._tell(phase, total)
        look: Round = 0 if phase is Phase.ASKING else 1
        async with self._stream(references) as outcomes:
            async for outcome in outcomes:
                observation = observe(outcome, at=self._now())
                is_doubted = look == 0 and self._is_different(outcome.reference, observation)
                self._store.add_answer(outcome.reference, observation, number_of_look=look, is_doubted=is_doubted)
                self._unresolved += observation.answer is Answer.FAILED
                self._done += 1
                self._tell(phase, total)

    def _stream(self, references: Iterable[str]) -> AbstractAsyncContextManager[AsyncIterator[Outcome]]:
        return stream(self._lookup, references, concurrency=self._concurrency, stall_timeout=self._stall_timeout)

    def _is_different(self, reference: str, observation: Observation) -> bool:
        if observation.answer in (Answer.FAILED, Answer.UNASKABLE):
            return False
        entries = self._store.entries_of(reference)
        different = [e for e in entries if needs_confirmation(e, observation, rules=self._rules)]
        self._differences += bool(different)
        self._differences_amount += sum(e.amount for e in different if isinstance(e.amount, int))
        return bool(different)

    def _now(self) -> datetime:
        now = self._clock()
        if now.tzinfo is None:
            message = "clock must return an aware datetime, got one without a time zone"
            raise ValueError(message)
        return now.astimezone(UTC)

    # Judge

    def rows(self) -> Iterator[Row]:
        """Yield every row of the ledger, in its order."""
        self._begin()
        ended_by = None if self.ended_by is None else failure(self.ended_by, at=self._now())
        for case in self._store.cases(ended_by=ended_by, is_canary_found=self._is_canary_found):
            yield judge(case, rules=self._rules)

    # Progress

    def _begin(self) -> None:
        self._done = self._unresolved = 0

    async def turn(self, phase: Phase, total: int | None) -> None:
        """Count one row, and let others run now and then."""
        self._done += 1
        if self._done % _ROWS_PER_TURN == 0:
            self._tell(phase, total)
            await asyncio.sleep(0)

    def _tell(self, phase: Phase, total: int | None) -> None:
        if self._on_progress is not None:
            self._on_progress(
                Progress(
                    phase=phase,
                    done=self._done,
                    total=total,
                    differences=self._differences,
                    differences_amount=self._differences_amount,
                    unresolved=self._unresolved,
                )
            )

"""The base class of `AsyncClient` that waits, watches and confirms."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from datetime import tzinfo
from functools import partial
from typing import TYPE_CHECKING

from attrs import frozen

from payclient._checks import check_count
from payclient._config import Options
from payclient._lookup import Lookup
from payclient._session import Session
from payclient._stream import References
from payclient.errors import TransactionNotFoundError
from payclient.policies import Clock
from payclient.protocol import Transaction, check_reference, check_references
from payclient.waiting import (
    APPEAR,
    AT_ONCE,
    INTERVAL,
    MAX_INTERVAL,
    Condition,
    Polls,
    Seen,
    Terms,
    Wait,
    wait_until_held,
    watch,
)

if TYPE_CHECKING:
    from payclient.reconcile import Finding


@frozen(kw_only=True)
class Confirmation:
    """
    The result of `AsyncClient.confirm`.

    Attributes:
        reference: The reference that was looked up.
        compared: The fields that were compared.
        findings: The differences, with the codes of a report; the most severe first.
        transaction: The service's transaction; None if it has none.
    """

    reference: str
    compared: tuple[str, ...]
    findings: tuple[Finding, ...]
    transaction: Transaction | None

    @property
    def is_confirmed(self) -> bool:
        """Whether all compared fields are equal."""
        return self.transaction is not None and not any(finding.is_decisive for finding in self.findings)


class Waits:
    """The methods that poll or compare; the client sets the attributes."""

    _session: Session
    _options: Options
    _polls: Polls
    get_transaction: Callable[[str], Awaitable[Transaction]]

    async def wait_for(
        self,
        reference: str,
        *,
        until: Condition,
        unless: Condition = frozenset(),
        deadline: float,
        appear: float = APPEAR,
        interval: float = INTERVAL,
        max_interval: float = MAX_INTERVAL,
        time_zone: tzinfo | None = None,
        grace: float | None = None,
    ) -> Transaction:
        """
        Poll one transaction until its status is one of *until*.

        All waits for one reference share its polls, and polls queue behind all other lookups. Temporary
        failures, and pauses that the service asks for, do not end the wait.

        Args:
            reference: The service's reference code.
            until: Status words of the service, compared exactly, or a predicate over `Transaction`.
                There is no default, because no status is documented to be final.
            unless: Statuses, or a predicate, after which `until` cannot hold any more.
            deadline: Seconds for the whole wait.
            appear: Seconds for which "not found" is tolerated, because a reference may be new.
            interval: Maximum of seconds between the first two polls; it grows by half with each poll,
                and is shortened at random by up to 20 %.
            max_interval: Maximum of the interval, in seconds.
            time_zone: The zone of the service's expiry times; only with *grace*.
            grace: Seconds after the expiry at which the wait ends. Without it an expiry does not end
                the wait, because an expired payment may still be paid.

        Raises:
            UnreachableStatusError: When `unless` holds.
            WaitDeadlineError: When neither holds after *deadline* seconds.
            StillOpenError: When neither holds *grace* seconds after the expiry.
            TransactionNotFoundError: When there is no such transaction for *appear* seconds.
            PayClientError: When every other lookup would fail too, such as with an `AuthenticationError`.
            ConfigurationError: When an argument is invalid.
        """
        check_reference(reference)
        terms = Terms(
            until=until,
            unless=unless,
            deadline=deadline,
            appear=appear,
            interval=interval,
            max_interval=max_interval,
            time_zone=time_zone,
            grace=grace,
        )
        clock = self._session.check_usable()
        wait = Wait(reference, terms, began_at=clock.now(), random=random.random)
        return await wait_until_held(wait, self._polls, partial(self._poll, clock, reference, wait.ends_at))

    def watch(
        self,
        references: References,
        *,
        until: Condition,
        deadline: float,
        appear: float = APPEAR,
        interval: float = INTERVAL,
        max_interval: float = MAX_INTERVAL,
        at_once: int = AT_ONCE,
    ) -> AbstractAsyncContextManager[AsyncIterator[Seen]]:
        """
        Poll many transactions, and report each new status, until `until` holds for each.

        Args:
            references: Iterable or async iterable, read lazily.
            until: As in `wait_for`; name every status here that needs no further lookup.
            deadline: Seconds for the whole watch.
            appear: As in `wait_for`, for each reference.
            interval: As in `wait_for`, for each reference.
            max_interval: As in `wait_for`. The limiter stretches it: ten thousand references at fifty
                lookups a second take 200 s a round.
            at_once: Maximum of references watched at a time; the next one is read when one has ended.

        Note:
            A `Change` for the first status of a reference and for each new one; the last has
            `is_last`. `Failed` for a reference that cannot be watched, and, with a
            `WaitDeadlineError`, for each that is still open at the deadline. Memory grows with
            *at_once*. Leaving the block cancels all lookups of the watch.

        Raises:
            PayClientError: From the iteration, once, when every other lookup would fail too.
            WaitDeadlineError: From the iteration, when not all *references* could be watched in time.
            RuntimeError: From the iteration, when the block has ended.
            TypeError: At once, when *references* is a single string.
            ConfigurationError: At once, when an argument is invalid.
        """
        check_references(references)
        terms = Terms(until=until, deadline=deadline, appear=appear, interval=interval, max_interval=max_interval)
        clock = self._session.check_usable()
        return watch(
            partial(self._poll, clock),
            references,
            terms,
            polls=self._polls,
            concurrency=self._session.max_concurrency,
            at_once=check_count("at_once", at_once),
        )

    async def confirm(
        self,
        reference: str,
        *,
        amount: int,
        merchant_reff: str | None = None,
        status: Collection[str],
    ) -> Confirmation:
        """
        Check a claim about a transaction, such as that of a callback.

        Args:
            reference: The service's reference code.
            amount: The expected amount, in the unit of the service.
            merchant_reff: The expected merchant reference; not compared if not given.
            status: The accepted status words of the service, compared exactly.

        Note:
            "Not found" is an answer: the claim is not confirmed.

        Raises:
            PayClientError: When the service could not be asked; then the claim is neither true nor false.
            ConfigurationError: When *status* is not a set of words.
            TypeError: When an argument has another type.
        """
        from payclient._confirm import claim, findings_of, words_of  # noqa: PLC0415  it loads reconciliation

        entry, words = claim(reference, amount=amount, merchant_reff=merchant_reff), words_of(status)
        try:
            transaction = await self.get_transaction(reference)
        except TransactionNotFoundError:
            transaction = None
        return Confirmation(
            reference=reference,
            compared=("amount", "status") if merchant_reff is None else ("merchant_reff", "amount", "status"),
            findings=findings_of(entry, transaction, words),
            transaction=transaction,
        )

    async def _poll(self, clock: Clock, reference: str, until: float) -> Transaction:
        options = self._options
        lookup = Lookup(reference, clock=clock, until=until, budget=None, observers=options.observers, is_poll=True)
        if options.tracing is None:
            return await self._session.look_up(lookup, options)
        with options.tracing() as trace:
            lookup.observe(trace)
            return await self._session.look_up(lookup, options)

"""The methods of the client that ask more than once, or compare: a base class of `AsyncClient`."""

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
    What the service says about a claim.

    Attributes:
        reference: What was asked for.
        compared: The fields that were compared.
        findings: What differs, with the codes of a report; the most severe first.
        transaction: What the service stated; None when it has no such transaction.
    """

    reference: str
    compared: tuple[str, ...]
    findings: tuple[Finding, ...]
    transaction: Transaction | None

    @property
    def is_confirmed(self) -> bool:
        """Whether the service says the same in all that was compared."""
        return self.transaction is not None and not any(finding.is_decisive for finding in self.findings)


class Waits:
    """What waits, watches and confirms; the client sets the attributes."""

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
        Look one transaction up again and again, until its status is one of those.

        All who wait for one reference share its lookups, and their turn comes after that of all other
        lookups. Failures for passing reasons, and pauses that the service asks for, are waited out.

        Args:
            reference: The service's reference code.
            until: Statuses in the service's own words, compared exactly, or a predicate over
                `Transaction`. There is no default, because no status is documented to be final.
            unless: Statuses, or a predicate, from which `until` cannot come any more.
            deadline: Seconds for the whole wait, whatever happens in it.
            appear: Seconds in which "not found" is tolerated: a reference may be newer than the
                service's own copies of its data.
            interval: Seconds between the first two lookups, at most; it grows by half from lookup to
                lookup, and a random fifth is taken off, so that waits do not keep step.
            max_interval: Where the growth ends, in seconds.
            time_zone: What the service's expiry times mean; only with *grace*.
            grace: Seconds after its expiry at which a payment is no longer waited for. Without it an
                expiry ends nothing: an expired payment may still be paid.

        Raises:
            UnreachableStatusError: When `unless` holds.
            WaitDeadlineError: When neither holds after *deadline* seconds.
            StillOpenError: When neither holds *grace* seconds after the expiry.
            TransactionNotFoundError: When there is no such transaction for *appear* seconds.
            PayClientError: When no other lookup could succeed either, such as `AuthenticationError`.
            ConfigurationError: When an argument cannot be used.
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
        Look many transactions up again and again, and tell of each new status, until `until` holds.

        Args:
            references: Iterable or async iterable, read lazily.
            until: As in `wait_for`; name every status here that needs no further lookup.
            deadline: Seconds for the whole watch.
            appear: As in `wait_for`, for each reference.
            interval: As in `wait_for`, for each reference.
            max_interval: As in `wait_for`. The limiter stretches it: ten thousand references at fifty
                lookups a second take 200 s a round.
            at_once: References that are watched at once; the next one is read when one has ended.

        Note:
            A `Change` for the first status of a reference and for each new one; the last has
            `is_last`. `Failed` for a reference that cannot be watched, and, with a
            `WaitDeadlineError`, for each that is still open at the deadline. Memory grows with
            *at_once*. Leaving the block ends every lookup of the watch.

        Raises:
            PayClientError: Out of the iteration, once, when no other lookup could succeed either.
            WaitDeadlineError: Out of the iteration, when there were more *references* than were watched.
            RuntimeError: Out of the iteration, when the block has ended.
            TypeError: At once, when *references* is one string.
            ConfigurationError: At once, when an argument cannot be used.
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
        Ask the service whether a claim about a transaction is true, such as that of a callback.

        Args:
            reference: The service's reference code.
            amount: What you expect, in the unit of the service.
            merchant_reff: What you expect; not compared if not given.
            status: The statuses that will do, in the service's own words, compared exactly.

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

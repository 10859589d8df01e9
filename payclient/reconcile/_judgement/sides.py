"""Internal: the service's answer about a reference, and a statement's lines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from enum import Enum
from functools import partial

from attrs import evolve, frozen

from payclient import errors
from payclient._shared.checks import invalid_option
from payclient.protocol import Found, Outcome, Transaction, check_reference
from payclient.reconcile._judgement.errors import UnknownCanaryError


class Answer(Enum):
    """
    Evidence of an answer.

    Attributes:
        FOUND: There is such a transaction.
        NOT_FOUND: The service does not know it.
        UNASKABLE: The reference is invalid and was not sent, so the ledger row is at fault.
        UNUSABLE: Nothing: the service declined, or a field of its answer about this reference cannot be read.
        FAILED: Nothing. The lookup failed, or the response names no reference, such as a web page.
    """

    FOUND = "found"
    NOT_FOUND = "not found"
    UNASKABLE = "unaskable"
    UNUSABLE = "unusable"
    FAILED = "failed"


@frozen(kw_only=True)
class Observation:
    """
    One answer.

    Attributes:
        answer: Its evidence.
        at: When it arrived, in UTC.
        transaction: The found transaction.
        error: Name of the error class, if no transaction was found.
        message: The error's text.
        status_code: Status of the last attempt. None when it got no response, or was not watched.
        attempts: HTTP exchanges, including earlier passes. 0 when they were not watched.
        reused_from: Name of the earlier run that it is from. Empty for an answer of this run.

    A journal keeps neither `status_code` nor `attempts`.
    """

    answer: Answer
    at: datetime
    transaction: Transaction | None = None
    error: str | None = None
    message: str = ""
    status_code: int | None = None
    attempts: int = 0
    reused_from: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether it is about the transaction."""
        return self.answer not in (Answer.UNUSABLE, Answer.FAILED)

    def differs_from(self, first: Observation) -> bool:
        """
        Return whether the state has changed since the *first* answer.

        "Not found" before a transaction does not show that: it names no reference, so a lookup over a connection that
        was used before asks again by itself, and one over a fresh connection does not.
        """
        is_appeared = first.answer is Answer.NOT_FOUND and self.answer is Answer.FOUND
        return not is_appeared and (self.answer, self.transaction) != (first.answer, first.transaction)


def utc_now() -> datetime:
    return datetime.now(UTC)


def observe(
    seen: Transaction | errors.PayClientError, *, at: datetime, status_code: int | None = None, attempts: int = 0
) -> Observation:
    """Return the observation of a lookup that ended with *seen*. The other arguments are as in `Observation`."""
    observed = partial(Observation, at=at, status_code=status_code, attempts=attempts)
    if isinstance(seen, Transaction):
        return observed(answer=Answer.FOUND, transaction=seen)
    answer = Answer.FAILED
    if isinstance(seen, errors.TransactionNotFoundError):
        answer = Answer.NOT_FOUND
    elif isinstance(seen, errors.InvalidReferenceError):
        answer = Answer.UNASKABLE
    elif isinstance(seen, errors.RejectedError) or getattr(seen, "is_about_reference", False):
        answer = Answer.UNUSABLE
    # Without how long a failed attempt took, which differs from run to run.
    message = seen.message if isinstance(seen, errors.TransportError) else str(seen)
    return observed(answer=answer, error=type(seen).__name__, message=message)


def check_canary(canary: object) -> None:
    try:
        check_reference(canary)
    except errors.InvalidReferenceError as error:
        raise invalid_option("canary", f"must be a reference that is known to exist: {error.message}") from error


async def ask_canary(canary: str, lookups: AbstractAsyncContextManager[AsyncIterator[Outcome]]) -> bool:
    """Return whether the stream of its lookup alone finds *canary*. Raise `UnknownCanaryError` if it does not exist."""
    async with lookups as outcomes:
        async for outcome in outcomes:
            if isinstance(outcome, Found):
                return True
            if isinstance(outcome.error, errors.TransactionNotFoundError):
                message = f"the service does not know the canary {canary!r}: is it the right key and environment?"
                raise UnknownCanaryError(message) from outcome.error
    return False


_MAX_NAMED = 20


def named_lines(lines: Sequence[int]) -> str:
    """Return the numbers of *lines* in words, such as `lines 3, 7 and 12`, or the first of very many."""
    numbers = [str(line) for line in lines[:_MAX_NAMED]]
    if len(lines) > _MAX_NAMED:
        return f"lines {', '.join(numbers)} and {len(lines) - _MAX_NAMED:,} more"
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    return f"lines {', '.join(numbers[:-1])} and {numbers[-1]}"


@frozen(kw_only=True)
class Settled:
    """
    The lines of a statement for one reference, summed.

    Attributes:
        lines: Lines of the statement.
        amount: Money paid, less refunds. None if all lines lack it.
        amount_received: Money paid out for it. None if all lines lack it.
        money: The money paid out or, without it, the money paid. It adds to the total of the statement.
        before: The part that only statements of earlier runs have. None if they do not list it.
        charged: The money paid, before anything was taken back. None if no line charges it, so that its charge may be
            in a statement that no run has read.
        refund_fees: The part withheld from refunds, such as a dispute fee. Usually 0 or less.
        others: Checksums of the lines that charge nothing, to recognise them in a later statement.
    """

    lines: tuple[int, ...]
    amount: int | None = None
    amount_received: int | None = None
    money: int = 0
    before: int | None = None
    charged: int | None = None
    refund_fees: int = 0
    others: tuple[str, ...] = ()

    @property
    def stated(self) -> int | None:
        """The amount or, without it, the amount received. None if all lines lack either."""
        return self.amount_received if self.amount is None else self.amount

    @property
    def where(self) -> str:
        """The lines in words."""
        if not self.lines:
            return "the statement of an earlier run"
        return f"{named_lines(self.lines)} of the statement" + ("" if self.before is None else " and on an earlier one")

    def lowest(self, amount: int) -> int:
        """Return the lowest sum without a loss, for a payment of *amount* that is not paid any more."""
        # An unknown charge is taken as paid in full. Without amounts, the fee was withheld from a known charge.
        if self.charged is None:
            return -abs(amount)
        return 0 if self.amount is not None else min(self.charged - abs(amount), 0)

    def __add__(self, other: Settled) -> Settled:
        money = self.money + other.money
        has_net = (self.amount_received, other.amount_received) != (None, None)
        return Settled(
            lines=self.lines + other.lines,
            amount=_sum(self.amount, other.amount),
            amount_received=money if has_net else None,
            money=money,
            charged=_sum(self.charged, other.charged),
            refund_fees=self.refund_fees + other.refund_fees,
            others=self.others + other.others,
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one + (other or 0)


@frozen(kw_only=True)
class StatementSide:
    """
    The statement's side of a case.

    Attributes:
        settled: Its lines for the reference, summed. None if it does not list it as settled.
        is_in_ledger: Whether the ledger has a usable row with the reference, too.
        was_in_ledger: Whether the ledger of an earlier run had one.
        unusable_line: A line with the reference that cannot be used. None without one.
    """

    settled: Settled | None
    is_in_ledger: bool = True
    was_in_ledger: bool = False
    unusable_line: int | None = None


@frozen(kw_only=True)
class Payout:
    """
    The lines of a statement that belong to one payout.

    Attributes:
        name: As the statement calls it. Empty for lines that name none.
        date: The last day of its lines. Empty if they lack times.
        lines: The number of them.
        gross: Money paid.
        refunds: Money taken back. 0 or less.
        fees: Money withheld from payments, and lines of the kind *fee*. Usually below zero.
        refund_fees: Money withheld from refunds, such as dispute fees. Usually below zero.
        unusable: Money of lines that cannot be used.
        net: Sum of what the lines add to the statement's total.
    """

    name: str = ""
    date: str = ""
    lines: int = 0
    gross: int = 0
    refunds: int = 0
    fees: int = 0
    refund_fees: int = 0
    unusable: int = 0
    net: int = 0

    @property
    def residual(self) -> int:
        """The part of the net that the others do not explain."""
        return self.net - self.gross - self.refunds - self.fees - self.refund_fees - self.unusable

    def __add__(self, other: Payout) -> Payout:
        sums = {name: getattr(self, name) + getattr(other, name) for name in PAYOUT_SUMS}
        return evolve(self, date=max(self.date, other.date), **sums)


PAYOUT_SUMS = ("lines", "gross", "refunds", "fees", "refund_fees", "unusable", "net")


@frozen(kw_only=True)
class StatementTotals:
    """
    A statement as a whole. Only the statement is needed.

    Attributes:
        lines: Lines that were read.
        total: Sum over all its lines of the money paid out or, for a line without it, paid.
        rejected_lines: Lines that cannot be used.
        rejected_amount: Sum of what these state.
        fee_lines: Fees that belong to no payment.
        fee_amount: Sum of these. 0 or less.
        is_net: Whether any line has the amount that was paid out.
        ignored_lines: Lines of kinds that the rules leave out, which are not among the others.
        ignored_amount: Sum of their amounts.
        problems: The first few lines that cannot be used, each with its line and why.
        payouts: Its payouts in their order or, if it names none, one for all of its lines.
    """

    lines: int = 0
    total: int = 0
    rejected_lines: int = 0
    rejected_amount: int = 0
    fee_lines: int = 0
    fee_amount: int = 0
    is_net: bool = False
    ignored_lines: int = 0
    ignored_amount: int = 0
    problems: tuple[str, ...] = ()
    payouts: tuple[Payout, ...] = ()

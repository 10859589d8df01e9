"""What a caller expects of a transaction, without I/O: a claim is compared once, a wait polls until it is true."""

import copy
import math
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeAlias, cast

from attrs import Factory, define, field, frozen

from payclient import errors
from payclient._shared.checks import is_callback, is_number, is_seconds, is_wait, must_be, unfit
from payclient._shared.escape import plural, quote
from payclient.protocol import UNPAID, Returnable, Transaction, missing_amount, text_stated

Condition: TypeAlias = Collection[str] | Callable[[Transaction], object]
"""Status words of the service, compared exactly, or a predicate."""

Result: TypeAlias = Transaction | errors.PayClientError
"""The result of one lookup."""


@define(eq=False)
class LastPoll:
    """The last result of the polls of one reference, for all waits."""

    at: float = -math.inf
    result: Result | None = None


_GROWTH = 1.5
_MIN_PART = 0.8
"""Part of an interval: the jitter draws each wait between this part and the whole."""


def is_condition(_: object, attribute: Any, value: Any) -> None:
    """Refuse anything but status words, or a predicate for a wait. Only `unless` may be empty."""
    is_of_wait, shown = attribute.name != "status", repr(value)
    if callable(value) and is_of_wait:
        is_callback(_, attribute, value)
        return
    is_collection = isinstance(value, Collection) and not isinstance(value, str)
    words = cast("Collection[object]", value) if is_collection else (None,)
    if (not words and attribute.name != "unless") or not all(isinstance(word, str) and word for word in words):
        wanted = f"a set of statuses, such as {{'Paid'}}{', or a predicate' if is_of_wait else ''}"
        raise unfit(attribute.name, wanted, shown)


def _holds(condition: Condition, transaction: Transaction) -> bool:
    return bool(condition(transaction)) if callable(condition) else transaction.status in condition


@define(eq=False, repr=False, kw_only=True)
class Wait:
    """The options and the observations of a wait."""

    reference: str
    until: Condition = field(validator=is_condition)
    unless: Condition = field(validator=is_condition)
    deadline: float = field(validator=is_seconds)
    appear: float = field(validator=is_wait)
    interval: float = field(validator=is_seconds)
    max_interval: float = field(validator=is_seconds)
    began_at: float
    random: Callable[[], float]
    ends_at: float = field(init=False)
    due_at: float = field(default=Factory(lambda self: self.began_at, takes_self=True), init=False)
    taken_at: float = field(init=False)  # the last result
    transaction: Transaction | None = field(init=False, default=None)
    _found_at: float = field(default=Factory(lambda self: self.began_at, takes_self=True), init=False)
    _lookups: int = field(init=False, default=0)
    _statuses: dict[str, float] = field(init=False, factory=dict)
    _failure: errors.PayClientError | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.ends_at = self.began_at + self.deadline
        self.taken_at = self.began_at - self.interval * _MIN_PART  # another wait's result may be this old
        problem = ""
        if not (callable(self.until) or callable(self.unless)) and (both := {*self.until} & {*self.unless}):
            problem = f"until and unless both name {', '.join(sorted(map(repr, both)))}"
        elif self.interval > self.max_interval:
            problem = f"interval must be at most max_interval, got {self.interval:g} and {self.max_interval:g}"
        if problem:
            raise errors.ConfigurationError(problem)

    def take(self, result: Result, now: float) -> Transaction | None:
        """Process the result that a poll had at the time *now*, and return the transaction if `until` is true."""
        self._lookups += 1
        self.taken_at = now
        self.due_at = now + self.interval * (_MIN_PART + (1 - _MIN_PART) * self.random())
        self.interval = min(self.interval * _GROWTH, self.max_interval)
        if isinstance(result, errors.PayClientError):
            self._failure = result
            is_missing = isinstance(result, errors.TransactionNotFoundError) and now - self._found_at < self.appear
            if not (is_missing or result.is_retryable):
                raise copy.copy(result)  # other waits may raise it too, each with its own traceback
            return None
        self.transaction, self._failure, self._found_at = result, None, now
        self._statuses.setdefault(result.status, max(0.0, now - self.began_at))
        if _holds(self.until, result):
            return result
        if _holds(self.unless, result):
            message = f"{quote(self.reference)} is {quote(result.status)}, so the awaited status is out of reach"
            raise errors.UnreachableStatusError(message, **self._seen(now))
        return None

    def exceeded(self, now: float, cut: errors.DeadlineExceededError | None = None) -> errors.WaitDeadlineError:
        """Return the error for a wait that the deadline has ended, and perhaps, with *cut*, a lookup in flight."""
        failure = self._failure
        if cut is not None and (cut.__cause__ or not self._lookups):
            failure = cast("errors.PayClientError", cut.__cause__ or cut)
        saw = f"is {quote(self.transaction.status)}" if self.transaction else "was not seen"
        after = f"{now - self.began_at:.0f} s and {plural(self._lookups, 'lookup')}"
        message = f"{quote(self.reference)} {saw} after {after}"
        words, seen = () if callable(self.until) else sorted(self.until), {word.casefold() for word in self._statuses}
        if any(word.casefold() in seen for word in words):
            message += f": statuses are compared exactly, and until has {', '.join(map(quote, words))}"
        error = errors.WaitDeadlineError(message, **self._seen(now))
        if isinstance(failure, errors.CouldNotAskError):
            message += ", and at the end the service could not be asked"
            error = errors.WaitUnansweredError(message, retry_after=failure.retry_after, **self._seen(now))
        error.__cause__ = failure
        return error

    def _seen(self, now: float) -> dict[str, Any]:
        return {
            "transaction": self.transaction and Transaction.from_json(self.transaction.as_json()),
            "lookups": self._lookups,
            "waited": max(0.0, now - self.began_at),
            "statuses": dict(self._statuses),
        }


@frozen(kw_only=True)
class FieldDifference(Returnable):
    """
    One field of a transaction that is not as expected. Its text is safe to print.

    Attributes:
        field: Its name: `merchant_reff`, `amount`, `status`, `amount_received`, or `reference` if the transaction does
            not exist.
        expected: The expected value. For `status`, the accepted words, sorted.
        found: The value of the service. None if it gives none.
    """

    field: str
    expected: str | int | tuple[str, ...]
    found: str | int | None

    def __str__(self) -> str:
        words = self.expected if isinstance(self.expected, tuple) else (self.expected,)
        return f"{self.field} is {quote(self.found)}, expected {' or '.join(map(quote, words))}"


@frozen(kw_only=True)
class Confirmation(Returnable):
    """
    The result of `AsyncClient.confirm`.

    Attributes:
        reference: The reference that was looked up.
        compared: The fields that were compared.
        differences: The fields that are not as expected. Empty if it is confirmed.
        transaction: The service's transaction. None without one.
    """

    _computed = ("is_confirmed",)

    reference: str
    compared: tuple[str, ...]
    differences: tuple[FieldDifference, ...]
    transaction: Transaction | None

    @property
    def is_confirmed(self) -> bool:
        """Whether all compared fields are equal. Also the truth value of the confirmation."""
        return self.transaction is not None and not self.differences

    def __bool__(self) -> bool:
        return self.is_confirmed


_is_amount = must_be(
    "an integer of 0 or more, in the unit of the service", lambda value: isinstance(value, int) and is_number(value)
)


def _to_stated(given: object) -> str | None:
    """Return a text without surrounding spaces, or None. Refuse an empty one: it would not be compared."""
    if not isinstance(given, str | None):
        raise unfit("merchant_reff", "a string or None", type(given).__name__)
    text = text_stated(given)
    if text is None and given is not None:
        raise unfit("merchant_reff", "a text with a letter or a digit, or None to leave it out", repr(given))
    return text


@frozen(kw_only=True)
class Claim:
    reference: str
    amount: int = field(validator=_is_amount)
    merchant_reff: str | None = field(converter=_to_stated)  # None: not compared
    status: Collection[str] = field(validator=is_condition)

    def against(self, found: Transaction | None) -> Confirmation:
        """Compare the claim with the service's transaction. None without one."""
        return Confirmation(
            reference=self.reference,
            compared=("amount", "status") if self.merchant_reff is None else ("merchant_reff", "amount", "status"),
            differences=tuple(self._differences(found)),
            transaction=found,
        )

    def _differences(self, found: Transaction | None) -> Iterator[FieldDifference]:
        if found is None:
            yield FieldDifference(field="reference", expected=self.reference, found=None)
            return
        if self.merchant_reff is not None and self.merchant_reff != text_stated(found.merchant_reff):
            yield FieldDifference(field="merchant_reff", expected=self.merchant_reff, found=found.merchant_reff)
        if found.amount != self.amount:
            yield FieldDifference(field="amount", expected=self.amount, found=found.amount)
        if found.status not in self.status:
            yield FieldDifference(field="status", expected=tuple(sorted(self.status)), found=found.status)
        elif found.status.strip().casefold() not in UNPAID and (
            less := missing_amount(found.amount, found.fee, found.amount_received)
        ):
            due = less + (found.amount_received or 0)
            yield FieldDifference(field="amount_received", expected=due, found=found.amount_received)

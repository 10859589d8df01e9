"""Compare one transaction with what a caller was told of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from attrs import frozen

from payclient._escape import quote
from payclient._transaction import Transaction
from payclient.errors import ConfigurationError

_PAID = "paid"
"""The status, in lower case, with which the service says that the money has come."""


@frozen(kw_only=True)
class FieldDifference:
    """
    One field of a transaction that is not as expected; its text is safe to print.

    Attributes:
        field: Its name: `merchant_reff`, `amount`, `status`, `amount_received`, or `reference` when there is no such
            transaction.
        expected: The value that would have done; for `status` all words that would have, sorted.
        found: What the service states; None if it states nothing.
    """

    field: str
    expected: str | int | tuple[str, ...]
    found: str | int | None

    def __str__(self) -> str:
        words = self.expected if isinstance(self.expected, tuple) else (self.expected,)
        return f"{self.field} is {quote(self.found)}, expected {' or '.join(map(quote, words))}"


@frozen(kw_only=True)
class Confirmation:
    """
    The result of `AsyncClient.confirm`.

    Attributes:
        reference: The reference that was looked up.
        compared: The fields that were compared.
        differences: The fields that are not as expected; empty if it is confirmed.
        transaction: The service's transaction; None if it has none.
    """

    reference: str
    compared: tuple[str, ...]
    differences: tuple[FieldDifference, ...]
    transaction: Transaction | None

    @property
    def is_confirmed(self) -> bool:
        """Whether all compared fields are equal; also what the confirmation itself is in an `if`."""
        return self.transaction is not None and not self.differences

    def __bool__(self) -> bool:
        return self.is_confirmed


@frozen(kw_only=True)
class Claim:
    """
    What a caller was told of a transaction; made by `claim`.

    Attributes:
        merchant_reff: None if it is not compared.
        status: The words that will do.
    """

    reference: str
    amount: int
    merchant_reff: str | None
    status: frozenset[str]

    def against(self, transaction: Transaction | None) -> Confirmation:
        """Return what the service's *transaction*, or None if it has none, says about the claim."""
        return Confirmation(
            reference=self.reference,
            compared=("amount", "status") if self.merchant_reff is None else ("merchant_reff", "amount", "status"),
            differences=self._differences(transaction),
            transaction=transaction,
        )

    def _differences(self, found: Transaction | None) -> tuple[FieldDifference, ...]:
        if found is None:
            return (FieldDifference(field="reference", expected=self.reference, found=None),)
        differences: list[FieldDifference] = []
        if self.merchant_reff is not None and self.merchant_reff != _stated(found.merchant_reff):
            differences.append(
                FieldDifference(field="merchant_reff", expected=self.merchant_reff, found=found.merchant_reff)
            )
        if found.amount != self.amount:
            differences.append(FieldDifference(field="amount", expected=self.amount, found=found.amount))
        if found.status not in self.status:
            differences.append(FieldDifference(field="status", expected=tuple(sorted(self.status)), found=found.status))
        elif (due := _not_received(found)) is not None:
            differences.append(FieldDifference(field="amount_received", expected=due, found=found.amount_received))
        return tuple(differences)


def claim(reference: str, *, amount: int, merchant_reff: str | None, status: object) -> Claim:
    """
    Return what a caller was told, checked.

    Raises:
        ConfigurationError: When *amount* or *merchant_reff* is no value that the service could have, or *status* is no
            set with a word in it.
    """
    if isinstance(amount, bool) or not isinstance(cast("object", amount), int) or amount < 0:
        message = f"amount must be an integer of 0 or more, in the unit of the service, got {amount!r}"
        raise ConfigurationError(message)
    if not isinstance(cast("object", merchant_reff), str | None):
        message = f"merchant_reff must be a string or None, got {type(merchant_reff).__name__}"
        raise ConfigurationError(message)
    words: frozenset[object] = (
        frozenset(cast("Iterable[object]", status)) if isinstance(status, Iterable) else frozenset()
    )
    if not words or isinstance(status, str) or not all(isinstance(word, str) and word for word in words):
        message = f"status must be a set of statuses, such as {{'Paid'}}, got {status!r}"
        raise ConfigurationError(message)
    return Claim(
        reference=reference,
        amount=amount,
        merchant_reff=_stated(merchant_reff),
        status=cast("frozenset[str]", words),
    )


def _stated(text: str | None) -> str | None:
    """Return *text* without surrounding spaces; None where it is empty or a dash, and so states nothing."""
    text = (text or "").strip()
    return text if any(map(str.isalnum, text)) else None


def _not_received(found: Transaction) -> int | None:
    """Return what should have come of a payment, if the service itself states that less did; otherwise None."""
    received, due = found.amount_received, found.amount - (found.fee or 0)
    if received is None or received >= due or found.status.strip().casefold() != _PAID:
        return None
    # Without a known fee, only a payment of nothing is certainly too little.
    return due if found.fee is not None or received <= 0 < due else None

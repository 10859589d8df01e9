"""Compare one transaction with a claim about it."""

from collections.abc import Collection, Iterator

from attrs import field, frozen

from payclient._shared.checks import must_be, unfit
from payclient._shared.escape import quote
from payclient.client._wait import is_condition
from payclient.protocol import UNPAID, Returnable, Transaction, missing_amount, text_stated


@frozen(kw_only=True)
class FieldDifference(Returnable):
    """
    One field of a transaction that is not as expected; its text is safe to print.

    Attributes:
        field: Its name: `merchant_reff`, `amount`, `status`, `amount_received`, or `reference` when there is no such
            transaction.
        expected: The expected value; for `status`, the accepted words, sorted.
        found: The value of the service; None if it gives none.
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
        differences: The fields that are not as expected; empty if it is confirmed.
        transaction: The service's transaction; None without one.
    """

    _computed = ("is_confirmed",)

    reference: str
    compared: tuple[str, ...]
    differences: tuple[FieldDifference, ...]
    transaction: Transaction | None

    @property
    def is_confirmed(self) -> bool:
        """Whether all compared fields are equal; also the truth value of the confirmation."""
        return self.transaction is not None and not self.differences

    def __bool__(self) -> bool:
        return self.is_confirmed


_is_amount = must_be(
    "an integer of 0 or more, in the unit of the service",
    lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
)


def _to_stated(given: object) -> str | None:
    """Return a text without surrounding spaces, or None; refuse one that says nothing, and so would not be compared."""
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
        """Compare the claim with the service's transaction; None without one."""
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
        elif found.status.strip().casefold() not in UNPAID and (less := _missing(found)):
            due = less + (found.amount_received or 0)
            yield FieldDifference(field="amount_received", expected=due, found=found.amount_received)


def _missing(found: Transaction) -> int:
    return missing_amount(found.amount, found.fee, found.amount_received)

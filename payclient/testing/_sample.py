"""Sample transactions: the ten documented fields, with values of the documented types."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, TypedDict, Unpack

REFERENCE = "T0000000001FAKE"
"""The default reference."""


class Fields(TypedDict, total=False):
    """
    The fields of a sample transaction, with the service's own names.

    Source:
        Transaction detail specification, part 2.
    """

    reference: str
    merchant_reff: str
    payment_method: str
    payment_name: str
    amount: int
    fee: int
    amount_received: int
    payment_code: str
    expdate: str
    status: str


FIELDS = tuple(Fields.__annotations__)
"""The ten names, in the order of the specification."""


def transaction(**fields: Unpack[Fields]) -> dict[str, Any]:
    """
    Return the `data` object of an answer.

    Args:
        fields: Fields that matter to the test. The others have defaults: `status` is `Canceled`, the
            only word in the specification, and `amount_received` is amount minus fee, never negative.

    Raises:
        TypeError: When a field is not one of the ten.
    """
    if unknown := sorted(fields.keys() - Fields.__annotations__.keys()):
        message = f"a transaction has no field {', '.join(unknown)}; it has {', '.join(FIELDS)}"
        raise TypeError(message)
    reference = fields.get("reference", REFERENCE)
    amount = fields.get("amount", 15000)
    _check_int("amount", amount)
    fee = fields.get("fee", max(0, min(2500, amount)))
    _check_int("fee", fee)
    return {
        "reference": reference,
        "merchant_reff": f"INV-{reference}",
        "payment_method": "VA",
        "payment_name": "Virtual Account",
        "amount": amount,
        "fee": fee,
        "amount_received": max(0, amount - fee),
        "payment_code": "8800000000000001",
        "expdate": "2030-01-31 23:59:59",
        "status": "Canceled",
        **fields,
    }


class Becoming:
    """
    The statuses that a transaction has later.

    Args:
        steps: Seconds from the first request, and the status from then on.
        advanced: Seconds that had been added to the service's clock before.

    Raises:
        TypeError: When a step is something else.
    """

    def __init__(self, steps: Iterable[object], advanced: float = 0.0) -> None:
        self._advanced = advanced
        self._steps: deque[tuple[float, str]] = deque()
        self._began_at: float | None = None
        for step in steps:
            match step:
                case [int() | float() as seconds, str() as status]:
                    self._steps.append((seconds, status))
                case _:
                    message = f"becomes must be pairs such as (30, 'Paid'), got {step!r}"
                    raise TypeError(message)

    def change(self, stored: dict[str, Any], now: float, advanced: float) -> None:
        """Give a transaction the status that it has *now*, when so much was added to the service's clock."""
        if self._began_at is None:
            self._began_at = now
        while self._steps and self._steps[0][0] <= now - self._began_at + advanced - self._advanced:
            stored["status"] = self._steps.popleft()[1]


def _check_int(name: str, given: object) -> None:
    if not isinstance(given, int):
        message = f"{name} must be an int, got {given!r}"
        raise TypeError(message)


def envelope(**fields: object) -> dict[str, Any]:
    """
    Return a complete answer: `success` true, and `data` with the ten fields.

    Args:
        fields: Replace the defaults. Values of other types and undocumented fields are allowed, to
            simulate malformed answers.

    Source:
        Transaction detail specification, part 4, rule 1.
    """
    data = {**transaction(reference=str(fields.get("reference", REFERENCE))), **fields}
    amount, fee = data["amount"], data["fee"]
    if "amount_received" not in fields and type(amount) is int and type(fee) is int:
        data["amount_received"] = max(0, amount - fee)
    return {"success": True, "data": data}

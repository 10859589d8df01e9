"""Relations between the fields of one transaction, which are remembered while they hold in every answer."""

from __future__ import annotations

from datetime import date

from payclient.protocol import Transaction

_OPTIONAL = ("merchant_reff", "payment_method", "payment_name", "fee", "amount_received", "payment_code", "expdate")
RELATIONS = (
    "amount = fee + amount_received",
    "amount = amount_received",
    "amount = fee",
    "amount > 0",
    "amount_received > 0",
    "amount_received = 0",
    "amount_received ≤ amount",
    "fee ≥ 0",
    "fee = 0",
    "fee ≤ amount",
    "fee ≤ amount_received",
    "expdate lies ahead",
    "expdate has passed",
    "expdate is within 2 days",
    "expdate is within 40 days",
    "payment_code is of digits",
    "reference is of digits",
    "merchant_reff = reference",
    "merchant_reff ≠ reference",
    *(f"{name} is given" for name in _OPTIONAL),
)
"""Each is asked of all answers, and of those of each state."""

_NEEDED = tuple(
    frozenset() if " is given" in relation else frozenset(_OPTIONAL).intersection(relation.split())
    for relation in RELATIONS
)
_ALL_GIVEN = (True,) * len(_OPTIONAL)
_EPOCH = date(1970, 1, 1).toordinal()


def relations_of(transaction: Transaction, today: int) -> tuple[bool | None, ...]:
    """Return for each relation whether it holds, and None where a field is missing; *today* is in days since 1970."""
    amount, expdate = transaction.amount, transaction.expdate
    fee, received = transaction.fee or 0, transaction.amount_received or 0
    days = 0 if expdate is None else expdate.toordinal() - today - _EPOCH
    is_same = transaction.merchant_reff == transaction.reference
    truth = (
        amount == fee + received,
        amount == received,
        amount == fee,
        amount > 0,
        received > 0,
        received == 0,
        received <= amount,
        fee >= 0,
        fee == 0,
        fee <= amount,
        fee <= received,
        days >= 0,
        days <= 0,
        days <= 2,
        days <= 40,
        (transaction.payment_code or "").isdigit(),
        transaction.reference.isdigit(),
        is_same,
        not is_same,
    )
    if not transaction.deviations:
        return truth + _ALL_GIVEN
    missing = {name for name in _OPTIONAL if getattr(transaction, name) in (None, "")}
    given = tuple(name not in missing for name in _OPTIONAL)
    return tuple(None if needed & missing else holds for needed, holds in zip(_NEEDED, truth + given, strict=True))

"""A ledger, a service to go with it, and what reconciling them must find, because it was planted there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from random import Random
from types import MappingProxyType
from typing import Any, TypeAlias

from attrs import frozen

from payclient.ledger._entry import COMPARED
from payclient.reconcile import Bucket, Code, Row, Severity

COLUMNS: tuple[str, ...] = ("reference", *COMPARED)
_METHODS = (("VA", "Virtual Account"), ("QR", "QR Code"), ("STORE", "Convenience Store"))
_PASSED, _AHEAD = "2020-01-31 23:59:59", "2099-12-31 23:59:59"
_ROWS_PER_PLANT = 1000

Fields: TypeAlias = Mapping[str, Any]
"""The fields of one transaction, as one side has them."""

_SAME: Fields = MappingProxyType({})


@frozen
class Verdict:
    """What is said of one row: its bucket, and each finding with its severity."""

    bucket: Bucket
    findings: frozenset[tuple[Code, Severity]] = frozenset()


@frozen(kw_only=True)
class Plantation:
    """
    Two sides, and how they differ.

    Attributes:
        ledger: Rows under the names of `COLUMNS`.
        transactions: What the service knows, each with the ten fields.
        expected: What must be said of each ledger row, in their order.
    """

    ledger: tuple[Fields, ...]
    transactions: tuple[Fields, ...]
    expected: tuple[Verdict, ...]


@frozen
class _Plant:
    """
    One kind of row.

    Attributes:
        verdict: What must be said of it.
        ledger: What the ledger says instead; a function gets what it would have said.
        service: What the service says instead; None when it knows no such transaction.
    """

    verdict: Verdict
    ledger: Fields = _SAME
    service: Fields | None = _SAME


def _break(*findings: tuple[Code, Severity]) -> Verdict:
    return Verdict(Bucket.BREAK, frozenset(findings))


def _matched(*findings: tuple[Code, Severity]) -> Verdict:
    return Verdict(Bucket.MATCHED, frozenset(findings))


def _plus(number: int) -> Callable[[int], int]:
    return lambda value: value + number


def _and(text: str) -> Callable[[str], str]:
    return lambda value: value + text


def _both(verdict: Verdict, **fields: Any) -> _Plant:
    return _Plant(verdict, fields, fields)


_PLAIN = _Plant(_matched())
_PLANTS = (
    _Plant(_break((Code.MISSING_AT_SERVICE, Severity.HIGH)), service=None),
    _Plant(_break((Code.MERCHANT_REFF_DIFFERS, Severity.CRITICAL)), service={"merchant_reff": _and("-B")}),
    _Plant(_break((Code.MERCHANT_REFF_DIFFERS, Severity.MEDIUM)), ledger={"merchant_reff": str.lower}),
    _Plant(_break((Code.METHOD_DIFFERS, Severity.MEDIUM)), service={"payment_method": "CARD", "payment_name": "Card"}),
    _Plant(_break((Code.PAYMENT_CODE_DIFFERS, Severity.MEDIUM)), ledger={"payment_code": _and("9")}),
    _Plant(
        _break((Code.UNDERPAID, Severity.HIGH), (Code.NET_DIFFERS, Severity.HIGH)),
        service={"amount": _plus(-1000), "amount_received": _plus(-1000)},
    ),
    _Plant(
        _break((Code.OVERPAID, Severity.HIGH), (Code.NET_DIFFERS, Severity.HIGH)),
        service={"amount": _plus(1000), "amount_received": _plus(1000)},
    ),
    _Plant(
        _break((Code.FEE_DIFFERS, Severity.MEDIUM), (Code.NET_DIFFERS, Severity.HIGH)),
        service={"fee": _plus(500), "amount_received": _plus(-500)},
    ),
    _Plant(_break((Code.NET_DIFFERS, Severity.HIGH)), ledger={"amount_received": _plus(100)}),
    _Plant(_break((Code.PAID_NOT_RECORDED, Severity.CRITICAL)), ledger={"status": "Pending"}),
    _Plant(_break((Code.RECORDED_NOT_PAID, Severity.CRITICAL)), service={"status": "Expired"}),
    _Plant(_break((Code.LATE_PAYMENT, Severity.CRITICAL)), ledger={"status": "Expired"}),
    _Plant(
        _break((Code.CLOSED_DIFFERENTLY, Severity.LOW)), ledger={"status": "Expired"}, service={"status": "Canceled"}
    ),
    _Plant(_break((Code.UNKNOWN_STATUS, Severity.MEDIUM)), service={"status": "Settled"}),
    _Plant(_break((Code.EXPIRY_DIFFERS, Severity.LOW)), ledger={"expdate": _AHEAD}),
    _both(_break((Code.STALE_PENDING, Severity.MEDIUM)), status="Pending", expdate=_PASSED),
    _both(_matched((Code.SERVICE_ARITHMETIC, Severity.LOW)), amount_received=_plus(-1)),
    # A number where a text is documented; the ledger, being text, has the same digits.
    _Plant(_matched((Code.TOLERATED_DEVIATION, Severity.INFO)), service={"payment_code": int}),
    _both(Verdict(Bucket.OPEN), status="Pending", expdate=_AHEAD),
    _both(_matched(), status="Canceled"),
    _Plant(Verdict(Bucket.REJECTED), ledger={"amount": "1.5E+07"}),
)
_REPEATED = _break((Code.DUPLICATE_REFERENCE, Severity.HIGH))
_PAID_TWICE = _break((Code.PAID_TWICE, Severity.CRITICAL))

FEWEST_ROWS = len(_PLANTS) + 4
"""Room for one plant of each kind; two kinds take two rows."""


@frozen
class _Grown:
    """One row of the ledger, the transaction that comes with it, and what must be said of it."""

    ledger: Fields
    transaction: Fields | None
    verdict: Verdict


def plant(rows: int, *, seed: int) -> Plantation:
    """
    Return a ledger of so many rows, most of which match; the same seed gives the same one.

    Raises:
        ValueError: When there is no room for one plant of each kind.
    """
    if rows < FEWEST_ROWS:
        message = f"rows must be at least {FEWEST_ROWS}, got {rows}"
        raise ValueError(message)
    random = Random(seed)  # noqa: S311  made-up data, not a secret
    soil = _agreed(random)
    per_kind = max(1, rows // _ROWS_PER_PLANT)
    grown = [_grow(kind, next(soil)) for kind in _PLANTS * per_kind]
    for _ in range(per_kind):
        grown += [*_repeated(next(soil)), *_paid_twice(next(soil), next(soil))]
    grown += [_grow(_PLAIN, next(soil)) for _ in range(rows - len(grown))]
    random.shuffle(grown)
    return Plantation(
        ledger=tuple(one.ledger for one in grown),
        transactions=tuple(one.transaction for one in grown if one.transaction is not None),
        expected=tuple(one.verdict for one in grown),
    )


def verdict_of(row: Row) -> Verdict:
    """Return what reconciliation said of *row*, in the form in which it was planted."""
    return Verdict(row.bucket, frozenset((finding.code, finding.severity) for finding in row.findings))


def _agreed(random: Random) -> Iterator[Fields]:
    """Yield transactions that both sides see alike."""
    for number in count(1):
        amount, fee = random.randrange(10, 5000) * 1000, random.randrange(1, 10) * 500
        method, name = random.choice(_METHODS)
        yield {
            "reference": f"T{number:010d}DEMO",
            "merchant_reff": f"INV-{number:06d}",
            "payment_method": method,
            "payment_name": name,
            "amount": amount,
            "fee": fee,
            "amount_received": amount - fee,
            "payment_code": f"88{random.randrange(10**14):014d}",
            "expdate": f"2026-{random.randrange(1, 13):02d}-{random.randrange(1, 29):02d} 23:59:59",
            "status": "Paid",
        }


def _grow(kind: _Plant, fields: Fields) -> _Grown:
    transaction = None if kind.service is None else _changed(fields, kind.service)
    return _Grown(_changed(fields, kind.ledger), transaction, kind.verdict)


def _changed(fields: Fields, changes: Fields) -> Fields:
    new = {name: change(fields[name]) if callable(change) else change for name, change in changes.items()}
    return {**fields, **new}


def _repeated(fields: Fields) -> tuple[_Grown, _Grown]:
    return _Grown(fields, fields, _REPEATED), _Grown(fields, None, _REPEATED)


def _paid_twice(first: Fields, second: Fields) -> tuple[_Grown, _Grown]:
    second = {**second, "merchant_reff": first["merchant_reff"]}
    return _Grown(first, first, _PAID_TWICE), _Grown(second, second, _PAID_TWICE)

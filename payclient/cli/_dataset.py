"""A seeded dataset: a ledger, the transactions of the service, and the discrepancies planted between them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, TypeAlias

from attrs import frozen

from payclient.ledger import COMPARED
from payclient.reconcile import Bucket, Code, Row, Severity

COLUMNS: tuple[str, ...] = ("reference", *COMPARED)
_METHODS = (("VA", "Virtual Account"), ("QR", "QR Code"), ("STORE", "Convenience Store"))
_PASSED, _AHEAD = "2020-01-31 23:59:59", "2099-12-31 23:59:59"
_ROWS_PER_KIND = 1000

Fields: TypeAlias = Mapping[str, Any]
"""The fields of one transaction, as one side has them."""

_SAME: Fields = MappingProxyType({})


@frozen
class Expected:
    """The expected result for one row: its bucket, and each finding with its severity."""

    bucket: Bucket
    findings: frozenset[tuple[Code, Severity]] = frozenset()


@frozen(kw_only=True)
class Dataset:
    """Both sides, and the expected result of each ledger row, in the order of the ledger."""

    ledger: tuple[Fields, ...]
    transactions: tuple[Fields, ...]
    expected: tuple[Expected, ...]


@frozen
class _Kind:
    """One kind of row: the discrepancy to plant, and its expected result."""

    # Fields to change; a function gets the original value. `service` is None where it has no such transaction.

    expected: Expected
    ledger: Fields = _SAME
    service: Fields | None = _SAME


def _break(*findings: tuple[Code, Severity]) -> Expected:
    return Expected(Bucket.BREAK, frozenset(findings))


def _matched(*findings: tuple[Code, Severity]) -> Expected:
    return Expected(Bucket.MATCHED, frozenset(findings))


def plus(more: Any) -> Callable[[Any], Any]:
    """Return what adds *more* to an amount or a text."""
    return lambda value: value + more


def _both(expected: Expected, **fields: Any) -> _Kind:
    return _Kind(expected, fields, fields)


_PLAIN = _Kind(_matched())
_KINDS = (
    _Kind(_break((Code.MISSING_AT_SERVICE, Severity.HIGH)), service=None),
    _Kind(_break((Code.MERCHANT_REFF_DIFFERS, Severity.CRITICAL)), service={"merchant_reff": plus("-B")}),
    _Kind(_break((Code.MERCHANT_REFF_DIFFERS, Severity.MEDIUM)), ledger={"merchant_reff": str.lower}),
    _Kind(_break((Code.METHOD_DIFFERS, Severity.MEDIUM)), service={"payment_method": "CARD", "payment_name": "Card"}),
    _Kind(_break((Code.PAYMENT_CODE_DIFFERS, Severity.MEDIUM)), ledger={"payment_code": plus("9")}),
    _Kind(
        _break((Code.UNDERPAID, Severity.HIGH), (Code.NET_DIFFERS, Severity.HIGH)),
        service={"amount": plus(-1000), "amount_received": plus(-1000)},
    ),
    _Kind(
        _break((Code.OVERPAID, Severity.HIGH), (Code.NET_DIFFERS, Severity.HIGH)),
        service={"amount": plus(1000), "amount_received": plus(1000)},
    ),
    _Kind(
        _break((Code.FEE_DIFFERS, Severity.MEDIUM), (Code.NET_DIFFERS, Severity.HIGH)),
        service={"fee": plus(500), "amount_received": plus(-500)},
    ),
    _Kind(_break((Code.NET_DIFFERS, Severity.HIGH)), ledger={"amount_received": plus(100)}),
    _both(_break((Code.SHORT_RECEIVED, Severity.HIGH)), amount_received=0),
    _Kind(_break((Code.PAID_NOT_RECORDED, Severity.CRITICAL)), ledger={"status": "Pending"}),
    _Kind(_break((Code.RECORDED_NOT_PAID, Severity.CRITICAL)), service={"status": "Expired"}),
    _Kind(_break((Code.LATE_PAYMENT, Severity.CRITICAL)), ledger={"status": "Expired"}),
    _Kind(_break((Code.REFUND_NOT_RECORDED, Severity.CRITICAL)), service={"status": "Refunded"}),
    _Kind(_break((Code.REFUND_NOT_MADE, Severity.CRITICAL)), ledger={"status": "Refunded"}),
    _Kind(
        _break((Code.CLOSED_DIFFERENTLY, Severity.LOW)),
        ledger={"status": "Expired"},
        service={"status": "Canceled"},
    ),
    _Kind(_break((Code.UNKNOWN_STATUS, Severity.MEDIUM)), service={"status": "Settled"}),
    _Kind(_break((Code.EXPIRY_DIFFERS, Severity.LOW)), ledger={"expdate": _AHEAD}),
    _Kind(
        _break((Code.PENDING_ON_ONE_SIDE, Severity.MEDIUM)),
        ledger={"status": "Pending", "expdate": _AHEAD},
        service={"status": "Canceled", "expdate": _AHEAD},
    ),
    _both(_break((Code.STALE_PENDING, Severity.MEDIUM)), status="Pending", expdate=_PASSED),
    _both(_matched((Code.SERVICE_ARITHMETIC, Severity.LOW)), amount_received=plus(1)),
    _Kind(_matched((Code.NOT_COMPARED, Severity.INFO)), ledger={"merchant_reff": ""}),
    # A number where a text is documented; the ledger, being text, has the same digits.
    _Kind(_matched((Code.TOLERATED_DEVIATION, Severity.INFO)), service={"payment_code": int}),
    _both(Expected(Bucket.OPEN), status="Pending", expdate=_AHEAD),
    _both(_matched(), status="Canceled"),
    _Kind(Expected(Bucket.REJECTED), ledger={"amount": "1.5E+07"}),
)
_REPEATED = _break((Code.DUPLICATE_REFERENCE, Severity.HIGH))
_PAID_TWICE = _break((Code.PAID_TWICE, Severity.CRITICAL))

MIN_ROWS = len(_KINDS) + 4
"""Room for one discrepancy of each kind; two kinds take two rows."""


_Generated: TypeAlias = tuple[Fields, Fields | None, Expected]
"""One ledger row, its transaction at the service, and the expected result."""


def generate(rows: int, *, seed: int) -> Dataset:
    """Return a dataset with *rows* ledger rows, most of which match. The same seed gives the same dataset."""
    if rows < MIN_ROWS:
        message = f"rows must be at least {MIN_ROWS}, got {rows}"
        raise ValueError(message)
    random = Random(seed)  # noqa: S311  made-up data, not a secret
    agreed = agreed_transactions(random)
    per_kind = max(1, rows // _ROWS_PER_KIND)
    generated: list[_Generated] = [_apply(kind, next(agreed)) for kind in _KINDS * per_kind]
    for _ in range(per_kind):
        repeated, first, second = next(agreed), next(agreed), next(agreed)
        second = {**second, "merchant_reff": first["merchant_reff"]}
        generated += [(repeated, repeated, _REPEATED), (repeated, None, _REPEATED)]
        generated += [(each, each, _PAID_TWICE) for each in (first, second)]
    generated += [_apply(_PLAIN, next(agreed)) for _ in range(rows - len(generated))]
    random.shuffle(generated)
    ledger, transactions, expected = zip(*generated, strict=True)
    return Dataset(ledger=ledger, transactions=tuple(filter(None, transactions)), expected=expected)


def write_ledger(rows: Iterable[Fields], path: Path, columns: Sequence[str] = COLUMNS) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def as_expected(row: Row) -> Expected:
    """Return the result that reconciliation gave *row*, for comparison with the expected one."""
    return Expected(row.bucket, frozenset((finding.code, finding.severity) for finding in row.findings))


def agreed_transactions(random: Random) -> Iterator[Fields]:
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


def _apply(kind: _Kind, fields: Fields) -> _Generated:
    transaction = None if kind.service is None else changed(fields, kind.service)
    return changed(fields, kind.ledger), transaction, kind.expected


def changed(fields: Fields, changes: Fields) -> Fields:
    """Return *fields* with *changes*; a function in them gets the original value."""
    new = {name: change(fields[name]) if callable(change) else change for name, change in changes.items()}
    return {**fields, **new}

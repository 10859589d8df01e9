"""A seeded dataset with every kind of discrepancy: a ledger, the service's transactions, and the expected findings."""

from collections.abc import Callable, Mapping
from itertools import count, repeat
from random import Random
from types import MappingProxyType
from typing import Any, TypeAlias

from attrs import frozen

from payclient.cli._demo import agreed
from payclient.reconcile import Bucket, Code, Row, Severity
from payclient.reconcile.ledger import COMPARED

COLUMNS: tuple[str, ...] = ("reference", *COMPARED)
_PASSED, _AHEAD = "2020-01-31 23:59:59", "2099-12-31 23:59:59"
_ROWS_PER_KIND = 1000

Fields: TypeAlias = Mapping[str, Any]
"""The fields of one transaction on one side."""

_SAME: Fields = MappingProxyType({})


@frozen
class Expected:
    bucket: Bucket
    findings: frozenset[tuple[Code, Severity]] = frozenset()


@frozen(kw_only=True)
class Dataset:
    """Both sides, and the expected result of each ledger row, in the order of the ledger."""

    ledger: tuple[Fields, ...]
    transactions: tuple[Fields, ...]
    expected: tuple[Expected, ...]


_Kind: TypeAlias = tuple[Expected, Fields, Fields | None]
"""The expected result, and what changes in the ledger and at the service, which may lack the transaction."""


def plus(more: Any) -> Callable[[Any], Any]:
    """Return a function that adds *more* to an amount or a text."""
    return lambda value: value + more


def _expected(*codes: Code, bucket: Bucket = Bucket.BREAK, severity: Severity | None = None) -> Expected:
    return Expected(bucket, frozenset((code, severity or code.severity) for code in codes))


def _break(
    *codes: Code, severity: Severity | None = None, ledger: Fields = _SAME, service: Fields | None = _SAME
) -> _Kind:
    return _expected(*codes, severity=severity), ledger, service


def _both(fields: Fields, *codes: Code, bucket: Bucket = Bucket.BREAK) -> _Kind:
    return _expected(*codes, bucket=bucket), fields, fields


_LESS, _MORE = ({name: plus(change) for name in ("amount", "amount_received")} for change in (-1000, 1000))
_PLAIN = _both({}, bucket=Bucket.MATCHED)
_KINDS: tuple[_Kind, ...] = (
    _break(Code.MISSING_AT_SERVICE, service=None),
    _break(Code.MERCHANT_REFF_DIFFERS, service={"merchant_reff": plus("-B")}),
    _break(Code.MERCHANT_REFF_DIFFERS, severity=Severity.MEDIUM, ledger={"merchant_reff": str.lower}),
    _break(Code.METHOD_DIFFERS, service={"payment_method": "CARD", "payment_name": "Card"}),
    _break(Code.PAYMENT_CODE_DIFFERS, ledger={"payment_code": plus("9")}),
    _break(Code.UNDERPAID, Code.NET_DIFFERS, service=_LESS),
    _break(Code.OVERPAID, Code.NET_DIFFERS, service=_MORE),
    _break(Code.FEE_DIFFERS, Code.NET_DIFFERS, service={"fee": plus(500), "amount_received": plus(-500)}),
    _break(Code.NET_DIFFERS, ledger={"amount_received": plus(100)}),
    _both({"amount_received": 0}, Code.SHORT_RECEIVED),
    _break(Code.PAID_NOT_RECORDED, ledger={"status": "Pending"}),
    _break(Code.RECORDED_NOT_PAID, service={"status": "Expired"}),
    _break(Code.LATE_PAYMENT, ledger={"status": "Expired"}),
    _break(Code.REFUND_NOT_RECORDED, service={"status": "Refunded"}),
    _break(Code.REFUND_NOT_MADE, ledger={"status": "Refunded"}),
    _break(Code.CLOSED_DIFFERENTLY, ledger={"status": "Expired"}, service={"status": "Canceled"}),
    _break(Code.UNKNOWN_STATUS, service={"status": "Settled"}),
    _break(Code.EXPIRY_DIFFERS, ledger={"expdate": _AHEAD}),
    _break(
        Code.PENDING_ON_ONE_SIDE,
        ledger={"status": "Pending", "expdate": _AHEAD},
        service={"status": "Canceled", "expdate": _AHEAD},
    ),
    _both({"status": "Pending", "expdate": _PASSED}, Code.STALE_PENDING),
    _both({"amount_received": plus(1)}, Code.SERVICE_ARITHMETIC, bucket=Bucket.MATCHED),
    (_expected(Code.NOT_COMPARED, bucket=Bucket.MATCHED), {"merchant_reff": ""}, _SAME),
    # A number where a text is documented; the ledger, being text, has the same digits.
    (_expected(Code.TOLERATED_DEVIATION, bucket=Bucket.MATCHED), _SAME, {"payment_code": int}),
    _both({"status": "Pending", "expdate": _AHEAD}, bucket=Bucket.OPEN),
    _both({"status": "Canceled"}, bucket=Bucket.MATCHED),
    (Expected(Bucket.REJECTED), {"amount": "1.5E+07"}, _SAME),
)
_REPEATED, _PAID_TWICE = _expected(Code.DUPLICATE_REFERENCE), _expected(Code.PAID_TWICE)

MIN_ROWS = len(_KINDS) + 4
"""Room for one discrepancy of each kind; two kinds take two rows."""


def generate(rows: int, *, seed: int) -> Dataset:
    """Return a dataset with *rows* ledger rows, most of which match. The same seed gives the same dataset."""
    if rows < MIN_ROWS:
        message = f"rows must be at least {MIN_ROWS}, got {rows}"
        raise ValueError(message)
    random = Random(seed)
    both = map(agreed, count(1), repeat(random))
    per_kind = max(1, rows // _ROWS_PER_KIND)
    generated = [_apply(kind, next(both)) for kind in _KINDS * per_kind]
    for _ in range(per_kind):
        repeated, first, second = next(both), next(both), next(both)
        second = {**second, "merchant_reff": first["merchant_reff"]}
        generated += [(repeated, repeated, _REPEATED), (repeated, None, _REPEATED)]
        generated += [(each, each, _PAID_TWICE) for each in (first, second)]
    generated += [_apply(_PLAIN, next(both)) for _ in range(rows - len(generated))]
    random.shuffle(generated)
    ledger, transactions, expected = zip(*generated, strict=True)
    return Dataset(ledger=ledger, transactions=tuple(filter(None, transactions)), expected=expected)


def as_expected(row: Row) -> Expected:
    """Return the result that reconciliation gave *row*, for comparison with the expected one."""
    return Expected(row.bucket, frozenset((finding.code, finding.severity) for finding in row.findings))


def _apply(kind: _Kind, fields: Fields) -> tuple[Fields, Fields | None, Expected]:
    expected, ledger, service = kind
    return _changed(fields, ledger), None if service is None else _changed(fields, service), expected


def _changed(fields: Fields, changes: Fields) -> Fields:
    """Return *fields* with *changes*; a function in them gets the original value."""
    new = {name: change(fields[name]) if callable(change) else change for name, change in changes.items()}
    return {**fields, **new}

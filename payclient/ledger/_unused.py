"""Refuse a ledger with an unused column that looks like money or like a field, or without a required one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from payclient._escape import quote
from payclient.ledger._columns import Columns, field_of, listed, normalise_name
from payclient.ledger._entry import COMPARED
from payclient.ledger._errors import LedgerError

_MONEY = frozenset(
    " ".join(
        (
            "amount amounts amt total totals subtotal sum gross net fee fees price charge charges payout",
            "jumlah nominal nilai biaya harga bayar diterima bersih",
            "betrag summe gesamt brutto netto gebuhr gebuehr preis",
            "montant somme brut frais prix importe monto valor comision precio",
        ),
    ).split(),
)
_NOT_MONEY = frozenset(
    " ".join(
        (
            "at by on date time id no number nr ref reference code type status state currency count quantity qty items",
            "units method channel percent percentage rate name note is has tanggal kode nomor metode",
        ),
    ).split(),
)
_ENDS = ("betrag", "summe", "amount")
_FORMATTED = re.compile(
    r"-?(?:(?:[A-Z][A-Za-z]{1,2}\.?|[$€£¥])\s?)?\d{1,3}(?:[.,\s]\d{3})*(?:[.,]\d{1,2})?(?:\s?(?:[A-Z]{3}|[$€£¥]))?",
)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)
_CODE = re.compile(r"0\d+|\d{13,}")
_YEARS = range(1900, 2101)


def check_use(
    columns: Columns,
    *,
    chosen: Mapping[str, str],
    ignored: Collection[str],
    required: Collection[str],
) -> None:
    """
    Check that no unused column has a name like money or like a field, and that required fields have a column.

    Raises:
        LedgerError: When a column is unused or missing; the message says which option helps.
        ValueError: When *required* has an unknown field.
    """
    if unknown := next((name for name in required if name not in COMPARED), None):
        message = f"require: there is no field {unknown!r}; the fields are {', '.join(COMPARED)}"
        raise ValueError(message)
    names = [name.strip() for name in columns.header]
    if not names:
        return  # an empty file has nothing to use
    if missing := next((name for name in ignored if name.strip() not in names), None):
        message = f"no column is called {quote(missing)}, which was to be ignored; there are {listed(names)}"
        raise LedgerError(message, line=1)
    if missing := next((name for name in required if name not in columns.used), None):
        message = f"no column was found for {missing}, which is required; there are {listed(names)}; choose one with "
        raise LedgerError(f"{message}--column {missing}=NAME", line=1)
    left = [name for name in columns.ignored if name not in {each.strip() for each in ignored}]
    if doubled := [name for name in left if field_of(name) in set(COMPARED) - set(chosen)]:
        _refuse(doubled, f"could be {field_of(doubled[0])} as well and is not used", field_of(doubled[0]))
    if money := [name for name in left if is_money_name(name)]:
        _refuse(money, "looks like money and is not used", "amount")


def check_values(columns: Columns, *, ignored: Collection[str]) -> None:
    """
    Check that no unused column seems to hold money if there is no amount column.

    Raises:
        LedgerError: When a column seems to hold money.
    """
    left = {name.strip() for name in columns.ignored} - {name.strip() for name in ignored}
    if "amount" not in columns.used and (
        money := [name for name, cells in columns.samples.items() if name in left and is_money(cells)]
    ):
        _refuse(money, "holds what looks like money and is not used", "amount")


def is_money_name(name: str) -> bool:
    """Return whether a column called *name* probably holds money, and not a time, a code or a count."""
    words = normalise_name(name).split("_")
    has_money = any(word in _MONEY or word.endswith(_ENDS) for word in words)
    return has_money and not _NOT_MONEY.intersection(words)


def is_money(cells: Iterable[str]) -> bool:
    """Return whether *cells* may be amounts: numbers, but not codes, years or running numbers."""
    filled = [cell.strip().removesuffix(".0") for cell in cells if cell.strip()]
    if not filled or not all(_NUMBER.fullmatch(cell) or _FORMATTED.fullmatch(cell) for cell in filled):
        return False
    if not all(cell.isdecimal() for cell in filled):
        return True
    if any(_CODE.fullmatch(cell) for cell in filled):
        return False
    numbers = [int(cell) for cell in filled]
    is_running = len(numbers) > 1 and all(abs(b - a) == 1 for a, b in pairwise(numbers))
    return max(numbers) >= 1000 and not is_running and not all(number in _YEARS for number in numbers)


def _refuse(names: Sequence[str], what: str, field: str | None) -> None:
    first = names[0]
    others = f" (and so {'is' if len(names) == 2 else 'are'} {listed(names[1:])})" if names[1:] else ""
    message = (
        f"the column {quote(first)} {what}{others}; choose it with --column {field}={quote(first)}, "
        f"or leave it out with --ignore-column {quote(first)}"
    )
    raise LedgerError(message, line=1)

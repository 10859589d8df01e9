"""
Read an amount as it is declared to be written: exactly, or not at all.

payclient never guesses. A mark that is not declared is refused, and the reason names the option that would declare it.

A sign stands once: in its cell, by a column of debits or of directions, or by the kind of line. If the cell and its
neighbour both show it, they must agree, in each debit of the column: otherwise some debits would be read as money
received.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from attrs import define, field

from payclient._shared.escape import quote
from payclient._shared.remedy import Remedy, Way
from payclient.reconcile.ledger._columns import BLANK, SIDES, CellProblem, LedgerError, damage, invisible, shown
from payclient.reconcile.ledger._dialect import PLAIN, Dialect

_MAX_DIGITS = 18
_MAX = 10**_MAX_DIGITS
_MAX_FLOATING = 10**15  # a float does not keep further digits
_SPACES = "\u0020\u00a0\u2007\u2009\u202f"
_MARKS = {None: "(?!)", ",": ",", ".": r"\.", "space": f"[{_SPACES}]", "apostrophe": "['\u2019]"}
_NUMBER = re.compile(r"[0-9]+(?:[.,'\u2019 \u00a0\u2007\u2009\u202f][0-9]+)*")
_PLAIN, _NEVER = re.compile(f"[0-9]{{1,{_MAX_DIGITS}}}"), re.compile("(?!)")
_CURRENCY = re.compile(r"[^\W\d_]{0,5}[$\u00a3\u00a5\u20a0-\u20bf]|[^\W\d_]{1,5}\.?")
_STRANGE = re.compile("[*#!?~^]+")
_NEARLY = 0.0001
_DIGITS_ONLY = "write only digits, or declare how it is written"


class MoneyReader:
    """Reads amounts in one notation."""

    # Without a declaration, `15000` and `15000.00` are the same. `15.000` is refused, which is fifteen to one reader
    # and fifteen thousand to another.

    def __init__(self, dialect: Dialect = PLAIN) -> None:
        self._dialect = dialect
        self._places = dialect.minor_units
        self._has_point = dialect.decimal != "," and dialect.thousands != "."
        self.is_plain: Callable[[str], object] = (_NEVER if self._places else _PLAIN).fullmatch  # with one reading
        self._pattern = _pattern(dialect)

    def read(self, cell: Any) -> int | None:
        """Return a whole number of the service's unit, or None for an empty cell."""
        # A cell is refused without exactly one reading in this notation, and a float of more than fifteen digits.
        if not isinstance(cell, str):
            return None if cell is None else self._number(cell)
        if self.is_plain(cell):  # the usual cases
            return int(cell)
        if self._has_point and cell[-3:] == ".00" and self.is_plain(cell[:-3]):
            return int(cell[:-3])
        text = cell.strip(BLANK)
        if not text:
            return None
        match = self._pattern.fullmatch(text)
        if match is None:
            raise _refusal(text, self._dialect)
        return self._value(text, match)

    def sign(self, cell: Any, number: int) -> int:
        """Return -1 or 1 for a *cell* that shows the sign of its *number*. 0 if it has only digits."""
        if number < 0 or not isinstance(cell, str) or cell.isdigit():
            return -1 if number < 0 else 0
        match = self._pattern.fullmatch(cell.strip(BLANK))
        return 1 if match is not None and _signs(match) else 0

    def _value(self, text: str, match: re.Match[str]) -> int:
        whole, fraction = re.sub("[^0-9]", "", match["whole"]), match["fraction"] or ""
        if len(signs := _signs(match)) > 1:
            raise CellProblem("{} has two signs", quote(text))
        sign, digits = sum(signs) or 1, whole.lstrip("0")
        if fraction == "000" and 1 <= len(digits) <= 3 and self._dialect.decimal is None:
            number = f"-{digits}" if sign < 0 else digits
            message = "{} may mean {} or {}000: write only digits, or declare what the point is"
            ways = [Remedy((Way(name, "."),), "declares it") for name in ("decimal", "thousands")]
            raise CellProblem(message, quote(text), number, number, remedies=ways)
        return _scaled(sign, whole, fraction, self._places, text)

    def _number(self, value: Any) -> int | None:
        if type(value) is int and abs(value) < _MAX:
            return self._decimal(Decimal(value)) if self._places else value
        if isinstance(value, float) and abs(value) < _MAX_FLOATING:  # false for what is not a number
            if not self._places and 0 < abs(value - round(value)) < _NEARLY:
                message = "{} is nearly {:,}, but not quite. Round it in its formula, as with ROUND(…, 0)"
                raise CellProblem(message, shown(value), round(value))
            # The digits that spreadsheets keep are enough for a scale.
            return self._decimal(Decimal(f"{value:.15g}" if self._places else repr(value)))
        if isinstance(value, Decimal) and value.is_finite() and abs(value) < _MAX:
            return self._decimal(value) if self._places else _PLAIN_READER.read(f"{value:f}")
        most = 15 if isinstance(value, float) else 18
        raise CellProblem("{} is not a whole number of at most {} digits", shown(value), most)

    def _decimal(self, value: Decimal) -> int:
        text = f"{value:f}"
        whole, _, fraction = text.lstrip("+-").partition(".")
        return _scaled(-1 if value < 0 else 1, whole, fraction, self._places, text)


def _scaled(sign: int, whole: str, fraction: str, places: int, text: str) -> int:
    """Return a number with *places* decimal places as a whole number of its smallest units."""
    # The only place where digits of any length become a number: `int` refuses long ones with a plain error.
    digits = fraction.rstrip("0")
    if len(digits) > places:
        if places:
            raise CellProblem("{} has more than {} decimal places", quote(text), places)
        smaller = Way("minor_units", max(2, min(len(fraction), 4)))
        ways = [Remedy((smaller,), "reads it if the service counts in the smaller unit")]
        raise CellProblem("{} is not a whole number", quote(text), remedies=ways)
    number = (whole + digits.ljust(places, "0")).lstrip("0") or "0"
    if len(number) > _MAX_DIGITS:
        raise CellProblem("{} has more than {} digits", quote(text), _MAX_DIGITS)
    return sign * int(number)


def _pattern(dialect: Dialect) -> re.Pattern[str]:
    thousands = _MARKS[dialect.thousands]
    groups = f"[0-9]{{1,3}}(?:(?P<mark>{thousands})[0-9]{{3}}(?:(?P=mark)[0-9]{{3}})*)"
    space = f"[{_SPACES}]?"
    prefix = f"(?:{_affix(dialect.currency_prefix)}{space})?"
    suffix = f"(?:{space}{_affix(dialect.currency_suffix)})?"
    decimal = dialect.decimal or ("." if dialect.thousands != "." else None)
    # Behind a declared decimal mark, nothing or a dash stands for "no fraction": 15.000,- and the 15.000.- of Indonesia
    dash = "(?:-{1,2}|[\u2013\u2014])"
    nothing = f"|{dash}?" if dialect.decimal else ""
    fraction = f"{re.escape(decimal)}(?:(?P<fraction>[0-9]+){nothing})" if decimal else "(?P<fraction>(?!))"
    if dialect.thousands in (".", ","):
        fraction = f"{fraction}|(?(mark){thousands}{dash}|(?!))"
    fraction = f"(?:{fraction})?"
    bare = f"|(?={re.escape(dialect.decimal)}[0-9])" if dialect.decimal else ""  # such as .00
    number = f"(?P<whole>{groups}|[0-9]+{bare}){fraction}"
    sign = "[-+\u2212]"
    text = rf"(?:(?P<before>{sign}){space})?{prefix}(?P<between>{sign}?){number}{suffix}"
    if dialect.negative == "trailing":
        text = rf"{text}(?:{space}(?P<behind>{sign}))?"
    elif dialect.negative == "debit":
        words = "|".join(SIDES)
        ahead = rf"(?:(?P<ahead>{words})(?:\.?[{_SPACES}]|(?!\.)))?"  # the point of DB.50 may be a decimal mark
        text = rf"{ahead}{text}(?:{space}(?P<side>{words})\.?)?"
    elif dialect.negative == "parentheses":
        text = rf"(?P<open>{prefix}\()?{text}(?P<close>(?(open)\){suffix}))"
    return re.compile(text, re.IGNORECASE)


def _affix(symbol: str) -> str:
    if not symbol:
        return "(?!)"
    return re.escape(symbol) + (r"\.?" if symbol[-1].isalpha() else "")


def _signs(match: re.Match[str]) -> list[int]:
    """Return the signs of an amount, as 1 and -1."""
    marks = map(match.groupdict().get, ("before", "between", "behind", "ahead", "side", "open"))
    return [SIDES.get(mark.casefold()) or (1 if mark == "+" else -1) for mark in marks if mark]


def _refusal(text: str, dialect: Dialect) -> CellProblem:
    """Return the problem with *text*, and the option that would declare it."""
    if text.startswith("="):
        message = "{} is a formula of a spreadsheet: export the values of the column, as whole numbers"
        return CellProblem(message, quote(text))
    if found := damage(text):
        return CellProblem("{}: export the column as whole numbers", found)
    number = _NUMBER.search(text)
    if number is None:
        empty = Remedy((Way("null", text),), "reads it as an empty cell")
        return CellProblem("{} is not a number", quote(text), remedies=[empty])
    inside = re.sub(f"[0-9.,'\u2019{_SPACES}]", "", number[0])
    before, behind = text[: number.start()], text[number.end() :]
    if declaring := next(_missing(before, behind, dialect), None):
        return CellProblem("{} is not a number as declared", quote(text), remedies=[declaring])
    if mark := _STRANGE.search(f"{before} {behind}"):
        message = "{}: {} may change the amount: export it in a column by itself"
        return CellProblem(message, quote(text), quote(mark[0]))
    if not inside and (hidden := invisible(number[0])) and dialect.thousands != "space":
        spaces = Remedy((Way("thousands", "space"),), "reads it if it groups thousands")
        return CellProblem("{}", hidden, remedies=[spaces])
    marks = {"decimal": dialect.decimal, "thousands": dialect.thousands}
    given = [f"{quote(str(mark))} for {name}" for name, mark in marks.items() if mark]
    declared = f" with {' and '.join(given)}" if given else ""
    return CellProblem("{} is not a whole number{}; {}", quote(text), declared, _DIGITS_ONLY)


def _missing(before: str, behind: str, dialect: Dialect) -> Iterator[Remedy]:
    """Yield what would declare the marks around the digits."""
    if "(" in before and ")" in behind and dialect.negative != "parentheses":
        yield Remedy((Way("negative", "parentheses"),), "reads parentheses as less than zero")
    if behind.strip(BLANK) in ("-", "+", "\u2212") and dialect.negative != "trailing":
        yield Remedy((Way("negative", "trailing"),), "reads a sign behind the digits")
    sides = {(behind.rstrip(".").split() or [""])[-1], (before.split() or [""])[0].rstrip(".")}
    if not SIDES.keys().isdisjoint(map(str.casefold, sides)) and dialect.negative != "debit":
        yield Remedy((Way("negative", "debit"),), "reads letters for credit and debit")
    for text, name, declared in (
        (before, "prefix", dialect.currency_prefix),
        (behind, "suffix", dialect.currency_suffix),
    ):
        symbol = _CURRENCY.search(text)
        found = symbol[0].casefold().rstrip(".") if symbol else ""
        if symbol and found != declared.casefold().rstrip(".") and found not in SIDES:
            yield Remedy((Way(f"currency_{name}", symbol[0].rstrip(".")),), "reads it as a currency")


_PLAIN_READER = MoneyReader()


@define
class SignLaw:
    """Applies the sign that stands next to the cells of one column."""

    _said_by: str
    """Such as `the column 'D/C'`."""
    _remedies: Sequence[Remedy] = ()
    _debits: dict[bool, int] = field(init=False, factory=dict)
    """The first debit whose cell has a sign for less than zero, and the first without."""

    def apply(self, number: int, in_cell: int, beside: int) -> int:
        """Return *number* with the sign that is given *beside* its cell, or *in_cell*: 1, -1, or 0 for neither."""
        if not number or not beside:
            return number
        if in_cell == -beside:
            side = "below" if in_cell < 0 else "above"
            message = f"{{:,}} is {side} zero by its own sign, but not by {{}}"
            raise CellProblem(message, number, self._said_by, remedies=self._remedies)
        if beside < 0:
            self._debits.setdefault(in_cell < 0, number)
            if len(self._debits) > 1:
                signed, bare = self._debits[True], self._debits[False]
                message = (
                    f"amounts that {self._said_by} makes debits have a minus ({signed:,}) and none ({bare:,}), "
                    "so one of them is not a debit: write them all in one way"
                )
                raise LedgerError(message)
        return beside * abs(number)

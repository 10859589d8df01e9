"""
What a number format of a spreadsheet shows for a value, so that a cell is not read as something else.

A format is rendered, not looked up: its part for the number is chosen, and the signs, words and digits that it puts
around the number are judged as a reader would. A colour has no meaning for a value.
"""

import operator
import re
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from unicodedata import category

from attrs import frozen

from payclient._shared.escape import quote
from payclient.reconcile.ledger._columns import is_currency, sign_of

MAX_FORMAT = 1000  # a spreadsheet program takes 255 characters
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|_.|\*.|\[(?P<bracket>[^\]]*)\]|(?P<part>;)'
    r"|(?P<digit>general|e[+-]|[0#?.,%/])|(?P<text>@)|(?P<other>.)",
    re.DOTALL | re.IGNORECASE,
)
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "<>": operator.ne}
)
_CONDITION = re.compile(r"([<>=]{1,2})\s*(-?[0-9.]+)")
_WHOLE = re.compile(r"(?:general|[0#?,]*)(?:(?:\|[0#?]{2,3})*\|[0#?]{3})?(?:\.[0#?]*)?(?:e[+-][0#?]+)?", re.IGNORECASE)
"""The places of a number without a scale. A mark between thousands, or lakhs, may be written as text."""
_SCALED = re.compile(r",(?=\.|\Z)|%")
_NO_FRACTION = re.compile(r"\A[.,](?:0+|\s?[-\u2013\u2014]{1,2})\s*\Z")
"""Text behind a number that marks it as whole, as in 15.000,-."""
_WORD = re.compile(r"[^\W\d_]+[$\u00a3\u00a5\u20a0-\u20bf]?|[$\u00a3\u00a5\u20a0-\u20bf]")
_TRIANGLES = "\u25b2\u25b3\u25bc\u25bd"
"""Minus signs in Japan."""


@frozen
class _Part:
    """A part of a format: text before and behind the places of its digits, `|` in them for a mark between groups."""

    before: str = ""
    behind: str = ""
    digits: str = ""
    condition: re.Match[str] | None = None
    is_text: bool = False

    def holds(self, number: float) -> bool:
        if self.condition is None or self.condition[1] not in _COMPARISONS:
            return False
        return _COMPARISONS[self.condition[1]](number, float(self.condition[2]))

    @property
    def signs(self) -> int:
        """The number of signs for less than zero that it writes."""
        marks = [each for each in self.before + self.behind if category(each) == "Pd" or each in _TRIANGLES + "\u2212"]
        return len(marks) + ("(" in self.before and ")" in self.behind)

    @property
    def unit(self) -> str:
        """Its words and currencies. Empty without one."""
        return " ".join(_WORD.findall(f"{self.before} {self.behind}"))


@frozen
class Shown:
    """
    A number as its format shows it.

    Attributes:
        text: The text, if it shows credit or debit, which is then read.
        label: A currency next to the number.
        problem: The difference between what the cell shows and what it contains. Empty without one.
    """

    text: str = ""
    label: str = ""
    problem: str = ""


class NumberFormat:
    """A number format, such as `#,##0;(#,##0)`."""

    def __init__(self, code: str) -> None:
        self._code = code[:MAX_FORMAT]
        parts = list(_parts(self._code))
        texts = [part for place, part in enumerate(parts) if part.is_text or place > 2]
        self._of_text = texts[0] if texts else None
        self._known: dict[int, Shown] = {}
        """What it shows next to each number of a sign, which is a currency or nothing."""
        self._parts = [part for part in parts if part is not self._of_text] or [_Part(digits="general")]
        self.is_plain: bool = parts == [_Part(digits=parts[0].digits)] and _is_whole(parts[0].digits)
        """Whether it changes nothing but the number of digits."""

    def of_text(self, text: str) -> str:
        """Return the problem with a cell that contains *text*. Empty if the format shows it as it is."""
        part = self._of_text
        around = "" if part is None else f"{part.before}{part.behind}".strip()
        if part is None or (part.is_text and not around):
            return ""
        return self._problem(quote(text), f"{part.before}{text if part.is_text else ''}{part.behind}")

    def of_number(self, number: float) -> Shown:
        """Return what a cell with *number* shows."""
        sign = (number > 0) - (number < 0)
        if (known := self._known.get(sign)) is not None:
            return known
        shown = self._shown(number)
        if not (shown.text or shown.problem or any(part.condition for part in self._parts)):
            self._known[sign] = shown
        return shown

    def _shown(self, number: float) -> Shown:
        part, has_minus = self._part_for(number)
        behind = "" if _NO_FRACTION.match(part.behind) else part.behind
        part = _Part(part.before, behind, part.digits)
        label = part.unit
        text = f"{'-' * has_minus}{part.before}{f'{abs(number):,}' * bool(part.digits)}{part.behind}"
        if label and part.digits and sign_of(label) is not None:
            return Shown(text=f"{'-' * has_minus}{abs(number)} {label}")
        has_word = not all(map(is_currency, _WORD.findall(label)))
        is_other_sign = (has_minus or part.signs > 0) != (number < 0) or (has_minus and part.signs > 0)
        if has_word or (number and (is_other_sign or not part.digits)):
            return Shown(problem=self._problem(f"{number:,}", text if part.digits else text.strip("-")))
        if number and (not _is_whole(part.digits) or any(map(str.isdigit, part.before + part.behind))):
            return Shown(problem=self._problem(f"{number:,}", None))
        return Shown(label=label)

    def _part_for(self, number: float) -> tuple[_Part, bool]:
        """Return the part for *number*, and whether a minus is written before it."""
        parts = self._parts
        if any(part.condition for part in parts):
            found = next((part for part in parts if part.holds(number)), None)
            return (parts[-1], number < 0) if found is None else (found, False)
        if number < 0:
            return (parts[1], False) if parts[1:] else (parts[0], True)
        return parts[2] if not number and parts[2:] else parts[0], False

    def _problem(self, held: str, shown: str | None) -> str:
        what = "another number" if shown is None else quote(shown.strip()) if shown.strip() else "nothing"
        how = "give the column the format General, and write in the cell what it shows"
        return f"the cell holds {held} and shows {what}, by its number format {quote(self._code)}; {how}"


def _is_whole(digits: str) -> bool:
    return "/" in digits or (_WHOLE.fullmatch(digits) is not None and not _SCALED.search(digits))


def _parts(code: str) -> list[_Part]:
    parts, texts, digits, condition, is_text = list[_Part](), ["", ""], "", None, False
    for token in [*_TOKEN.finditer(code), None]:
        if token is None or token["part"]:
            parts.append(_Part(texts[0], texts[1], digits, condition, is_text))
            texts, digits, condition, is_text = ["", ""], "", None, False
        elif token["text"]:
            is_text = True
        elif token["digit"]:
            # Text between digits that is not a mark between groups makes another number.
            inside, texts[1] = texts[1], ""
            digits += ("|" if inside.strip() in ("", ".", ",", "'", "\u2019") else "!") * bool(inside) + token["digit"]
        elif (bracket := token["bracket"]) is not None:
            condition = _CONDITION.fullmatch(bracket) or condition
            texts[bool(digits or is_text)] += bracket[1:].partition("-")[0] if bracket[:1] == "$" else ""
        else:
            texts[bool(digits or is_text)] += token["quoted"] or token["escaped"] or token["other"] or ""
    return parts


number_format = cache(NumberFormat)

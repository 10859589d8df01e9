"""
Read a time as it is declared to be written, with the letters of `strftime`.

Not with `strptime`, which knows the names of months in the language of the process, takes digits of other scripts,
and reads `%y` and missing parts as it likes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import MappingProxyType

from attrs import field, frozen

from payclient._escape import quote
from payclient.ledger._cells import CellProblem, read_word

_MONTHS: Mapping[str, int] = MappingProxyType(
    {
        name: number
        for number, names in enumerate(
            (
                "jan january januari januar jänner janv janvier enero ene",
                "feb february februari februar fév févr février febrero",
                "mar march maret mär märz mrz mars marzo",
                "apr april avr avril abr abril",
                "may mei mai mayo",
                "jun june juni juin junio",
                "jul july juli juil juillet julio",
                "aug august agu ags agustus agt août ago agosto",
                "sep sept september septembre septiembre",
                "oct october okt oktober octobre octubre",
                "nov november nop nopember novembre noviembre",
                "dec december des desember dez dezember déc décembre dic diciembre",
            ),
            start=1,
        )
        for name in names.split()
    },
)
"""In English, Indonesian, German, French and Spanish; no name means two months."""
_NAME = r"[^\W\d_]+\.?"
_PARTS: Mapping[str, str] = MappingProxyType(
    {
        "Y": r"(?P<year>[0-9]{4})",
        "y": r"(?P<short_year>[0-9]{2})",
        "m": r"(?P<month>[0-9]{1,2})",
        "b": rf"(?P<name>{_NAME})",
        "B": rf"(?P<name>{_NAME})",
        "d": r"(?P<day>[0-9]{1,2})",
        "H": r"(?P<hour>[0-9]{1,2})",
        "I": r"(?P<half>[0-9]{1,2})",
        "p": r"(?P<noon>[AaPp]\.?[Mm]\.?)",
        "M": r"(?P<minute>[0-9]{2})",
        "S": r"(?P<second>[0-9]{2})",
        "f": r"(?P<part>[0-9]{1,9})",
        "z": r"(?P<zone>Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)",
        "%": "%",
    },
)
_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)
_FIRST_CENTURY = 69
"""Two digits from here on are of the 1900s, as POSIX has it."""


@frozen
class TimeFormat:
    """
    One way to write a time.

    Args:
        text: Such as `%d/%m/%Y %H:%M`; the parts are `%Y %y %m %b %d %H %I %p %M %S %f %z`.

    Attributes:
        has_time: Whether it has a time of day.

    Raises:
        ValueError: When it has no day, month or year, or one of them twice.
    """

    text: str
    has_time: bool = field(init=False)
    _pattern: re.Pattern[str] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        names = _DIRECTIVE.findall(self.text)
        if unknown := next((name for name in names if name not in _PARTS), None):
            parts = " ".join(f"%{name}" for name in _PARTS)
            message = f"date_format has no %{unknown}; its parts are {parts}"
            raise ValueError(message)
        kinds = ["Y" if name == "y" else "m" if name in "bB" else name for name in names if name and name != "%"]
        hours = {"H", "I", "p"}.intersection(kinds)
        is_whole = {"Y", "m", "d"} <= set(kinds) and len(kinds) == len(set(kinds))
        is_ordered = hours in (set(), {"H"}, {"I", "p"}) and ("M" not in kinds or hours) and ("S" not in kinds or "M")
        if not is_whole or not is_ordered or names != [name for name in names if name]:
            message = f"date_format must have day, month and year once each, as in %d/%m/%Y, got {quote(self.text)}"
            raise ValueError(message)
        object.__setattr__(self, "has_time", bool(hours))
        object.__setattr__(self, "_pattern", self._compiled())

    def _compiled(self) -> re.Pattern[str]:
        literals = _DIRECTIVE.split(self.text)
        parts = [re.escape(each) if place % 2 == 0 else _PARTS[each] for place, each in enumerate(literals)]
        return re.compile("".join(parts), re.IGNORECASE)

    def read(self, text: str) -> datetime | None:
        """Return the time in *text*, aware if it has a zone; None if it is not written like this."""
        match = self._pattern.fullmatch(text)
        if match is None:
            return None
        found = match.groupdict()
        month = found.get("month") or str(_MONTHS.get((found.get("name") or "").casefold().rstrip("."), 0))
        zone = found.get("zone") or ""
        offset = "+00:00" if zone[:1].isalpha() else zone
        hour = _hour(found)
        if hour is None:
            return None
        with suppress(ValueError):  # the 31st of February
            return datetime.fromisoformat(
                f"{_year(found)}-{int(month):02}-{int(found['day']):02} "
                f"{hour:02}:{found.get('minute') or '00'}:{found.get('second') or '00'}"
                f".{(found.get('part') or '')[:6]:0<6}{offset}"
            )
        return None


def _year(found: Mapping[str, str]) -> str:
    if found.get("year"):
        return found["year"]
    return f"{'19' if int(found['short_year']) >= _FIRST_CENTURY else '20'}{found['short_year']}"


def _hour(found: Mapping[str, str]) -> int | None:
    if not found.get("half"):
        return int(found.get("hour") or 0)
    half = int(found["half"])
    if not 1 <= half <= 12:
        return None
    return half % 12 + (12 if found["noon"][0] in "Pp" else 0)


@frozen
class TimeReader:
    """Reads times in the declared formats."""

    texts: tuple[str, ...]
    _formats: Sequence[TimeFormat] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_formats", [TimeFormat(text) for text in self.texts])

    def read(self, cell: str) -> datetime | None:
        """
        Return a time without a zone, or None for an empty cell.

        Raises:
            CellProblem: When it fits no format or has two readings, has a zone, or has no time of day.
        """
        found = self._found(cell)
        if found is None:
            return None
        time, form = found
        if time.tzinfo is not None:
            message = f"{quote(cell.strip())} has a time zone, but the service's times have none"
            raise CellProblem(message)
        if time.microsecond:
            message = f"{quote(cell.strip())} has a fraction of a second; the service's times have none"
            raise CellProblem(message)
        if not form.has_time:
            message = f"{quote(cell.strip())} is a date without a time of day"
            raise CellProblem(message)
        return time

    def read_creation(self, cell: str) -> datetime | None:
        """
        Return the time of creation, aware if the cell states a zone, or None for an empty cell.

        Raises:
            CellProblem: When it fits no format or has two readings.
        """
        found = self._found(cell)
        return None if found is None else found[0].replace(microsecond=0)

    def _found(self, cell: str) -> tuple[datetime, TimeFormat] | None:
        text = read_word(cell)
        if text is None:
            return None
        found = [(time, form) for form in self._formats if (time := form.read(text)) is not None]
        if not found:
            formats = " or ".join(f"--date-format {quote(each)}" for each in self.texts)
            message = f"{quote(text)} is not a time written {formats}"
            raise CellProblem(message)
        if any(time != found[0][0] for time, _ in found):
            both = " and ".join(quote(form.text) for _, form in found)
            message = f"{quote(text)} is another day with each of {both}; declare one of them"
            raise CellProblem(message)
        return found[-1]

"""
Read a time as it is declared to be written, with the letters of `strftime`, or as ISO 8601 has it.

Not with `strptime`, which knows the names of months in the language of the process, takes digits of other scripts,
and reads `%y` and missing parts as it likes.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime, time
from types import MappingProxyType
from typing import Any

from payclient._shared.checks import invalid_option
from payclient._shared.escape import quote
from payclient.reconcile.ledger._cells import CellProblem, read_word, shown
from payclient.reconcile.ledger._columns import word_lists

_MONTHS: Mapping[str, int] = MappingProxyType(
    {name: number for number, names in enumerate(word_lists("months"), 1) for name in names}
)
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
    }
)
_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)
_FIRST_CENTURY = 69
"""Two digits from here on are of the 1900s, as in POSIX."""
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d)?)(?:(?<=:\d\d:\d\d)\.0{1,9})?()", re.ASCII)
_CREATION = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?)(?:\.\d{1,9})? ?(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII | re.IGNORECASE,
)


class TimeFormat:
    """One way to write a time, such as `%d/%m/%Y %H:%M`. The parts are `%Y %y %m %b %d %H %I %p %M %S %f %z`."""

    def __init__(self, text: str) -> None:
        self.text = text
        names = _DIRECTIVE.findall(text)
        if unknown := next((name for name in names if name not in _PARTS), None):
            parts = " ".join(f"%{name}" for name in _PARTS)
            raise invalid_option("date_format", f"has no %{unknown}; its parts are {parts}")
        kinds = ["Y" if name == "y" else "m" if name in "bB" else name for name in names if name and name != "%"]
        hours = {"H", "I", "p"}.intersection(kinds)
        is_whole = {"Y", "m", "d"} <= set(kinds) and len(kinds) == len(set(kinds))
        is_ordered = hours in (set(), {"H"}, {"I", "p"}) and ("M" not in kinds or hours) and ("S" not in kinds or "M")
        if not is_whole or not is_ordered or names != [name for name in names if name]:
            problem = f"must have day, month and year once each, as in %d/%m/%Y, got {quote(text)}"
            raise invalid_option("date_format", problem)
        self.has_time = bool(hours)
        literals = _DIRECTIVE.split(text)
        pattern = [re.escape(each) if place % 2 == 0 else _PARTS[each] for place, each in enumerate(literals)]
        self._pattern = re.compile("".join(pattern), re.IGNORECASE)

    def read(self, text: str) -> datetime | None:
        """Return the time in *text*, aware if it has a zone. None if it is not written like this."""
        match = self._pattern.fullmatch(text)
        if match is None:
            return None
        found = match.groupdict()
        month = found.get("month") or str(_MONTHS.get((found.get("name") or "").casefold().rstrip("."), 0))
        hour = _hour(found)
        if hour is None:
            return None
        with suppress(ValueError):  # the 31st of February
            century = "" if found.get("year") else "19" if int(found["short_year"]) >= _FIRST_CENTURY else "20"
            return datetime.fromisoformat(
                f"{century}{found.get('year') or found['short_year']}-{int(month):02}-{int(found['day']):02} "
                f"{hour:02}:{found.get('minute') or '00'}:{found.get('second') or '00'}"
                f".{(found.get('part') or '')[:6]:0<6}{_offset(found.get('zone'))}"
            )
        return None


def _hour(found: Mapping[str, str]) -> int | None:
    if not found.get("half"):
        return int(found.get("hour") or 0)
    half = int(found["half"])
    if not 1 <= half <= 12:
        return None
    return half % 12 + (12 if found["noon"][0] in "Pp" else 0)


class TimeReader:
    """Reads times in the declared formats. Without one, the year is first, as in ISO 8601."""

    def __init__(self, texts: tuple[str, ...] = ()) -> None:
        self._formats = [TimeFormat(text) for text in texts]

    def read(self, cell: Any) -> datetime | None:
        """Return a time without a zone, or None for an empty cell."""
        # A time is refused with a zone, a fraction of a second or two readings, or without a time of day.
        if isinstance(cell, datetime):
            return _exact(cell, cell, advice="; store it without")
        text = read_word(cell if isinstance(cell, str) else _text_of(cell))
        if text is None:
            return None
        if not self._formats:
            return _in_iso(text, _TIME, "written YYYY-MM-DD HH:MM:SS without a zone")
        time, form = self._found(text)
        return _exact(time, text, has_time=form.has_time)

    def read_creation(self, cell: Any) -> datetime | None:
        """Return the time of creation, aware if the cell has a zone, or None for an empty cell."""
        # A date alone is the start of that day, and a fraction of a second in a text is dropped.
        if isinstance(cell, date):
            return cell if isinstance(cell, datetime) else datetime.combine(cell, time.min)
        text = read_word(cell if isinstance(cell, str) else _text_of(cell))
        if text is None:
            return None
        if not self._formats:
            return _in_iso(text, _CREATION, "such as 2026-11-21 22:16:00, 2026-11-21T22:16:00Z or 2026-11-21")
        return self._found(text)[0].replace(microsecond=0)

    def _found(self, text: str) -> tuple[datetime, TimeFormat]:
        found = [(read, form) for form in self._formats if (read := form.read(text)) is not None]
        if not found:
            formats = " or ".join(quote(form.text) for form in self._formats)
            raise CellProblem("{} is not a time written {}", quote(text), formats)
        if any(read != found[0][0] for read, _ in found):
            both = " and ".join(quote(form.text) for _, form in found)
            raise CellProblem("{} is another day with each of {}; declare one of them", quote(text), both)
        return found[-1]


def _in_iso(text: str, pattern: re.Pattern[str], wanted: str) -> datetime:
    if match := pattern.fullmatch(text):
        day, clock, zone = match.groups()
        with suppress(ValueError):  # the 31st of February
            return datetime.fromisoformat(f"{day} {clock or '00:00'}{_offset(zone) if zone else ''}")
    raise CellProblem(f"{{}} is not a time {wanted}; declare the format that it has", quote(text))


def _offset(zone: str | None) -> str:
    return "Z" if zone and zone[0].isalpha() else zone or ""


def _exact(time: datetime, cell: object, *, has_time: bool = True, advice: str = "") -> datetime:
    problem = ""
    if time.tzinfo is not None:
        problem = f"has a time zone, but the service's times have none{advice}"
    elif time.microsecond:
        problem = "has a fraction of a second; the service's times have none"
    elif not has_time:
        problem = "is a date without a time of day"
    if problem:
        raise CellProblem(f"{{}} {problem}", quote(cell) if isinstance(cell, str) else shown(cell))
    return time


def _text_of(value: Any) -> str:
    if value is None:
        return ""
    what = "a date without a time of day" if isinstance(value, date) else "not a time"
    raise CellProblem(f"{{}} is {what}", shown(value))

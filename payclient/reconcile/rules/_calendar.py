"""Business days: a limit in them, and the calendar that says which days they are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta, tzinfo
from itertools import count, islice
from pathlib import Path
from typing import Any, TypeAlias, cast

from attrs import Attribute, field, frozen
from attrs.validators import optional

from payclient._shared.escape import escape_unprintable, plural, quote
from payclient.reconcile.rules._rule_values import duration_text, must_be, problem, read_duration, to_date
from payclient.reconcile.values import RulesError

_MAX_LINES = 20_000
_BUSINESS_DAYS = re.compile(r"(\d{1,3}) business days?", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d", re.ASCII)
_DAY = timedelta(days=1)


@frozen
class BusinessDays:
    """A limit that ends with a business day: the first on which a row counts, or *days* business days after it."""

    days: int

    def __str__(self) -> str:
        return plural(self.days, "business day")


Limit: TypeAlias = timedelta | BusinessDays
"""The age below which a row is young."""


def read_limit(text: str) -> Limit | None:
    """Return the limit from its `limit_text`; None if *text* is neither a duration nor a number of business days."""
    match = _BUSINESS_DAYS.fullmatch(text.strip())
    return BusinessDays(int(match[1])) if match else read_duration(text)


def limit_text(limit: Limit) -> str:
    return str(limit) if isinstance(limit, BusinessDays) else duration_text(limit)


def to_limit(value: Limit | str) -> Any:
    found = read_limit(value) if isinstance(value, str) else None
    return value if found is None else found


is_limit = must_be(
    "a duration such as '90m', '12h' or '1d 12h', or '2 business days'",
    lambda value: (
        isinstance(value, BusinessDays)
        or (isinstance(value, timedelta) and value >= timedelta(0) and not value.microseconds)
    ),
)


def _to_days(value: Any) -> Any:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return value
    days = [to_date(each) for each in cast("Iterable[object]", value)]
    return tuple(sorted(set(days)) if all(type(each) is date for each in days) else days)


def _are_days(_: object, attribute: Attribute[Any], value: object) -> None:
    for each in cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,):
        if type(each) is not date:
            raise problem(attribute.name, "a list of dates such as 2026-12-25", each)


def _to_time(value: Any) -> Any:
    is_text = isinstance(value, str) and _TIME.fullmatch(value) and value < "24" and value[3:] < "60"
    return time.fromisoformat(value) if is_text else value


_is_minute = must_be(
    "a time of the day such as 17:00",
    lambda value: isinstance(value, time) and value.tzinfo is None and not (value.second or value.microsecond),
)


@frozen(kw_only=True)
class Calendar:
    """
    The business days: Monday to Friday, but for the holidays.

    Attributes:
        holidays: Days that are not business days, in order.
        cut_off: Time of the day from which a row counts as of the next business day; None if each counts as of its
            own day.

    Raises:
        RulesError: When a value cannot be used.
    """

    holidays: tuple[date, ...] = field(default=(), converter=_to_days, validator=_are_days)
    cut_off: time | None = field(default=None, converter=_to_time, validator=optional(_is_minute))

    def is_younger(self, created: datetime, at: datetime, limit: BusinessDays, zone: tzinfo) -> bool:
        """
        Return whether the last day of *limit* for a row has not ended in *zone* at a time.

        One from the future is young within the same limit, as it is with a duration.
        """
        first, last = sorted((created, at))
        # More than any limit can last, with all its weekends; dates near the ends of time cannot be converted.
        if last - first > 2 * _DAY * (limit.days + len(self.holidays) + 4):
            return False
        return last < self._end(first.astimezone(zone), limit.days)

    def _end(self, local: datetime, days: int) -> datetime:
        is_late = self.cut_off is not None and local.time() >= self.cut_off
        following = (local.date() + _DAY * number for number in count(int(is_late)))
        business_days = (day for day in following if day.weekday() < 5 and day not in self.holidays)
        return datetime.combine(next(islice(business_days, days, None)) + _DAY, time(), local.tzinfo)

    @property
    def sentence(self) -> str:
        """The calendar in words."""
        days = f"Monday to Friday, without {plural(len(self.holidays), 'listed holiday')}"
        late = "" if self.cut_off is None else f"; a row of {self.cut_off:%H:%M} or later counts as of the next one"
        return f"{days}{late}"


def read_holidays(path: str | os.PathLike[str]) -> tuple[date, ...]:
    """Read a file of holidays: UTF-8, one date such as 2026-12-25 a line; what follows a `#` is a comment."""
    name, key = escape_unprintable(Path(path).name), ("calendar", "holidays")
    found: list[date] = []
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            for number, line in enumerate(islice(file, _MAX_LINES), 1):
                if text := line.partition("#")[0].strip():
                    day = to_date(text)
                    if not isinstance(day, date):
                        message = f"{name}, line {number}: {quote(text)} is not a date such as 2026-12-25"
                        raise RulesError(message, key=key)
                    found.append(day)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        message = f"the holidays {name} cannot be read: {why}"
        raise RulesError(message, key=key) from error
    if not found:
        message = f"the holidays {name} have no date"
        raise RulesError(message, key=key)
    return tuple(found)

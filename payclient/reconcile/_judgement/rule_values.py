"""Internal: the values in rules, business days and the kinds of lines among them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from itertools import count, islice
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from attrs import Attribute, define, evolve, field, frozen
from attrs.validators import instance_of, optional

from payclient._shared.escape import did_you_mean, plural, quote
from payclient.reconcile._judgement.codes import normalise
from payclient.reconcile._judgement.errors import RulesError
from payclient.reconcile.ledger import ABSENT, FIELDS, CellProblem, Entry, Ledger, LedgerError, RejectedEntry, SignLaw

_MAX_WHOLE = 10**18
_DECIMAL_PLACES = 6
_PERCENT = re.compile(r"\d{1,3}(?:\.\d+)?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DURATION = re.compile(r"(?:(\d{1,6})d)? ?(?:(\d{1,6})h)? ?(?:(\d{1,6})m)? ?(?:(\d{1,9})s)?", re.ASCII)
_OFFSET = re.compile(r"(?:UTC)?([+-][01]\d:[0-5]\d)", re.ASCII)
_ZONE = "a name such as Asia/Jakarta, or an offset such as +07:00"
_BUSINESS_DAYS = re.compile(r"(\d{1,3}) business days?", re.ASCII)
_DAY = timedelta(days=1)
_Member = TypeVar("_Member", bound=StrEnum)
Validator: TypeAlias = Callable[[object, "Attribute[Any]", Any], None]
FIRST_ON_EARTH = timezone(timedelta(hours=14))
LAST_ON_EARTH = timezone(timedelta(hours=-12))
"""The zone where a local time passes last. A time that has passed there has passed everywhere."""


def in_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    """Return a time of the ledger with its zone: its own, else the one of the rules, else the first on Earth."""
    return moment if moment.tzinfo else moment.replace(tzinfo=zone or FIRST_ON_EARTH)


def problem(wanted: str, got: object, *key: str) -> RulesError:
    rest = f"must be {wanted}, got {quote(got)}"
    return RulesError(f"{'.'.join(key)} {rest}", key=key, option=".".join(key), problem=rest)


def must_be(wanted: str, is_valid: Callable[[Any], object]) -> Validator:
    def check(_: object, attribute: Attribute[Any], value: object) -> None:
        # Where None is the default, it is fit.
        if (value is not None or attribute.default is not None) and not is_valid(value):
            raise problem(wanted, value, attribute.name)

    return check


# A converter of attrs reads text, and returns everything else as it is, for a validator to refuse.


def to_percent(value: Any) -> Any:
    return Decimal(value) if type(value) is int or (isinstance(value, str) and _PERCENT.fullmatch(value)) else value


def percent_text(value: Decimal) -> str:
    """Return the shortest text of a percentage, the same for equal ones."""
    return f"{value:.{_DECIMAL_PLACES}f}".rstrip("0").rstrip(".")


def to_date(value: Any) -> Any:
    with suppress(ValueError):
        if isinstance(value, str) and _DATE.fullmatch(value):
            return date.fromisoformat(value)
    return value


def to_zone(value: tzinfo | str | None) -> tzinfo | None:
    if value == "UTC":
        return UTC
    if not isinstance(value, str):
        return value
    if match := _OFFSET.fullmatch(value):
        return datetime.fromisoformat(f"2000-01-01T00:00{match[1]}").tzinfo
    try:
        return ZoneInfo(value)
    except (ZoneInfoNotFoundError, OSError, ValueError) as error:  # a folder of zones raises OSError
        raise problem(_ZONE, value, "time_zone") from error


def zone_text(value: tzinfo | None) -> str | None:
    """Return a time zone in the form of the rules: a name, or an offset such as `+07:00`. None without either."""
    if isinstance(value, ZoneInfo):
        return value.key
    if not isinstance(value, timezone):
        return None
    offset = str(timezone(value.utcoffset(None)))  # such as UTC+07:00. One with seconds cannot be written
    return None if offset.count(":") > 1 else offset.removeprefix("UTC") or offset


def to_member(kind: type[_Member], value: object, *key: str) -> _Member:
    if not isinstance(value, str) or value not in set(kind):
        raise problem(f"one of {', '.join(kind)}", value, *key)
    return kind(value)


def to_texts(value: Any) -> Any:
    if isinstance(value, str) or not isinstance(value, Iterable) or isinstance(value, Mapping):
        return cast("object", value)
    return tuple(cast("Iterable[object]", value))


def are_texts(wanted: str, is_valid: Callable[[str], object]) -> Validator:
    def are_valid(value: tuple[object, ...] | str | None) -> bool:  # or anything else
        return isinstance(value, tuple) and all(isinstance(text, str) and is_valid(text) for text in value)

    return must_be(wanted, are_valid)


def to_table(value: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(value))


def has_only(*names: str) -> Validator:
    """Return the validator of names, or of a table by name, that may only be these."""

    def check(_: object, attribute: Attribute[Any], value: Iterable[str]) -> None:
        if unknown := next((name for name in value if name not in names), None):
            meant = did_you_mean(unknown, names)
            message = f"{attribute.name}: unknown field {quote(unknown)}{meant}: the fields are {', '.join(names)}"
            raise RulesError(message, key=(attribute.name, unknown))

    return check


def are_columns(rules: object, attribute: Attribute[Any], value: Mapping[str, object]) -> None:
    """Refuse a table `columns` with another name than a field's, or a value that is not the name of a column."""
    has_only(*FIELDS)(rules, attribute, value)
    for name, column in value.items():
        if not isinstance(column, str) or not column.strip():
            raise problem("the name of a column", column, "columns", name)


def _is_percentage(value: object) -> bool:
    if not isinstance(value, Decimal) or not value.is_finite():  # a `float` is never exact
        return False
    return 0 <= value <= 100 and value == round(value, _DECIMAL_PLACES)


is_whole: Validator = must_be(
    "a whole number that is not negative", lambda value: type(value) is int and 0 <= value <= _MAX_WHOLE
)
is_percent: Validator = must_be(
    f"a percentage from 0 to 100 with at most {_DECIMAL_PLACES} decimal places", _is_percentage
)
is_text: Validator = must_be("text", lambda value: isinstance(value, str))
is_filled: Validator = must_be("text that is not empty", lambda value: isinstance(value, str) and value.strip())
is_side: Validator = must_be(
    "text or a whole number, as it stands in the finding", lambda value: isinstance(value, str) or type(value) is int
)
# A `datetime` is a date only by inheritance.
is_date: Validator = must_be("a date such as 2026-12-31", lambda value: type(value) is date)
# A report could not be written again with a time zone that cannot be text.
is_zone: Validator = must_be(_ZONE, zone_text)
is_flag: Validator = must_be("true or false", lambda value: isinstance(value, bool))


def duration_text(value: timedelta) -> str:
    """Return a duration in the form of the rules, such as `1d 12h`. Parts of a second are dropped."""
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = {"d": value.days, "h": hours, "m": minutes, "s": seconds}
    return " ".join(f"{number}{unit}" for unit, number in parts.items() if number) or "0s"


def read_duration(text: str) -> timedelta | None:
    """Return the duration from its `duration_text`. None if *text* is not one."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or not match[0]:
        return None
    days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


@frozen
class BusinessDays:
    """A limit that ends with a business day: the first that counts for a row, or *days* business days after it."""

    days: int

    def __str__(self) -> str:
        return plural(self.days, "business day")


Limit: TypeAlias = timedelta | BusinessDays
"""The age below which a row is young."""


def limit_text(limit: Limit) -> str:
    return str(limit) if isinstance(limit, BusinessDays) else duration_text(limit)


def to_limit(value: Limit | str) -> Any:
    if not isinstance(value, str):
        return value
    match = _BUSINESS_DAYS.fullmatch(value.strip())
    limit = BusinessDays(int(match[1])) if match else read_duration(value)
    return value if limit is None else limit


is_limit: Validator = must_be(
    "a duration such as '90m', '12h' or '1d 12h', or '2 business days'",
    lambda value: (
        isinstance(value, BusinessDays)
        or (isinstance(value, timedelta) and value >= timedelta(0) and not value.microseconds)
    ),
)


def _to_days(value: Any) -> Any:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return value
    days = [to_date(day) for day in cast("Iterable[object]", value)]
    return tuple(sorted(set(days)) if all(type(day) is date for day in days) else days)


_are_days = must_be(
    "a list of dates such as 2026-12-25",
    lambda value: isinstance(value, tuple) and all(type(day) is date for day in cast("Any", value)),
)


@frozen(kw_only=True)
class Calendar:
    """
    The business days: Monday to Friday, but for the holidays.

    Attributes:
        holidays: Days that are not business days, in order.
    """

    holidays: tuple[date, ...] = field(default=(), converter=_to_days, validator=_are_days)

    def is_younger(self, created: datetime, at: datetime, limit: BusinessDays, zone: tzinfo) -> bool:
        """
        Return whether the last business day of *limit*, counted from *created*, has not ended in *zone*.

        Args:
            created: The time of the row, aware.
            at: The time of the answer, aware. If it is before *created*, the same limit applies.
            limit: The number of business days.
            zone: The time zone that days begin and end in.
        """
        first, last = sorted((created, at))
        # More than any limit can last, with all its weekends. Dates near the ends of time cannot be converted.
        if last - first > 2 * _DAY * (limit.days + len(self.holidays) + 4):
            return False
        day = first.astimezone(zone).date()
        following = (day + _DAY * number for number in count())
        business_days = (day for day in following if day.weekday() < 5 and day not in self.holidays)
        return last < datetime.combine(next(islice(business_days, limit.days, None)) + _DAY, time(), zone)


class Kind(StrEnum):
    """
    The part of a ledger line in its payment.

    Attributes:
        CHARGE: Money that was asked for. A payment may have several.
        REFUND: Money that was paid back.
        FEE: The fee of the payment, on a line by itself.
        IGNORE: No part of a payment, such as a payout. Counted, and left out.
    """

    CHARGE = "charge"
    REFUND = "refund"
    FEE = "fee"
    IGNORE = "ignore"


_are_words = are_texts("a list of words", normalise)
_is_meaning = must_be("one of duplicate, sum", lambda value: value in ("duplicate", "sum"))


@frozen(kw_only=True)
class Kinds:
    """
    The words for each kind of line. Letter case, spaces, dashes and underscores do not matter.

    Attributes:
        column: Name of the ledger's column with the words.
        charge: Words for money that was asked for.
        refund: Words for money that was paid back. Such a line is subtracted.
        fee: Words for a fee on a line by itself.
        ignore: Words for lines that are not part of a payment.

    A line with another word, or without a word, is rejected. The amounts of all refunds or fees with one word are
    written with a minus, or all without.

    Raises:
        RulesError: When a word has two kinds.
    """

    column: str = field(validator=is_filled)
    charge: tuple[str, ...] = field(default=(), converter=to_texts, validator=_are_words)
    refund: tuple[str, ...] = field(default=(), converter=to_texts, validator=_are_words)
    fee: tuple[str, ...] = field(default=(), converter=to_texts, validator=_are_words)
    ignore: tuple[str, ...] = field(default=(), converter=to_texts, validator=_are_words)

    def __attrs_post_init__(self) -> None:
        self.of("")  # refuses a word of two kinds

    @cached_property
    def _kinds(self) -> Mapping[str, Kind]:
        kinds: dict[str, Kind] = {}
        for kind in Kind:
            for word in getattr(self, kind.value):
                if kinds.setdefault(normalise(word), kind) is not kind:
                    message = f"{kind}: {quote(word)} is listed under {kinds[normalise(word)]} already"
                    raise RulesError(message, key=(kind.value,))
        return kinds

    def of(self, word: object) -> Kind | None:
        """Return the kind that *word* means. None if it is not listed, or no word."""
        return self._kinds.get(normalise(word)) if isinstance(word, str) else None


@frozen(kw_only=True)
class IgnoredLines:
    """
    Ledger lines of one kind that the rules leave out.

    Attributes:
        word: The ledger's word for the kind.
        lines: Number of lines.
        amount: Sum of their amounts, without lines that cannot be read.
    """

    word: str
    lines: int = 0
    amount: int = 0


@define
class LineKinds:
    """
    The kinds of the lines of a file: each has a meaning, and shows the sign of its amounts once.

    Note:
        Counts the lines that the rules leave out, by word. Memory grows with the words of the rules.
    """

    _kinds: Kinds | None
    _table: str = "lines.kind"
    _are_fees_signed: bool = field(default=False, alias="are_fees_signed")
    """Whether columns for debit and credit show the sign of fees, so that a fee can be paid back."""
    _laws: dict[tuple[str, str], SignLaw] = field(init=False, factory=dict)
    _ignored: dict[str, IgnoredLines] = field(init=False, factory=dict)

    def check(self, line: Entry | RejectedEntry) -> Kind | None:
        """Return the kind of a line. Refuse one without meaning, and refunds of one word if only some have a minus."""
        if self._kinds is None:
            if line.kind is not ABSENT:
                raise without_meaning(self._table)
            return None
        kind = self._kinds.of(line.kind)
        if kind is Kind.REFUND or (kind is Kind.FEE and not self._are_fees_signed):
            for name in ("amount", "amount_received"):
                if isinstance(number := getattr(line, name), int):
                    word = f"the kind {quote(line.kind)}"
                    law = self._laws.setdefault((normalise(str(line.kind)), name), SignLaw(word))
                    try:
                        law.apply(number, -1 if number < 0 else 0, -1)
                    except (CellProblem, LedgerError) as problem:
                        raise LedgerError(f"line {line.line}: {problem}", line=line.line) from None
        return kind

    def leaves_out(self, line: Entry | RejectedEntry, money: object, *, is_alone: bool = False) -> bool:
        """Check a line. Return whether it, or a fee that *is_alone* without a payment, is left out, and count it."""
        kind = self.check(line)
        if kind is not Kind.IGNORE and not (is_alone and kind is Kind.FEE):
            return False
        word, amount = normalise(str(line.kind)), money if isinstance(money, int) else 0
        before = self._ignored.get(word, IgnoredLines(word=word))
        self._ignored[word] = evolve(before, lines=before.lines + 1, amount=before.amount + amount)
        return True

    @property
    def ignored(self) -> tuple[IgnoredLines, ...]:
        return tuple(self._ignored[word] for word in sorted(self._ignored))


def check_currencies(ledger: Ledger, statement: Ledger) -> None:
    """Refuse two files, read to their end, that name different currencies. One only of the statement isn't compared."""
    ours, theirs = ledger.currency, statement.currency
    statement.compare_currency(ours)
    if ours and theirs and ours != theirs:
        message = (
            f"the statement {statement.fingerprint.name} has amounts in {theirs}, and the ledger in {ours}, which are "
            "never compared: give the statement of the same currency"
        )
        raise LedgerError(message)


def without_meaning(table: str) -> RulesError:
    """Return the refusal of a column of kinds whose lines would all count as charges."""
    message = f"a column is read as kind: list its words for a charge, refund or fee in the table [{table}]"
    return RulesError(f"{message} of the rules file", key=tuple(table.split(".")))


@frozen(kw_only=True)
class Lines:
    """
    Several ledger rows with one reference.

    Attributes:
        of_one_reference: `duplicate` if they are mistakes: each is a break. `sum` if they are lines of one payment:
            they are summed, then compared.
        kind: Words for charges, refunds and fees. None if all are charges. Needs `sum`.
    """

    of_one_reference: str = field(default="duplicate", validator=_is_meaning)
    kind: Kinds | None = field(default=None, validator=optional(instance_of(Kinds)))

    def __attrs_post_init__(self) -> None:
        if self.kind is not None and not self.are_summed:
            message = "kind needs of_one_reference = 'sum': without it, no lines are put together"
            raise RulesError(message, key=("kind",))

    @property
    def are_summed(self) -> bool:
        """Whether they are lines of one payment."""
        return self.of_one_reference == "sum"

    def kind_of(self, word: object) -> Kind | None:
        """Return the kind of a line. None if its word is not listed."""
        return Kind.CHARGE if self.kind is None else self.kind.of(word)

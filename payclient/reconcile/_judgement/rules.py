"""Internal: the rules for comparing the two sides, business days and the kinds of lines among them, and their file."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from itertools import count, islice, takewhile
from math import ceil, floor
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from attrs import NOTHING, Attribute, asdict, define, evolve, field, fields, frozen, has
from attrs.validators import instance_of, optional

from payclient._shared.escape import did_you_mean, escape_unprintable, plural, quote
from payclient.protocol import EMPTY, plain
from payclient.reconcile._codec import register
from payclient.reconcile._fields import ABSENT, COMPARED, FIELDS, Entry, RejectedEntry
from payclient.reconcile._judgement.codes import WORDS, Assumed, Code, Status, folded, normalise, states_none
from payclient.reconcile._judgement.errors import RulesError
from payclient.reconcile._judgement.findings import Finding
from payclient.reconcile.ledger import CellProblem, Dialect, Ledger, LedgerError, SignLaw

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


def _problem(wanted: str, got: object, *key: str) -> RulesError:
    rest = f"must be {wanted}, got {quote(got)}"
    return RulesError(f"{'.'.join(key)} {rest}", key=key, option=".".join(key), problem=rest)


def must_be(wanted: str, is_valid: Callable[[Any], object]) -> Validator:
    def check(_: object, attribute: Attribute[Any], value: object) -> None:
        # Where None is the default, it is fit.
        if (value is not None or attribute.default is not None) and not is_valid(value):
            raise _problem(wanted, value, attribute.name)

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
        raise _problem(_ZONE, value, "time_zone") from error


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
        raise _problem(f"one of {', '.join(kind)}", value, *key)
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
            raise _problem("the name of a column", column, "columns", name)


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
_are_texts = are_texts("a list of texts, each with a word in it", plain)
is_flag: Validator = must_be("true or false", lambda value: isinstance(value, bool))


def _is_one_of(*words: str) -> Validator:
    return must_be(f"one of {', '.join(words)}", lambda value: value in [*words])


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

    of_one_reference: str = field(default="duplicate", validator=_is_one_of("duplicate", "sum"))
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


@frozen(kw_only=True)
class Tolerance:
    """
    Bounds of the difference between a number of the service and the ledger's.

    Attributes:
        above: Largest excess of the service, in its unit.
        below: Largest shortfall of the service.
        above_percent: Largest excess, in percent of the ledger's number.
        below_percent: Largest shortfall, in percent of it.

    Where both bounds of one side are given, both apply. A side without a bound allows no difference.
    """

    above: int | None = field(default=None, validator=is_whole)
    below: int | None = field(default=None, validator=is_whole)
    above_percent: Decimal | None = field(default=None, converter=to_percent, validator=is_percent)
    below_percent: Decimal | None = field(default=None, converter=to_percent, validator=is_percent)

    def waiver(self, ours: int, theirs: int) -> str:
        """Return why the difference of two amounts in minor units does not count. Empty if it does."""
        side = "above" if theirs > ours else "below"
        most, percent = getattr(self, side), getattr(self, f"{side}_percent")
        bounds = [] if most is None else [(Fraction(most), str(most))]
        if percent is not None:
            bounds.append((abs(ours) * Fraction(percent) / 100, f"{percent_text(percent)} %"))
        if not bounds or any(abs(theirs - ours) > bound for bound, _ in bounds):
            return ""
        return f"within the tolerance of {' and '.join(text for _, text in bounds)} {side}"


_ROUNDINGS: Mapping[str, Callable[[Fraction], int]] = {
    "half_up": lambda fee: floor(fee + Fraction(1, 2)),
    "up": ceil,
    "down": floor,
}


@frozen(kw_only=True)
class FeeSchedule:
    """
    The fees of one payment method.

    Attributes:
        flat: Charged on each payment, in the unit of the service.
        percent: Charged on top of it, in percent of the amount.
        minimum: The lowest fee.
        maximum: The highest fee. None for no limit.
        rounding: How the percentage becomes a whole number of the smallest unit: `half_up`, `up` or `down`.
    """

    flat: int = field(default=0, validator=is_whole)
    percent: Decimal = field(default=Decimal(0), converter=to_percent, validator=is_percent)
    minimum: int = field(default=0, validator=is_whole)
    maximum: int | None = field(default=None, validator=is_whole)
    rounding: str = field(default="half_up", validator=_is_one_of(*_ROUNDINGS))

    def __attrs_post_init__(self) -> None:
        if self.maximum is not None and self.maximum < self.minimum:
            message = f"maximum must be at least the minimum {self.minimum}, got {self.maximum}"
            raise RulesError(message, key=("maximum",))

    def fee_of(self, amount: int) -> int:
        """Return the fee on *amount*, in the same unit. Never negative, even if the amount is."""
        fee = self.flat + _ROUNDINGS[self.rounding](amount * Fraction(self.percent) / 100)
        fee = max(fee, self.minimum)
        return fee if self.maximum is None else min(fee, self.maximum)


def _to_code(value: Code | str) -> Code:
    return to_member(Code, value, "code")


@frozen(kw_only=True)
class Accepted:
    """
    One accepted difference.

    Attributes:
        code: The kind of finding. All others of the row still count.
        reference: Reference of the row.
        ledger: The ledger's value when it was accepted, in the form of `Finding.ledger`. Empty text for nothing.
        service: The service's value then, in the form of `Finding.service`.
        largest_difference: The largest amount at stake, in the unit of the service.
        reason: For the reader of the report.
        owner: The person responsible for it.
        expires: The last day of its validity. From the next day it is a break again.
        run: The run in whose work list it was decided. Empty for a rule.

    Either both sides or a largest difference must be given. If both are, both apply.
    """

    code: Code = field(converter=_to_code)
    reference: str = field(validator=is_filled)
    ledger: str | int | None = field(default=None, validator=is_side)
    service: str | int | None = field(default=None, validator=is_side)
    largest_difference: int | None = field(default=None, validator=is_whole)
    reason: str = field(validator=is_filled)
    owner: str = field(validator=is_filled)
    expires: date = field(converter=to_date, validator=is_date)
    run: str = field(default="", validator=is_text)

    def __attrs_post_init__(self) -> None:
        is_one_sided = (self.ledger is None) is not (self.service is None)
        if is_one_sided or (self.ledger is None and self.largest_difference is None):
            message = (
                "largest_difference must be given, or both ledger and service as they stand in the finding, "
                "with empty text for nothing: an acceptance without bounds would hide any later difference"
            )
            raise RulesError(message, key=("largest_difference",))

    def days_left(self, at: datetime, time_zone: tzinfo | None) -> int:
        """
        Return the number of days until the last one. Negative when it has passed.

        Args:
            at: When the service was asked, aware. The current time is not used, so a report that is written again later
                is the same.
            time_zone: Whose day counts. Without it, the day has passed when it has passed in every zone.
        """
        return (self.expires - at.astimezone(time_zone or LAST_ON_EARTH).date()).days

    def covers(self, finding: Finding, since_run: str = "") -> bool:
        """
        Return whether *finding* still has the accepted values. Its code and reference must match already.

        A decision ends when its finding is gone: *since_run* was then, or found it since. Names sort by time, to the
        second.
        """
        if self.run and self.run < since_run.partition("-")[0]:
            return False
        sides = tuple("" if side is None else side for side in (finding.ledger, finding.service))
        if self.ledger is not None and (self.ledger, self.service) != sides:
            return False
        most, at_stake = self.largest_difference, finding.at_stake
        return most is None or (self.ledger is not None if at_stake is None else at_stake <= most)

    @property
    def waiver(self) -> str:
        """The reason in one sentence. Safe to print."""
        return escape_unprintable(f"accepted by {self.owner} until {self.expires}: {self.reason}", max_length=400)


@frozen(kw_only=True)
class Meta:
    """
    Notes about the rules themselves.

    Attributes:
        changed_by: Who decided them last. A report names it next to what changed.
    """

    changed_by: str = field(default="", validator=is_text)


@frozen(kw_only=True)
class StatementRules:
    """
    Rules for reading and comparing a statement: a second list of references, such as a settlement report.

    Attributes:
        settles_within: A paid row younger than this may be missing in the statement. The ledger's `created_at` gives
            its age. A row without is never young.
        columns: Name of the statement's column, by field, if it is not recognised.
        ignore_columns: Columns that need not be used, and are not named in the verdict.
        reading: The notation of the statement.
        kind: Words for charges, refunds and fees. None if all lines are charges.
        new_lines_only: Whether a statement has only lines that no statement before it has. What the statements of this
            run and of earlier ones list for a reference is then summed. Otherwise the newest that lists it counts,
            unless that only takes money back.
    """

    settles_within: Limit = field(default=timedelta(0), converter=to_limit, validator=is_limit)
    columns: Mapping[str, str] = field(default=EMPTY, converter=to_table, validator=are_columns)
    ignore_columns: tuple[str, ...] = field(
        default=(), converter=to_texts, validator=are_texts("a list of names of columns", str.strip)
    )
    reading: Dialect = field(default=Dialect(), validator=instance_of(Dialect))
    kind: Kinds | None = field(default=None, validator=optional(instance_of(Kinds)))
    new_lines_only: bool = field(default=False, validator=is_flag)

    def kind_of(self, word: object) -> Kind | None:
        """Return the kind of a line. None if its word is not listed."""
        return Kind.CHARGE if self.kind is None else self.kind.of(word)


MONEY = ("amount", "fee", "amount_received")
"""The fields that may have a tolerance."""

_OF_THE_LEDGER = ("columns", "require", "ignore_columns", "ledger")
_NOT_JUDGING = (*_OF_THE_LEDGER, "final_statuses", "material_from", "meta")
_OF_READING = (*_OF_THE_LEDGER, "not_found_messages")


def _to_statuses(words: Mapping[str, Status | str]) -> Mapping[str, Status]:
    statuses: dict[str, Status] = {}
    for word, meaning in words.items():
        status, name = to_member(Status, meaning, "statuses", word), normalise(word)
        message = ""
        if not any(map(str.isalpha, word)):
            message = f"statuses: {quote(word)} is not a word: a number may have several meanings"
        elif statuses.setdefault(name, status) is not status:
            message = f"statuses.{word} must be {statuses[name]}, as the same word in other letters is, got {status}"
        elif WORDS.get(name, status) is not status:
            message = f"statuses.{word} must not be {status}: {quote(word)} always means {WORDS[name]}"
        if message:
            raise RulesError(message, key=("statuses", word))
    return MappingProxyType(statuses)


def _to_methods(words: Mapping[str, Any]) -> Mapping[str, str]:
    methods: dict[str, str] = {}
    for word, method in words.items():
        name = folded(word, "payment_method")
        if not isinstance(method, str) or not plain(method) or not name:
            raise _problem("the service's word for the payment method", method, "methods", word)
        if methods.setdefault(name, method) != method:
            message = f"methods.{word} must be {methods[name]}, as the same word in other letters is, got {method}"
            raise RulesError(message, key=("methods", word))
    return MappingProxyType(methods)


def _to_final(value: Any) -> tuple[Status, ...]:
    """Return the statuses in their own order, so that equal lists are equal."""
    words = to_texts(value)
    if not isinstance(words, tuple):
        raise _problem("a list of statuses", value, "final_statuses")
    final = {to_member(Status, word, "final_statuses") for word in cast("tuple[object, ...]", words)}
    if Status.PENDING in final:
        message = "final_statuses must not have pending, which is not the end of a payment"
        raise RulesError(message, key=("final_statuses",))
    return tuple(status for status in Status if status in final)


_FINAL = (Status.PAID, Status.REFUNDED)
"""A payment that was canceled or has expired may still be paid late."""


def _to_assumed(value: Assumed | str) -> Assumed:
    return to_member(Assumed, value, "assume_status")


def _to_accepted(accepted: Iterable[Accepted]) -> tuple[Accepted, ...]:
    listed = tuple(accepted)
    seen: set[tuple[Code, str]] = set()
    for place, each in enumerate(listed):
        if (each.code, each.reference) in seen:
            message = f"accepted: {each.code} of {quote(each.reference)} is listed twice: keep one, with one last day"
            raise RulesError(message, key=("accepted", place))
        seen.add((each.code, each.reference))
    return tuple(sorted(listed, key=lambda each: (each.reference, each.code)))


@frozen(kw_only=True)
class Rules:
    """
    The rules for judging differences.

    Attributes:
        time_zone: Zone of the service's and the ledger's times. Without it, an expiry has passed when it
            has passed in every zone, and a row is young when it is young in every zone.
        grace: A row younger than this that is missing, or pending on only one side, is open. The
            ledger's `created_at` gives its age. A row without is never young.
        calendar: The business days, if `grace` or `settles_within` counts them.
        assume_status: Status of each row if the ledger lacks this column: `paid`, or `none` (the status is not
            compared, and no report is clean).
        columns: Name of the ledger's column, by field, if it is not recognised.
        require: Fields without which a ledger is refused.
        ignore_columns: Columns that need not be used, and are not named in the verdict.
        may_leave: Whether rows may leave the ledger, so that a run does not miss rows of the previous run.
        material_from: The lowest amount at stake of a material break, which is listed before others.
        not_found_messages: Whole messages that mean "no such transaction" at this service, for the client that looks
            up. A journal with other ones is of another run.
        ledger: The notation of the ledger.
        tolerances: Bounds of a difference in money, by field: `amount`, `fee`, `amount_received`.
        statuses: Meaning of other words for a state, by word. Kept normalised, as `read_status` does it. A
            word that is known keeps its meaning, and a number gets none.
        methods: The service's word for a payment method, by the ledger's word.
        final_statuses: States of the service that an answer may be reused for, in a run that reuses answers.
        fees: Fees of each payment method, by the service's short code. Expected if the ledger lacks the fee.
        accepted: Accepted differences, in the order of their references.
        lines: Meaning of several rows with one reference.
        statement: Reading of a statement, and the time until a payment is settled.
        meta: Notes about the rules themselves. They change nothing.

    Raises:
        RulesError: When a rule cannot be used.
    """

    time_zone: tzinfo | None = field(default=None, eq=zone_text, converter=to_zone, validator=is_zone)
    grace: Limit = field(default=timedelta(0), converter=to_limit, validator=is_limit)
    calendar: Calendar = field(default=Calendar(), validator=instance_of(Calendar))
    assume_status: Assumed = field(default=Assumed.PAID, converter=_to_assumed)
    columns: Mapping[str, str] = field(default=EMPTY, converter=to_table, validator=are_columns)
    require: tuple[str, ...] = field(default=(), converter=to_texts, validator=[_are_texts, has_only(*COMPARED)])
    ignore_columns: tuple[str, ...] = field(default=(), converter=to_texts, validator=_are_texts)
    not_found_messages: tuple[str, ...] = field(default=(), converter=to_texts, validator=_are_texts)
    may_leave: bool = field(default=False, validator=is_flag)
    material_from: int | None = field(default=None, validator=is_whole)
    ledger: Dialect = field(default=Dialect(), validator=instance_of(Dialect))
    tolerances: Mapping[str, Tolerance] = field(default=EMPTY, converter=to_table, validator=has_only(*MONEY))
    statuses: Mapping[str, Status] = field(default=EMPTY, converter=_to_statuses)
    methods: Mapping[str, str] = field(default=EMPTY, converter=_to_methods)
    final_statuses: tuple[Status, ...] = field(default=_FINAL, converter=_to_final)
    fees: Mapping[str, FeeSchedule] = field(default=EMPTY, converter=to_table)
    accepted: tuple[Accepted, ...] = field(default=(), converter=_to_accepted)
    lines: Lines = field(default=Lines(), validator=instance_of(Lines))
    statement: StatementRules = field(default=StatementRules(), validator=instance_of(StatementRules))
    meta: Meta = field(default=Meta(), validator=instance_of(Meta))

    @cached_property
    def _accepted_by(self) -> Mapping[tuple[Code, str], Accepted]:
        return {(one.code, one.reference): one for one in self.accepted}

    @cached_property
    def _meanings(self) -> Mapping[str, Status]:
        return {**self.statuses, **WORDS}

    @cached_property
    def _schedules(self) -> Mapping[str, FeeSchedule]:
        return {folded(method, "payment_method"): schedule for method, schedule in self.fees.items()} | {**self.fees}

    def schedule(self, method: str | None) -> FeeSchedule | None:
        """Return the fees of a payment method of the service, in any letter case and spacing. None without any."""
        return self._schedules.get(method or "") or self._schedules.get(folded(method or "", "payment_method"))

    def read_status(self, word: str | None) -> Status | None:
        """Return the meaning of *word* by these rules. None if it is not known."""
        return None if word is None else self._meanings.get(normalise(word))

    def waiver(self, name: str, ours: object, theirs: object) -> str:
        """Return why the difference of two values of a field does not count. Empty if it does."""
        tolerance = self.tolerances.get(name)
        return tolerance.waiver(ours, theirs) if tolerance and isinstance(ours, int) and isinstance(theirs, int) else ""

    def fold(self, text: str, name: str) -> str:
        """Return the normal form of a ledger's *text* in a field: equal to a service's text that means the same."""
        plain_text = folded(text, name)
        method = self.methods.get(plain_text) if name == "payment_method" else None
        return plain_text if method is None else folded(method, name)

    def is_younger(self, entry: Entry, at: datetime, limit: Limit) -> bool:
        """Return whether a row is younger than *limit* at the time of an answer. Never if it has an unknown age."""
        created = entry.created_at
        if not limit or not isinstance(created, datetime):
            return False
        if isinstance(limit, timedelta):
            return abs(at - in_zone(created, self.time_zone)) < limit
        zone = self.time_zone or FIRST_ON_EARTH
        return self.calendar.is_younger(in_zone(created, zone), at, limit, zone)

    def status_of(self, entry: Entry | RejectedEntry) -> Status | None:
        """Return the state of a row in the ledger, or the assumed one. None if it is not known."""
        if entry.status is ABSENT:
            return Status.PAID if self.assume_status is Assumed.PAID else None
        return self.read_status(entry.status)

    def acceptance(self, code: Code, reference: str) -> Accepted | None:
        """Return the acceptance of a finding, even a lapsed one. None without one."""
        return self._accepted_by.get((code, reference))

    @property
    def counts_business_days(self) -> bool:
        """Whether a limit is a number of business days."""
        return any(isinstance(limit, BusinessDays) for limit in (self.grace, self.statement.settles_within))

    def check_zone(self) -> None:
        """
        Check that business days have the time zone they begin and end in.

        Raises:
            RulesError: Without one.
        """
        if self.counts_business_days and self.time_zone is None:
            message = "business days need time_zone, the zone of their beginning and end, such as Asia/Jakarta"
            raise RulesError(message, key=("time_zone",))

    def check_columns(self, used: Collection[str], *, has_statement: bool = False) -> None:
        """
        Check that the rules fit a ledger with the fields *used*.

        Raises:
            RulesError: When its kinds are undefined, or a limit needs `created_at` and it lacks that field.
        """
        if "kind" in used and self.lines.kind is None:
            raise without_meaning("lines.kind")
        limits = {"grace": self.grace, "settles_within": has_statement and self.statement.settles_within}
        for name in (name for name, limit in limits.items() if limit and used and "created_at" not in used):
            problem = (
                f"needs the age of each row, and no column of the ledger is read as created_at: choose one with "
                f"--column created_at=NAME, or leave {name} out"
            )
            raise RulesError(f"{name} {problem}", key=(name,), option=name, problem=problem, needs_column=True)

    def check_statement(self, used: Collection[str]) -> None:
        """
        Check that the rules fit a statement with the fields *used*.

        Raises:
            RulesError: When its kinds are undefined.
        """
        if "kind" in used and self.statement.kind is None:
            raise without_meaning("statement.kind")

    @property
    def judging(self) -> str:
        """The rules that affect judgement, without the reading of the ledger, as one line of JSON."""
        judging = {name: value for name, value in rules_as_json(self).items() if name not in _NOT_JUDGING}
        return json.dumps(judging, sort_keys=True, separators=(",", ":"))

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of `judging`."""
        return hashlib.sha256(self.judging.encode()).hexdigest()


def rules_as_json(rules: Rules) -> dict[str, Any]:
    """
    Return *rules* in plain values, in the shape of a rules file. `rules_from_json` makes them again.

    Note:
        Most rules are left out if they are not set.
    """
    plain = asdict(rules, filter=_is_said, value_serializer=_plain)
    return plain if rules.ignore_columns else {name: said for name, said in plain.items() if name != "ignore_columns"}


def dialect_as_json(dialect: Dialect) -> dict[str, Any]:
    return asdict(dialect, filter=lambda each, value: value != each.default, value_serializer=_plain)


# A newer rule is not among these, so that the rules of an older journal and report are still the same without it.
_ALWAYS_SAID = (
    *("time_zone", "grace", "assume_status", "columns", "ignore_columns", "tolerances", "statuses", "fees", "accepted"),
    *("settles_within", "of_one_reference", "flat", "percent", "minimum", "rounding", "changed_by"),
)


def _is_said(attribute: Attribute[Any], value: object) -> bool:
    return attribute.init and (value != attribute.default or attribute.name in _ALWAYS_SAID)


_PLAIN: tuple[tuple[type | UnionType, Callable[[Any], object]], ...] = (
    (timedelta | BusinessDays, limit_text),
    (tzinfo, zone_text),
    (Decimal, percent_text),
    (StrEnum, str),
    (date, date.isoformat),
    (Dialect, dialect_as_json),
    (Mapping, dict),
    (tuple, list),
)


def _plain(_: object, __: object, value: Any) -> Any:
    return next((written(value) for kind, written in _PLAIN if isinstance(value, kind)), value)


def changed_rules(before: Rules, after: Rules) -> tuple[str, ...]:
    one, other = rules_as_json(before), rules_as_json(after)
    return tuple(name for name in {**one, **other} if one.get(name) != other.get(name) and name != "meta")


@frozen
class RuleChange:
    """
    One key of the rules with two values.

    Attributes:
        key: Its path, such as `tolerances.amount.below`. An acceptance is named by its code and reference.
        before: The old value, in the form of a rules file. None for a key that was not there.
        now: The new value.
    """

    key: str
    before: Any
    now: Any


def rule_changes(before: Rules, after: Rules) -> tuple[RuleChange, ...]:
    """Return each key that differs, apart from who changed it, in the order of their paths."""
    one, other = (dict(_leaves(rules_as_json(rules))) for rules in (before, after))
    keys = sorted(key for key in {*one, *other} if one.get(key) != other.get(key) and not key.startswith("meta."))
    return tuple(RuleChange(key, one.get(key), other.get(key)) for key in keys)


def _leaves(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if name == "accepted":
            value = {f"{each['code']} of {each['reference']}": [each] for each in value}  # noqa: PLW2901
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{path}{name}.")
        elif value != {}:
            yield f"{path}{name}", value


def with_reading_of(rules: Rules, run: Rules) -> Rules:
    kept = {name: getattr(run.statement, name) for name in ("columns", "ignore_columns", "reading", "kind")}
    return evolve(
        rules, statement=evolve(rules.statement, **kept), **{name: getattr(run, name) for name in _OF_READING}
    )


STRICT = Rules()
"""Every difference counts."""

_SHORT_CODE = re.compile(r"[A-Z][A-Z0-9_]{1,9}")
_MAX_WORDS = 200


@frozen
class UnknownWord:
    """A word without a meaning: the table of the rules that would give it one, and the rows that have it."""

    table: str
    word: str
    rows: int


@define
class UnknownWords:
    """
    Counts the words of a ledger that would not agree with any of the service, by the rules and earlier runs.

    Args:
        rules: For the meaning of words.
        methods: The payment methods that the service has shown in earlier runs.
    """

    _rules: Rules
    _methods: Iterable[str] = ()
    _counts: Counter[tuple[str, str]] = field(init=False, factory=Counter)

    def add(self, entry: Entry | RejectedEntry) -> None:
        if isinstance(entry, Entry):
            for name, word in (("statuses", entry.status), ("methods", entry.payment_method)):
                if word is None or word is ABSENT:
                    continue
                if (name, word) in self._counts or len(self._counts) < _MAX_WORDS:
                    self._counts[name, word] += 1

    def found(self) -> Iterator[UnknownWord]:
        known = (*self._methods, *self._rules.methods.values(), *self._rules.fees)
        methods = {self._rules.fold(each, "payment_method") for each in known}
        for (name, word), rows in self._counts.items():
            is_unknown = name == "statuses" and not states_none(word) and self._rules.read_status(word) is None
            is_code = _SHORT_CODE.fullmatch(word) or self._rules.fold(word, "payment_method") in methods
            if is_unknown or (name == "methods" and any(map(str.isalpha, word)) and not is_code):
                yield UnknownWord(name, word, rows)


# Rules from a TOML file, strictly: anything unknown or invalid is refused with its line and key

_AT_LINE = re.compile(r" ?\(at line (\d+), column \d+\)$")
_UNQUOTED = ("Invalid value", "Expected newline or end of document after a statement")
_NAME = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_STATEMENT = re.compile(rf"\s*(\[\[?)?\s*((?:{_NAME.pattern})(?:\s*\.\s*(?:{_NAME.pattern}))*)\s*(?(1)\]|=)")
"""The header of a table, or a key."""
Key: TypeAlias = tuple[str | int, ...]
"""The path from the outermost table. A number is the position in a list, from 0."""


def read_rules(path: str | os.PathLike[str]) -> Rules:
    """
    Read a rules file.

    Args:
        path: A TOML file in UTF-8.

    Raises:
        RulesError: When the file cannot be read or used. Names the first fault with its line and key.
    """
    name = Path(path).name
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise RulesError(f"the rules file {name} cannot be read: {error.strerror}") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RulesError(f"{name}, line {line}: it isn't UTF-8: save the file in that encoding", line=line) from error
    return parse_rules(text, name=name)


def parse_rules(text: str, *, name: str = "rules") -> Rules:
    """
    Read rules from the text of a file.

    Args:
        text: TOML.
        name: Name of the file in messages.

    Raises:
        RulesError: When the text cannot be used. Names the first fault with its line and key.
    """
    key: Key = ()
    try:
        document: dict[str, Any] = tomllib.loads(text, parse_float=Decimal)
        return rules_from_json(document)
    except RulesError as error:
        message, key, line = error.message, error.key, line_of(text, error.key)
        cause: Exception = error
    # `tomllib` also raises plain errors, for numbers that are too long and lists nested too deep.
    except (ValueError, RecursionError) as error:
        found, why = _AT_LINE.search(str(error)), _AT_LINE.sub("", str(error))
        line = int(found[1]) if found else len(text.rstrip("\r\n").split("\n"))
        advice = "; text needs quotes" if why in _UNQUOTED else ""
        message, cause = f"it is not TOML: {escape_unprintable(why, max_length=200)}{advice}", error
    where = escape_unprintable(name) + (f", line {line}" if line else "")
    raise RulesError(f"{where}: {message}", key=key, line=line) from cause


def rules_from_json(value: Mapping[str, Any]) -> Rules:
    return cast("Rules", _made(Rules, (), value))


def line_of(text: str, key: Key) -> int:
    """Return the line of *key*, from 1, or of the innermost table or value around it. 0 if none is written."""
    # TOML libraries don't keep lines. Inline tables and lists count as on the line where they begin.
    best = line = 0
    table: Key = ()
    lists = Counter[str]()
    is_text = False
    for number, row in enumerate(text.split("\n"), 1):
        found = None if is_text else _STATEMENT.match(row)
        is_text ^= (row.count('"""') + row.count("'''")) % 2 == 1
        if found is None:
            continue
        names = tuple(name.strip("\"'") for name in _NAME.findall(found[2]))
        lists.update(names[:1] if found[1] == "[[" else ())
        if found[1]:
            table = (names[0], lists[names[0]] - 1, *names[1:]) if names[0] in lists else names
        path = table if found[1] else (*table, *names)
        common = len([*takewhile(lambda pair: pair[0] == pair[1], zip(path, key, strict=False))])
        if common > best:
            best, line = common, number
    return line


# Values: a table becomes its class, whose validators check everything else. Errors name the path.


def _made(kind: Any, key: Key, value: Any) -> Any:
    if get_origin(kind) is UnionType:  # the other is None, which TOML lacks
        kind = get_args(kind)[0]
    origin, parts = get_origin(kind), get_args(kind)
    dotted = ".".join(escape_unprintable(part) for part in key if isinstance(part, str))
    if origin is tuple and has(parts[0]):
        if not isinstance(value, list):
            raise RulesError(f"{dotted} must be a list of tables, each under [[{dotted}]]", key=key)
        return [_made(parts[0], (*key, place), each) for place, each in enumerate(cast("list[object]", value))]
    if origin is not Mapping and not has(kind):
        return value
    if not isinstance(value, dict):
        raise RulesError(f"{dotted} must be a table of keys and values, got {quote(value)}", key=key)
    table = cast("dict[str, object]", value)
    if origin is Mapping:
        return {name: _made(parts[1], (*key, name), each) for name, each in table.items()}
    return _instance(kind, key, dotted, table)


def _instance(kind: Any, key: Key, dotted: str, table: Mapping[str, Any]) -> Any:
    known = {attribute.name: attribute for attribute in fields(kind) if attribute.init}
    if unknown := next((name for name in table if name not in known), None):
        message = f"unknown key {quote(unknown)}{did_you_mean(unknown, known)}: the keys are {', '.join(known)}"
        raise RulesError(f"{dotted}: {message}" if key else message, key=(*key, unknown))
    if missing := [name for name, attribute in known.items() if attribute.default is NOTHING and name not in table]:
        raise RulesError(f"{dotted} lacks {missing[0]}; {' and '.join(missing)} must be given", key=key)
    if kind is not Dialect:
        kinds = get_type_hints(kind)
        table = {name: _made(kinds[name], (*key, name), one) for name, one in table.items()}
    try:
        return kind(**table)
    except ValueError as error:
        within = error.key if isinstance(error, RulesError) else (getattr(error, "option", ""),)
        raise RulesError(f"{dotted}.{error}" if key else str(error), key=(*key, *within)) from error


register(Rules, write=rules_as_json, read=rules_from_json)

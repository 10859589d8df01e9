"""Internal: the rules for comparing the two sides, and their file."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from itertools import takewhile
from math import ceil, floor
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any, TypeAlias, cast, get_args, get_origin, get_type_hints

from attrs import NOTHING, Attribute, asdict, define, evolve, field, fields, frozen, has
from attrs.validators import instance_of, optional

from payclient._shared.escape import did_you_mean, escape_unprintable, quote
from payclient.protocol import EMPTY, plain
from payclient.reconcile._codec import register
from payclient.reconcile._judgement import rule_values as values
from payclient.reconcile._judgement.codes import WORDS, Assumed, Code, Status, folded, normalise, states_none
from payclient.reconcile._judgement.errors import RulesError
from payclient.reconcile._judgement.findings import Finding
from payclient.reconcile.ledger import ABSENT, COMPARED, PLAIN, Dialect, Entry, RejectedEntry


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

    above: int | None = field(default=None, validator=values.is_whole)
    below: int | None = field(default=None, validator=values.is_whole)
    above_percent: Decimal | None = field(default=None, converter=values.to_percent, validator=values.is_percent)
    below_percent: Decimal | None = field(default=None, converter=values.to_percent, validator=values.is_percent)

    def waiver(self, ours: int, theirs: int) -> str:
        """Return why the difference of two amounts in minor units does not count. Empty if it does."""
        if theirs > ours:
            side, most, percent = "above", self.above, self.above_percent
        else:
            side, most, percent = "below", self.below, self.below_percent
        bounds = [] if most is None else [(Fraction(most), str(most))]
        if percent is not None:
            bounds.append((abs(ours) * Fraction(percent) / 100, f"{values.percent_text(percent)} %"))
        if not bounds or any(abs(theirs - ours) > bound for bound, _ in bounds):
            return ""
        return f"within the tolerance of {' and '.join(text for _, text in bounds)} {side}"


_ROUNDINGS: Mapping[str, Callable[[Fraction], int]] = {
    "half_up": lambda fee: floor(fee + Fraction(1, 2)),
    "up": ceil,
    "down": floor,
}
_is_rounding = values.must_be(f"one of {', '.join(_ROUNDINGS)}", lambda value: value in list(_ROUNDINGS))


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

    flat: int = field(default=0, validator=values.is_whole)
    percent: Decimal = field(default=Decimal(0), converter=values.to_percent, validator=values.is_percent)
    minimum: int = field(default=0, validator=values.is_whole)
    maximum: int | None = field(default=None, validator=values.is_whole)
    rounding: str = field(default="half_up", validator=_is_rounding)

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
    return values.to_member(Code, value, "code")


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

    Either both sides or a largest difference must be given. If both are, both apply.
    """

    code: Code = field(converter=_to_code)
    reference: str = field(validator=values.is_filled)
    ledger: str | int | None = field(default=None, validator=values.is_side)
    service: str | int | None = field(default=None, validator=values.is_side)
    largest_difference: int | None = field(default=None, validator=values.is_whole)
    reason: str = field(validator=values.is_filled)
    owner: str = field(validator=values.is_filled)
    expires: date = field(converter=values.to_date, validator=values.is_date)

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
        return (self.expires - at.astimezone(time_zone or values.LAST_ON_EARTH).date()).days

    def covers(self, finding: Finding) -> bool:
        """Return whether *finding* still has the accepted values. Its code and reference must match already."""
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

    changed_by: str = field(default="", validator=values.is_text)


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

    settles_within: values.Limit = field(default=timedelta(0), converter=values.to_limit, validator=values.is_limit)
    columns: Mapping[str, str] = field(default=EMPTY, converter=values.to_table, validator=values.are_columns)
    ignore_columns: tuple[str, ...] = field(
        default=(), converter=values.to_texts, validator=values.are_texts("a list of names of columns", str.strip)
    )
    reading: Dialect = field(default=PLAIN, validator=instance_of(Dialect))
    kind: values.Kinds | None = field(default=None, validator=optional(instance_of(values.Kinds)))
    new_lines_only: bool = field(default=False, validator=values.is_flag)

    def kind_of(self, word: object) -> values.Kind | None:
        """Return the kind of a line. None if its word is not listed."""
        return values.Kind.CHARGE if self.kind is None else self.kind.of(word)


MONEY = ("amount", "fee", "amount_received")
"""The fields that may have a tolerance."""

_OF_THE_LEDGER = ("columns", "require", "ignore_columns", "ledger")
_NOT_JUDGING = (*_OF_THE_LEDGER, "final_statuses", "material_from", "meta")
_OF_READING = (*_OF_THE_LEDGER, "not_found_messages")


def _to_statuses(words: Mapping[str, Status | str]) -> Mapping[str, Status]:
    statuses: dict[str, Status] = {}
    for word, meaning in words.items():
        status, name = values.to_member(Status, meaning, "statuses", word), normalise(word)
        if not any(map(str.isalpha, word)):
            message = f"statuses: {quote(word)} is not a word: a number may have several meanings"
            raise RulesError(message, key=("statuses", word))
        if statuses.setdefault(name, status) is not status:
            message = f"statuses.{word} must be {statuses[name]}, as the same word in other letters is, got {status}"
            raise RulesError(message, key=("statuses", word))
        if WORDS.get(name, status) is not status:
            message = f"statuses.{word} must not be {status}: {quote(word)} always means {WORDS[name]}"
            raise RulesError(message, key=("statuses", word))
    return MappingProxyType(statuses)


def _to_methods(words: Mapping[str, Any]) -> Mapping[str, str]:
    methods: dict[str, str] = {}
    for word, method in words.items():
        name = folded(word, "payment_method")
        if not isinstance(method, str) or not plain(method) or not name:
            raise values.problem("the service's word for the payment method", method, "methods", word)
        if methods.setdefault(name, method) != method:
            message = f"methods.{word} must be {methods[name]}, as the same word in other letters is, got {method}"
            raise RulesError(message, key=("methods", word))
    return MappingProxyType(methods)


def _to_final(value: Any) -> tuple[Status, ...]:
    """Return the statuses in their own order, so that equal lists are equal."""
    words = values.to_texts(value)
    if not isinstance(words, tuple):
        raise values.problem("a list of statuses", value, "final_statuses")
    final = {values.to_member(Status, word, "final_statuses") for word in cast("tuple[object, ...]", words)}
    if Status.PENDING in final:
        message = "final_statuses must not have pending, which is not the end of a payment"
        raise RulesError(message, key=("final_statuses",))
    return tuple(status for status in Status if status in final)


_FINAL = (Status.PAID, Status.REFUNDED)
"""A payment that was canceled or has expired may still be paid late."""


def _to_assumed(value: Assumed | str) -> Assumed:
    return values.to_member(Assumed, value, "assume_status")


def _to_accepted(accepted: Iterable[Accepted]) -> tuple[Accepted, ...]:
    listed = tuple(accepted)
    seen: set[tuple[Code, str]] = set()
    for place, each in enumerate(listed):
        if (each.code, each.reference) in seen:
            message = f"accepted: {each.code} of {quote(each.reference)} is listed twice: keep one, with one last day"
            raise RulesError(message, key=("accepted", place))
        seen.add((each.code, each.reference))
    return tuple(sorted(listed, key=lambda each: (each.reference, each.code)))


_are_texts = values.are_texts("a list of texts, each with a word in it", plain)


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

    time_zone: tzinfo | None = field(
        default=None, eq=values.zone_text, converter=values.to_zone, validator=values.is_zone
    )
    grace: values.Limit = field(default=timedelta(0), converter=values.to_limit, validator=values.is_limit)
    calendar: values.Calendar = field(default=values.Calendar(), validator=instance_of(values.Calendar))
    assume_status: Assumed = field(default=Assumed.PAID, converter=_to_assumed)
    columns: Mapping[str, str] = field(default=EMPTY, converter=values.to_table, validator=values.are_columns)
    require: tuple[str, ...] = field(
        default=(), converter=values.to_texts, validator=[_are_texts, values.has_only(*COMPARED)]
    )
    ignore_columns: tuple[str, ...] = field(default=(), converter=values.to_texts, validator=_are_texts)
    not_found_messages: tuple[str, ...] = field(default=(), converter=values.to_texts, validator=_are_texts)
    may_leave: bool = field(default=False, validator=values.is_flag)
    material_from: int | None = field(default=None, validator=values.is_whole)
    ledger: Dialect = field(default=PLAIN, validator=instance_of(Dialect))
    tolerances: Mapping[str, Tolerance] = field(
        default=EMPTY, converter=values.to_table, validator=values.has_only(*MONEY)
    )
    statuses: Mapping[str, Status] = field(default=EMPTY, converter=_to_statuses)
    methods: Mapping[str, str] = field(default=EMPTY, converter=_to_methods)
    final_statuses: tuple[Status, ...] = field(default=_FINAL, converter=_to_final)
    fees: Mapping[str, FeeSchedule] = field(default=EMPTY, converter=values.to_table)
    accepted: tuple[Accepted, ...] = field(default=(), converter=_to_accepted)
    lines: values.Lines = field(default=values.Lines(), validator=instance_of(values.Lines))
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

    def fold(self, text: str, name: str) -> str:
        """Return the normal form of a ledger's *text* in a field: equal to a service's text that means the same."""
        plain_text = folded(text, name)
        method = self.methods.get(plain_text) if name == "payment_method" else None
        return plain_text if method is None else folded(method, name)

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
        return any(isinstance(limit, values.BusinessDays) for limit in (self.grace, self.statement.settles_within))

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
            raise values.without_meaning("lines.kind")
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
            raise values.without_meaning("statement.kind")

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
    (timedelta | values.BusinessDays, values.limit_text),
    (tzinfo, values.zone_text),
    (Decimal, values.percent_text),
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

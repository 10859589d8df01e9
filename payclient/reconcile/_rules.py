"""What the user decided about how the two sides are compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import timedelta, tzinfo
from types import MappingProxyType
from typing import Any

from attrs import Attribute, Factory, asdict, field, frozen

from payclient._models import EMPTY
from payclient._visible import quoted
from payclient.ledger._columns import FIELDS
from payclient.reconcile._accepted import Accepted
from payclient.reconcile._errors import RulesError
from payclient.reconcile._fees import FeeSchedule
from payclient.reconcile._finding import Code
from payclient.reconcile._rule_values import duration_text, is_zone_or_none, plain, problem, zone_text
from payclient.reconcile._status import WORDS, Status, folded, read_status
from payclient.reconcile._tolerance import Tolerance

MONEY = ("amount", "fee", "amount_received")
"""The fields that may have a tolerance."""

COLUMN_FIELDS = tuple(dict.fromkeys((*FIELDS, "created_at")))
"""The fields that a column may be chosen for."""


def _to_columns(columns: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(columns))


def _to_tolerances(tolerances: Mapping[str, Tolerance]) -> Mapping[str, Tolerance]:
    return MappingProxyType(dict(tolerances))


def _to_fees(fees: Mapping[str, FeeSchedule]) -> Mapping[str, FeeSchedule]:
    return MappingProxyType(dict(fees))


def _to_statuses(words: Mapping[str, Status | str]) -> Mapping[str, Status]:
    known: dict[str, Status] = {}
    for word, meaning in words.items():
        status, name = _to_status(word, meaning), folded(word)
        if known.setdefault(name, status) is not status:
            message = f"statuses.{word} must be {known[name]}, as the same word in other letters is, got {status}"
            raise RulesError(message, key=("statuses", word))
        if WORDS.get(name, status) is not status:
            message = f"statuses.{word} must not be {status}: everybody reads {quoted(word)} as {WORDS[name]}"
            raise RulesError(message, key=("statuses", word))
    return MappingProxyType(known)


def _to_status(word: str, meaning: object) -> Status:
    if not isinstance(meaning, str) or meaning not in set(Status):
        message = f"statuses.{word} must be one of {', '.join(Status)}, got {quoted(meaning)}"
        raise RulesError(message, key=("statuses", word))
    if not any(character.isalpha() for character in word):
        message = f"statuses: {quoted(word)} is no word; a number is never given a meaning, because it may have several"
        raise RulesError(message, key=("statuses", word))
    return Status(meaning)


def _to_accepted(accepted: Iterable[Accepted]) -> tuple[Accepted, ...]:
    given = tuple(accepted)
    seen: set[tuple[Code, str]] = set()
    for place, each in enumerate(given):
        if (each.code, each.reference) in seen:
            message = f"accepted: {each.code} of {quoted(each.reference)} is there twice; keep one, with one last day"
            raise RulesError(message, key=("accepted", place))
        seen.add((each.code, each.reference))
    return tuple(sorted(given, key=lambda each: (each.reference, each.code)))


def _by_difference(rules: Rules) -> Mapping[tuple[Code, str], Accepted]:
    return MappingProxyType({(each.code, each.reference): each for each in rules.accepted})


def _is_table_of(*names: str) -> Any:
    def check(_: object, attribute: Attribute[Any], value: Mapping[str, object]) -> None:
        if unknown := next((name for name in value if name not in names), None):
            message = f"{attribute.name}: there is no field {quoted(unknown)}; the fields are {', '.join(names)}"
            raise RulesError(message, key=(attribute.name, unknown))

    return check


def _names_columns(_: object, __: object, value: Mapping[str, object]) -> None:
    for name, column in value.items():
        if not isinstance(column, str) or not column.strip():
            message = f"columns.{name} must be the name of a column, got {quoted(column)}"
            raise RulesError(message, key=("columns", name))


def _is_time(_: object, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, timedelta) or value < timedelta(0) or value.microseconds:
        raise problem(attribute.name, "a duration in whole seconds that is not negative", value)


@frozen(kw_only=True)
class Rules:
    """
    How differences are judged.

    Attributes:
        columns: Name of the ledger's column, by field, where it is not one that is known.
        tolerances: How far money may differ, by field: `amount`, `fee`, `amount_received`.
        statuses: What other words for a state mean, by word; kept folded, as `read_status` folds them. A
            word that is known keeps its meaning, and a number gets none.
        grace: A row younger than this that is missing, or pending on one side only, is open. The
            ledger's `created_at` tells its age; a row without is never young.
        time_zone: What the service's and the ledger's times mean; without it, an expiry has passed when it
            has passed everywhere on Earth, and a row is young when it is young everywhere.
        fees: What each payment method costs, by the service's short code; expected where the ledger states no fee.
        accepted: Differences that somebody answers for, in the order of their references.

    Raises:
        RulesError: When a rule cannot be used.
    """

    columns: Mapping[str, str] = field(
        default=EMPTY, converter=_to_columns, validator=[_is_table_of(*COLUMN_FIELDS), _names_columns]
    )
    tolerances: Mapping[str, Tolerance] = field(default=EMPTY, converter=_to_tolerances, validator=_is_table_of(*MONEY))
    statuses: Mapping[str, Status] = field(default=EMPTY, converter=_to_statuses)
    grace: timedelta = field(default=timedelta(0), validator=_is_time)
    time_zone: tzinfo | None = field(default=None, eq=zone_text, validator=is_zone_or_none)
    fees: Mapping[str, FeeSchedule] = field(default=EMPTY, converter=_to_fees)
    accepted: tuple[Accepted, ...] = field(default=(), converter=_to_accepted)
    _accepted_by: Mapping[tuple[Code, str], Accepted] = field(
        init=False, eq=False, repr=False, default=Factory(_by_difference, takes_self=True)
    )

    def read_status(self, word: str | None) -> Status | None:
        """Return what *word* means, by these rules; None if it is not known."""
        return read_status(word, self.statuses)

    def acceptance(self, code: Code, reference: str) -> Accepted | None:
        """Return who answers for a finding, whether it still holds or not; None if nobody does."""
        return self._accepted_by.get((code, reference))

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of all that changes a judgement; `columns` only change what is judged."""
        judging = {name: value for name, value in rules_as_json(self).items() if name != "columns"}
        canonical = json.dumps(judging, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


def rules_as_json(rules: Rules) -> dict[str, Any]:
    """Return *rules* in plain values, in the shape of a rules file; `rules_from_json` makes them again."""
    return {
        "time_zone": zone_text(rules.time_zone),
        "grace": duration_text(rules.grace),
        "columns": dict(rules.columns),
        "tolerances": {name: _given(each) for name, each in rules.tolerances.items()},
        "statuses": {word: status.value for word, status in rules.statuses.items()},
        "fees": {method: _given(each) for method, each in rules.fees.items()},
        "accepted": [_given(each) for each in rules.accepted],
    }


def _given(value: Tolerance | FeeSchedule | Accepted) -> dict[str, Any]:
    return {name: plain(each) for name, each in asdict(value).items() if each is not None}


STRICT = Rules()
"""Every difference counts."""

"""The rules for a statement: how it is read, and how long a payment may take to be settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any, cast

from attrs import Attribute, field, frozen
from attrs.validators import instance_of, optional

from payclient._escape import quote
from payclient.ledger import FIELDS, PLAIN, Dialect
from payclient.protocol import EMPTY
from payclient.reconcile._errors import RulesError
from payclient.reconcile._line_rules import Kind, Kinds, is_flag
from payclient.reconcile._rule_values import DURATION, problem, read_duration


def _to_columns(columns: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(columns))


def _are_columns(_: object, __: object, value: Mapping[str, object]) -> None:
    for name, column in value.items():
        if name not in FIELDS:
            message = f"columns: there is no field {quote(name)}; the fields are {', '.join(FIELDS)}"
            raise RulesError(message, key=("columns", name))
        if not isinstance(column, str) or not column.strip():
            message = f"columns.{name} must be the name of a column, got {quote(column)}"
            raise RulesError(message, key=("columns", name))


def _to_names(value: Any) -> Any:
    return tuple(cast("Sequence[object]", value)) if isinstance(value, list | tuple) else value


def _are_names(_: object, attribute: Attribute[Any], value: Any) -> None:
    names = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (None,)
    if not all(isinstance(each, str) and each.strip() for each in names):
        raise problem(attribute.name, "a list of names of columns", cast("object", value))


def _to_duration(value: timedelta | str) -> timedelta:
    found = read_duration(value) if isinstance(value, str) else value
    if found is None:
        raise problem("settles_within", DURATION, value)
    return found


def _is_duration(_: object, attribute: Attribute[Any], value: object) -> None:
    if not isinstance(value, timedelta) or value < timedelta(0) or value.microseconds:
        raise problem(attribute.name, DURATION, value)


@frozen(kw_only=True)
class StatementRules:
    """
    How a statement is read and compared: the second list of references, such as a settlement report.

    Attributes:
        settles_within: A paid row younger than this may be missing in the statement. The ledger's `created_at` tells
            its age; a row without is never young.
        columns: Name of the statement's column, by field, where it is not one that is known.
        ignore_columns: Columns that need not be used, although they look like money or like a field.
        reading: How the statement is written.
        kind: Which of its lines are charges, refunds and fees; None where all are charges.
        new_lines_only: Whether a statement has only lines that no statement before it has. What the statements of this
            run and of earlier ones list for a reference is then summed. Otherwise the newest that lists it counts,
            unless that only takes money back.

    Raises:
        RulesError: When a value cannot be used.
    """

    settles_within: timedelta = field(default=timedelta(0), converter=_to_duration, validator=_is_duration)
    columns: Mapping[str, str] = field(default=EMPTY, converter=_to_columns, validator=_are_columns)
    ignore_columns: tuple[str, ...] = field(default=(), converter=_to_names, validator=_are_names)
    reading: Dialect = field(default=PLAIN, validator=instance_of(Dialect))
    kind: Kinds | None = field(default=None, validator=optional(instance_of(Kinds)))
    new_lines_only: bool = field(default=False, validator=is_flag)

    def kind_of(self, word: object) -> Kind | None:
        """Return the kind of a line; None if its word is not listed."""
        return Kind.CHARGE if self.kind is None else self.kind.of(word)

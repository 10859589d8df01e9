"""The rules for a statement: how it is read, and how long a payment may take to be settled."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from attrs import field, frozen
from attrs.validators import instance_of, optional

from payclient.ledger import FIELDS, PLAIN, Dialect
from payclient.protocol import EMPTY
from payclient.reconcile.rules import _rule_values as values
from payclient.reconcile.rules._calendar import Limit, is_limit, to_limit
from payclient.reconcile.rules._line_rules import Kind, Kinds


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

    settles_within: Limit = field(default=timedelta(0), converter=to_limit, validator=is_limit)
    columns: Mapping[str, str] = field(
        default=EMPTY, converter=values.to_table, validator=[values.is_table_of(*FIELDS), values.names_columns]
    )
    ignore_columns: tuple[str, ...] = field(
        default=(), converter=values.to_texts, validator=values.are_texts("a list of names of columns", str.strip)
    )
    reading: Dialect = field(default=PLAIN, validator=instance_of(Dialect))
    kind: Kinds | None = field(default=None, validator=optional(instance_of(Kinds)))
    new_lines_only: bool = field(default=False, validator=values.is_flag)

    def kind_of(self, word: object) -> Kind | None:
        """Return the kind of a line; None if its word is not listed."""
        return Kind.CHARGE if self.kind is None else self.kind.of(word)

"""The rules for several ledger rows of one payment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cached_property

from attrs import define, evolve, field, frozen
from attrs.validators import instance_of, optional

from payclient._shared.escape import quote
from payclient.reconcile.ledger import ABSENT, CellProblem, Entry, Ledger, LedgerError, RejectedEntry, SignLaw
from payclient.reconcile.rules._rule_values import are_texts, is_filled, must_be, to_texts
from payclient.reconcile.values import RulesError, normalise


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

    A line with another word, or with none, is rejected. The amounts of all refunds or fees with one word are written
    with a minus, or all without.

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
        found: dict[str, Kind] = {}
        for kind in Kind:
            for word in getattr(self, kind.value):
                if found.setdefault(normalise(word), kind) is not kind:
                    message = f"{kind}: {quote(word)} is listed under {found[normalise(word)]} already"
                    raise RulesError(message, key=(kind.value,))
        return found

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
        amount: Sum of their amounts. Lines that cannot be read have none.
    """

    word: str
    lines: int = 0
    amount: int = 0


@define
class KindGuard:
    """Checks that the kinds of lines have a meaning, and that each shows the sign of its amounts once."""

    _kinds: Kinds | None
    _table: str = "lines.kind"
    _are_fees_signed: bool = field(default=False, alias="are_fees_signed")
    """Whether columns for debit and credit show the sign of fees, which may then come back."""
    _laws: dict[tuple[str, str], SignLaw] = field(init=False, factory=dict)

    def check(self, line: Entry | RejectedEntry) -> None:
        """Refuse a line whose kind has no meaning, and refunds with one word if only some have a minus."""
        if self._kinds is None:
            if line.kind is not ABSENT:
                raise without_meaning(self._table)
            return
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


def check_currencies(ledger: Ledger, statement: Ledger) -> None:
    """Refuse two files, read to their end, that name different currencies."""
    ours, theirs = ledger.currency, statement.currency
    if ours and theirs and ours != theirs:
        message = (
            f"the statement {statement.fingerprint.name} has amounts in {theirs}, and the ledger in {ours}, which are "
            "never compared; give the statement of the same currency"
        )
        raise LedgerError(message)


def without_meaning(table: str) -> RulesError:
    """Return the refusal of a column of kinds, of which each line would count as a charge."""
    message = f"a column is read as kind; say which of its words are a charge, refund or fee in the table [{table}]"
    return RulesError(f"{message} of the rules file", key=tuple(table.split(".")))


@define
class IgnoredCount:
    """Counts the lines that the rules leave out, by word. Memory grows with the words of the rules."""

    _kind_of: Callable[[object], Kind | None]
    _counts: dict[str, IgnoredLines] = field(init=False, factory=dict)

    def takes(self, kind: object, amount: object, *, is_alone: bool = False) -> bool:
        """Return whether a line of *kind*, or a fee that *is_alone* without a payment, is left out, and count it."""
        left_out = {Kind.IGNORE, Kind.FEE} if is_alone else {Kind.IGNORE}
        if self._kind_of(kind) not in left_out or not isinstance(kind, str):
            return False
        word, money = normalise(kind), amount if isinstance(amount, int) else 0
        before = self._counts.get(word, IgnoredLines(word=word))
        self._counts[word] = evolve(before, lines=before.lines + 1, amount=before.amount + money)
        return True

    def counted(self) -> tuple[IgnoredLines, ...]:
        return tuple(self._counts[word] for word in sorted(self._counts))


@frozen(kw_only=True)
class Lines:
    """
    Several ledger rows with one reference.

    Attributes:
        of_one_reference: `duplicate` if they are mistakes: each is a break. `sum` if they are lines of one payment,
            which are summed before they are compared.
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

"""The statement of `payclient reconcile`: its options, and how it is opened and read."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import attrs
from attrs import frozen
from cyclopts import Group, Parameter

from payclient.cli._options import chosen_columns, unexplained_kind
from payclient.errors import ConfigurationError
from payclient.ledger import CellProblem, Dialect, Entry, Ledger, LedgerError, MoneyReader, RejectedEntry, open_ledger
from payclient.reconcile import Rules, with_profiles
from payclient.reconcile.rules import read_limit

_AMOUNT = re.compile(r"-?(?:\d+|\d{1,3}(?:[,_ ]\d{3})+)", re.ASCII)
_OPTION = re.compile(r"--(?!statement-|allow-empty)[a-z]")


@Parameter(name="*", group=Group("Statement", sort_key=7))
@frozen(kw_only=True)
class StatementOptions:
    """
    The other side: a settlement report, a dashboard's export or a log of callbacks.

    Attributes:
        statement: Second list of references, with amounts where it has them. What is in it and not in the ledger is
            looked up too. `[statement]` of the rules file says how it is written.
        statement_profile: How a well-known program writes the statement, such as `adyen-settlement`. Replaces
            `[statement.reading]` of the rules file.
        statement_column: Name of a column of the statement, as `field=name`. May be repeated.
        settles_within: Time that a payment may take to be in the statement, such as `3d` or `2 business days`.
            Overrides the rules file.
        payout: Amount that came to the bank for the statement, such as `12,345,000`, to be tied.
    """

    statement: Path | None = None
    statement_profile: str | None = None
    statement_column: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()
    settles_within: str | None = None
    payout: str | None = None

    def declared(self, rules: Rules) -> Rules:
        """
        Return *rules* with what these options say about the statement.

        Raises:
            ConfigurationError: When an option cannot be used.
        """
        given = {
            "--statement-profile": self.statement_profile,
            "--statement-column": self.statement_column,
            "--settles-within": self.settles_within,
            "--payout": self.payout,
        }
        if self.statement is None and (name := next((name for name, value in given.items() if value), None)):
            message = f"{name} needs --statement, the list that it is about"
            raise ConfigurationError(message)
        statement = settling_within(rules, self.settles_within).statement
        if self.statement_profile is not None:
            statement = attrs.evolve(statement, reading=_profile(self.statement_profile))
        chosen = chosen_columns(self.statement_column, option="--statement-column")
        if chosen:
            statement = attrs.evolve(statement, columns={**statement.columns, **chosen})
        rules = with_profiles(attrs.evolve(rules, statement=statement))
        rules.check_zone()
        return rules

    @property
    def payout_amount(self) -> int | None:
        """
        The amount that came to the bank; None where it was not given.

        Raises:
            ConfigurationError: When it is not a whole number.
        """
        if self.payout is None:
            return None
        if not _AMOUNT.fullmatch(self.payout):
            message = (
                f"--payout must be a whole number in the unit of the service, such as 12,345,000, got {self.payout!r}"
            )
            raise ConfigurationError(message)
        try:
            return MoneyReader().read(re.sub("[,_ ]", "", self.payout))
        except CellProblem as problem:
            message = f"--payout: {problem}"
            raise ConfigurationError(message) from None

    @contextmanager
    def open(self, rules: Rules, ledger: Ledger, *, allow_empty: bool = False) -> Generator[Ledger | None]:
        """
        Open the statement, as the rules declare it; None without one. It may have no rows if *allow_empty* says so.

        Raises:
            LedgerError: When it cannot be trusted; the message begins with the name of the file.
            ConfigurationError: When a rule does not fit it, or the *ledger* does not tell the age of its rows.
        """
        if self.statement is None:
            yield None
            return
        if rules.statement.settles_within and ledger.columns.used and "created_at" not in ledger.columns.used:
            message = (
                "settles_within needs the age of each row, and no column of the ledger is read as created_at; "
                "choose one with --column created_at=NAME, or leave settles_within out"
            )
            raise ConfigurationError(message)
        with _opened(self.statement, rules, allow_empty=allow_empty) as statement:
            yield statement


def settling_within(rules: Rules, text: str | None) -> Rules:
    """
    Return *rules* with the time that a payment may take to be settled; as they are if it is not given.

    Raises:
        ConfigurationError: When it is neither a duration nor a number of business days.
    """
    if text is None:
        return rules
    within = read_limit(text)
    if within is None:
        message = f"--settles-within must be a duration such as '36h' or '3d', or '2 business days', got {text!r}"
        raise ConfigurationError(message)
    return attrs.evolve(rules, statement=attrs.evolve(rules.statement, settles_within=within))


def _profile(name: str) -> Dialect:
    try:
        return Dialect.named(name)
    except ValueError as error:
        message = f"--statement-{error}"
        raise ConfigurationError(message) from error


def _opened(path: Path, rules: Rules, *, allow_empty: bool) -> Ledger:
    how = rules.statement
    kind = {} if how.kind is None else {"kind": how.kind.column}
    try:
        found = open_ledger(
            path,
            columns={**how.columns, **kind} or None,
            ignore=how.ignore_columns,
            allow_empty=allow_empty,
            dialect=how.reading,
            time_zone=rules.time_zone,
            is_statement=True,
        )
    except LedgerError as error:
        raise _of_statement(path.name, error) from error
    except ValueError as error:
        message = f"the statement cannot be read like this: {error}"
        raise ConfigurationError(message) from error
    if message := unexplained_kind(found, how.kind, "statement.kind"):
        with found:  # closes it
            raise ConfigurationError(message)
    return found


def _of_statement(name: str, error: LedgerError) -> LedgerError:
    message = error.message.replace("the ledger", "it")
    return LedgerError(f"the statement {name}: {about_statement(message)}", line=error.line)


def statement_lines(statement: Ledger, ledger: Ledger) -> Iterator[Entry | RejectedEntry]:
    """
    Yield the lines of *statement*, after the *ledger* was read to its end.

    Raises:
        LedgerError: When the rest of it cannot be trusted, or it is in another currency than the ledger.
    """
    name = statement.fingerprint.name
    try:
        yield from statement
    except LedgerError as error:
        raise _of_statement(name, error) from error
    ours, theirs = ledger.currency, statement.currency
    if ours and theirs and ours != theirs:
        message = (
            f"the statement {name} has amounts in {theirs}, and the ledger in {ours}, which are never compared; "
            "give the statement of the same currency"
        )
        raise LedgerError(message)


def about_statement(text: str) -> str:
    """Return what was said about a ledger with the options that a statement has instead."""
    text = text.replace("--column", "--statement-column").replace("[lines.kind]", "[statement.kind]")
    text = text.replace("--ignore-column", "[statement] ignore_columns")
    if not _OPTION.search(text):
        return text
    return f"{text}; for a statement, such options are keys of [statement.reading] in the rules file"

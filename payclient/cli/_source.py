"""The options that say how a ledger is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from attrs import frozen
from cyclopts import Group, Parameter

from payclient.cli._streams import Streams
from payclient.errors import ConfigurationError
from payclient.ledger import Ledger, LedgerError, LedgerFormat, open_ledger
from payclient.reconcile import Rules


@Parameter(name="*", group=Group("Ledger", sort_key=5))
@frozen(kw_only=True)
class LedgerSource:
    """
    How a ledger is read.

    Attributes:
        column: Which column is a field, as `field=name`, where it is not recognised; may be repeated.
        format: What kind of file it is, where its name does not tell.
        sheet: Which sheet of an XLSX file, where it is not the first.
        delimiter: What separates the cells of a CSV file, where the header does not tell.
    """

    column: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()
    format: LedgerFormat | None = None
    sheet: str | None = None
    delimiter: str | None = None

    def open(self, ledger: Path, rules: Rules, streams: Streams) -> Ledger:
        """
        Open *ledger*, or standard input for `-`; the caller closes it.

        Raises:
            LedgerError: When it cannot be trusted.
            ConfigurationError: When a column cannot be chosen like this.
        """
        columns = {**rules.columns, **_columns(self.column)}
        try:
            return open_ledger(
                streams.stdin if str(ledger) == "-" else ledger,
                columns=columns or None,
                format=self.format,
                sheet=self.sheet,
                delimiter=self.delimiter,
            )
        except LedgerError:
            raise
        except ValueError as error:  # a field that does not exist, or an option that the format does not have
            message = f"the ledger cannot be read like this: {error}"
            raise ConfigurationError(message) from error


def _columns(choices: Sequence[str]) -> dict[str, str]:
    if unclear := [choice for choice in choices if "=" not in choice]:
        message = f"--column must be like amount=Betrag, got {unclear[0]!r}"
        raise ConfigurationError(message)
    return {field: name for field, _, name in (choice.partition("=") for choice in choices)}

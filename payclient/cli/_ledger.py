"""`payclient ledger`: how a ledger is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from payclient.cli._options import LedgerOptions
from payclient.cli._overview import Overview, overview_as_json, overview_lines
from payclient.cli._status import Exit
from payclient.cli._streams import Streams
from payclient.reconcile import Rules, read_rules

EXAMPLES = """
```console
$ payclient ledger ledger.csv
$ payclient ledger ledger.csv --decimal , --thousands .
$ payclient ledger ledger.xlsx --profile excel-de --header-row 4 --json | jq .suggestions
```

Exit status: 0 every row can be used. 1 rows are rejected. 2 usage, or an unreadable ledger.
"""


def ledger(
    ledger: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    rules: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="", show_default=False)] = False,
    source: LedgerOptions = LedgerOptions(),  # noqa: B008  frozen
    streams: Annotated[Streams, Parameter(parse=False)],
) -> int:
    """
    Show how a ledger is read, before anything is looked up; needs neither a key nor a network.

    That is: what each column is taken for, the first rows, which rows are rejected and why, totals by status, what is
    listed again, and the options that would read what is refused.

    Args:
        ledger: CSV, JSON Lines, XLSX or Parquet file, `-` for standard input.
        rules: TOML file with the column names and the table `ledger`.
        as_json: Print one JSON object.
        source: Reading the ledger.
        streams: Of the process.
    """
    with source.open(ledger, source.declared(Rules() if rules is None else read_rules(rules)), streams) as opened:
        overview = Overview.of(opened)
        if as_json:
            streams.write(json.dumps(overview_as_json(overview), indent=2, ensure_ascii=True))
        else:
            for line in overview_lines(overview):
                streams.write(line)
    return Exit.DIFFERENT if overview.rejected else Exit.DONE

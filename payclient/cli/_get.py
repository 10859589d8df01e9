"""`payclient get`: look some transactions up."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from payclient.cli._connection import Connection
from payclient.cli._lines import read_lines
from payclient.cli._outcomes import Outcomes
from payclient.cli._streams import Streams
from payclient.errors import ConfigurationError

EXAMPLES = """
```console
$ payclient get T0000000033KGJ0D
$ payclient get T0000000033KGJ0D T0000000034ABCDE --environment sandbox
$ payclient get --json - < references.txt | jq .status
$ payclient get --api-key-file /run/secrets/pay T0000000033KGJ0D
```

Exit status: 0 all found. 1 the service said no to some. 75 some could not be asked, try again. 2 usage.
3 the key, this address or this computer is refused. 130 interrupted.
"""

_STDIN = ("-",)


async def get(
    *references: Annotated[str, Parameter(name="REFERENCE", allow_leading_hyphen=True)],
    as_json: Annotated[bool, Parameter(name="--json", negative="", show_default=False)] = False,
    deadline: float | None = 30.0,
    connection: Connection = Connection(),  # noqa: B008  frozen
    streams: Annotated[Streams, Parameter(parse=False)],
) -> int:
    """
    Look transactions up.

    Args:
        references: The service's reference codes. A single `-` reads them from standard input, one per line, as
            many as there are; then nothing is given up for a passing reason, and answers come in the order of
            completion.
        as_json: One JSON object per line: the ten fields and `deviations`, or `error`, `message`, `is_retryable`.
        deadline: Seconds for everything that is asked, waits included; with `-`, for each lookup, without the waits
            for its turn. `none` for no bound.
        connection: Which service is asked, and how.
        streams: Of the process.

    Returns:
        The exit status.
    """
    # cyclopts takes a misspelt option for a reference once `-` may be one.
    if unknown := [name for name in references if name.startswith("-") and name != "-"]:
        message = f"unknown option {unknown[0].partition('=')[0]} (see payclient get --help)"
        raise ConfigurationError(message)
    if not references:
        message = "get needs at least one reference, or - to read them from standard input"
        raise ConfigurationError(message)
    if "-" in references and (references != _STDIN or connection.takes_key_from_stdin):
        message = "standard input holds either all references or the key; name - once"
        raise ConfigurationError(message)
    async with connection.client(streams, deadline=deadline) as client:
        with Outcomes(streams, as_json=as_json) as shown:
            if references == _STDIN:
                async with client.stream_transactions(read_lines(streams.stdin)) as outcomes:
                    async for outcome in outcomes:
                        shown.add(outcome)
            else:
                for outcome in await client.get_transactions(references):
                    shown.add(outcome)
    return shown.status

"""`payclient lookup`: look up the references of Parquet files, in several processes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import attrs
from cyclopts import Parameter

from payclient._defaults import DEADLINE
from payclient._escape import plural
from payclient.cli._connection import ConnectionOptions
from payclient.cli._status import Exit, most_urgent
from payclient.cli._streams import Streams
from payclient.errors import ConfigurationError

EXAMPLES = """
```console
$ payclient lookup part-*.parquet --out answers
$ payclient lookup part-*.parquet --out answers --processes 4 --reference trx_id --keep order_id
$ payclient lookup part-*.parquet --out answers --json | jq .unresolved
```

Run the same command again to resume after an interruption; finished files are skipped.

Exit status: 0 all found. 1 some not found or declined. 2 usage, or an unreadable file. 3 the service refuses the key
or this computer. 75 some lookups failed. 130 interrupted.
"""

_STATUS = {"ok": Exit.DONE, "not_found": Exit.DIFFERENT, "rejected": Exit.DIFFERENT, "unresolved": Exit.AGAIN}


def lookup(
    *inputs: Path,
    out: Path,
    processes: int = 1,
    reference: str = "reference",
    keep: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    prefix: str = "",
    deadline: float | None = DEADLINE,
    as_json: Annotated[bool, Parameter(name="--json", negative="", show_default=False)] = False,
    connection: ConnectionOptions = ConnectionOptions(),  # noqa: B008  frozen
    streams: Annotated[Streams, Parameter(parse=False)],
) -> int:
    """
    Look up the references in Parquet files.

    Each file gets a result of the same name in the output folder, written whole or not at all. A result has a row for
    each row, with the ten fields, the outcome and the reason. The rate limit of the service sets the duration, not the
    number of processes.

    Args:
        inputs: Parquet files with different names.
        out: Folder for the results.
        processes: Number of processes, each working on one file. They share `--max-concurrency` and `--max-rate`.
        reference: Name of the column with the references, which must be text.
        keep: Name of a column to carry over. May be repeated.
        prefix: Prefix of the columns of the answer.
        deadline: Seconds for each lookup, without the waits for its turn. `none` for no bound.
        as_json: Print the totals as one JSON object.
        connection: The service, and the limits of lookups.
        streams: Streams of the process.
    """
    from payclient.engines.processes import look_up_files  # noqa: PLC0415  needs an extra

    if not inputs:
        message = "lookup needs at least one Parquet file"
        raise ConfigurationError(message)
    spec = connection.spec(streams, processes=processes)
    spec = attrs.evolve(spec, reference=reference, keep=keep, prefix=prefix, deadline=deadline)
    total, unresolved = Counter[str](), list[Path]()
    for file in look_up_files(inputs, out=out, spec=spec, processes=processes):
        total.update(file.outcomes)
        if file.outcomes.get("unresolved"):
            unresolved.append(file.result)
        streams.tell(f"{file.result}: {_counted(file.outcomes)}" + ("" if file.is_new else " (skipped: already done)"))
    _conclude(total, unresolved, len(inputs), streams, as_json=as_json)
    return most_urgent(_STATUS[outcome] for outcome in total)


def _conclude(total: Counter[str], unresolved: Sequence[Path], files: int, streams: Streams, *, as_json: bool) -> None:
    if as_json:
        streams.write(json.dumps({"files": files, "rows": total.total(), **{name: total[name] for name in _STATUS}}))
    else:
        streams.write(f"{plural(files, 'file')}: {_counted(total)}")
    if unresolved:
        names = ", ".join(str(path) for path in unresolved[:5]) + (" …" if len(unresolved) > 5 else "")
        streams.tell(f"payclient: to ask again for what is unresolved, delete {names} and run the same command")


def _counted(outcomes: Mapping[str, int]) -> str:
    parts = [f"{outcomes[name]:,} {name}" for name in _STATUS if outcomes.get(name)]
    return plural(sum(outcomes.values()), "row") + (f", {', '.join(parts)}" if parts else "")

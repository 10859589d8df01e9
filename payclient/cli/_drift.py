"""The command `drift`: what the service does tonight that it never did before."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from payclient._escape import escape_unprintable, plural
from payclient._own_file import read_own
from payclient.cli._status import Exit
from payclient.cli._streams import Streams, aligned
from payclient.drift import (
    CONTRACT,
    Acceptance,
    AcceptanceError,
    Comparison,
    Contract,
    ContractError,
    Drift,
    compare,
    contract_from_json,
    read_acceptances,
)
from payclient.errors import ConfigurationError
from payclient.report import verify as verify_manifest

EXAMPLES = """
```console
$ payclient drift reports/*
$ payclient drift reports/* --accepted accepted.toml --html drift.html
$ payclient drift reports/* --json | jq '.new[].sentence'
```

Exit status: 0 nothing is new in the last run. 1 something is. 2 a report was changed, or none remembers anything.
"""

_FLAG = Parameter(negative="", show_default=False)
_MAX_SHOWN = 20
_SCHEMA = "payclient.drift"
_VERSION = 1


def drift(
    *reports: Path,
    accepted: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json"), _FLAG] = False,
    html: Path | None = None,
    quiet: Annotated[bool, _FLAG] = False,
    streams: Annotated[Streams, Parameter(parse=False)],
) -> int:
    """
    Show what the service does in the last run that it did in none before, without a network or a key.

    Each run remembers in `contract.json` which fields, words, envelopes and changes of state it was answered with, and
    a few golden answers. The runs are compared in the order of time, whatever the order of the folders.

    Args:
        reports: Folders of the reports; those without a `contract.json` are left out.
        accepted: TOML file of changes that are accepted, each with a reason, an owner and a last day.
        as_json: Print one JSON object instead.
        html: File for a page with the changes and the learnt states; not in one of the folders.
        quiet: Print errors only; with `--json`, also the object.
        streams: Streams of the process.
    """
    if html is not None and any(html.resolve().is_relative_to(folder.resolve()) for folder in reports):
        message = "--html must be a file outside of the reports, which are not changed"
        raise ConfigurationError(message)
    found = compare(_runs(reports, streams), _accepted(accepted))
    if html is not None:
        from payclient.report._page import write_drift_page  # noqa: PLC0415  it imports jinja2

        write_drift_page(html, found)
    if as_json:
        streams.show([json.dumps({"schema": _SCHEMA, "version": _VERSION, **found.as_json()})])
    elif not quiet:
        streams.show(escape_unprintable(line) for line in _lines(found, html))
    return Exit.DIFFERENT if found.news else Exit.DONE


def _runs(reports: Sequence[Path], streams: Streams) -> list[tuple[str, Contract]]:
    runs: dict[bytes, tuple[str, Contract]] = {}
    for folder in reports:
        for problem in verify_manifest(folder, only={CONTRACT}):
            message = f"{folder} cannot be compared: {problem.file}: {problem.what} (see payclient verify {folder})"
            raise ConfigurationError(message)
        try:
            content = read_own(folder / CONTRACT)
            # A second judgement has the contract of its run, which counts once.
            runs.setdefault(content, (str(folder), contract_from_json(json.loads(content))))
        except FileNotFoundError:
            streams.tell(f"payclient: left out, because it has no {CONTRACT}: {folder}")
        except (OSError, ValueError, RecursionError, ContractError) as error:
            message = f"{folder / CONTRACT} cannot be read: {error}"
            raise ConfigurationError(message) from None
    if not runs:
        message = f"none of the reports has a {CONTRACT}; name folders that payclient reconcile wrote"
        raise ConfigurationError(message)
    return list(runs.values())


def _accepted(path: Path | None) -> tuple[Acceptance, ...]:
    if path is None:
        return ()
    try:
        return read_acceptances(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, AcceptanceError) as error:
        message = f"{path} cannot be used: {error}"
        raise ConfigurationError(message) from None


def _lines(found: Comparison, page: Path | None) -> Iterator[str]:
    count = len(found.news)
    yield f"NEW: {plural(count, 'change')} of the service." if count else "NOTHING NEW."
    yield from found.basis
    yield from _listed("New", map(_line, found.news))
    by_whom = ((_line(drift), f"{by.owner} until {by.expires}: {by.reason}") for drift, by in found.accepted)
    yield from _listed("Accepted", (f"{line}; accepted by {whom}" for line, whom in by_whom))
    yield from _listed("Our side changed", found.sides)
    yield from _listed("Told of earlier runs", (f"{each.night}: {_line(each)}" for each in found.earlier))
    if found.transitions:
        yield from ("", "States, of references that were looked up more than once:")
        rows = [("from", "to", "times", "in the last run", "half of them took")]
        rows += [
            (each.before, each.after, f"{each.count:,}", f"{each.today:,}", each.median)
            for each in found.transitions[:_MAX_SHOWN]
        ]
        yield from (f"  {line}" for line in aligned(rows))
    if page is not None:
        yield from ("", f"Page: {page}")


def _listed(title: str, lines: Iterable[str]) -> Iterator[str]:
    every = list(lines)
    if every:
        yield from ("", f"{title}:")
        yield from (f"  {line}" for line in every[:_MAX_SHOWN])
    if len(every) > _MAX_SHOWN:
        yield f"  and {len(every) - _MAX_SHOWN:,} more, which --json prints"


def _line(drift: Drift) -> str:
    return f"{drift.severity.name.lower()}: {drift.sentence} ({drift.name})"

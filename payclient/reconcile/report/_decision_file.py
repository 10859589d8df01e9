"""`decisions.jsonl` in the folder of a report: read, carried to the next run, added to, and verified."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from attrs import frozen

from payclient._shared.escape import plural
from payclient.reconcile import Decision, DecisionError
from payclient.reconcile._atomic import AtomicFiles, lock, own, read_own
from payclient.reconcile.judgement.decisions import FIRST, decision_line, read_decisions
from payclient.reconcile.report._manifest import MANIFEST, Problem

DECISIONS: str = "decisions.jsonl"


@frozen
class DecisionLog:
    """The decisions in a folder, in order, and the checksum of the last line."""

    decisions: tuple[Decision, ...] = ()
    head: str = FIRST

    def as_json(self) -> dict[str, Any] | None:
        return {"lines": len(self.decisions), "sha256": self.head} if self.decisions else None

    @property
    def latest(self) -> Mapping[tuple[str, str], Decision]:
        return {decision.key: decision for decision in self.decisions}


def read_log(folder: Path) -> DecisionLog:
    """Return the decisions in *folder*. None if there is no file."""
    try:
        with open(folder / DECISIONS, "rb", opener=own) as file:
            return _log(file, folder)
    except (FileNotFoundError, NotADirectoryError):  # the latter is reported by what writes there
        return DecisionLog()


def _log(lines: Iterable[bytes], folder: Path) -> DecisionLog:
    try:
        found = list(read_decisions(lines))
    except DecisionError as error:
        raise DecisionError(f"{folder / DECISIONS}: {error.message}") from error
    return DecisionLog(tuple(decision for decision, _ in found), found[-1][1] if found else FIRST)


def carry_log(source: Path, out: Path) -> None:
    """Copy the decisions in *source*, the folder of an earlier run, to *out*, unless it has some already."""
    if not (source / DECISIONS).exists() or (out / DECISIONS).exists():
        return
    read_log(source)
    with AtomicFiles(out, [DECISIONS]) as new:
        new.binary(DECISIONS).write(read_own(source / DECISIONS))
        new.commit()


def earlier_decisions(folder: Path) -> tuple[Decision, ...]:
    """Return the decisions in *folder* that were taken for other runs, and so count in this one."""
    log = read_log(folder)
    try:
        run = json.loads(read_own(folder / MANIFEST))["run"]
    except (OSError, ValueError, LookupError, TypeError):  # the report, and so the work list, is missing
        return log.decisions
    return tuple(each for each in log.decisions if each.run != run)


def add_decisions(folder: Path, decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """
    Add the *decisions* that are not known yet, wait for the disk, and return them.

    Of a row with several findings, the first one tells whether anything was decided: an entry of an earlier night that
    the work list still shows decides nothing about a new finding.
    """
    path = folder / DECISIONS
    with open(path, "a+b", opener=own) as file:
        if not lock(file):
            raise DecisionError(f"{path} is in use by another process; try again")
        _cut_off(file)
        file.seek(0)
        log = _log(file, folder)
        known, head, lines = log.latest, log.head, list[str]()
        leading: dict[tuple[str, str], Decision] = {}
        rows = [(leading.setdefault((each.reference, each.evidence), each), each) for each in decisions]
        added = tuple(
            each
            for first, each in rows
            if _is_new(each, known) and (_is_new(first, known) or known[first.key].evidence == first.evidence)
        )
        for each in added:
            line, head = decision_line(each, head)
            lines.append(f"{line}\n")
        file.write("".join(lines).encode())
        file.flush()
        os.fsync(file.fileno())
    return added


def _is_new(decision: Decision, known: Mapping[tuple[str, str], Decision]) -> bool:
    return decision.key not in known or known[decision.key].cells != decision.cells


def _cut_off(file: IO[bytes]) -> None:
    """Cut off a last line that a killed process did not write to its end."""
    file.seek(0)
    content = file.read()
    if content and not content.endswith(b"\n"):
        file.truncate(content.rfind(b"\n") + 1)


def verify_decisions(folder: Path) -> tuple[Problem, ...]:
    """Check the chain of decisions, and that it begins with those that the report was written with."""
    try:
        with open(folder / DECISIONS, "rb", opener=own) as file:
            checksums = [checksum for _, checksum in read_decisions(file)]
    except FileNotFoundError:
        checksums = []
    except DecisionError as error:
        return (Problem(DECISIONS, error.message),)
    except OSError as error:
        return (Problem(DECISIONS, f"it cannot be read: {error.strerror}"),)
    try:
        known = json.loads(read_own(folder / MANIFEST)).get("decisions") or {"lines": 0}
        is_whole = not known["lines"] or checksums[known["lines"] - 1 : known["lines"]] == [known["sha256"]]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # which the check of the manifest reports
        return ()
    if is_whole:
        return ()
    decisions = plural(known["lines"], "decision")
    return (Problem(DECISIONS, f"it does not hold the {decisions} that the report was written with"),)

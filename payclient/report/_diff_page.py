"""Write the difference between two reports as a page, safe like the report's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from payclient._atomic import AtomicFiles
from payclient.reconcile import BreakState, ResolvedBy
from payclient.report._diff import RunDiff
from payclient.report._facts import Fact, answers_came, when
from payclient.report._page import ROOM, write_page
from payclient.report._past_run import PastRun
from payclient.report._row_reader import read_time
from payclient.report._wording import roll_forward_lines

_STATES: Mapping[BreakState, tuple[str, str]] = {
    BreakState.NEW: ("break", "The earlier run does not have it."),
    BreakState.CHANGED: ("break", "Both runs have it, with another amount or word."),
    BreakState.REOPENED: ("break", "It was resolved in a run before, and is back."),
    BreakState.STILL_OPEN: ("open", "Both runs have it, with the same values."),
    BreakState.RESOLVED: ("matched", "It is gone; each row says by what."),
    BreakState.NOT_KNOWN: ("unresolved", "The later run cannot tell; each row says why."),
}
"""The colour of each state and what it means, in the order of the page."""

_TONES = {"news": "breaks", "not known": "incomplete", "no news": "clean"}


def write_diff_page(path: Path, diff: RunDiff, *, room: int = ROOM) -> None:
    """Replace *path* with a page about *diff*, whole or not at all; *room* breaks are shown in each state."""
    earlier, later = diff.earlier.note.folder, diff.later.note.folder
    runs = [*_facts("Earlier", diff.earlier), *_facts("Later", diff.later)]
    shown = {
        "title": diff.verdict.capitalize(),
        "tone": _TONES[diff.verdict],
        "earlier": earlier,
        "later": later,
        "environment": diff.later.service["environment"],
        "sentence": diff.sentence,
        "remark": diff.remark,
        "changed_rules": diff.changed_rules,
        "roll_forward": list(roll_forward_lines(diff.open_findings)),
        "states": [_state(diff, state, room) for state in _STATES],
        "facts": [("run", "The two runs", [*runs, *_service(diff.later)])],
        "version": version("payclient"),
    }
    with AtomicFiles(path.parent, [path.name]) as files:
        write_page(files.text(path.name), "diff.html.j2", shown)
        files.commit()


def _state(diff: RunDiff, state: BreakState, room: int) -> Mapping[str, Any]:
    tone, meaning = _STATES[state]
    return {
        "name": state.value,
        "title": state.label.capitalize(),
        "tone": tone,
        "meaning": meaning,
        "count": diff.counts[state],
        "is_gone": state in (BreakState.RESOLVED, BreakState.NOT_KNOWN),
        "changes": [_change(each) for each in diff.changes(state, limit=room)],
    }


def _change(change: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a line of the difference with its words and times for people."""
    by = change["resolved_by"]
    first_seen = when(read_time(change["first_seen"]))
    return {**change, "first_seen": first_seen, "resolved_by": ResolvedBy(by).label if by else ""}


def _facts(which: str, run: PastRun) -> Iterator[Fact]:
    yield Fact(f"{which} run", (run.note.run,), is_code=True)
    yield Fact("Folder", (run.note.folder,))
    yield Fact("Rows", (f"{run.rows:,}",))
    yield answers_came(run.first_observed_at, run.note.last_observed_at)
    yield Fact("SHA-256 of its manifest", (run.sha256,), is_code=True)


def _service(run: PastRun) -> Iterator[Fact]:
    for name, term in (("base_url", "Service"), ("environment", "Environment"), ("key_fingerprint", "Key fingerprint")):
        yield Fact(term, (run.service[name] or "not recorded",), bool(run.service[name]))

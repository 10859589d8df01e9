"""The pages that people read: their frame, and that of a diff; safe against text from anywhere."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Mapping
from functools import cache, partial
from importlib.metadata import version
from importlib.resources import files as resources
from pathlib import Path
from typing import IO, Any
from unicodedata import combining

from jinja2 import Environment, FunctionLoader, StrictUndefined

from payclient._shared.escape import escape_unprintable, plural
from payclient.reconcile import BreakState, ResolvedBy, Row, moved_by
from payclient.reconcile._atomic import AtomicFiles
from payclient.reconcile.report._about import Fact, answers_came, when
from payclient.reconcile.report._diff import RunDiff
from payclient.reconcile.report._past_run import PastRun
from payclient.reconcile.report._rows_file import read_time
from payclient.reconcile.report._wording import roll_forward_lines

ROOM = 60
"""Rows shown of each kind."""

_MAX_LENGTH = 600
_MINUS = "\N{MINUS SIGN}"
_MAX_MARKS = 3  # no writing system needs more


def write_page(file: IO[str], name: str, shown: Mapping[str, Any]) -> None:
    """Write a page in UTF-8 from the template *name*, which extends `page.html.j2`."""
    file.writelines(_environment().get_template(name).generate({**shown, **_assets()}))


def _replace(path: Path, name: str, shown: Mapping[str, Any]) -> None:
    with AtomicFiles(path.parent, [path.name]) as files:
        write_page(files.text(path.name), name, {**shown, "version": version("payclient")})
        files.commit()


@cache
def _assets() -> dict[str, str]:
    """Return style and script, with the hashes that the Content-Security-Policy requires."""
    css, js = _asset("report.css"), _asset("report.js")
    return {"css": css, "css_hash": _hash(css), "js": js, "js_hash": _hash(js)}


def _asset(name: str) -> str:
    return resources("payclient.reconcile.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "breaks": partial(plural, noun="break"),
        "days": partial(plural, noun="day"),
        "difference": _difference,
        "number": _number,
        "references": partial(plural, noun="reference"),
        "rows": partial(plural, noun="row"),
        "signed": _signed,
        "when": when,
    }
    return environment


def _harmless(value: Any) -> Any:
    """Escape unprintable characters in every value, once for the whole template."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    shown = escape_unprintable(value, max_length=_MAX_LENGTH)
    return shown if shown.isascii() else "".join(_unstacked(shown))


def _unstacked(text: str) -> Iterator[str]:
    """Yield the characters of *text*; marks that stack over their letter, and so over other lines, by number."""
    marks = 0
    for character in text:
        marks = marks + 1 if combining(character) else 0
        yield f"<U+{ord(character):04X}>" if marks > _MAX_MARKS else character


def _number(number: int) -> str:
    return f"{number:,}".replace("-", _MINUS)


def _signed(number: int) -> str:
    return _number(number) if number <= 0 else f"+{number:,}"


def _difference(row: Row) -> str:
    moved = moved_by(row)
    return _signed(moved) if moved else ""


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
    runs = [fact for which, run in (("Earlier", diff.earlier), ("Later", diff.later)) for fact in _facts(which, run)]
    service = diff.later.service
    names = {"base_url": "Service", "environment": "Environment", "key_fingerprint": "Key fingerprint"}
    runs += [Fact(term, (service[name] or "not recorded",), bool(service[name])) for name, term in names.items()]
    shown = {
        "title": diff.verdict.capitalize(),
        "tone": _TONES[diff.verdict],
        "earlier": earlier,
        "later": later,
        "environment": service["environment"],
        "sentence": diff.sentence,
        "remark": diff.remark,
        "changed_rules": diff.changed_rules,
        "roll_forward": list(roll_forward_lines(diff.open_findings)),
        "states": [_state(diff, state, room) for state in _STATES],
        "facts": [("run", "The two runs", runs)],
    }
    _replace(path, "diff.html.j2", shown)


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
    by = change["resolved_by"]
    first_seen = when(read_time(change["first_seen"]))
    return {**change, "first_seen": first_seen, "resolved_by": ResolvedBy(by).label if by else ""}


def _facts(which: str, run: PastRun) -> Iterator[Fact]:
    yield Fact(f"{which} run", (run.note.run,), is_code=True)
    yield Fact("Folder", (run.note.folder,))
    yield Fact("Rows", (f"{run.rows:,}",))
    yield answers_came(run.first_observed_at, run.note.last_observed_at)
    yield Fact("SHA-256 of its manifest", (run.sha256,), is_code=True)

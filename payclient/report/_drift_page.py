"""Write what the service was seen to do as a page, with a picture of its states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from math import log2
from pathlib import Path
from typing import Any

from payclient._atomic import AtomicFiles
from payclient._escape import plural
from payclient.drift import Comparison, Transition
from payclient.report._facts import Fact
from payclient.report._page import ROOM, write_page

_LEFT, _RIGHT, _LINE = 150, 490, 56  # in a picture of 640
_MAX_LINES = 24


def write_drift_page(path: Path, found: Comparison) -> None:
    """Replace *path* with a page about *found*, whole or not at all."""
    count = len(found.news)
    shown = {
        "title": plural(count, "new change") if count else "Nothing new",
        "tone": "breaks" if count else "clean",
        "last": found.nights[-1],
        "basis": found.basis,
        "news": found.news[:ROOM],
        "count": count,
        "accepted": found.accepted[:ROOM],
        "earlier": found.earlier[:ROOM],
        "machine": machine(found.transitions),
        "transitions": found.transitions[:ROOM],
        "facts": [
            (
                "runs",
                "The runs",
                [
                    Fact("Runs", (f"{len(found.nights):,}", f"{found.nights[0]} to {found.nights[-1]}")),
                    Fact("Changes on our side", found.sides[-ROOM:] or ("none",)),
                ],
            )
        ],
        "version": version("payclient"),
    }
    with AtomicFiles(path.parent, [path.name]) as files:
        write_page(files.text(path.name), "drift.html.j2", shown)
        files.commit()


def machine(transitions: Sequence[Transition]) -> Mapping[str, Any]:
    """Return the picture of the transitions, from a state on the left to one on the right."""
    shown = transitions[:_MAX_LINES]
    left = _places((each.before for each in shown), _LEFT)
    right = _places((each.after for each in shown), _RIGHT)
    lines = [_line(each, left[each.before], right[each.after]) for each in shown]
    return {"height": _LINE * max(len(left), len(right)), "left": left, "right": right, "lines": lines}


def _places(names: Iterable[str], x: int) -> dict[str, tuple[int, int]]:
    return {name: (x, _LINE * place + _LINE // 2) for place, name in enumerate(dict.fromkeys(names))}


def _line(each: Transition, begin: tuple[int, int], end: tuple[int, int]) -> Mapping[str, Any]:
    (x, y), (to_x, to_y) = begin, end
    path = f"M{x + 8} {y}C{x + 140} {y} {to_x - 140} {to_y} {to_x - 8} {to_y}"
    at = (x + to_x) // 2 - 15, round(y + 0.43 * (to_y - y)) - 4  # before the middle, where lines cross
    return {
        "path": path,
        "at": at,
        "count": each.count,
        "is_new": each.count == each.today,
        "stroke": round(1 + log2(each.count) / 4, 1),
    }

"""The frame of the page that people read; safe against text from anywhere."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Mapping
from functools import cache, partial
from importlib.resources import files as resources
from typing import IO, Any
from unicodedata import combining

from jinja2 import Environment, FunctionLoader, StrictUndefined

from payclient._shared.escape import escape_unprintable, plural
from payclient.reconcile import Row, moved_by
from payclient.reconcile.report._about import when

ROOM = 60
"""Rows shown of each kind."""

_MAX_LENGTH = 600
_MINUS = "\N{MINUS SIGN}"
_MAX_MARKS = 3  # no writing system needs more


def write_page(file: IO[str], name: str, shown: Mapping[str, Any]) -> None:
    """Write a page in UTF-8 from the template *name*, which extends `page.html.j2`."""
    file.writelines(_environment().get_template(name).generate({**shown, **_assets()}))


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

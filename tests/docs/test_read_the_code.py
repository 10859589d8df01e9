"""The page *Read the code* names files, lines and definitions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "explanation" / "read-the-code.md").read_text(encoding="utf-8")
STOPS = re.findall(r"^\| `(\S+\.py)` \| (\d+) \| `(\S+)` \|", PAGE, re.MULTILINE)


def defined(tree):
    """Yield the names that a module defines, and those of methods as `Class.method`."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
            yield from (f"{node.name}.{each.name}" for each in node.body if hasattr(each, "name"))


def test_stops():
    """Each stop is a file with about as many lines as the page says, and defines the name to begin at."""
    assert len(STOPS) > 20
    misses = []
    for path, lines, name in STOPS:
        text = (PROJECT / "payclient" / path).read_text(encoding="utf-8")
        if abs(len(text.splitlines()) - int(lines)) > 15:
            misses.append(f"{path} has {len(text.splitlines())} lines")
        if name not in defined(ast.parse(text)):
            misses.append(f"{path} does not define {name}")
    assert misses == []


def test_other_files():
    """Every other file that the page names exists."""
    named = re.findall(r"`([\w/]+\.py)`", PAGE)
    roots = (PROJECT / "payclient", PROJECT / "payclient" / "reconcile")
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []

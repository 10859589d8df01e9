"""Nothing that a stranger wrote can run in a spreadsheet."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient.report._rows import spreadsheet_cell


def test_formula(subtests):
    """Text that a spreadsheet would run begins with an apostrophe."""
    for text in ("=1+1", "+1", "-1", "@SUM(A1)", " =1", "\uff1d1", "-5000"):
        with subtests.test(text=text):
            assert spreadsheet_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["\t=1+1", "\r=1+1", "\n=1", "\u00a0=1", "\x00=1"])
def test_formula_behind_control(text):
    """A formula behind a character that cannot be seen begins with that character's number."""
    assert str(spreadsheet_cell(text)).startswith("<U+00")


@pytest.mark.parametrize(("value", "cell"), [(-5000, -5000), (0, 0), ("T1", "T1"), (None, "")])
def test_not_a_formula(value, cell):
    """Numbers stay numbers, also negative ones, and harmless text stays as it is."""
    assert spreadsheet_cell(value) == cell


@given(st.text(st.characters(codec="utf-8")))
def test_cell_law(text):
    """No text becomes a cell that starts like a formula, or that spans two lines."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerow([spreadsheet_cell(text), "x"])
    ((cell, _),) = csv.reader([file.getvalue()[:-1]])
    assert not cell.lstrip().startswith(("=", "+", "-", "@", "\t", "\r"))

"""The page for contributors says which files a change touches, and these are the ones that name its example."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "tests" / "README.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| [a-z][^|]+\| `([^`|]+)` \|([^|]+)\|$", PAGE, re.MULTILINE)
TABLE = {example: set(re.findall(r"`([^`]+)`", files)) for example, files in ROWS}
SPECIAL = {
    "payment_code": {"cli/_demo.py", "cli/_lookup.py", "protocol/_refusal.py"},  # masked, or planted
    "payment_name": {"cli/_demo.py", "reconcile/_fields.py"},
    "httpx2": {
        *("cli/_lookup.py", "client/_client.py", "engines/_spec.py")  # made of `TransportName`, or a test holds it
    },
    "net_differs": {"cli/_demo.py", "reconcile/_judgement/causes.py"},
    "rows.parquet": {"reconcile/report/_files.py", "reconcile/report/rows.py"},
    "OverloadedError": {"client/_session.py", "client/policies/_limiter.py"},
}
"""Files that name an example for a reason of its own, which another of its kind need not have."""


@pytest.mark.parametrize("example", TABLE)
def test_files(example):
    """The files of a row are those that name its example, apart from the ones with a reason of its own."""
    flags = re.IGNORECASE if "_differs" in example else 0
    word = re.compile(rf"(?<!\w)(?:\w+(?=\.))?{re.escape(example)}(?!\w)", flags)
    found = {
        path.relative_to(PROJECT / "payclient").as_posix()
        for path in (PROJECT / "payclient").rglob("*")
        if path.suffix in (".py", ".toml") and word.search(path.read_text(encoding="utf-8"))
    }
    assert found == TABLE[example] | SPECIAL.get(example, set())


def test_kinds():
    """The table has a row for each kind of change that is common."""
    assert len(TABLE) == 9
    assert SPECIAL.keys() <= TABLE.keys()

"""The page of the rules names every key, with its default, and no other."""

import re
import runpy
from pathlib import Path

import attrs
import pytest

from payclient.protocol import EMPTY
from payclient.reconcile import Accepted, FeeSchedule, Rules, Status, Tolerance, parse_rules, rules_as_json
from payclient.reconcile._judgement.rules import MONEY

DOCS = Path(__file__).parents[2] / "docs"
CONF = runpy.run_path(str(DOCS / "conf.py"))
PAGE = CONF["_with_generated"]((DOCS / "reference" / "rules.md").read_text(encoding="utf-8"))
EXAMPLE = re.search(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]


def section(heading):
    return re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)[1]


def keys(heading):
    """Return the default of each key in the table of a section."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|", section(heading), re.MULTILINE)
    return {name: default.strip("`") for name, default in rows}


def shown(field):
    if field.default is attrs.NOTHING:
        return "required"
    if field.default is None or field.default is EMPTY:
        return "none"
    return f'"{field.default}"' if isinstance(field.default, str) else str(field.default)


@pytest.mark.parametrize(
    ("heading", "kind"), [("tolerances", Tolerance), ("fees", FeeSchedule), ("accepted", Accepted)]
)
def test_tables(heading, kind):
    """Every key of a table stands in its section, with its default."""
    assert keys(heading) == {field.name: shown(field) for field in attrs.fields(kind)}


def test_top():
    """Every key of the file stands in the first table, with its default."""
    table, fields = keys("The whole file"), {field.name: field for field in attrs.fields(Rules) if field.init}
    assert set(table) == set(fields)
    assert parse_rules("\n".join(f"{name} = {text}" for name, text in table.items() if text != "none")) == Rules()
    none = {name for name, each in fields.items() if each.default in (None, (), EMPTY) or attrs.has(type(each.default))}
    assert {name for name, text in table.items() if text == "none"} == none


@pytest.mark.parametrize(("heading", "names"), [("tolerances", MONEY), ("statuses", tuple(Status))])
def test_names(heading, names):
    """Every field and every state that may be named is named."""
    assert set(names) <= set(re.findall(r"`(\w+)`", section(heading)))


def test_example():
    """The example shows every key with a value, and can be used."""
    used = rules_as_json(parse_rules(EXAMPLE))
    assert set(keys("The whole file")) - {name for name, value in used.items() if value} == set()

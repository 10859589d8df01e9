"""Each design rule of the core has somebody who notices when it does not hold."""

import ast
import re
from pathlib import Path

import pytest

import payclient
from simulation.rules import RULES

PACKAGE = Path(payclient.__file__).parent
TESTS = Path(__file__).parents[1]


def rules_of(module):
    """Return the design rules in the docstring of a module."""
    text = ast.get_docstring(ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8")))
    return [" ".join(rule.split()) for rule in re.findall(r"(?ms)^(?:- |\d\. +)(.*?)(?=^- |^\d\. |\n\n|\Z)", text)]


@pytest.mark.parametrize("module", RULES)
def test_each_rule(module):
    """The table has each rule, in the order of the docstring."""
    rules, known = rules_of(module), [words for words, _, _ in RULES[module]]
    assert [rule[: len(words)] for rule, words in zip(rules, known, strict=True)] == known


@pytest.mark.parametrize("test", sorted({test for rules in RULES.values() for _, _, test in rules}))
def test_is_there(test):
    """The test that is named for a rule exists, and runs with the quick suite."""
    file, _, name = test.partition(":")
    (found,) = [
        node
        for node in ast.parse((TESTS / f"{file}.py").read_text(encoding="utf-8")).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name
    ]
    assert not any("slow" in ast.unparse(each) for each in found.decorator_list)


def test_oracles():
    """An oracle that is named for a rule is one that complains somewhere."""
    source = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("*.py"))
    named = {name for rules in RULES.values() for _, oracles, _ in rules for name in oracles.split(", ") if name}
    assert [name for name in sorted(named) if f'fail("{name}"' not in source and "fail(name" not in source] == []

"""`summary.json` is what its published schema says."""

import asyncio
import copy
import json
from pathlib import Path

import attrs
import pytest

from docs.test_rules import EXAMPLE
from payclient.reconcile import Bucket, Code, Rules, Severity, Status, Step, Verdict, parse_rules
from payclient.reconcile.report import About, Report
from payclient.reconcile.report._files import summary_as_json
from support.json_schema import problems
from support.planted import about, judged, tally_of

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "reference" / "summary.schema.json").read_text())


@pytest.fixture(scope="module")
def summaries():
    """Return `summary.json` of a run of nothing, and of one with everything."""
    rows = asyncio.run(judged(1000, unresolved=2))
    return [_summary([], About()), _summary(rows, about(rules=parse_rules(EXAMPLE), canary="T1", ended_by="refused"))]


def _summary(rows, known):
    tally = tally_of(rows)
    return json.loads(json.dumps(summary_as_json(Report(tally.summary(), known))))


def described(schema):
    """Yield each property of a schema with its name, at any depth."""
    for name, rule in schema.get("properties", {}).items():
        yield name, rule
        yield from described(rule)
    yield from described(schema["items"]) if "items" in schema else ()


def test_real_summaries(summaries):
    """A real summary has all keys of the schema, no others, and the values that the schema allows."""
    assert [list(problems(each, SCHEMA, SCHEMA)) for each in summaries] == [[], []]


def test_every_key_is_described():
    """Each key of the schema, at any depth, has a description."""
    found = [*described(SCHEMA), *described(SCHEMA["$defs"]["total"])]
    assert [name for name, rule in found if not rule.get("description")] == []
    assert len(found) > 60


def test_words(subtests):
    """The schema has exactly the words of the code, in their order."""
    cases = {
        "verdict": (("properties", "verdict", "enum"), Verdict),
        "buckets": (("properties", "buckets", "required"), Bucket),
        "findings": (("properties", "findings", "propertyNames", "enum"), Code),
        "severities": (
            ("properties", "breaks_by_severity", "required"),
            [severity.word for severity in reversed(Severity)],
        ),
        "steps": (("properties", "tie_out", "properties", "steps", "items", "properties", "step", "enum"), Step),
        "meanings": (("$defs", "meaning", "enum"), [*Status, None]),
    }
    for case, (place, words) in cases.items():
        with subtests.test(case):
            rule = SCHEMA
            for name in place:
                rule = rule[name]
            assert rule == list(words)


def test_rules():
    """The schema has every rule, and none that is not one."""
    described = SCHEMA["properties"]["rules"]["properties"]
    assert described.keys() == {"fingerprint", *(each.name for each in attrs.fields(Rules) if each.init)}


def test_schema_refuses(summaries):
    """What is not as described is refused, so that the test above can fail."""
    for change, problem in (
        (lambda summary: summary.pop("rows"), "there is no rows"),
        (lambda summary: summary.update(more=1), "more is not described"),
        (lambda summary: summary.update(rows="7"), "'7' is no integer"),
        (lambda summary: summary["tie_out"].update(residual=1), "1 is not 0"),
        (lambda summary: summary["buckets"]["matched"].update(rows=-1), "-1 is below 0"),
        (lambda summary: summary["findings"].update(other={}), "'other' is none of"),
        (lambda summary: summary.update(first_observed_at="today"), "'today' is not like"),
    ):
        broken = copy.deepcopy(summaries[1])
        change(broken)
        assert any(problem in each for each in problems(broken, SCHEMA, SCHEMA)), problem

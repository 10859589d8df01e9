"""Every sentence with a number in it is right for one, none and many."""

import ast
import re
from pathlib import Path

from attrs import evolve

from payclient.reconcile import StatementTotals, Tally
from payclient.reconcile._judgement.records import Answers, PreviousRun, SincePrevious
from payclient.reconcile._judgement.summary import Compared, Leakage, Period
from payclient.reconcile.report import Report
from payclient.reconcile.report.wording import in_words, reused_sentence
from support.nights import FIRST


def of(**compared):
    """Return the report of a run that compared this."""
    return Report(evolve(Tally().summary(), compared=Compared(**compared)))


PACKAGE = Path(__file__).parents[1] / "payclient"
NOUN = re.compile(
    r"^ (?:more |other |different )?(rows|lines|runs|breaks|references|answers|cells|columns|bytes|decisions|findings|"
    r"payments|attempts|lookups|responses|requests|files|tables|days|hours|minutes|characters|digits)\b"
)
VERB = re.compile(r"\b(are|were|have|need|their|they)\b")
LIMIT = re.compile(r"[A-Z_]+|limit|.*_limit\(\)|.*limiter\.limit|15 if .*")
"""A limit, which is never one."""

NEVER_ONE = {
    "len(name)": "above a limit",
    "len(text)": "above a limit",
    "len(response.body)": "above a limit",
    "client.stats.limit": "no whole number",
    "len(places)": "two or more, or another sentence",
    "case.rows": "two or more, or no finding",
    "planted": "of the demo, in which each finding is planted",
    "path.stat().st_size": "of a report, which is longer",
}


def counted(source):
    """Yield what a number counts, where a noun or a verb follows: `(expression, words behind it, has plural)`."""
    for node in ast.walk(ast.parse(source)):
        for value, words in zip(node.values, node.values[1:], strict=False) if isinstance(node, ast.JoinedStr) else ():
            is_pair = isinstance(value, ast.FormattedValue) and isinstance(words, ast.Constant)
            if is_pair and (NOUN.match(words.value) or VERB.search(words.value)):
                expression = ast.unparse(value.value)
                yield expression, words.value, "plural(" in expression


def wrong(source):
    """Return the numbers whose noun is always that of many, and those whose verb is."""
    found = {what for what, words, is_plural in counted(source) if (VERB.search if is_plural else NOUN.match)(words)}
    return {each for each in found - NEVER_ONE.keys() if not LIMIT.fullmatch(each)}


def test_every_sentence():
    """A number has its noun from `plural`, and no verb of many follows, in every sentence of the package."""
    found = {str(path.relative_to(PACKAGE)): wrong(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
    assert {name: each for name, each in found.items() if each} == {}
    assert wrong('f"{count} rows were read"; f"{plural(count, noun)} are read"') == {"count", "plural(count, noun)"}


def test_every_template():
    """The same in the pages: `number` and `length` are for a table, or have a noun that fits."""
    texts = {path.name: path.read_text() for path in PACKAGE.rglob("*.j2")}
    found = [
        (name, match[0])
        for name, text in texts.items()
        for match in re.finditer(r"\{\{([^}]*\|(?:number|length)[^}]*)\}\}( [a-z]+)", text)
        if NOUN.match(match[2])
    ]
    assert {match for _, match in found} == {"{{ trend|length }} runs"}  # this one and at least one before


PREVIOUS = PreviousRun(run="20", folder="20", last_observed_at=None)


def reused(count):
    reused = Answers(count, *[FIRST if count else None] * 2)
    return reused_sentence(SincePrevious(previous=PREVIOUS, carried={}, reused=reused))


def test_one_none_many(subtests):
    """Noun and verb agree with the number."""
    cases = {
        "reused": (
            reused,
            "",
            "1 row that matched before was not looked up again: its answer is of 2026-11-20 02:00 UTC.",
            "2,000 rows that matched before were not looked up again: their answers are of 2026-11-20 02:00 UTC.",
        ),
        "left_out": (
            lambda count: in_words(StatementTotals(ignored_lines=count, ignored_amount=7)),
            "",
            "1 line of the statement left out by the rules: 7",
            "2,000 lines of the statement left out by the rules: 7",
        ),
        "not_paid": (
            lambda count: of(fields={"amount": 3, "fee": 3}, not_paid=count, status_left_out=3000).remark,
            "0 of 3,000 are not paid",
            "1 of 3,000 is not paid",
            "2,000 of 3,000 are not paid",
        ),
        "compared": (
            lambda count: of(fields={"amount": 9, "fee": count}).compared,
            "amount",
            "amount and fee (1 row)",
            "amount (9 rows) and fee",
        ),
        "period": (
            lambda count: in_words(Period(first=FIRST, last=FIRST, lines=5, without=count)),
            "of 5 rows",
            "of 5 rows; 1 row without a time",
            "of 5 rows; 2,000 rows without a time",
        ),
        "leakage": (
            lambda count: in_words(Leakage(method="VA", rows=count)),
            "VA: 0 rows,",
            "VA: 1 row,",
            "VA: 2,000 rows,",
        ),
    }
    for case, (sentence, none, one, many) in cases.items():
        with subtests.test(case):
            said = [sentence(count) for count in (0, 1, 2000)]
            pairs = zip(said, (none, one, many), strict=True)
            assert [each for each, part in pairs if part not in each or bool(each) != bool(part)] == []

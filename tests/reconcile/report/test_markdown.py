"""The result as Markdown: short, and nothing in it comes from a ledger but text."""

import asyncio
import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from payclient import Transaction
from payclient.reconcile import Bucket, Code, Finding, Row
from payclient.reconcile.ledger import Entry
from payclient.reconcile.report import ReportFiles, row_as_json
from payclient.reconcile.report._wording import code_span, markdown_lines, worst_breaks
from support.chance import examples
from support.planted import about, judged

MarkdownIt = pytest.importorskip("markdown_it", reason="reads Markdown as others do").MarkdownIt
HOSTILE = [
    *("a|b", "`x`", "``", "a\\", "\\`", "<b>x</b>", "<!-- ", "&lt;b&gt;", "[a](https://x)", "![a](x)", "https://x.com"),
    *("@ana", "#1", "*a*", "__a__", "~~a~~", "# a", "> a", "- a", "1. a", "a\n\n# b", "\r\n", "\u202eabc"),
    *("\u2028", " ", "<@U123>", "<!channel>", "$x$", ":smile:", "\x1b[31m", "| --- |", "```\nx\n```"),
    *("javascript:x", "\t", "<https://x>"),
]
ELEMENTS = {*("ul", "li", "ol", "strong", "table", "thead", "tbody", "tr", "th", "td")}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    with ReportFiles(folder, formats=["summary.json", "rows.jsonl"]) as files:
        for row in asyncio.run(judged(500)):
            files.add(row)
        files.finish(about())
    return folder


def lines_of(folder, count=10):
    with (folder / "rows.jsonl").open("rb") as rows:
        return list(markdown_lines(json.loads((folder / "summary.json").read_text()), worst_breaks(rows, count)))


def test_content(report):
    """The verdict is first, then the money of both sides, and the worst breaks are last, each with its sentence."""
    lines = lines_of(report, 3)
    summary = json.loads((report / "summary.json").read_text())
    assert lines[0] == f"**BREAKS**: {summary['sentence']}"
    assert re.fullmatch(r"- Paid: [\d,]+ in the ledger, [\d,]+ at the service; residual 0", lines[2])
    assert lines[-5] == f"The worst of {summary['buckets']['break']['rows']} breaks:"
    assert [line[:15] for line in lines[-3:]] == ["1. **critical**", "2. **critical**", "3. **critical**"]


def test_worst(report):
    """The worst breaks are the most severe ones."""
    rows = [json.loads(line) for line in (report / "rows.jsonl").read_text().splitlines()]
    breaks = [row for row in rows if row["bucket"] == "break"]
    with (report / "rows.jsonl").open("rb") as lines:
        worst = worst_breaks(lines, len(breaks) + 1)
    assert sorted(row.line for row in worst) == sorted(row["line"] for row in breaks)
    assert [row.severity for row in worst] == sorted((row.severity for row in worst), reverse=True)


def test_largest():
    """Of equally severe breaks the one with most money comes first: what is at stake in the first finding."""

    def line(amount, said):
        answer = None if said is None else Transaction(reference="T1", amount=said, status="Paid")
        entry = Entry(line=1, reference="T1", amount=amount)
        found = Finding(Code.UNDERPAID, "", ledger=amount, service=said)
        row = Row(entry=entry, bucket=Bucket.BREAK, transaction=answer, findings=(found.weighed(),))
        return json.dumps(row_as_json(row), separators=(",", ":")).encode()

    rows = [line(100, 95), line(30, None), line(50, 150), line(7, 7)]
    assert [row.ledger_amount for row in worst_breaks(rows, 3)] == [50, 30, 100]


def text_of(html):
    """Return what is in each code element, and the HTML without them."""
    return re.findall(r"<code>(.*?)</code>", html, re.DOTALL), re.sub(r"<code>.*?</code>", "", html, flags=re.DOTALL)


@examples(150)
@given(st.text(max_size=20))
def test_any_text(text):
    """Any text is one code span, on one line, also in a table, and says the same except for the numbered characters."""
    span = code_span(text)
    assert (span == "none") is not bool(text.strip(" ")) or span.startswith("`")
    assert span.isprintable()
    for page in (f"- x {span} y", f"| a | b |\n|---|---|\n| {span} | y |", f"1. **high** {span}: {span}"):
        html = MarkdownIt("gfm-like", {"linkify": False}).render(page)
        inside, outside = text_of(html)
        assert set(re.findall(r"</?(\w+)", outside)) <= ELEMENTS
        assert "y" in outside or "high" in outside
        assert all("<" not in each and "&" not in each.replace("&quot;", "") for each in inside)


for text in HOSTILE:
    test_any_text = example(text)(test_any_text)


def test_since(report):
    """With a previous run, the message says how many breaks there are more or fewer; its name cannot be markup."""
    summary = json.loads((report / "summary.json").read_text())
    breaks = summary["buckets"]["break"]["rows"]
    for before, shown in ((breaks + 3, "-3"), (breaks, "\N{PLUS-MINUS SIGN}0"), (0, f"+{breaks}")):
        since = {"buckets": {"break": before} if before else {}, "folder": "<b>@ana"}
        lines = list(markdown_lines({**summary, "since": since, "sentence": "3 carried from '<b>@ana'."}, []))
        assert lines[0] == "**BREAKS**: 3 carried from '(U+003C)b(U+003E)(U+0040)ana'."
        assert f"- Breaks: {breaks} ({shown} since the previous run, `(U+003C)b(U+003E)@ana`)" in lines


def test_hostile_rows(tmp_path):
    """Whatever stands in a ledger, an answer, or the name of a file, the message has the same elements."""
    for place, text in enumerate(HOSTILE):
        said = Transaction(reference="T1", amount=1, merchant_reff=text, status=text)
        finding = Finding(Code.UNDERPAID, f"amount of {text}", ledger=text, service=text)
        entry, folder = Entry(line=1, reference=text), tmp_path / str(place)
        with ReportFiles(folder, formats=["summary.json", "rows.jsonl"]) as files:
            files.add(Row(entry=entry, bucket=Bucket.BREAK, transaction=said, findings=(finding,)))
            files.finish(about(canary=text, base_url=text, environment=text, ended_by=text))
        lines = lines_of(folder)
        assert "".join(lines).isprintable(), text
        html = MarkdownIt("gfm-like", {"linkify": False}).render("\n".join(lines))
        _, outside = text_of(html)
        assert re.findall(r"<(\w+)", outside) == re.findall(r"<(\w+)", text_of(html.replace(text, ""))[1]), text
        assert set(re.findall(r"</?(\w+)", outside)) == {"p", "strong", "ul", "ol", "li"}, text
        assert "@" not in outside, text


def test_code_span():
    """Text is shown as it is, except for what could end the span, and for what is too long."""
    cases = {
        "T1": "`T1`",
        "": "none",
        " ": "none",
        "a`b|c": "`a(U+0060)b(U+007C)c`",
        "a\\": "`a(U+005C)`",
        "\u202e\n": "`(U+202E)(U+000A)`",
        "x" * 200: f"`{'x' * 159}…`",
    }
    assert {text: code_span(text) for text in cases} == cases


def test_about(report):
    """What is known about the run has a line, and what is not known has none."""
    summary = json.loads((report / "summary.json").read_text())
    cases = {
        "ended_by": ("no route", "- Ended early: `no route`"),
        "judged_again": ({"folder": "20"}, "- A second judgement of the run in `20`"),
        "compared": ({"remark": "Not compared: fee."}, "- Not compared: fee."),
        "run": ("20261121T020000Z-3f9a1c2d", "- Run: `20261121T020000Z-3f9a1c2d`"),
        "last_observed_at": ("2026-11-21T02:00:03.123456+00:00", "- As of 2026-11-21 02:00:03 UTC"),
        "ledger": ({"name": ""}, "- Ledger: `standard input`"),
    }
    for key, (value, line) in cases.items():
        known = list(markdown_lines({**summary, key: value}, []))
        known.remove(line)
        assert known == list(markdown_lines({**summary, key: {"remark": ""} if key == "compared" else None}, [])), key

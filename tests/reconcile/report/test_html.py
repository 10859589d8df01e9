"""The page: it has every figure, it cannot be made to do anything, and it needs nobody."""

import asyncio
import base64
import hashlib
import io
import re
from datetime import UTC, datetime
from importlib.resources import files
from itertools import pairwise

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payclient import Transaction
from payclient._shared.escape import escape_unprintable
from payclient.reconcile import BreakState, Bucket, Code, Finding, History, Row, Severity, Status, Tally, Total
from payclient.reconcile._judgement.findings import FindingTotal
from payclient.reconcile._judgement.records import LedgerChange, PreviousRun, RowTotal, SincePrevious
from payclient.reconcile.ledger import Entry, RejectedEntry
from payclient.reconcile.report import Report
from payclient.reconcile.report._html import ALLOWED as ALLOWED_BY_A_RULE
from payclient.reconcile.report._html import FILES, groups_of, heading_of, write
from payclient.reconcile.report.wording import in_words
from support.chance import examples
from support.pages import HOSTILE, Page, is_harmless, shape_of
from support.planted import about, judged, page_of, summary_of, worst_of

ASSETS = files("payclient.reconcile.report")
AMOUNT = r"\N{MINUS SIGN}?[\d,]*\d"


@pytest.fixture(scope="module")
def example():
    """Give a ledger with every bucket and every finding, judged."""
    return asyncio.run(judged(300, unresolved=2))


@pytest.fixture(scope="module")
def page(example):
    return Page(page_of(example))


def entry(**fields):
    return Entry(**{"line": 2, "reference": "A", "amount": 100} | fields)


def broken(text="differs", *, code=Code.UNKNOWN_STATUS, **fields):
    finding = Finding(code, text, ledger=text, service=text)
    return Row(entry=entry(**fields), bucket=Bucket.BREAK, findings=(finding,))


def number(value):
    return f"{value:,}".replace("-", "\N{MINUS SIGN}")


def says_everywhere(text):
    """Return rows and facts in which every text of strangers is *text*."""
    transaction = Transaction(reference="A", merchant_reff=text, amount=1, status=text, payment_method=text)
    rows = [
        attrs.evolve(broken(text, reference=text or "A", merchant_reff=text), transaction=transaction),
        Row(entry=entry(reference=text or "A"), bucket=Bucket.UNRESOLVED, reason=text, error=text),
        Row(entry=RejectedEntry(line=3, reason=text, reference=text), bucket=Bucket.REJECTED, reason=text),
        Row(entry=entry(), bucket=Bucket.MATCHED, findings=(Finding(Code.UNDERPAID, text, waived=text or "so"),)),
    ]
    ledger = attrs.evolve(
        about().ledger, name=text, columns={"amount": text}, ignored_columns=(text,), warnings=(text,), sha256=text
    )
    known = dict.fromkeys(("base_url", "environment", "key_fingerprint", "canary", "ended_by"), text)
    return rows, {"ledger": ledger, **known}


def test_hostile(subtests):
    """Text of strangers adds no tag and no attribute, and is shown as what it is, shortened."""
    for text in HOSTILE:
        with subtests.test(text=text):
            plain, hostile = (page_of(rows, **known) for rows, known in map(says_everywhere, ("plain", text)))
            page = Page(hostile)
            shown = " ".join(escape_unprintable(text, max_length=600).split())
            assert (shape_of(page), is_harmless(hostile), len(hostile) < 100_000) == (shape_of(Page(plain)), True, True)
            assert [shown in each for each in (page.all("title")[0], page.text)] == [True, True]


def test_stacked_marks():
    """Marks that would reach into the lines above are numbers, and those that writing needs stay."""
    page = Page(page_of(says_everywhere("e\u0301\u0323 and Z" + "\u0301" * 5)[0]))
    assert "e\u0301\u0323 and Z\u0301\u0301\u0301<U+0301><U+0301>" in page.text


@examples(60)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_text(text):
    """No text at all changes the shape of the page, its style or its script."""
    page = Page(page_of(says_everywhere(text)[0], **says_everywhere(text)[1]))
    plain = Page(page_of(says_everywhere("plain")[0], **says_everywhere("plain")[1]))
    assert shape_of(page) == shape_of(plain)
    for tag, name in (("style", "report.css"), ("script", "report.js")):
        assert page.all(tag) == [" ".join(ASSETS.joinpath(name).read_text(encoding="utf-8").split())]


def test_policy(example):
    """The Content-Security-Policy comes first, and allows our style and script by their hashes, and nothing else."""
    text = page_of(example)
    hashes = {}
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        hashes[tag] = f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
    (policy,) = [values["content"] for _, values in Page(text).tags if "http-equiv" in values]
    head = [tag for tag, values in Page(text).tags if tag in {"style", "script", "title"} or "http-equiv" in values]
    assert (head[0], head[-1], head.count("style"), head.count("script")) == ("meta", "script", 1, 1)
    assert policy == (
        f"default-src 'none'; style-src {hashes['style']}; script-src {hashes['script']}; "
        "base-uri 'none'; form-action 'none'"
    )


def test_asks_nobody(page):
    """Nothing is fetched, links go to the page or to a file beside it, and no element has its own style or handler."""
    links = {values["href"] for _, values in page.tags if "href" in values}
    fetched = [values for _, values in page.tags if {"src", "srcset", "action", "xlink:href", "data"} & values.keys()]
    assert {link for link in links if not link.startswith("#")} == set(FILES)
    assert (fetched, re.findall(r"url\(|@import", "".join(page.all("style")))) == ([], [])
    assert [values for _, values in page.tags if any(re.match("on|style$", name) for name in values)] == []
    assert [("hidden" in values) for tag, values in page.tags if tag == "form"] == [True]  # the script shows it


def test_links_lead_somewhere(page):
    """Each link within the page, and each label, has its target; no two elements have the same name."""
    names = [values["id"] for _, values in page.tags if "id" in values]
    wanted = {values["href"][1:] for _, values in page.tags if values.get("href", "").startswith("#")}
    wanted |= {name for _, values in page.tags for name in values.get("aria-labelledby", "").split()}
    assert (wanted - set(names), len(names)) == (set(), len(set(names)))


def test_structure(page):
    """The language is named, headings skip no level, and each heading of a table says what it is the heading of."""
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert page.tags[0] == ("html", {"lang": "en"})
    assert (levels[0], levels.count(1), max(b - a for a, b in pairwise(levels))) == (1, 1, 1)
    assert [values for tag, values in page.tags if tag == "th" and values.get("scope") not in ("row", "col")] == []


def test_verdict():
    """The verdict is the first heading; its sentence, what to do, and what the report cannot know follow."""
    again, canary = "same command again", "--canary"
    cases = (
        (None, False, "Empty", ""),
        (Bucket.MATCHED, False, "Clean", ""),
        (Bucket.REJECTED, False, "Breaks", ""),
        (Bucket.UNRESOLVED, False, "Incomplete", again),
        (Bucket.UNRESOLVED, True, "Incomplete", canary),  # the next run would find no more
    )
    for bucket, lacks_probe, title, advice in cases:
        rows = [] if bucket is None else [Row(entry=entry(), bucket=bucket, lacks_probe=lacks_probe)]
        page = Page(page_of(rows))
        assert (page.all("h1"), page.all("p", class_="says")) == ([title], [Report(summary_of(rows)).says])
        said = " ".join(page.all("p", class_="next"))
        assert [each for each in (again, canary) if each in said] == [advice] * bool(advice), title
        assert Report(summary_of(rows)).completeness in page.all("p")


def test_whole_sentences():
    """A long sentence of the report is on the page to its end, which says what to do."""
    missing = tuple(f"T{number:015}" for number in range(20))
    change = LedgerChange(missing=RowTotal(116, 5), references=missing)
    previous = PreviousRun(run="R1", folder="20", last_observed_at=None)
    since = SincePrevious(previous=previous, carried={}, ledger=change)
    report, file = Report(attrs.evolve(summary_of([]), since=since), about()), io.StringIO()
    write(file, report)
    assert report.completeness in Page(file.getvalue()).text


def aged(line, state, *, reference=None, at_stake=1, code=Code.UNDERPAID, bucket=Bucket.BREAK):
    """Return a break of a later night, in this state."""
    history = History(state=state, first_seen=None, first_run="20", age_days=3)
    finding = Finding(code, f"{code} on line {line}", at_stake=at_stake, history=history)
    return Row(entry=entry(reference=reference or f"R{line}", line=line), bucket=bucket, findings=(finding,))


def test_news_first():
    """What is new stands above all other tables, a line for each finding and reference, as in the mail."""
    rows = [aged(line, BreakState.STILL_OPEN, at_stake=900 + line) for line in range(2, 10)]
    rows += [aged(line, BreakState.NEW, at_stake=line) for line in range(20, 32)]
    rows += [aged(line, BreakState.REOPENED, reference="D", at_stake=77) for line in (40, 41)]
    tally, worst = Tally(previous=PreviousRun(run="20", folder="20", last_observed_at=None)), worst_of(rows)
    for row in rows:
        tally.add(row)
    page = Page(page_of(rows, tally=tally, worst=worst))
    named = [text for text in page.all("th") if re.fullmatch(r"R\d+|D", text)]
    news, others = named[:10], named[10:15]
    assert page.all("h2")[:2] == ["New, changed or reopened", "Breaks by kind"]
    assert (
        news == ["D", *(f"R{line}" for line in range(31, 22, -1))] == [each.references[0] for each in worst.news.kept]
    )
    assert others == [f"R{line}" for line in range(9, 4, -1)] == [each.references[0] for each in worst.others.kept]


def test_headline():
    """The headline says what moved since the previous run, or that nothing did."""
    at = datetime(2026, 11, 4, 2, tzinfo=UTC)
    summary = Tally(previous=PreviousRun(run="20", folder="20", last_observed_at=at)).summary()
    found = summary.open_findings
    counts = {BreakState.NEW: 1, BreakState.REOPENED: 1, BreakState.RESOLVED: 3}
    by_state = {state: FindingTotal(counts.get(state, 0)) for state in BreakState}
    moved = attrs.evolve(summary, open_findings=attrs.evolve(found, by_state=by_state))
    for each, said in ((moved, "1 new, 1 reopened, 3 resolved"), (summary, "nothing new")):
        write(file := io.StringIO(), Report(each))
        assert Page(file.getvalue()).all("p", class_="headline") == [f"0 breaks; {said} since 4 November"]


def test_one_state():
    """Money by status has a table only if there is money in several states."""
    plain = row(amount=5, service=5, bucket=Bucket.MATCHED)
    states = (Status.PAID, Status.PENDING)
    rows = [attrs.evolve(plain, ledger_status=state, service_status=state) for state in states]
    assert [Page(page_of(each)).all("h3", id="states") for each in (rows[:1], rows)] == [[], ["Money by status"]]


def test_bridge(example, page):
    """The bridge has both totals, and each step that rows are in, with the money that it moves."""
    tie_out = summary_of(example).tie_out
    steps = [(in_words(each.step).capitalize(), each.amount) for each in tie_out.steps if each.rows]
    lines = [
        *(("Ledger, paid", tie_out.ledger_paid_total), *steps),
        *(("Service, paid", tie_out.service_paid_total), ("Residual", 0)),
    ]
    rows = page.all("tr")
    first = rows.index("Step Rows Added Taken off Net") + 1
    for row, (label, amount) in zip(rows[first:], lines, strict=False):
        assert (row.startswith(label), re.findall(AMOUNT, row)[-1]) == (True, number(amount)), row


def test_break(example, page):
    """A break shows its sentences, both sides, the difference and when it was seen and seen again."""
    row = next(row for row in example if row.primary and row.primary.code is Code.UNDERPAID)
    (shown,) = [text for text in page.all("tr") if row.reference in text]
    seen = [f"{time:%Y-%m-%d %H:%M:%S}" for time in (row.observed_at, row.confirmed_at)]
    sentences = [finding.sentence for finding in row.findings]
    sides = [number(row.ledger_amount), number(row.service_amount), "\N{MINUS SIGN}1,000"]
    assert [part for part in (*sentences, *sides, *seen, str(row.line)) if part not in shown] == []


def test_side_of_the_statement():
    """A figure of the statement says so, because it stands in the column of the ledger."""
    found = (
        Finding(Code.SETTLED_DIFFERENTLY, "other money", ledger=95, service=97),
        Finding(Code.NOT_SETTLED, "not in it"),
    )
    page = Page(page_of([row(each, service=97) for each in (*found, UNDERPAID)]))
    assert page.all("td", class_="side l") == ["statement 95 100", "100", "100"]


def test_changed_during_run():
    """A row whose answer changed in between says so."""
    rows = [attrs.evolve(broken(), is_changed_during_run=True), broken(reference="B")]
    assert Page(page_of(rows)).text.count("changed during the run") == 1


def test_reasons(example, page):
    """An unresolved or rejected row shows why, and which error it was."""
    rows = [row for row in example if row.bucket in (Bucket.UNRESOLVED, Bucket.REJECTED)]
    assert [row.reason for row in rows if row.reason not in page.text] == []
    assert [row.error for row in rows if row.error and row.error not in page.all("code")] == []


def test_waived():
    """Differences that do not count are one line of their kind with number and sum, and not among the breaks."""
    waived = Finding(Code.UNDERPAID, "1 less", waived="within the tolerance of 5 below")
    page = Page(page_of([Row(entry=entry(), bucket=Bucket.MATCHED, findings=(waived,))]))
    assert page.all("h2", id="breaks") == []
    assert page.all("td", class_="what") == []
    (line,) = [text for text in page.all("li") if text.startswith("Underpaid")]
    assert re.fullmatch(
        r"Underpaid underpaid: 1 row, [\d,]+ in the ledger, 0 at the service; in rows.jsonl ?\..*", line
    )


def test_cut():
    """Where not all rows are shown, the page says how many there are and which file has them, of those written."""
    rows = [broken(reference=f"R{line}", line=line, amount=line) for line in range(1, 6)]
    said = "2 of 5 shown, those with the largest amounts"
    for written, expected in (
        (FILES, f"{said}; all are in breaks.csv."),
        (["rows.jsonl"], f"{said}; all are in rows.jsonl."),
        ([], f"{said}."),
    ):
        page = Page(page_of(rows, worst=worst_of(rows, room=2), files=written))
        links = {values["href"] for _, values in page.tags if not values.get("href", "#").startswith("#")}
        assert (page.all("p", class_="cut"), links) == ([expected], set(written))
        assert [text for text in page.all("th") if re.match(r"R\d", text)] == ["R5", "R4", "R3", "R2", "R1", "R5", "R4"]


def test_size():
    """With any number of rows, the page stays under a megabyte."""
    rows = [
        broken(
            f"a sentence of a usual length about {code} and both sides of it", code=code, reference=f"T{line:010d}DEMO"
        )
        for code in Code
        for line in range(300)
    ]
    assert len(page_of(rows).encode()) < 1_000_000


def test_run(page):
    """The block about the run names the ledger, the service, the rules and the time, each with its fingerprint."""
    known = about()
    wanted = [known.ledger.name, known.ledger.sha256, known.base_url, known.environment, known.key_fingerprint]
    wanted += [known.rules.fingerprint, "1: breaks of", "payclient 0.1.0", "312,604 bytes", "2026-11-21 12:00:01 to "]
    assert [each for each in wanted if each not in " ".join(page.all("dd"))] == []


def test_paid_twice():
    """Rows of an invoice that was paid twice are adjacent, regardless of their order in the ledger."""
    rows = []
    for line, reff in enumerate(("INV-1", "INV-2", "inv-1", "INV-2"), 2):
        reference = f"T{line}"
        transaction = Transaction(reference=reference, amount=5, status="Paid", merchant_reff=reff)
        finding = Finding(Code.PAID_TWICE, "paid twice")
        entry = Entry(line=line, reference=reference, amount=5)
        rows.append(Row(entry=entry, bucket=Bucket.BREAK, findings=(finding,), transaction=transaction))
    ((*_, shown, _),) = groups_of(worst_of(rows))
    assert [row.line for row in shown] == [2, 4, 3, 5]


CASE_ONLY = Finding(Code.MERCHANT_REFF_DIFFERS, "only case", severity=Severity.MEDIUM)
OTHER = Finding(Code.MERCHANT_REFF_DIFFERS, "other")
UNDERPAID = Finding(Code.UNDERPAID, "less")
NET = Finding(Code.NET_DIFFERS, "net")
ALLOWED = Finding(Code.UNDERPAID, "less", waived="within the tolerance")


def row(*findings, line=2, amount=100, service=None, bucket=Bucket.BREAK):
    transaction = None if service is None else Transaction(reference="A", amount=service, status="Paid")
    entry = Entry(line=line, reference="A", amount=amount)
    return Row(entry=entry, bucket=bucket, findings=findings, transaction=transaction)


def grouped(*rows, room=10):
    return list(groups_of(worst_of(rows, room=room)))


def test_breaks():
    """Breaks are grouped by their most severe finding, the most severe group first."""
    groups = grouped(row(UNDERPAID, NET), row(CASE_ONLY), row(NET), row(OTHER), row(UNDERPAID))
    assert [(severity.word, code, total.rows) for severity, code, _, total in groups] == [
        ("critical", "merchant_reff_differs", 1),
        ("high", "underpaid", 2),
        ("high", "net_differs", 1),
        ("medium", "merchant_reff_differs", 1),
    ]


def test_room():
    """Of many rows those with the most money at stake are kept, those that come first among equals, and all count."""
    rows = [row(OTHER, line=line, amount=amount) for line, amount in enumerate([5, 70, 6, 70, 900])]
    ((*_, shown, total),) = grouped(*rows, room=3)
    assert ([each.line for each in shown], total) == ([4, 1, 3], Total(rows=5, ledger_amount=1051))


def test_rows_that_are_no_breaks():
    """A row without findings is in no group; one with findings is listed under the first, or under its bucket."""
    allowed = row(ALLOWED, bucket=Bucket.MATCHED)
    groups = grouped(row(bucket=Bucket.MATCHED), row(bucket=Bucket.OPEN), allowed)
    assert [(severity, code, rows) for severity, code, rows, _ in groups] == [(None, "underpaid", (allowed,))]
    for bucket in (Bucket.UNRESOLVED, Bucket.REJECTED):
        found, plain = row(UNDERPAID, bucket=bucket), row(bucket=bucket, amount=1)
        assert [each[:3] for each in grouped(found, plain)] == [(None, bucket, (found, plain))]


def test_remark_of_a_hint():
    """Only what a rule has waived is said to be allowed; a hint has the words of its code, such as an empty cell."""
    for code in Code:
        is_soft = code.is_soft
        ((*kind, _, _),) = grouped(row(Finding(code, "", waived="" if is_soft else "agreed"), bucket=Bucket.MATCHED))
        assert heading_of(*kind)[1] == (code.advice if is_soft else ALLOWED_BY_A_RULE), code

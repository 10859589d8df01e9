"""The few breaks that are shown are the worst ones."""

import pytest
from attrs import evolve

from payclient import Transaction
from payclient.cli._report import MAX_LINES, verdict_lines
from payclient.reconcile import BreakState, Bucket, Code, Decision, Finding, PatternKind, Resolution, Row, Tally
from payclient.reconcile._judgement.causes import Pattern
from payclient.reconcile._judgement.findings import History
from payclient.reconcile._judgement.records import BreakChange, PreviousRun, breaks_of
from payclient.reconcile._judgement.sides import StatementSide
from payclient.reconcile.ledger import Entry
from payclient.reconcile.report import Report
from payclient.reconcile.report.model import Worst
from payclient.reconcile.report.wording import at_stake_sentence, in_words
from support.reconciling import NOON


def row(line, code, bucket=Bucket.BREAK):
    return Row(entry=Entry(line=line, reference=f"T{line}"), bucket=bucket, findings=(Finding(code, "x"),))


def test_worst():
    """Of many breaks the five most severe are kept, of these the largest, then in the order of the ledger."""
    worst = Worst()
    worst.add(row(0, Code.PAID_TWICE, Bucket.MATCHED))
    for line in range(1, 100):
        worst.add(row(line, Code.UNDERPAID if line % 10 == 0 else Code.EXPIRY_DIFFERS))
    worst.add(row(100, Code.PAID_TWICE))
    large = row(101, Code.UNDERPAID)
    worst.add(evolve(large, findings=(evolve(large.findings[0], at_stake=7),)))
    assert worst.references == ["T100", "T101", "T10", "T20", "T30"]


def morning(*, news, others):
    """Return the lines after a night with *news* new breaks and *others* that were there before, in many codes."""
    tally, worst = Tally(previous=PreviousRun(run="20", folder="20", last_observed_at=None)), Worst()
    codes = [code for code in Code if not code.is_soft]
    for line in range(news + others):
        state = BreakState.NEW if line < news else BreakState.STILL_OPEN
        history = History(state=state, first_seen=None, first_run="1", age_days=0)
        finding = Finding(codes[line % len(codes)], "x", at_stake=10 if line < news else 1_000_000, history=history)
        broken = evolve(row(line, Code.UNDERPAID), findings=(finding,))
        for take in (tally.add, worst.add):
            take(broken)
    return list(verdict_lines(Report(tally.summary(), worst=worst)))


@pytest.mark.parametrize(("news", "others"), [(0, 1), (1, 0), (3, 90), (90, 3), (200, 200)])
def test_news(news, others):
    """Breaks that are new come first, each with its money, whatever others there are; the text stays short."""
    lines = morning(news=news, others=others)
    assert len(lines) <= MAX_LINES - 4  # the next steps
    shown = [line for line in lines if " at stake: " in line]
    assert [line.startswith("  new, ") for line in shown] == sorted(line.startswith("  new, ") for line in shown)[::-1]
    assert sum(line.startswith("  new, ") for line in shown) == min(news, 10)
    assert (len(shown) > min(news, 10)) == bool(others)
    if news:
        assert lines[2] == f"new, changed or reopened ({news} finding{'' if news == 1 else 's'}):"


def found(line, code, *, reference, at_stake, reff=None):
    """Return a break of a second night that is new."""
    history = History(state=BreakState.NEW, first_seen=None, first_run="2", age_days=0)
    transaction = Transaction(reference=reference, amount=1, status="Paid", merchant_reff=reff)
    finding = Finding(code, "x", at_stake=at_stake, history=history)
    entry = Entry(line=line, reference=reference)
    return Row(entry=entry, bucket=Bucket.BREAK, findings=(finding,), transaction=transaction)


TWICE = {"code": Code.PAID_TWICE, "reff": "INV-P"}
THRICE = {"code": Code.DUPLICATE_REFERENCE, "reference": "T3", "at_stake": 900}


@pytest.mark.parametrize("order", [1, -1])
def test_lines_of_findings(order):
    """A reference that is listed three times has one line, and an invoice that was paid twice one with its amount."""
    rows = [
        found(2, reference="T1", at_stake=751, **TWICE),
        found(3, reference="T2", at_stake=0, **TWICE),
        *(found(line, **THRICE) for line in (4, 5, 6)),
        *(found(line, Code.UNDERPAID, reference=f"U{line}", at_stake=line) for line in range(7, 20)),
    ]
    previous = PreviousRun(run="20", folder="20", last_observed_at=None)
    tally, worst = Tally(previous=previous), Worst()
    for each in rows[::order]:
        for take in (tally.add, worst.add):
            take(each)
    lines = list(verdict_lines(Report(tally.summary(), worst=worst)))
    start = lines.index("new, changed or reopened (16 findings):") + 1
    pair = {"T1 and T2", "T2 and T1"}
    first, second, *rest = (line.strip().partition(": ")[::2] for line in lines[start : start + 10])
    assert (first[0].split(", ")[-1] in pair, first[1]) == (True, "critical, paid_twice, 751 at stake: x")
    assert (second[0].split(", ")[-1], second[1]) == ("T3", "high, duplicate_reference, 900 at stake: x")
    assert [each[0].split(", ")[-1] for each in rest] == [f"U{line}" for line in range(19, 11, -1)]
    assert lines[start + 10] == "  and 5 more, in report.html"


@pytest.mark.parametrize("news", [1, 200])
def test_kinds(news):
    """The lines under the breaks are the kinds of these breaks, and add up to them."""
    cells = [line.split() for line in morning(news=news, others=0)]
    start = next(place for place, each in enumerate(cells) if each[:1] == ["break"])
    end = next(place for place, each in enumerate(cells) if each[:1] == ["all"])
    assert sum(int(each[-4]) for each in cells[start + 1 : end]) == int(cells[start][1]) == news


@pytest.mark.parametrize(
    ("more", "place"),
    [
        pytest.param({}, "line 3", id="ledger"),
        pytest.param({"carried_from": "2026-11-20"}, "line 3 of the ledger of 2026-11-20", id="carried"),
        pytest.param(
            {"other_side": StatementSide(settled=None, is_in_ledger=False)}, "line 3 of the statement", id="statement"
        ),
    ],
)
def test_place(more, place):
    """A line number says of which file it is, unless that is the ledger."""
    assert evolve(row(3, Code.UNDERPAID), **more).place == place


def test_lists():
    """Patterns among the breaks, and what is still there although it was marked as corrected, have a list each."""
    tally = Tally()
    tally.add(row(1, Code.UNDERPAID))
    pattern = Pattern(kind=PatternKind.DIFFERENCE, values=("fee", 5), rows=40, amount=4000)
    known = {"run": "R", "reference": "T1", "code": "underpaid", "owner": "Ana", "by": "ana", "evidence": "ab" * 32}
    decision = Decision(**known, at=NOON, resolution=Resolution.CORRECTED)
    summary = evolve(tally.summary(), patterns=(pattern,), still_there=(decision,))
    lines = list(verdict_lines(Report(summary)))
    assert lines[lines.index("patterns among the breaks:") + 1] == (
        "  40 rows (4,000): fee is 5 more at the service; [tolerances.fee] above = 5, if the difference is expected"
    )
    assert lines[lines.index("marked as corrected:") + 1] == f"  {in_words(decision)}"


def test_open_for_long():
    """What has been open for more than 30 days is a line below the roll-forward, and in the words to sign by."""
    previous = PreviousRun(run="20", folder="20", last_observed_at=None)
    tally = Tally(previous=previous)
    for line, days in enumerate((0, 30, 31, 400), 1):
        history = History(state=BreakState.STILL_OPEN, first_seen=None, first_run="1", age_days=days)
        finding = Finding(Code.UNDERPAID, "x", at_stake=10**line)
        found = evolve(row(line, Code.UNDERPAID), findings=(evolve(finding, history=history),))
        tally.add(found)
        known = breaks_of([found], run="1")[Code.UNDERPAID]
        tally.add_change(BreakChange(reference=f"T{line}", was=known, now=known, history=history))
    summary = tally.summary()
    lines = [" ".join(each.split()) for each in verdict_lines(Report(summary))]
    assert lines[lines.index("open now 4 11,110") + 1] == "for more than 30 days 2 11,000"
    assert at_stake_sentence(summary.open_findings) == (
        "4 open, with 11,110 at stake; 2 of them for more than 30 days, with 11,000"
    )

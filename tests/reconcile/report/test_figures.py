"""Every file of a report has the same figures, and every column of money adds up to a number that stands elsewhere."""

import csv
import json
import re
from collections import Counter

import openpyxl
import pytest
from attrs import astuple, evolve

from payclient import Transaction, errors
from payclient.cli._report import roll_forward, verdict_lines
from payclient.reconcile import Answer, Bucket, Case, Code, FeeSchedule, Observation, Rules, Total, judge
from payclient.reconcile._judgement.findings import FindingTotal
from payclient.reconcile.folders import RunDiff
from payclient.reconcile.ledger import Entry, RejectedEntry
from payclient.reconcile.report import About, Report, ReportFiles
from payclient.reconcile.report.model import FORMATS
from payclient.reconcile.report.rows import SHEETS
from payclient.reconcile.report.wording import BUCKETS, at_stake_sentence, open_lines
from support.nights import Nights, paid
from support.pages import Page
from support.planted import worst_of
from support.reconciling import NOON
from support.ruling import accepted

pytestmark = pytest.mark.virtual_time
DOWN = errors.ServiceError("no answer")
NUMBER = r"[-+]?[\d,]*\d"
MONEY = ("Rows", "Ledger amount", "Service amount", "Ledger paid", "Service paid", "Difference")


def entry(reference, amount, status="Paid", line=2):
    return Entry(line=line, reference=reference, amount=amount, status=status)


@pytest.fixture
async def second(tmp_path):
    """Reconcile two nights with every bucket, carried rows in each, and a statement with references of its own."""
    night = Nights(tmp_path, formats=FORMATS)
    ledger = [entry("M", 9), entry("B", 10), entry("C", 7, "Canceled"), entry("O", 3, "Pending"), entry("U", 4)]
    answers = {"M": paid("M"), "B": paid("B", 12), "C": paid("C", 7), "O": paid("O", 3, "Pending"), "U": DOWN}
    first = await night(ledger, answers)
    today = [entry("M", 9), entry("N", 100), entry("D", 5), entry("D", 5, line=3), entry("P", 8)]
    today += [entry("W", 6, "Pending"), RejectedEntry(line=9, reason="no reference", amount=2), entry("V", 1)]
    today += [RejectedEntry(line=10, reason="no amount")]
    answers |= {"N": paid("N", 90), "D": paid("D", 5), "P": paid("P", 8, "Canceled"), "W": paid("W", 6, "Pending")}
    answers |= {"V": DOWN, "S": paid("S", 13)}
    return await night(today, answers, previous=first, statement=[entry("S", 13), entry("N", 90), entry("M", 9)])


def numbers(text):
    return [int(each.replace(",", "")) for each in re.findall(NUMBER, text.replace("\N{MINUS SIGN}", "-"))]


def expected(summary):
    """Yield each figure of a report by its name."""
    for bucket, total in summary.buckets.items():
        yield f"bucket {bucket}", astuple(total)
    for code, total in summary.codes.items():
        yield f"code {code}", astuple(total)
    for name, bridge in (("tie-out", Report(summary).bridge), ("statement", Report(summary).statement_bridge)):
        for place, line in enumerate(bridge):
            step = line.step and (line.step.rows, line.step.added, line.step.taken_off)
            yield f"{name} {place}", (*(step or ()), line.amount)
    for state, total in summary.tie_out.states.items():
        yield f"state {state or 'not known'}", astuple(total)


def in_json(folder, summary):
    """Return the figures of `summary.json`."""
    said = json.loads((folder / "summary.json").read_text())
    found = {f"bucket {name}": tuple(total.values()) for name, total in said["buckets"].items()}
    found |= {f"code {name}": tuple(total.values()) for name, total in said["findings"].items()}
    tied, side = said["tie_out"], said["settlement"]
    for name, bridge, ends in (
        ("tie-out", tied, (tied["ledger_paid_total"], tied["service_paid_total"], tied["residual"])),
        ("statement", side, (side["service_paid_total"], side["statement_total"], side["residual"])),
    ):
        steps = [(each["rows"], each["added"], each["taken_off"], each["amount"]) for each in bridge["steps"]]
        lines = [ends[:1], *steps, ends[1:2], ends[2:]]
        found |= {f"{name} {place}": line for place, line in enumerate(lines)}
    return found | {f"state {name}": tuple(total.values()) for name, total in tied["money_by_status"].items()}


def in_workbook(folder, summary):
    """Return the figures of the workbook."""
    book = openpyxl.load_workbook(folder / "report.xlsx")
    rows = {row[0]: row[2:7] for row in book["Summary"].values}
    found = {f"bucket {bucket}": rows[BUCKETS[bucket][0]] for bucket in Bucket}
    found |= {f"code {code}": rows[code.value] for code in summary.codes}
    _, *lines = book["Tie-out"].values
    split = next(place for place, line in enumerate(lines) if line[0] is None)
    assert lines[split - 1][2] == summary.tie_out.rows_without_amount == 1
    for name, part in (("tie-out", lines[: split - 1]), ("statement", lines[split + 1 :])):
        assert part[-3][-1] == part[-2][-1]  # the running total of the last step is the total below it
        for place, (_, _, *step, then) in enumerate(part):
            found[f"{name} {place}"] = (then,) if step[0] is None else tuple(step)
    return found


def on_page(folder, summary):
    """Return the figures of the page, which leaves out what has no rows."""
    tables = Page((folder / "report.html").read_text()).all("table", class_="sums cards")
    return dict(zip(("tie-out", "statement"), map(numbers, tables), strict=True))


async def test_same_everywhere(second):
    """Buckets, findings and both bridges are the same in each file, as is the money by status where it is."""
    folder, summary = second.run.folder, second.summary
    wanted = dict(expected(summary))
    assert all(total.rows for total in summary.buckets.values())
    misses = []
    for read in (in_json, in_workbook):
        found = read(folder, summary)
        misses += [
            (read.__name__, name, found.get(name), each)
            for name, each in wanted.items()
            if found.get(name) != each and not (read is in_workbook and name.startswith("state"))
        ]
    shown = {}
    for name in ("tie-out", "statement"):
        lines = [each for key, each in wanted.items() if key.startswith(name) and (len(each) == 1 or each[0])]
        shown[name] = [number for line in lines for number in line]
    found = on_page(folder, summary)
    misses += [("page", name, found[name], each) for name, each in shown.items() if found[name] != each]
    assert misses == []


async def test_columns_add_up(second):
    """The rows of each sheet and of `breaks.csv` add up to the sums of their bucket, as the buckets do to all."""
    folder, summary = second.run.folder, second.summary
    book, misses = openpyxl.load_workbook(folder / "report.xlsx"), []
    tables = {
        name: [dict(zip(next(iter(book[name].values)), row, strict=True)) for row in list(book[name].values)[1:]]
        for name in book.sheetnames
    }
    with (folder / "breaks.csv").open(newline="") as file:
        tables["breaks.csv"] = [
            {name: int(line[name] or 0) for name in ("ledger_amount", "service_amount", "difference")}
            for line in csv.DictReader(file)
        ]
    everything = sum(summary.buckets.values(), Total())
    (last,) = (line for line in tables["Summary"] if line["Result"] == "All")
    assert [last[title] for title in MONEY] == [*astuple(everything), everything.paid_difference]
    sums = {}
    for name, bucket in (("breaks.csv", Bucket.BREAK), *((name, bucket) for bucket, (name, _) in SHEETS.items())):
        total = summary.buckets[bucket]
        sums[name] = dict.fromkeys(("amount, ledger", "Ledger amount", "ledger_amount"), total.ledger_amount)
        sums[name] |= dict.fromkeys(("amount, service", "service_amount"), total.service_amount)
        sums[name] |= dict.fromkeys(("Difference", "difference"), total.paid_difference)
    for name, titles in sums.items():
        for title in titles.keys() & tables[name][0].keys():
            found = sum(row[title] or 0 for row in tables[name])
            misses += [(name, title, found, titles[title])] if found != titles[title] else []
    assert misses == []


async def test_groups_add_up(second):
    """Each break is in one group of the page, the groups come to all breaks, and the differences to their paid sums."""
    page, total = Page((second.run.folder / "report.html").read_text()), second.summary.buckets[Bucket.BREAK]
    (kinds,) = page.all("table", class_="kinds cards")
    lines = re.findall(
        rf" ({NUMBER}) ({NUMBER}) ({NUMBER}) ({NUMBER}) ({NUMBER})(?= |$)", kinds.replace("\N{MINUS SIGN}", "-")
    )
    *each, last = (tuple(map(int, line)) for line in lines)
    also = sum(map(int, re.findall(rf"or not known ({NUMBER})", kinds)))
    rows, stakes, *money = (sum(column) for column in zip(*each, strict=True))
    assert [rows, stakes + also, *money] == [*last]
    stake = second.summary.open_findings.closing.amount
    assert last == (total.rows, stake, total.ledger_paid, total.service_paid, total.paid_difference)
    assert sum(number for cell in page.all("td", class_="n d") for number in numbers(cell)) == total.paid_difference
    found = re.findall(rf"as paid ({NUMBER}) in the ledger, ({NUMBER}) at the service", page.text)
    assert [sum(map(int, column)) for column in zip(*found, strict=True)] == [total.ledger_paid, total.service_paid]
    broken = Counter(row.reference for row in second.rows if row.bucket is Bucket.BREAK)
    assert broken - Counter(page.all("th", scope="row")) == Counter()


async def test_kind(tmp_path):
    """A kind of break has the money that each side has as paid, on the page and on the terminal."""
    for case, (ours, theirs, paid_sums) in enumerate(
        (
            *(("Paid", "Canceled", "8 0 -8"), ("Canceled", "Paid", "0 8 +8"), ("Paid", None, "8 0 -8")),
            *(("Canceled", None, "0 0 0"), (None, "Paid", "0 8 +8"), ("Paid", "Refunded", "8 0 -8")),
        )
    ):
        known = {"M": paid("M")} | ({"T": paid("T", 8, theirs)} if theirs else {})
        more = {} if ours else {"statement": [entry("T", 8), entry("M", 9)]}
        ledger = [entry("M", 9), *([entry("T", 8, ours)] if ours else [])]
        night = Nights(tmp_path / str(case), formats=("report.html", "rows.jsonl", "summary.json"))
        done = await night(ledger, known, **more)
        page = Page((done.run.folder / "report.html").read_text())
        (kinds,) = page.all("table", class_="kinds cards")
        stake = done.summary.open_findings.closing.amount
        assert kinds.replace("\N{MINUS SIGN}", "-").endswith(f" 1 {stake} {paid_sums} All breaks 1 {stake} {paid_sums}")
        lines = [" ".join(line.split()) for line in verdict_lines(Report(done.summary, worst=worst_of(done.rows)))]
        (code,) = done.summary.codes
        found = [line for line in lines if line.startswith((f"{code} ", "break "))]
        assert found == [f"break 1 {paid_sums}", f"{code} 1 {paid_sums}"]


async def test_at_stake(tmp_path):
    """The kinds add up to all of them, and what is the same money of one payment again is a line of its own."""
    ledger = [evolve(entry("N", 100), fee=1), entry("D", 5), entry("D", 5, line=3), entry("W", 6)]
    answers = {"N": evolve(paid("N", 90), fee=2), "D": paid("D", 7), "W": paid("W", 6, "Pending")}
    done = await Nights(tmp_path, formats=FORMATS)(ledger, answers)
    found = {label: (count, amount) for label, count, amount in open_lines(done.summary.open_findings)}
    kinds = [total for label, total in found.items() if label in {code.label for code in Code}]
    assert (sum(count for count, _ in kinds), sum(amount for _, amount in kinds)) == found["All kinds"] == (5, 24)
    assert found["Further findings of the same payments"] == (-2, -3)
    assert found["Payments, each once"] == (3, 21)
    said = "5 open, with 24 at stake; 21 in 3 payments, each counted once, by its largest finding"
    assert at_stake_sentence(done.summary.open_findings) == said
    assert roll_forward(done.summary.open_findings)[-1].split() == ["payments,", "each", "once", "3", "21"]
    page = Page((tmp_path / "night-1" / "report.html").read_text())
    (table,) = page.all("table", class_="kinds cards")
    stakes = [numbers(line)[1] for line in re.findall(rf"(?: {NUMBER}){{5}}", table.replace("\N{MINUS SIGN}", "-"))]
    also = sum(map(int, re.findall(rf"or not known ({NUMBER})", table)))
    assert (sum(stakes[:-1]) + also, stakes[-1]) == (24, 24)
    assert table.endswith("Payments, each once 21")
    assert page.all("p", class_="headline") == ["4 breaks; 21 at stake"]
    assert "the last line counts it once" in page.text
    book = openpyxl.load_workbook(tmp_path / "night-1" / "report.xlsx")
    assert ("Payments, each once", None, 3, 21) in [row[:4] for row in book["Summary"].values]


async def test_at_stake_of_what_is_not_known(tmp_path):
    """A finding of which it is not known what became of it does not count its payment twice."""
    nights = Nights(tmp_path)
    first = await nights([entry("T", 8)], {"T": paid("T", 6)}, statement=[entry("T", 5)])
    assert first.summary.open_findings.payments == FindingTotal(1, 2)
    done = await nights([entry("T", 8)], {"T": paid("T", 6)}, previous=first)
    assert done.states["T", "settled_differently"] == "not_known"
    assert (done.summary.open_findings.closing, done.summary.open_findings.payments) == (
        FindingTotal(2, 3),
        FindingTotal(1, 2),
    )
    with RunDiff(first.run, done.run) as diff:
        assert diff.open_findings.payments == FindingTotal(1, 2)


RULES = Rules(fees={"VA": FeeSchedule(flat=400)}, accepted=[accepted("T9", largest_difference=500)])
ACCEPTANCE = "underpaid of 'T9', accepted by Ana until 2026-12-31, matches no row: remove it"
LEAKAGE = "VA: 1 row, 40,000 not received, fees +100 against the schedule"


async def test_to_review(tmp_path):
    """An acceptance that matches no row, and leakage by method, stand in page, workbook, summary and terminal."""
    transaction = Transaction(
        reference="T1", amount=100_000, fee=500, amount_received=59_500, status="Paid", payment_method="VA"
    )
    seen = Observation(answer=Answer.FOUND, at=NOON, transaction=transaction)
    entry = Entry(line=2, reference="T1", amount=100_000, fee=500, status="Paid")
    with ReportFiles(tmp_path, rules=RULES) as files:
        files.add(judge(Case(entry=entry, first=seen, second=seen, other_found=1), rules=RULES))
        report = files.finish(About(rules=RULES))
    page = (tmp_path / "report.html").read_text("utf-8").replace("&#39;", "'")
    book = openpyxl.load_workbook(tmp_path / "report.xlsx")
    cells = " ".join(str(cell) for sheet in book for row in sheet.values for cell in row)
    terminal = " ".join(verdict_lines(report))
    told = json.loads((tmp_path / "summary.json").read_text())
    for text in (page, cells, terminal):
        assert (ACCEPTANCE in text, LEAKAGE in text) == (True, True)
    assert told["leakage"] == [
        {"method": "VA", "rows": 1, "short_received": 40_000, "fee_off_schedule": 100, "possible": 0}
    ]
    assert [(each["state"], each["sentence"]) for each in told["acceptances"]] == [("met_no_row", ACCEPTANCE)]

"""Every file of a report has the same figures, and every column of money adds up to a number that stands elsewhere."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter

import openpyxl
import pytest
from attrs import astuple

from payclient import errors
from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile import Bucket, Total
from payclient.report import FORMATS
from payclient.report._rows import SHEETS
from payclient.report._wording import BUCKETS, bridge_lines, settlement_lines
from support.nights import Nights, paid
from support.pages import Page

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
    for name, bridge in (
        ("tie-out", bridge_lines(summary.tie_out)),
        ("statement", settlement_lines(summary.settlement)),
    ):
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
    found = {f"bucket {bucket}": rows[BUCKETS[bucket].title] for bucket in Bucket}
    found |= {f"code {code}": rows[code.value] for code in summary.codes}
    _, *lines = book["Tie-out"].values
    split = next(place for place, line in enumerate(lines) if line[0] is None)
    for name, part in (("tie-out", lines[: split - 1]), ("statement", lines[split + 1 :])):
        for place, (_, _, *step, then) in enumerate(part):
            found[f"{name} {place}"] = (then,) if step[0] is None else tuple(step)
    return found | {f"state {row[0]}": row[1:] for row in list(book["Money by status"].values)[1:]}


def on_page(folder, summary):
    """Return the figures of the page, which leaves out what has no rows."""
    page = Page((folder / "report.html").read_text())
    found = {}
    for bucket in Bucket:
        (tile,) = page.all("li", class_=bucket.value) or page.all("li", class_=f"{bucket} nothing")
        rows, *money = numbers(re.sub(r" [-+±]\d+ (?=[A-Z])", " ", tile.replace("\N{MINUS SIGN}", "-")))
        found[f"bucket {bucket}"] = (rows, *money)
    for name, table in zip(("tie-out", "statement"), page.all("table", class_="sums"), strict=True):
        found[name] = numbers(table)
    return found


async def test_same_everywhere(second):
    """Buckets, findings, both bridges and the money by status are the same in each file."""
    folder, summary = second.run.folder, second.summary
    wanted = dict(expected(summary))
    assert all(total.rows for total in summary.buckets.values())
    misses = []
    for read in (in_json, in_workbook):
        found = read(folder, summary)
        misses += [
            (read.__name__, name, found.get(name), each) for name, each in wanted.items() if found.get(name) != each
        ]
    shown = {name: each for name, each in wanted.items() if name.startswith("bucket")}
    for name in ("tie-out", "statement"):
        lines = [each for key, each in wanted.items() if key.startswith(name) and (len(each) == 1 or each[0])]
        shown[name] = [number for line in lines for number in line]
    found = on_page(folder, summary)
    misses += [("page", name, found[name], each) for name, each in shown.items() if found[name] != each]
    assert misses == []


async def test_columns_add_up(second):
    """The rows of each sheet and of `breaks.csv` add up to the sums of their bucket, as words and methods do to all."""
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
    sums = {
        name: dict(zip(MONEY, (*astuple(everything), everything.paid_difference), strict=True))
        for name in ("By status", "By method")
    }
    for name, bucket in (("breaks.csv", Bucket.BREAK), *((name, bucket) for name, (bucket, _) in SHEETS.items())):
        total = summary.buckets[bucket]
        sums[name] = {
            "amount, ledger": total.ledger_amount,
            "amount, service": total.service_amount,
            "Difference": total.paid_difference,
        }
        sums[name] |= {"Ledger amount": total.ledger_amount, "ledger_amount": total.ledger_amount}
        sums[name] |= {"service_amount": total.service_amount, "difference": total.paid_difference}
    for name, titles in sums.items():
        for title in titles.keys() & tables[name][0].keys():
            found = sum(row[title] or 0 for row in tables[name])
            misses += [(name, title, found, titles[title])] if found != titles[title] else []
    assert misses == []


async def test_groups_add_up(second):
    """Each break is in one group of the page, the groups come to all breaks, and the differences to their paid sums."""
    page, total = Page((second.run.folder / "report.html").read_text()), second.summary.buckets[Bucket.BREAK]
    (kinds,) = page.all("table", class_="kinds cards")
    lines = re.findall(rf" ({NUMBER}) ({NUMBER}) ({NUMBER}) ({NUMBER})(?= |$)", kinds.replace("\N{MINUS SIGN}", "-"))
    *each, last = (tuple(map(int, line)) for line in lines)
    assert [sum(column) for column in zip(*each, strict=True)] == [*last]
    assert last == (total.rows, total.ledger_paid, total.service_paid, total.paid_difference)
    assert sum(number for cell in page.all("td", class_="n d") for number in numbers(cell)) == total.paid_difference
    found = re.findall(rf"as paid ({NUMBER}) in the ledger, ({NUMBER}) at the service", page.text)
    assert [sum(map(int, column)) for column in zip(*found, strict=True)] == [total.ledger_paid, total.service_paid]
    broken = Counter(row.reference for row in second.rows if row.bucket is Bucket.BREAK)
    assert broken - Counter(page.all("th", scope="row")) == Counter()

"""The workbook has every row in its sheet, and room to work on the breaks."""

from __future__ import annotations

import asyncio
import io
from datetime import UTC, datetime

import attrs
import openpyxl
import pytest

from payclient import Transaction
from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile import Bucket, Code, Finding, Row, Rules, Status
from payclient.report import Matrix
from payclient.report._wording import BUCKETS as BUCKET_WORDS
from payclient.report._workbook import COLUMNS, ReportWorkbook
from support.planted import about, judged, tally_of

BUCKETS = {"Breaks": Bucket.BREAK, "Open": Bucket.OPEN, "Unresolved": Bucket.UNRESOLVED, "Rejected": Bucket.REJECTED}


def written(rows, folder, *, known=None, **options):
    """Return the workbook of *rows* as another library reads it: tuples of values by sheet."""
    tally, file = tally_of(rows), io.BytesIO()
    with ReportWorkbook(file, folder, **options) as workbook:
        for row in rows:
            workbook.add(row)
        workbook.write(tally.summary(), known or about(), Matrix.of(tally))
    return openpyxl.load_workbook(file)


def values(sheet):
    return list(sheet.values)[1:]


@pytest.fixture(scope="module")
def rows():
    rejected = Row(
        entry=RejectedEntry(line=9, reason="no amount", amount=5),
        bucket=Bucket.REJECTED,
        reason="no amount",
    )
    return [*asyncio.run(judged(1000, unresolved=3)), rejected]


def test_sheets(rows, tmp_path):
    """The sheets are those that the page promises, in that order, each with its header."""
    workbook = written(rows, tmp_path)
    assert workbook.sheetnames == [
        *("Summary", "Breaks", "Open", "Unresolved", "Rejected"),
        *("Patterns", "By status", "By method", "Tie-out", "Money by status", "To sign", "Run"),
    ]
    for sheet in workbook:
        assert [cell.value for cell in sheet[1]] == [column.title for column in COLUMNS[sheet.title]]
        assert sheet.freeze_panes == "A2"


def test_every_row(rows, tmp_path):
    """Every row that did not match is in the sheet of its bucket; the first sheet says where the others are."""
    workbook = written(rows, tmp_path)
    for name, bucket in BUCKETS.items():
        assert [line for line, *_ in values(workbook[name])] == [row.line for row in rows if row.bucket is bucket], name
    said = "Matched rows are not listed here: rows.jsonl has every row."
    assert said in {row[1] for row in values(workbook["Summary"])}


@pytest.mark.parametrize("name", ["Breaks", "Unresolved"])
def test_room_to_work(rows, tmp_path, name):
    """Breaks and unresolved rows have empty text columns for owner, resolution and comment."""
    sheet = written(rows, tmp_path)[name]
    titles = [cell.value for cell in sheet[1]]
    for title in ("Owner", "Resolution", "Comment"):
        place = titles.index(title)
        assert {row[place] for row in values(sheet)} == {None}
        widths = (each.width for each in sheet.column_dimensions.values() if each.min <= place + 1 <= each.max)
        assert next(widths) >= 16


def test_types(tmp_path):
    """References and codes are text, with their zeros; money is a whole number with separators of thousands."""
    entry = Entry(line=1, reference="0012", amount=1_500_000, payment_code="007", merchant_reff="1E5", fee=None)
    said = Transaction(reference="0012", amount=1_500_001, payment_code="007", merchant_reff="1E5", status="Paid")
    row = Row(entry=entry, bucket=Bucket.BREAK, transaction=said, findings=(Finding(Code.OVERPAID, "1 more"),))
    row = attrs.evolve(row, ledger_status=Status.PAID, service_status=Status.PAID)
    sheet = written([row], tmp_path)["Breaks"]
    cells = {title.value: cell for title, cell in zip(sheet[1], sheet[2], strict=True)}
    assert [cells[name].value for name in ("Reference", "payment_code, ledger", "merchant_reff, service")] == [
        *("0012", "007", "1E5"),
    ]
    amounts = [cells[name] for name in ("amount, ledger", "amount, service", "Difference")]
    assert [(cell.value, cell.data_type, cell.number_format) for cell in amounts] == [
        (1_500_000, "n", "#,##0"),
        (1_500_001, "n", "#,##0"),
        (1, "n", "#,##0"),
    ]
    assert (cells["fee, ledger"].value, cells["Reference"].number_format) == (None, "@")


def test_why(tmp_path):
    """A break says all its sentences, with why one does not count, and when it was looked at."""
    at = datetime(2026, 11, 21, 12, 0, 1, 999, tzinfo=UTC)
    findings = (Finding(Code.OVERPAID, "1 more"), Finding(Code.FEE_DIFFERS, "fee", waived="accepted by Ani"))
    row = Row(
        entry=Entry(line=1, reference="A"),
        bucket=Bucket.BREAK,
        findings=findings,
        observed_at=at,
        confirmed_at=at,
        is_changed_during_run=True,
    )
    (cells,) = values(written([row], tmp_path)["Breaks"])
    assert cells[2:5] == ("high", "overpaid", "1 more. fee (accepted by Ani)")
    assert cells[9] == "fee_differs"
    assert cells[-3:] == ("2026-11-21 12:00:01", "2026-11-21 12:00:01", "yes")


def test_figures(rows, tmp_path):
    """Summary, status, method and tie-out have the figures of the summary, and each adds up to all rows."""
    workbook, summary = written(rows, tmp_path), tally_of(rows).summary()
    by_title = {row[0]: row for row in values(workbook["Summary"])}
    buckets = [by_title[BUCKET_WORDS[bucket].title][2:] for bucket in Bucket]
    assert by_title["All"][2:] == tuple(map(sum, zip(*buckets, strict=True)))
    assert by_title["All"][2] == summary.rows
    paid_totals = summary.tie_out.ledger_paid_total, summary.tie_out.service_paid_total
    assert by_title["All"][5:] == (*paid_totals, paid_totals[1] - paid_totals[0])
    assert by_title["Breaks"][2:7] == attrs.astuple(summary.buckets[Bucket.BREAK])
    column = [each.value for each in workbook["Breaks"][1]].index("Difference")
    assert sum(row[column] for row in values(workbook["Breaks"])) == by_title["Breaks"][7]
    assert {code: by_title[code.value][2] for code in summary.codes} == {
        code: total.rows for code, total in summary.codes.items()
    }
    for name in ("By status", "By method"):
        assert tuple(map(sum, zip(*(row[-6:] for row in values(workbook[name])), strict=True))) == by_title["All"][2:]
    bridge = values(workbook["Tie-out"])
    assert (bridge[0][6], bridge[-3][6], bridge[-2][6]) == (
        *(summary.tie_out.ledger_paid_total, summary.tie_out.service_paid_total, 0),
    )
    assert bridge[-4][6] == bridge[-3][6]
    paid = next(row for row in values(workbook["Money by status"]) if row[0] == "paid")
    assert (paid[2], paid[4]) == (bridge[0][6], bridge[-3][6])


def test_words_of_both_sides(tmp_path):
    """The sheet by status has both words as they came, each with what it means by the rules."""
    said = Transaction(reference="A", amount=1, status="BERHASIL")
    row = Row(entry=Entry(line=1, reference="A", status="lunas"), bucket=Bucket.MATCHED, transaction=said)
    known = about(rules=Rules(statuses={"berhasil": "paid"}))
    (cells,) = values(written([row], tmp_path, known=known)["By status"])
    assert cells == ("lunas", None, "BERHASIL", "paid", 1, 0, 1, 0, 0, 0)


def test_where_a_sheet_ends(rows, tmp_path):
    """Where a sheet cannot hold all rows, its last row and the summary say how many are missing, and where they are."""
    workbook = written(rows, tmp_path, max_rows=20)
    assert workbook["Breaks"].max_row == 20
    breaks = sum(row.bucket is Bucket.BREAK for row in rows) - 18
    assert values(workbook["Breaks"])[-1][0] == (
        f"the sheet ends here: {breaks:,} more rows do not fit in it; breaks.csv has all of them"
    )
    said = [row[1] for row in values(workbook["Summary"]) if row[1] and "do not fit" in row[1]]
    assert said == [f"{breaks:,} rows do not fit in the sheet Breaks; its last row says which file has them all."]


def test_hostile(tmp_path):
    """A ledger or a service can put no formula, link or hidden character into any cell."""
    words = ["=1+1", "\x1b[31m", "\u202e", "<r><t>x</t></r>", "http://example.org", "_x000A_"]
    rows = []
    for line, word in enumerate(words, 1):
        entry = Entry(line=line, reference=word, merchant_reff=word, status=word, payment_method=word)
        said = Transaction(reference=word, amount=1, merchant_reff=word, status=word, payment_method=word)
        finding = Finding(Code.UNKNOWN_STATUS, word)
        rows.append(Row(entry=entry, bucket=Bucket.BREAK, transaction=said, findings=(finding,)))
        rows.append(Row(entry=entry, bucket=Bucket.UNRESOLVED, reason=word, error=word))
        rejected = RejectedEntry(line=line, reference=word, reason=word)
        rows.append(Row(entry=rejected, bucket=Bucket.REJECTED, reason=word))
    for sheet in written(rows, tmp_path):
        for line in sheet.iter_rows():
            for cell in line:
                assert cell.data_type in ("n", "inlineStr", "s")
                assert cell.hyperlink is None
                assert str(cell.value).isprintable()

"""A work list is read back, whatever program has saved it, and anything doubtful in it is refused."""

import hashlib
import shutil
import subprocess
from datetime import UTC, date, datetime

import openpyxl
import pytest

from payclient import Transaction
from payclient.reconcile import Bucket, Code, DecisionError, Finding, Resolution, Row
from payclient.reconcile.ledger import Entry
from payclient.reconcile.report import About, ReportFiles
from payclient.reconcile.report.model import RUN_TERM
from payclient.reconcile.report.workbook import decided, read_work_list

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
RUN = "20261121T020003Z-3f9a1c2d"
WORK = ("Owner", "Resolution", "Comment")
SOFFICE = shutil.which("soffice")


def broken(line, reference, amount, said, code=Code.UNDERPAID, **sides):
    finding = Finding(
        code,
        "less",
        ledger=sides.get("ledger", amount),
        service=sides.get("service", said),
        leakage=sides.get("leakage", 0),
    )
    finding = finding.weighed(amount, said)
    answer = None if said is None else Transaction(reference=reference, amount=said, status="Paid")
    entry = Entry(line=line, reference=reference, amount=amount)
    return Row(entry=entry, bucket=Bucket.BREAK, transaction=answer, findings=(finding,), observed_at=NOON)


ROWS = (
    broken(2, "T1", 100, 95),
    broken(3, "007", 5_000_000, 1),
    broken(4, "\u202eT3", 10, None, Code.MISSING_AT_SERVICE, service=None),
    broken(5, "T4", 50, 50, Code.DUPLICATE_REFERENCE, ledger=2, service=None),
    broken(6, "T4", 50, 50, Code.DUPLICATE_REFERENCE, ledger=2, service=None),
    Row(
        entry=Entry(line=7, reference="T5", amount=1), bucket=Bucket.UNRESOLVED, reason="time-out", error="TimeoutError"
    ),
    Row(entry=Entry(line=8, reference="T6", amount=1), bucket=Bucket.MATCHED),
    Row(
        entry=Entry(line=9, reference="T7", amount=1),
        bucket=Bucket.MATCHED,
        findings=(Finding(Code.UNDERPAID, "less", waived="within the tolerance"),),
    ),
)


@pytest.fixture
def folder(tmp_path):
    """Give the folder of a report with these rows."""
    with ReportFiles(tmp_path, formats=["rows.jsonl", "report.xlsx"]) as files:
        for row in ROWS:
            files.add(row)
        files.finish(About(run=RUN))
    return tmp_path


@pytest.fixture
def work(folder):
    """Change the workbook as a person would, in openpyxl, and return its path."""

    def work(change, *, sheet="Breaks"):
        path = folder / "report.xlsx"
        book = openpyxl.load_workbook(path)
        change(book if sheet is None else book[sheet])
        book.save(path)
        return path

    return work


def place(sheet, title):
    return next(cell.column for cell in sheet[1] if cell.value == title)


def fill(reference, owner="Ana", resolution="", comment="", line=None):
    """Return a change that writes into the row of a reference."""

    def change(sheet):
        for row in range(2, sheet.max_row + 1):
            if sheet.cell(row, 2).value == reference and line in (None, sheet.cell(row, 1).value):
                for title, value in (("Owner", owner), ("Resolution", resolution), ("Comment", comment)):
                    sheet.cell(row, place(sheet, title)).value = value

    return change


def taken(folder, items):
    return decided(items, folder / "rows.jsonl", run=RUN, by="ana", at=NOON)


def refusal(folder, path):
    with pytest.raises(DecisionError) as caught:
        taken(folder, read_work_list(path, RUN))
    return caught.value.message


def test_taken(folder, work):
    """A row is taken with what was written, both sides as they were, and its line of `rows.jsonl` as evidence."""
    path = work(fill("T1", "Ana", "Accepted until 2026-12-31", " agreed\nwith  them "))
    (decision,) = taken(folder, read_work_list(path, RUN))
    line = (folder / "rows.jsonl").read_bytes().splitlines()[0]
    assert decision.cells == ("Ana", "accepted until 2026-12-31", "agreed with them")
    assert (decision.run, decision.key, decision.ledger, decision.service) == (RUN, ("T1", "underpaid"), 100, 95)
    assert (decision.by, decision.at) == ("ana", NOON)
    assert decision.evidence == hashlib.sha256(line).hexdigest()


def test_as_shown(folder, work):
    """A reference that the sheet shows by number is the one of the run; a number as a name is text."""
    assert read_work_list(folder / "report.xlsx", RUN) == {}
    path = work(both(fill("<U+202E>T3", "Ana", "raised with the service"), fill("007", 42)))
    found = [(each.reference, each.owner, each.resolution) for each in taken(folder, read_work_list(path, RUN))]
    assert found == [("007", "42", None), ("\u202eT3", "Ana", Resolution.RAISED)]


def test_unresolved(folder, work):
    """An unresolved row can be given to somebody, and not be accepted."""
    path = work(fill("T5", "Ana", "raised with the service", "asked"), sheet="Unresolved")
    (decision,) = taken(folder, read_work_list(path, RUN))
    assert decision.key == ("T5", "unresolved")
    path = work(fill("T5", "Ana", "accepted until 2026-12-31", "fine"), sheet="Unresolved")
    assert "cannot be accepted, because it was not answered" in refusal(folder, path)


def test_listed_twice(folder, work):
    """One finding on several rows is decided on any of them, and not in two ways."""
    path = work(fill("T4", "Ana", line=6))
    assert [each.key for each in taken(folder, read_work_list(path, RUN))] == [("T4", "duplicate_reference")]
    assert len(taken(folder, read_work_list(work(fill("T4", "Ana")), RUN))) == 1
    path = work(fill("T4", "Budi", line=5))
    assert "is decided otherwise than sheet Breaks, row 5, the same finding" in refusal(folder, path)


def set_cell(row, title, value):
    def change(sheet):
        sheet.cell(row, place(sheet, title)).value = value

    return change


def both(*changes):
    def change(sheet):
        for each in changes:
            each(sheet)

    return change


def copy_row(sheet):
    fill("T1")(sheet)
    sheet.append([cell.value for cell in sheet[2]])


def swap_columns(sheet):
    owner, comment = place(sheet, "Owner"), place(sheet, "Comment")
    for row in range(1, sheet.max_row + 1):
        one, other = sheet.cell(row, owner), sheet.cell(row, comment)
        one.value, other.value = other.value, one.value


REFUSED = (
    (set_cell(1, "Owner", "Who"), "its columns were moved or renamed"),
    (swap_columns, "its columns were moved or renamed"),
    (lambda sheet: sheet.insert_cols(3), "its columns were moved or renamed"),
    (lambda sheet: sheet.delete_cols(4), "its columns were moved or renamed"),
    (lambda sheet: sheet.delete_rows(1), "its columns were moved or renamed"),
    (copy_row, "row 7: the row is there twice"),
    (both(copy_row, *(set_cell(7, each, None) for each in WORK)), "row 7: the row is there twice"),
    (set_cell(2, "Owner", '="A"&"na"'), "row 2, Owner: it is a formula"),
    (set_cell(3, "Comment", "=1/0"), "row 3, Comment: it is a formula"),
    (set_cell(2, "Comment", 1.5), "row 2, Comment: it must be text"),
    (set_cell(2, "Resolution", date(2026, 12, 31)), "row 2, Resolution: it must be text"),
    (set_cell(2, "Comment", "x" * 2001), "row 2, Comment: it has more than 2,000 characters"),
    (both(fill("T1"), set_cell(2, "Reference", "T9")), "underpaid of 'T9' is not in line 2 of this run"),
    (both(fill("T1"), set_cell(2, "Line", 3)), "underpaid of 'T1' is not in line 3 of this run"),
    (both(fill("T1"), fill("007"), set_cell(3, "Line", 4)), "underpaid of '007' is not in line 4 of this run"),
    (
        both(fill("T1"), set_cell(2, "Line", 9), set_cell(2, "Reference", "T7")),
        "underpaid of 'T7' is not in line 9 of this run",
    ),
    (both(fill("T1"), set_cell(2, "Finding", "overpaid")), "overpaid of 'T1' is not in line 2 of this run"),
    (both(fill("T1"), set_cell(2, "Line", None)), "row 2: it is not a row of the report"),
    (both(fill("T1"), set_cell(2, "Finding", "=A1")), "row 2: it is not a row of the report"),
    (fill("T1", "Ana", "ok"), "row 2: the resolution must be"),
    (fill("T1", "Ana", "accepted", "x"), "row 2: the resolution must be"),
    (fill("T1", "", "accepted until 2026-12-31", "x"), "needs an owner and a comment"),
    (fill("T1", "Ana", "accepted until 2026-12-31"), "needs an owner and a comment"),
    (fill("T1", "Ana", "accepted until 2026-11-20", "x"), "the last day, 2026-11-20, has passed"),
)


def test_refused(folder, work):
    """What is not clear is refused as a whole, with the sheet and the row."""
    whole, missed = (folder / "report.xlsx").read_bytes(), []
    for number, (change, message) in enumerate(REFUSED):
        (folder / "report.xlsx").write_bytes(whole)
        said = refusal(folder, work(change))
        if not (said.startswith("sheet Breaks") and message in said):
            missed.append((number, said))
    assert missed == []


def test_another_run(folder, work):
    """A work list of another run, or without its name, is refused."""
    with pytest.raises(
        DecisionError, match="the work list is of '20261121T020003Z-3f9a1c2d', and not of the run 'other'"
    ):
        read_work_list(folder / "report.xlsx", "other")
    path = work(lambda book: book["To sign"].append([RUN_TERM, "other"]), sheet=None)
    for run in (RUN, "other"):
        with pytest.raises(DecisionError, match="the work list is of a run that it does not name"):
            read_work_list(path, run)
    path = work(lambda book: book.remove(book["To sign"]), sheet=None)
    with pytest.raises(DecisionError, match="does not have a sheet called 'To sign'"):
        read_work_list(path, RUN)


def test_no_workbook(folder):
    """A file that is no workbook is refused."""
    with pytest.raises(DecisionError, match="cannot be read"):
        read_work_list(folder / "rows.jsonl", RUN)


def sort_filter_and_hide(sheet):
    """Do what people do with a list: sort it, filter it, hide rows, delete those that are done, add a column."""
    rows = sorted(
        ([cell.value for cell in row] for row in sheet.iter_rows(min_row=2)), key=lambda cells: cells[1], reverse=True
    )
    for number, cells in enumerate(rows, 2):
        for column, value in enumerate(cells, 1):
            sheet.cell(number, column).value = value
    sheet.row_dimensions[2].hidden = True
    sheet.auto_filter.ref = "A1:K6"
    sheet.auto_filter.add_filter_column(1, ["T1"])
    sheet.cell(1, sheet.max_column + 1).value = "my notes"
    sheet.cell(2, sheet.max_column).value = "call them"


TAKEN = [("T1", "underpaid", "accepted until 2026-12-31"), ("T4", "duplicate_reference", "corrected in the ledger")]
WORKED = both(
    fill("T1", "Ana", "accepted until 2026-12-31", "agreed"),
    fill("T4", "Budi", "corrected in the ledger", "one of them", line=5),
)


def keys(decisions):
    return sorted((*each.key, each.cells[1]) for each in decisions)


def test_sorted_and_filtered(folder, work):
    """A list that was sorted, filtered and partly hidden holds the same decisions."""
    path = work(both(WORKED, sort_filter_and_hide))
    assert keys(taken(folder, read_work_list(path, RUN))) == TAKEN


@pytest.mark.slow
@pytest.mark.skipif(SOFFICE is None, reason="needs LibreOffice Calc")
def test_libreoffice(folder, work, tmp_path):
    """A list that LibreOffice has saved again holds the same decisions, and its references kept their zeros."""
    path = work(both(WORKED, fill("007", "Cem"), sort_filter_and_hide))
    out = tmp_path / "saved"
    profile = f"-env:UserInstallation=file://{tmp_path}/profile"
    command = [SOFFICE, profile, "--headless", "--convert-to", "xlsx", "--outdir", str(out), str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    found = taken(folder, read_work_list(out / "report.xlsx", RUN))
    assert keys(found) == sorted([*TAKEN, ("007", "underpaid", "")])

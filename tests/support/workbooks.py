"""Workbooks for tests: made by two libraries that are not ours, and by hand."""

import io
import zipfile

import openpyxl
import xlsxwriter

PARTS = {
    "sheet": "xl/worksheets/sheet1.xml",
    "texts": "xl/sharedStrings.xml",
    "book": "xl/workbook.xml",
    "styles": "xl/styles.xml",
}


def by_openpyxl(*rows, change=lambda _: None):
    """Return a workbook of *rows* as openpyxl writes it, after *change*."""
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    change(book)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def by_xlsxwriter(*rows, **options):
    """Return a workbook of *rows* as xlsxwriter writes it."""
    file = io.BytesIO()
    with xlsxwriter.Workbook(file, {"default_date_format": "yyyy-mm-dd hh:mm:ss", **options}) as book:
        sheet = book.add_worksheet()
        for place, row in enumerate(rows):
            sheet.write_row(place, 0, row)
    return file.getvalue()


def changed(data, **parts):
    """Return the workbook *data* with some of `PARTS` replaced by what a function makes of each."""
    changes = {PARTS[key]: change for key, change in parts.items()}
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            content = old.read(info)
            new.writestr(info.filename, changes[info.filename](content) if info.filename in changes else content)
    return file.getvalue()


def with_rows(xml):
    """Return a workbook whose rows are written as *xml*."""
    schema = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    sheet = f'<worksheet xmlns="{schema}"><sheetData>{xml}</sheetData></worksheet>'
    return changed(by_openpyxl(), sheet=lambda _: sheet.encode())

"""Fill the work list of a report in, as people do in a spreadsheet program."""

import shutil

import openpyxl

shutil.copy("reports/friday/report.xlsx", "work.xlsx")
book = openpyxl.load_workbook("work.xlsx")
sheet = book["Breaks"]
column = {cell.value: cell.column for cell in sheet[1]}
for row in range(2, sheet.max_row + 1):
    is_small = sheet.cell(row, column["Finding"]).value == "underpaid"
    sheet.cell(row, column["Owner"]).value = "Ana"
    resolution = "accepted until 2999-12-31" if is_small else "corrected in the ledger"
    sheet.cell(row, column["Resolution"]).value = resolution
    sheet.cell(row, column["Comment"]).value = "paid in cash" if is_small else "typing error"
book.save("work.xlsx")

"""Exports of providers, shops, books and banks: `exports.txt` beside their tests, as files with their truth."""

import csv
import io
import json
from datetime import date, timedelta
from pathlib import Path

import xlsxwriter
from attrs import frozen

EXPORTS = Path(__file__).parents[1] / "reconcile" / "ledger" / "exports.txt"
PAID = 24
FEE = 700
PAYMENTS = {f"INV-2611-{number:04}": 15_000 + 1_237 * number for number in range(1, PAID + 3)}
"""The amount of each payment, by reference; the last two stand in some of the files only, and are not paid there."""


def _fields(number):
    reference = f"INV-2611-{number:04}"
    amount = PAYMENTS[reference]
    day = date(2026, 11, 2) + timedelta(days=number % 20)
    point = {"a": f"{amount:,}", "n": f"{amount - FEE:,}"}
    return {
        "r": reference, "i": 7000 + number * 13, "a": amount, "f": FEE, "n": amount - FEE,
        **{f"{name}2": f"{value}.00" for name, value in (("a", amount), ("f", FEE), ("n", amount - FEE))},
        **{f"{name}c": value for name, value in point.items()},
        **{f"{name}c2": f"{value}.00" for name, value in point.items()},
        **{f"{name}d": value.replace(",", ".") for name, value in point.items()},
        **{f"{name}d2": value.replace(",", ".") + ",00" for name, value in point.items()},
        "as2": f"{amount},00", "an2": point["a"].replace(",", "\N{NO-BREAK SPACE}") + ",00",
        "bal": 5_000_000 + 3_331 * number,
        "iso": day.isoformat(), "dmy": f"{day:%d/%m/%Y}", "ger": f"{day:%d.%m.%Y}", "us": f"{day:%m/%d/%Y}",
        "dash": f"{day:%d-%m-%Y}", "ddmm": f"{day:%d%m}",
        "total": sum(list(PAYMENTS.values())[:PAID]), "odd": sum(list(PAYMENTS.values())[PAID:]),
    }  # fmt: skip


@frozen
class Export:
    """A file, and the truth about it: the references in it, and those of them that are not paid, or not any more."""

    name: str
    content: bytes
    suffix: str
    column: str
    references: frozenset[str]
    odd: frozenset[str]

    @property
    def has_movements(self):
        """Whether a payment may have several lines, as in a statement."""
        return len(self.references) < len(PAYMENTS)

    def __str__(self):
        return self.name


def _sheet(book, name, lines):
    sheet = book.add_worksheet(name)
    for place, line in enumerate(lines):
        for column, cell in enumerate(line.split(";")):
            number, _, form = cell.removeprefix("#").partition("@")
            if cell.startswith("#"):
                sheet.write_number(place, column, int(number), book.add_format({"num_format": form or "General"}))
            else:
                sheet.write_string(place, column, cell)


def _column(lines):
    """Return the name above the reference in the last line before that of a paid one."""
    place = next(place for place, line in enumerate(lines) if line[0] == "+")
    if lines[place].startswith("+{{"):
        paid = json.loads(lines[place][1:].format_map(_fields(1)))
        return next(name for name, value in paid.items() if value == _fields(1)["r"])
    header = max("\n".join(lines[:place]).split("\n"), key=lambda line: len(line.strip(",;")))
    mark = next(mark for mark in "|;," if mark in header)
    names, cells = (next(csv.reader(io.StringIO(line), delimiter=mark)) for line in (header, lines[place][1:]))
    return names[next(place for place, cell in enumerate(cells) if "{r}" in cell)]


def _workbook(lines):
    file = io.BytesIO()
    sheets = {"Sheet1": []}
    for line in lines:
        if line.startswith("!"):
            sheets[line[1:]] = []
        else:
            list(sheets.values())[-1].append(line)
    with xlsxwriter.Workbook(file) as book:
        for name, content in sheets.items():
            _sheet(book, name, content)
    return file.getvalue()


def _export(block):
    heading, *lines = block.rstrip("\n").split("\n")
    name, _, kind = heading.removesuffix(")").partition(" (")
    templates = []
    for line in lines:  # a line without a mark below a marked one belongs to it: a quoted cell of two lines
        is_more = kind != "xlsx" and templates and templates[-1][0] in "+-&" and line[:1] not in "+-&>"
        templates[-1:] = [f"{templates[-1]}\n{line}"] if is_more else [*templates[-1:], line]
    once = {"-": iter((PAID + 1, PAID + 2)), "&": iter((5, 9))}
    paid = [line[1:] for line in templates if line[0] == "+"]
    content, below, references, odd = [], [], set(), set()
    for line in templates:
        mark, text = line[0], line.partition(" ")[2]
        if mark == "+":
            fields = [] if references else [_fields(number) for number in range(1, PAID + 1)]
            content += [each.format_map(of) for of in fields for each in paid]
            references |= {of["r"] for of in fields}
        elif mark in once:
            of = _fields(next(once[mark]))
            content.append(text.format_map(of))
            references.add(of["r"])
            odd.add(of["r"])
        else:
            (below if mark == ">" else content).append(line.removeprefix(">").format_map(_fields(1)))
    column = _column(templates)
    if kind == "xlsx":
        data = _workbook(content)
    else:
        text = "".join(f"{line}\n" for line in content + below)
        data = (text.replace(";", "\t") if kind == "tabs" else text).encode("cp1252" if kind == "cp1252" else "utf-8")
    suffix = kind if kind in ("xlsx", "jsonl") else "csv"
    return Export(name, data, suffix, column, frozenset(references), frozenset(odd))


def exports():
    """Return every export of the file."""
    return [_export(block) for block in EXPORTS.read_text(encoding="utf-8").split("\n=== ")[1:]]

"""Put sheets together into one XLSX file, always with the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Self
from zipfile import ZIP_DEFLATED, ZipFile

from attrs import frozen

from payclient.report._sheet import Sheet, Value

_LEVEL = 3
_COPY_BYTES = 1 << 18


@frozen
class _Open:
    """A sheet that is written: its rows go straight into the file, or into one of their own until it is their turn."""

    name: str
    sheet: Sheet
    file: IO[bytes]


class Package:
    """
    An XLSX file while its sheets are written.

    Args:
        file: Open for bytes, at its start.
        folder: Where there is room for all sheets but the first that is begun.

    Shape:
        Use it as a context manager: `begin` each sheet, `add` rows to any of them in any order, then `finish`. Memory
        does not grow with the rows.
    """

    def __init__(self, file: IO[bytes], folder: Path) -> None:
        # What is opened by its name has the first day of 1980 as its time, and no rights of this machine.
        self._archive = ZipFile(file, "w", ZIP_DEFLATED, compresslevel=_LEVEL)
        self._folder = folder
        self._sheets: dict[str, _Open] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Without `finish` the file is not wanted any more, and its last bytes may not fit on the disk either.
        for close in (*(each.file.close for each in self._sheets.values()), self._archive.close):
            with suppress(OSError):
                close()

    def begin(self, name: str, sheet: Sheet) -> None:
        """Begin a sheet; the first one costs the least, because an archive takes one file at a time."""
        number = len(self._sheets) + 1
        file: IO[bytes] = (
            TemporaryFile(dir=self._folder)  # noqa: SIM115  closed with the others
            if self._sheets
            else self._archive.open(_part(number), "w")
        )
        self._sheets[name] = _Open(name, sheet, file)
        file.write(sheet.start())

    def add(self, name: str, values: Sequence[Value]) -> None:
        """Write the next row of a sheet."""
        each = self._sheets[name]
        each.file.write(each.sheet.add(values))

    def left_out(self, name: str) -> int:
        """Return how many rows of a sheet do not fit in it, once all are written."""
        return self._sheets[name].sheet.left_out

    def finish(self, order: Sequence[str]) -> None:
        """
        Write what is left.

        Args:
            order: The names of all sheets, as they stand in the workbook.
        """
        for number, each in enumerate(self._sheets.values(), 1):
            each.file.write(each.sheet.end())
            if number == 1:
                each.file.close()
                continue
            each.file.seek(0)
            with self._archive.open(_part(number), "w") as part:
                copyfileobj(each.file, part, _COPY_BYTES)
        for name, text in self._frame(order).items():
            with self._archive.open(name, "w") as part:
                part.write(text.encode())
        self._archive.close()

    def _frame(self, order: Sequence[str]) -> dict[str, str]:
        numbers = {name: number for number, name in enumerate(self._sheets, 1)}
        parts = [_part(number) for number in numbers.values()]
        return {
            "xl/workbook.xml": _workbook([(name, numbers[name], self._sheets[name].sheet.area) for name in order]),
            "xl/_rels/workbook.xml.rels": _relations(parts),
            "xl/styles.xml": _STYLES,
            "_rels/.rels": _ROOT,
            "[Content_Types].xml": _types(parts),
        }


def _part(number: int) -> str:
    return f"xl/worksheets/sheet{number}.xml"


def _workbook(sheets: Sequence[tuple[str, int, str]]) -> str:
    listed = "".join(
        f'<sheet name="{name}" sheetId="{place}" r:id="rId{number}"/>'
        for place, (name, number, _) in enumerate(sheets, 1)
    )
    names = "".join(
        f'<definedName name="_xlnm._FilterDatabase" localSheetId="{place}" hidden="1">\'{name}\'!{area}</definedName>'
        for place, (name, _, area) in enumerate(sheets)
        if area
    ) + "".join(
        f'<definedName name="_xlnm.Print_Titles" localSheetId="{place}">\'{name}\'!$1:$1</definedName>'
        for place, (name, _, _) in enumerate(sheets)
    )
    return (
        f'{_XML}<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}">'
        '<bookViews><workbookView activeTab="0"/></bookViews>'
        f"<sheets>{listed}</sheets><definedNames>{names}</definedNames></workbook>"
    )


def _relations(parts: Sequence[str]) -> str:
    sheets = "".join(
        f'<Relationship Id="rId{number}" Type="{_OFFICE}/worksheet" Target="{part.removeprefix("xl/")}"/>'
        for number, part in enumerate(parts, 1)
    )
    styles = f'<Relationship Id="rId{len(parts) + 1}" Type="{_OFFICE}/styles" Target="styles.xml"/>'
    return f'{_XML}<Relationships xmlns="{_RELATIONS}">{sheets}{styles}</Relationships>'


def _types(parts: Sequence[str]) -> str:
    kinds = {"xl/workbook.xml": "sheet.main", "xl/styles.xml": "styles", **dict.fromkeys(parts, "worksheet")}
    overrides = "".join(
        f'<Override PartName="/{part}" ContentType="{_KIND}.{kind}+xml"/>' for part, kind in kinds.items()
    )
    return (
        f'{_XML}<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>'
    )


_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_RELATIONS = f"{_PACKAGE}/relationships"
_KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_ROOT = (
    f'{_XML}<Relationships xmlns="{_RELATIONS}">'
    f'<Relationship Id="rId1" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>'
)
_STYLES = (
    f'{_XML}<styleSheet xmlns="{_MAIN}">'
    '<fonts count="2"><font><sz val="11"/><name val="Calibri"/><family val="2"/></font>'
    '<font><b/><sz val="11"/><name val="Calibri"/><family val="2"/></font></fonts>'
    '<fills count="3"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill>'
    '<fill><patternFill patternType="solid"><fgColor rgb="FFE8ECF1"/><bgColor indexed="64"/></patternFill></fill>'
    "</fills>"
    '<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>'
    '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>'
    '<cellXfs count="5">'
    '<xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>'
    '<xf numFmtId="49" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>'
    '<xf numFmtId="3" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>'
    '<xf numFmtId="1" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>'
    '<xf numFmtId="49" fontId="1" fillId="2" borderId="0" xfId="0" applyNumberFormat="1" applyFont="1" applyFill="1"/>'
    "</cellXfs>"
    '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>'
)
"""The formats of cells are those of `Style`, in its order; 49 is text, 3 has separators of thousands, 1 has none."""

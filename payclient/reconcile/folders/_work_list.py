"""Read a work list back: the columns Owner, Resolution and Comment of `report.xlsx`."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import IO, Any

from attrs import frozen

from payclient._shared.escape import escape_unprintable, quote
from payclient.reconcile import Bucket, Decision, DecisionError, Resolution, Row
from payclient.reconcile.judgement.decisions import UNRESOLVED, read_resolution
from payclient.reconcile.ledger import FORMULA, LedgerError, read_cells
from payclient.reconcile.report import RUN_TERM, open_rows, row_lines_of
from payclient.reconcile.report._workbook import COLUMNS, shown

_SHEETS = ("Breaks", "Unresolved")
_MAX_TEXT = 2000
_WORK = ("Owner", "Resolution", "Comment")


@frozen(kw_only=True)
class WorkItem:
    """A row of the work list that was filled in."""

    sheet: str
    row: int
    line: int
    reference: str
    code: str
    owner: str
    resolution: str
    comment: str

    @property
    def place(self) -> str:
        return f"sheet {self.sheet}, row {self.row}"


def read_work_list(path: Path, run: str) -> list[WorkItem]:
    """Return the rows that were filled in. Refuse a work list of another run, or with moved columns or formulas."""
    try:
        with path.open("rb") as file:
            _check_run(file, run)
            return [item for sheet in _SHEETS for item in _items(file, sheet)]
    except LedgerError as error:
        raise DecisionError(f"{path} cannot be read: {error.message}") from error


def _check_run(file: IO[bytes], run: str) -> None:
    said = [cells.get(1) for _, cells in read_cells(file, "To sign") if cells.get(0) == RUN_TERM]
    if said != [run]:
        which = quote(said[0]) if len(said) == 1 and isinstance(said[0], str) else "a run that it does not name"
        raise DecisionError(f"the work list is of {which}, and not of the run {quote(run)} in this folder")


def _items(file: IO[bytes], sheet: str) -> Iterator[WorkItem]:
    rows = read_cells(file, sheet)
    places = _places(sheet, next(rows, (0, dict[int, Any]()))[1])
    code_place = places.get("Finding", -1)
    seen: dict[tuple[Any, ...], bool] = {}
    for row, cells in rows:
        identity = tuple(cells.get(place) for place in (places["Line"], places["Reference"], code_place))
        work = {title.lower(): _text(cells.get(places[title]), f"sheet {sheet}, row {row}, {title}") for title in _WORK}
        is_filled = any(work.values())
        if is_filled or seen.get(identity):
            if identity in seen:
                raise DecisionError(f"sheet {sheet}, row {row}: the row is there twice; delete one of them")
            line, reference, code = identity[0], identity[1], identity[2] if code_place >= 0 else UNRESOLVED
            if type(line) is not int or not isinstance(reference, str) or not isinstance(code, str):
                raise DecisionError(f"sheet {sheet}, row {row}: it is not a row of the report; undo the changes in it")
            yield WorkItem(sheet=sheet, row=row, line=line, reference=reference, code=code, **work)
        seen[identity] = is_filled


def _places(sheet: str, header: Mapping[int, Any]) -> dict[str, int]:
    places = {column.title: place for place, column in enumerate(COLUMNS[sheet])}
    for title, place in places.items():
        if (found := header.get(place, "")) != title:
            moved = f"{quote(str(found))} is where {quote(title)} must be"
            raise DecisionError(f"sheet {sheet}: its columns were moved or renamed: {moved}")
    return places


def _text(value: Any, place: str) -> str:
    if value is FORMULA:
        raise DecisionError(f"{place}: it is a formula; write the text itself")
    if type(value) is int:
        return str(value)
    if value is not None and not isinstance(value, str):
        raise DecisionError(f"{place}: it must be text")
    # As every report shows it, so that the same text comes back from the next work list.
    text = escape_unprintable(" ".join((value or "").split()))
    if len(text) > _MAX_TEXT:
        raise DecisionError(f"{place}: it has more than {_MAX_TEXT:,} characters")
    return text


@frozen(kw_only=True)
class DecisionImporter:
    """Turns rows of a work list into decisions of one person."""

    run: str
    by: str
    at: datetime

    def take(self, items: Iterable[WorkItem], rows: Path) -> tuple[Decision, ...]:
        """Return the decisions, each with its evidence. Refuse one that is not a row of the run, or is not allowed."""
        wanted: dict[int, list[WorkItem]] = {}
        for item in items:
            wanted.setdefault(item.line, []).append(item)
        found: dict[tuple[str, str], tuple[Decision, str]] = {}
        missing = dict.fromkeys(item for each in wanted.values() for item in each)
        for item, row, line in _matching(wanted, rows):
            missing.pop(item, None)
            for decision in self._decisions(item, row, hashlib.sha256(line).hexdigest()):
                other, place = found.setdefault(decision.key, (decision, item.place))
                if other.cells != decision.cells:
                    raise DecisionError(f"{item.place}: it is decided otherwise than {place}, the same finding")
        for item in missing:
            message = f"{item.place}: line {item.line} of this run has no {item.code} of {quote(item.reference)}"
            raise DecisionError(message)
        return tuple(decision for decision, _ in found.values())

    def _decisions(self, item: WorkItem, row: Row, evidence: str) -> Iterator[Decision]:
        """Yield the decision about each finding that makes the row a break, the leading one first."""
        try:
            resolution, until = read_resolution(item.resolution)
            if resolution is Resolution.ACCEPTED:
                self._check(item, until)
        except DecisionError as error:
            raise DecisionError(f"{item.place}: {error.message}") from error
        decided = [(each.code.value, each.ledger, each.service) for each in row.findings if each.is_decisive]
        for code, ledger, service in [(UNRESOLVED, None, None)] if item.code == UNRESOLVED else decided:
            yield Decision(
                run=self.run,
                reference=row.reference or "",
                code=code,
                owner=item.owner,
                resolution=resolution,
                until=until,
                comment=item.comment,
                ledger=ledger,
                service=service,
                by=self.by,
                at=self.at,
                evidence=evidence,
            )

    def _check(self, item: WorkItem, until: date | None) -> None:
        problem = ""
        if item.code == UNRESOLVED:
            problem = "an unresolved row cannot be accepted, because nothing is known about it yet"
        elif not item.owner or not item.comment:
            problem = "what is accepted needs an owner and a comment that says why"
        elif until is None or until < self.at.date():
            problem = f"the last day, {until}, has passed"
        if problem:
            raise DecisionError(problem)


def _matching(wanted: Mapping[int, list[WorkItem]], rows: Path) -> Iterator[tuple[WorkItem, Row, bytes]]:
    """Yield each item with its row of the report, and the line that it was read from."""
    with open_rows(rows) as file:
        for line in row_lines_of(file):
            if items := wanted.get(line.data["line"]):
                row = line.row
                yield from ((item, row, line.text.rstrip(b"\n")) for item in items if _is_of(item, row))


def _is_of(item: WorkItem, row: Row) -> bool:
    if row.reference is None or shown(row.reference) != item.reference:
        return False
    if item.code == UNRESOLVED:
        return row.bucket is Bucket.UNRESOLVED
    return row.bucket is Bucket.BREAK and row.primary is not None and row.primary.code.value == item.code

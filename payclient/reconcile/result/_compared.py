"""The fields that were compared or not, so that a verdict states its scope."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from types import MappingProxyType

from attrs import define, field, frozen

from payclient._escape import plural
from payclient.ledger import ABSENT, COMPARED, Entry
from payclient.reconcile.values import Row, Status

_FIELDS = ("amount", "status", *(name for name in COMPARED if name not in ("amount", "status")))
_cells = attrgetter(*_FIELDS)


@frozen(kw_only=True)
class Compared:
    """
    What was compared.

    Attributes:
        fields: Rows in which each field was compared with an answer, for every field there is, the amount first.
        stated: The fields that the ledger has a column for.
        assumed_paid: Rows that were assumed paid, because the ledger has no status column.
        status_left_out: Rows whose status was not compared, because the ledger has none and none was assumed.
        not_paid: Of those, rows that are not paid at the service.
    """

    fields: Mapping[str, int]
    stated: tuple[str, ...] = ()
    assumed_paid: int = 0
    status_left_out: int = 0
    not_paid: int = 0

    @property
    def what(self) -> str:
        """The compared fields in words; empty if there are none."""
        most = max(self.fields.values(), default=0)
        found = {name: rows for name, rows in self.fields.items() if rows}
        names = [name if rows == most else f"{name} ({plural(rows, 'row')})" for name, rows in found.items()]
        if self.assumed_paid:
            names.insert(1 if self.fields["amount"] else 0, "status (assumed paid)")
        return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)

    @property
    def are_amounts_left_out(self) -> bool:
        """Whether rows were compared, and no amount was: the ledger has no column that is used as the amount."""
        others = any(self.fields.values()) or self.assumed_paid or self.status_left_out
        return not self.fields["amount"] and bool(others)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The fields that were compared in no row."""
        return tuple(
            name for name, rows in self.fields.items() if not rows and (name != "status" or not self.assumed_paid)
        )

    @property
    def remark(self) -> str:
        """The fields that were not compared, in one sentence; empty if there are none."""
        told = {"amount": self.are_amounts_left_out, "status": self.status_left_out}
        names = [name for name in self.left_out if not told.get(name)]
        why = {"the ledger does not state it": False, "no row with it was answered": True}
        said = [
            f"Not compared, because {reason}: {', '.join(found)}."
            for reason, is_stated in why.items()
            if (found := [name for name in names if (name in self.stated) is is_stated])
        ]
        if self.are_amounts_left_out:
            said.insert(0, "Amounts not compared: no column of the ledger is used as the amount.")
        if self.status_left_out:
            which = f"{self.not_paid:,} of {self.status_left_out:,} {'is' if self.not_paid == 1 else 'are'}"
            said.append(f"Status not compared; {which} not paid at the service.")
        return " ".join(said)


def _is_stated(cell: object) -> bool:
    """Return whether *cell* has something to compare, which a dash has not."""
    return cell is not ABSENT and cell is not None and (not isinstance(cell, str) or any(map(str.isalnum, cell)))


@define
class Comparison:
    """Counts what is compared, row by row."""

    _fields: dict[str, int] = field(init=False, factory=lambda: dict.fromkeys(_FIELDS, 0))
    _stated: set[str] = field(init=False, factory=set)
    _assumed: int = field(init=False, default=0)
    _left_out: int = field(init=False, default=0)
    _not_paid: int = field(init=False, default=0)

    def add(self, row: Row) -> None:
        """Count *row*; one without an answer was compared with nothing."""
        entry = row.entry
        if not isinstance(entry, Entry) or not row.is_listed:
            return
        self._stated.update(name for name, cell in zip(_FIELDS, _cells(entry), strict=True) if cell is not ABSENT)
        if row.transaction is None:
            return
        for name, cell in zip(_FIELDS, _cells(entry), strict=True):
            self._fields[name] += _is_stated(cell) or (name == "fee" and cell is None)  # an empty fee is a fee of 0
        if row.is_status_assumed:
            self._assumed += 1
        elif entry.status is ABSENT:
            self._left_out += 1
            self._not_paid += row.service_status is not Status.PAID

    def compared(self) -> Compared:
        """Return the counts."""
        return Compared(
            fields=MappingProxyType(dict(self._fields)),
            stated=tuple(name for name in _FIELDS if name in self._stated),
            assumed_paid=self._assumed,
            status_left_out=self._left_out,
            not_paid=self._not_paid,
        )

"""The fields that were compared or not, so that a verdict states its scope."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from payclient._escape import plural


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

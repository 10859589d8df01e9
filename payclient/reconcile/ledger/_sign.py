"""
The sign of an amount, which is said once: in its cell, by a column of debits or of directions, or by the kind of line.

Where the cell and something next to it both say it, they must agree, and must do so in each debit of the column:
otherwise some of them would be read as money that came.
"""

from attrs import define, field

from payclient.reconcile.ledger._cells import CellProblem, LedgerError


@define
class SignLaw:
    """Applies the sign that is said next to the cells of one column."""

    _said_by: str
    """Such as `the column 'D/C'`."""
    _debits: dict[bool, int] = field(init=False, factory=dict)
    """The first debit whose cell has a sign for less than zero, and the first without."""

    def apply(self, number: int, in_cell: int, beside: int) -> int:
        """Return *number* with the sign that is given *beside* its cell, or *in_cell*: 1, -1, or 0 for neither."""
        if not number or not beside:
            return number
        if in_cell == -beside:
            side = "below" if in_cell < 0 else "above"
            message = f"{number:,} is {side} zero by its own sign, and {self._said_by} says otherwise"
            raise CellProblem(message)
        if beside < 0:
            self._debits.setdefault(in_cell < 0, number)
            if len(self._debits) > 1:
                signed, bare = self._debits[True], self._debits[False]
                message = (
                    f"amounts that {self._said_by} makes debits have a minus ({signed:,}) and none ({bare:,}), "
                    "so one of them is not a debit; write them all in one way"
                )
                raise LedgerError(message)
        return beside * abs(number)

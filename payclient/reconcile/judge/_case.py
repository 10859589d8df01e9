"""The input of a judgement: a reference to look up, and all that is known of one row."""

from __future__ import annotations

from attrs import frozen

from payclient.ledger import Entry, RejectedEntry
from payclient.reconcile.nights import ReferenceRecord
from payclient.reconcile.rules import InvoiceTotals
from payclient.reconcile.values import Observation, OtherSide


@frozen
class PendingLookup:
    """A reference to look up, once for all ledger rows that have it; its position is that of the first, from 1."""

    reference: str
    position: int
    entries: tuple[Entry, ...]
    earlier: ReferenceRecord | None = None  # the record of the previous run about it


@frozen(kw_only=True)
class Case:
    """
    Everything known about one row.

    Attributes:
        entry: What the ledger says.
        first: The answer to the first lookup; None when there was none.
        second: The answer to the second lookup.
        rows: The number of ledger rows with this reference.
        duplicated: The sum of their amounts without the smallest; None if the ledger states none.
        is_repeat: A row before this one has the same reference.
        paid_with: Other references that are paid under the same merchant_reff; the first few.
        other_found: The number of other references found in the same run.
        ended_by: The failure that ended the run early; None when it did not.
        parts: The lines of one payment, which are put together; empty where each row is for itself. The entry is the
            first.
        apart: Why the rows with this reference are not put together; empty if they are, or never are.
        invoice: The invoice, where the rules sum what is paid under several references.
        earlier: The record of the previous run about the reference; None without a previous run.
        is_carried: A row of the previous run, which the ledger does not list any more.
        other_side: What the statement lists for the reference; None without a statement.
        unusable_line: A line of the same payment that cannot be used, so that the sum is not known.
    """

    entry: Entry | RejectedEntry
    first: Observation | None = None
    second: Observation | None = None
    rows: int = 1
    duplicated: int | None = None
    is_repeat: bool = False
    paid_with: tuple[str, ...] = ()
    other_found: int = 0
    ended_by: Observation | None = None
    parts: tuple[Entry, ...] = ()
    apart: str = ""
    unusable_line: int | None = None
    other_side: OtherSide | None = None
    invoice: InvoiceTotals | None = None
    earlier: ReferenceRecord | None = None
    is_carried: bool = False

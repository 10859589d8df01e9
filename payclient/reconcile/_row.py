"""What becomes of each ledger row: one frozen value in exactly one bucket."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from attrs import frozen

from payclient._models import Transaction
from payclient.ledger._entry import Entry, RejectedEntry
from payclient.reconcile._finding import Finding, Severity


class Bucket(StrEnum):
    """
    Where a row lands.

    Attributes:
        MATCHED: Every compared field agrees, or the rules waive the difference.
        OPEN: Both sides are pending, and the expiry has not passed; or the row is within the grace.
        BREAK: A confirmed difference.
        UNRESOLVED: No trustworthy answer; it may be anything.
        REJECTED: The ledger row itself cannot be used.
    """

    MATCHED = "matched"
    OPEN = "open"
    BREAK = "break"
    UNRESOLVED = "unresolved"
    REJECTED = "rejected"


@frozen(kw_only=True)
class Row:
    """
    One ledger row, reconciled.

    Attributes:
        entry: What the ledger says.
        bucket: Where it lands.
        findings: The most severe first, and what was waived behind all others.
        transaction: What the service said last, if it did.
        reason: Why it is unresolved or rejected; empty otherwise.
        error: Name of the error class of a lookup that failed; None otherwise.
        observed_at: When the service first answered, in UTC.
        confirmed_at: When it was asked again, in UTC; None when there was no need to.
        is_changed_during_run: The second answer was not the first; the row was judged by the second.
        is_repeat: A row before it has the same reference.
    """

    entry: Entry | RejectedEntry
    bucket: Bucket
    findings: tuple[Finding, ...] = ()
    transaction: Transaction | None = None
    reason: str = ""
    error: str | None = None
    observed_at: datetime | None = None
    confirmed_at: datetime | None = None
    is_changed_during_run: bool = False
    is_repeat: bool = False

    @property
    def line(self) -> int:
        """Where it stands in the ledger."""
        return self.entry.line

    @property
    def reference(self) -> str | None:
        """What was asked for; None when the ledger row has none."""
        return self.entry.reference

    @property
    def primary(self) -> Finding | None:
        """The finding that stands for the row."""
        return self.findings[0] if self.findings else None

    @property
    def severity(self) -> Severity:
        """Of the primary finding."""
        return self.findings[0].severity if self.findings else Severity.INFO

    @property
    def ledger_amount(self) -> int | None:
        """What the ledger states; None when it states none."""
        amount = self.entry.amount
        return amount if isinstance(amount, int) else None

    @property
    def service_amount(self) -> int | None:
        """What the service states; None when it states none."""
        return None if self.transaction is None else self.transaction.amount

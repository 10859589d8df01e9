"""One reference to ask for, with the ledger rows that want to know."""

from __future__ import annotations

from attrs import frozen

from payclient.ledger import Entry


@frozen
class Question:
    """
    One reference, asked for once however many rows have it.

    Attributes:
        reference: What the service is asked.
        position: Of the first ledger row that has it, from 1.
        entries: Every ledger row that has it.
    """

    reference: str
    position: int
    entries: tuple[Entry, ...]

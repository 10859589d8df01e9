"""How far a reconciliation is, for a live display."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

from attrs import frozen


class Phase(StrEnum):
    """What is being done."""

    READING = "reading"
    ASKING = "asking"
    CONFIRMING = "confirming"
    JUDGING = "judging"


@frozen(kw_only=True)
class Progress:
    """
    A snapshot.

    Attributes:
        phase: What is being done.
        done: Ledger rows read or judged, or references asked or asked again, in this phase.
        total: How many there will be in this phase; None while the ledger is read.
        differences: References that did not agree with the ledger when they were first asked.
        differences_amount: What the ledger states for these.
        unresolved: References for which no answer came in this phase.
    """

    phase: Phase
    done: int
    total: int | None
    differences: int
    differences_amount: int
    unresolved: int


OnProgress: TypeAlias = Callable[[Progress], object]
"""Gets a snapshot whenever something was done, on the event loop, so it must not block."""

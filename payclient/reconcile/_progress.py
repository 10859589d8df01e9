"""Progress of a reconciliation, for a live display."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

from attrs import frozen


class Phase(StrEnum):
    """The phases of a run, in order."""

    READING = "reading"
    ASKING = "asking"
    CONFIRMING = "confirming"
    JUDGING = "judging"


@frozen(kw_only=True)
class Progress:
    """
    A snapshot.

    Attributes:
        phase: The current phase.
        done: Ledger rows read or judged, or references looked up, in this phase.
        total: The number at the end of this phase; None while the ledger is read.
        differences: References whose first lookup differed from the ledger.
        differences_amount: Their total amount in the ledger.
        unresolved: References without an answer in this phase.
        waiting: What the run waits for, when nothing is in flight; empty otherwise.
    """

    phase: Phase
    done: int
    total: int | None
    differences: int
    differences_amount: int
    unresolved: int
    waiting: str = ""


OnProgress: TypeAlias = Callable[[Progress], object]
"""Receives a snapshot after each step; called on the event loop, so it must not block."""

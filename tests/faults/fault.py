"""A fault as data: what the service does, and what must come of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from payclient import Transaction
from payclient.errors import Signal

UNCOUNTED = None
"""For `attempts`: the service asked to come back later, and that uses no attempt up."""


@frozen
class Fault:
    """
    One row of the table.

    Attributes:
        sentence: What happens, in words.
        script: The steps of one answer; how they are written down is in `raw_server`.
        verdict: What a lookup comes to while the fault lasts: `Transaction`, or the class of its error.
        attempts: How many it makes until then, of four that it may make.
        signal: What each of them tells the limiter.
        says: What must stand in the error's text, or in the deviations of the transaction.
        pause: Seconds for which the whole client is then stopped.
        greeting: The steps done when a connection has been accepted, before anything is asked.
        options: For the client, beside those of every row.
        foreign: What is different over a client that is passed in, whose parser is more lenient and sees less.
    """

    sentence: str
    script: Sequence[Any]
    verdict: type
    attempts: int | None = 1
    signal: Signal = Signal.ACCEPTED
    says: str = ""
    pause: float = 0.0
    greeting: Sequence[Any] = ()
    options: Mapping[str, Any] = {}
    foreign: Mapping[str, Any] = {}

    def over(self, carrier: str) -> Fault:
        """Return what the row requires over *carrier*."""
        return evolve(self, **self.foreign) if carrier == "httpx" else self

    @property
    def is_survived(self) -> bool:
        """Whether a lookup ends well when the fault happens once."""
        return self.verdict is Transaction or self.attempts != 1

    def __str__(self) -> str:
        return self.sentence

"""
Internal: decisions of people about breaks: one line of JSON each, with the checksum of the line before.

Design rules:

- A decision is about a finding of a reference in one run, and has both sides and the amount at stake. Accepted, it
  covers that difference up to that amount, as an accepted difference of the rules does.
- Lines are only added. The last one about a finding counts.
- A line that is changed, moved, or missing before others is noticed. A missing end is noticed by the manifest of a
  report that was written since.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any, TypeAlias

from attrs import evolve, frozen
from cattrs import BaseValidationError

from payclient._shared.escape import quote
from payclient.reconcile._codec import as_json, from_json
from payclient.reconcile._judgement.errors import DecisionError
from payclient.reconcile._judgement.rules import Accepted, Rules

FIRST = "0" * 64
"""Previous checksum of the first line."""

Key: TypeAlias = tuple[str, str]
"""Reference and code. The code of an unresolved row is `unresolved`."""

Decisions: TypeAlias = Mapping[Key, "Decision"]
"""Decisions by reference and code."""

UNRESOLVED = "unresolved"
_ACCEPTED = re.compile(r"accepted until (\d{4}-\d\d-\d\d)")


class Resolution(StrEnum):
    """
    A decision about a break.

    Attributes:
        ACCEPTED: The difference is not a break until a last day.
        CORRECTED: The ledger was corrected, so the next run must not have it.
        RAISED: The provider of the service was asked.
    """

    ACCEPTED = "accepted"
    CORRECTED = "corrected in the ledger"
    RAISED = "raised with the service"


@frozen(kw_only=True)
class Decision:
    """
    One decision.

    Attributes:
        run: Name of the run whose work list it stood in.
        reference: Reference of the row.
        code: Code of the finding. `unresolved` for an unresolved row.
        owner: Who is responsible. Empty if not given.
        resolution: The decision. None without one yet.
        until: The last day of what is accepted. None for any other resolution.
        comment: Why.
        ledger: The ledger's side of the finding.
        service: The service's side.
        at_stake: The amount that depends on it, 0 if unknown. None in a line without it, which covers no money.
        by: Who took it.
        at: When it was taken, aware.
        evidence: SHA-256, in hexadecimal, of the row's line in `rows.jsonl`, without its line end.
    """

    run: str
    reference: str
    code: str
    owner: str = ""
    resolution: Resolution | None = None
    until: date | None = None
    comment: str = ""
    ledger: str | int | None = None
    service: str | int | None = None
    at_stake: int | None = None
    by: str
    at: datetime
    evidence: str

    @property
    def key(self) -> Key:
        return self.reference, self.code

    @property
    def cells(self) -> tuple[str, str, str]:
        """Owner, resolution and comment of the work list."""
        until = f" until {self.until}" if self.resolution is Resolution.ACCEPTED else ""
        return self.owner, f"{self.resolution or ''}{until}", self.comment

    @property
    def is_due(self) -> bool:
        """Whether a later run must not have the break any more."""
        return self.resolution is Resolution.CORRECTED

    @property
    def acceptance(self) -> Accepted | None:
        """This decision as an accepted difference. None for any other decision."""
        if self.resolution is not Resolution.ACCEPTED or self.until is None:
            return None
        return Accepted(
            code=self.code,
            reference=self.reference,
            ledger="" if self.ledger is None else self.ledger,
            service="" if self.service is None else self.service,
            largest_difference=self.at_stake or 0,
            reason=self.comment,
            owner=self.owner,
            expires=self.until,
            run=self.run,
        )


def read_resolution(text: str) -> tuple[Resolution | None, date | None]:
    """Return the resolution and its last day from its cell, in any letter case and spacing."""
    words = " ".join(text.split()).casefold()
    if not words:
        return None, None
    with suppress(ValueError):  # the 31st of February
        if match := _ACCEPTED.fullmatch(words):
            return Resolution.ACCEPTED, date.fromisoformat(match[1])
    for resolution in (Resolution.CORRECTED, Resolution.RAISED):
        if words == resolution:
            return resolution, None
    message = (
        f"the resolution must be 'accepted until YYYY-MM-DD', '{Resolution.CORRECTED}' or '{Resolution.RAISED}', "
        f"got {quote(text)}"
    )
    raise DecisionError(message)


def decision_line(decision: Decision, previous: str) -> tuple[str, str]:
    """Return *decision* as a line of JSON without its line end, and its checksum. *previous* is of the line before."""
    content = {"version": 1, **as_json(decision), "previous": previous}
    if decision.at_stake is None:
        del content["at_stake"]
    checksum = sha256(json.dumps(content).encode()).hexdigest()
    return json.dumps({**content, "sha256": checksum}), checksum


def read_decisions(lines: Iterable[bytes]) -> Iterator[tuple[Decision, str]]:
    """Yield each decision with its checksum, in order. Refuse a line that was changed or moved."""
    previous = FIRST
    for number, line in enumerate(lines, 1):
        try:
            decision, checksum = _read(line, previous)
        except DecisionError as error:
            raise DecisionError(f"line {number}: {error.message}") from error
        yield decision, checksum
        previous = checksum


def _read(line: bytes, previous: str) -> tuple[Decision, str]:
    if not line.endswith(b"\n"):
        raise DecisionError("it is cut")
    message = "it was changed, or payclient did not write it"
    try:
        content: dict[str, Any] = json.loads(line)
        decision = from_json(content, Decision)
        written, checksum = decision_line(decision, content["previous"])
    except (ValueError, LookupError, TypeError, RecursionError, BaseValidationError) as error:
        raise DecisionError(message) from error
    if f"{written}\n".encode() != line:  # including JSON's spaces, which a checksum ignores
        raise DecisionError(message)
    if content["previous"] != previous:
        raise DecisionError("it does not follow the line before: one is missing, or was moved")
    return decision, checksum


def with_decisions(rules: Rules, decisions: Iterable[Decision]) -> Rules:
    """Return *rules* with the acceptances. Any decision about a difference wins over a rule that accepts it."""
    latest = {decision.key: decision for decision in decisions}
    decided = {key: decision.acceptance for key, decision in latest.items() if decision.resolution is not None}
    by_key = {(one.reference, one.code): one for one in rules.accepted} | decided
    return evolve(rules, accepted=filter(None, by_key.values())) if decided else rules

"""What changed, as sentences; and changes that were reviewed and accepted."""

from __future__ import annotations

import tomllib
from datetime import UTC, date, datetime
from enum import IntEnum
from typing import Any

from attrs import asdict, fields_dict, frozen

from payclient._transaction import is_list, is_object


class Severity(IntEnum):
    """How urgent a change is."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3


class AcceptanceError(ValueError):
    """The file of accepted changes cannot be used; the text says why."""


@frozen(kw_only=True)
class Drift:
    """
    One change of the service.

    Attributes:
        kind: `golden`, `first`, `relation` or `share`.
        name: Identifies the change over nights; an acceptance names it.
        sentence: For people.
        severity: How urgent it is.
        night: Name of the run that showed it first.
        since: When it was first seen in that run; None if that is not known.
        count: Answers that show it.
    """

    kind: str
    name: str
    sentence: str
    severity: Severity
    night: str = ""
    since: datetime | None = None
    count: int

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        since = None if self.since is None else self.since.isoformat()
        return {**asdict(self), "severity": self.severity.name.lower(), "since": since}


@frozen(kw_only=True)
class Acceptance:
    """
    A change that was accepted.

    Attributes:
        drift: The name of the change.
        reason: Why it is none to act upon.
        owner: Who is responsible.
        expires: The last day on which it holds, in UTC.
    """

    drift: str
    reason: str
    owner: str
    expires: date

    def is_valid(self, at: datetime) -> bool:
        """Return whether its last day has not passed."""
        return at.astimezone(UTC).date() <= self.expires


def read_acceptances(text: str) -> tuple[Acceptance, ...]:
    """
    Return the changes that a file in TOML accepts.

    Raises:
        AcceptanceError: When the file cannot be read, or an acceptance is not complete.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"not TOML: {error}"
        raise AcceptanceError(message) from None
    given = content.pop("accepted", [])
    if content or not is_list(given):
        message = "it must have nothing but [[accepted]] tables"
        raise AcceptanceError(message)
    return tuple(_acceptance(number, each) for number, each in enumerate(given, 1))


def _acceptance(number: int, value: Any) -> Acceptance:
    names = fields_dict(Acceptance).keys()
    if not is_object(value) or value.keys() != names:
        problem = f"must have {', '.join(names)}, and nothing else"
    elif not all(isinstance(value[name], str) and value[name].strip() for name in ("drift", "reason", "owner")):
        problem = "must have a text for drift, reason and owner"
    elif type(value["expires"]) is not date:
        problem = "must have a date for expires, such as 2027-01-31 without quotes"
    else:
        return Acceptance(**value)
    message = f"accepted change {number} {problem}"
    raise AcceptanceError(message)


def at_minute(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * 60, UTC)


def percent(share: float) -> str:
    """Return a share for people, with two significant digits where it is small."""
    value = 100 * share
    return f"{value:.1f} %" if value >= 1 or not value else f"{value:.2g} %" if value >= 0.001 else f"{value:.5f} %"


def at_most(answers: int) -> str:
    """
    Return the bound for what was not seen in *answers*.

    Source:
        The exact binomial bound of 95 % for no occurrence, which is about 3 divided by their number.
    """
    return f"at most {percent(1 - 0.05 ** (1 / answers))}, with 95 %"

"""A difference that was reviewed and accepted, with an owner and a last day."""

from __future__ import annotations

from datetime import date, datetime, tzinfo

from attrs import field, frozen
from attrs.validators import optional

from payclient._escape import escape_unprintable
from payclient.reconcile.rules import _rule_values as values
from payclient.reconcile.values import Code, Finding, RulesError

ACCEPTED_BY = "accepted by "
"""Begins the waiver of an accepted difference."""

_MAX_WAIVER = 400


def _to_code(value: Code | str) -> Code:
    return values.to_member(Code, "code", value)


@frozen(kw_only=True)
class Accepted:
    """
    One accepted difference.

    Attributes:
        code: The kind of finding; all others of the row still count.
        reference: Of the row.
        ledger: What the ledger said when it was accepted, as `Finding.ledger` has it; empty text for nothing.
        service: What the service said then, as `Finding.service` has it.
        largest_difference: The largest amount at stake, in the unit of the service.
        reason: Why it is no break, for the reader of the report.
        owner: Who is responsible for it.
        expires: The last day on which it holds; from the next day it is a break again.

    Either both sides or a largest difference must be given; where both are, both must hold.
    """

    code: Code = field(converter=_to_code)
    reference: str = field(validator=values.is_filled)
    ledger: str | int | None = field(default=None, validator=values.is_side_or_none)
    service: str | int | None = field(default=None, validator=values.is_side_or_none)
    largest_difference: int | None = field(default=None, validator=optional(values.is_whole))
    reason: str = field(validator=values.is_filled)
    owner: str = field(validator=values.is_filled)
    expires: date = field(converter=values.to_date, validator=values.is_date)

    def __attrs_post_init__(self) -> None:
        is_one_sided = (self.ledger is None) is not (self.service is None)
        if is_one_sided or (self.ledger is None and self.largest_difference is None):
            message = (
                "largest_difference must be given, or both ledger and service as they stand in the finding, "
                "with empty text for nothing: an acceptance without bounds would hide any later difference"
            )
            raise RulesError(message, key=("largest_difference",))

    def is_valid(self, at: datetime, time_zone: tzinfo | None) -> bool:
        """
        Return whether its last day has not passed.

        Args:
            at: When the service was asked, aware. The current time is not used, so a report that is
                made again later says the same.
            time_zone: Whose day counts; without it, the day has passed when it has passed in every zone.
        """
        return self.days_left(at, time_zone) >= 0

    def days_left(self, at: datetime, time_zone: tzinfo | None) -> int:
        """Return the number of days until the last one; negative when it has passed."""
        return (self.expires - at.astimezone(time_zone or values.LAST_ON_EARTH).date()).days

    def covers(self, finding: Finding) -> bool:
        """Return whether *finding*, of its code and of a row with its reference, is still what was accepted."""
        if self.ledger is not None and (self.ledger, self.service) != (_side(finding.ledger), _side(finding.service)):
            return False
        most = self.largest_difference
        return most is None or (finding.at_stake is not None and finding.at_stake <= most)

    @property
    def waiver(self) -> str:
        """The reason in one sentence; safe to print."""
        return escape_unprintable(
            f"{ACCEPTED_BY}{self.owner} until {self.expires}: {self.reason}", max_length=_MAX_WAIVER
        )


@frozen(kw_only=True)
class Approval:
    """
    The accepted differences that need a second person.

    Attributes:
        above: The largest amount at stake that one person can accept, in the unit of the service.
    """

    above: int = field(validator=values.is_whole)

    def is_needed(self, amount_at_stake: int | None) -> bool:
        """Return whether an amount needs approval; one that is not known does."""
        return amount_at_stake is None or amount_at_stake > self.above


def _side(value: str | int | None) -> str | int:
    return "" if value is None else value

"""A difference that somebody has looked at and answers for, until a day."""

from __future__ import annotations

from datetime import date, datetime, tzinfo

from attrs import field, frozen

from payclient._visible import visible
from payclient.reconcile._expiry import LAST_ON_EARTH
from payclient.reconcile._finding import Code
from payclient.reconcile._rule_values import is_date, is_filled, to_date, to_member

_LONGEST = 400


def _to_code(value: Code | str) -> Code:
    return to_member(Code, "code", value)


@frozen(kw_only=True)
class Accepted:
    """
    One accepted difference.

    Attributes:
        code: Which kind of finding; all others of the row still count.
        reference: Of the row.
        reason: Why it is no break, for whoever reads the report.
        owner: Who answers for it.
        expires: The last day on which it holds; from the next day on it is a break again.
    """

    code: Code = field(converter=_to_code)
    reference: str = field(validator=is_filled)
    reason: str = field(validator=is_filled)
    owner: str = field(validator=is_filled)
    expires: date = field(converter=to_date, validator=is_date)

    def is_valid(self, at: datetime, time_zone: tzinfo | None) -> bool:
        """
        Say whether it still holds.

        Args:
            at: When the service was asked, aware. No clock on a wall is read, so a report that is made
                again later says the same.
            time_zone: Whose day counts; without it, the day has passed when it has passed everywhere on Earth.
        """
        return at.astimezone(time_zone or LAST_ON_EARTH).date() <= self.expires

    @property
    def waiver(self) -> str:
        """Why the difference does not count, in one sentence; safe to print."""
        return visible(f"accepted by {self.owner} until {self.expires}: {self.reason}", longest=_LONGEST)

"""Read `Retry-After` and the rate-limit headers: the wait that the service asks for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_NUMBER = re.compile(r"\d{1,13}(?:\.\d{1,9})?", re.ASCII)
_RESET = re.compile(r"(?:^|[;,\s])(?:reset|t)\s*=\s*(\d{1,12})", re.ASCII)
_EPOCH = 1_000_000_000
"""A reset value from here on is a Unix time; below, it is a number of seconds."""


def retry_after(headers: Mapping[str, str], *, now: Callable[[], datetime]) -> float | None:
    """Return the seconds to wait before the next request, or None if no header states it."""
    # `Retry-After` has priority over the reset of the rate-limit headers. A time in the past means now. Unreadable
    # values (negative, `nan`, thousands of digits) are ignored.
    # RFC 9110, 10.2.3; draft-ietf-httpapi-ratelimit-headers; the `X-RateLimit-*` family in use.

    def until(timestamp: float) -> float:
        today = _date(headers.get("date", "")) or now()
        return max(timestamp - today.timestamp(), 0.0)

    value = headers.get("retry-after", "").strip()
    if _NUMBER.fullmatch(value):
        return float(value)
    if (moment := _date(value)) is not None:
        return until(moment.timestamp())
    for name in ("x-ratelimit-reset", "x-rate-limit-reset", "ratelimit-reset"):
        if _NUMBER.fullmatch(value := headers.get(name, "").strip()):
            number = float(value)
            if number >= _EPOCH * 1000:
                number /= 1000  # milliseconds
            return until(number) if number >= _EPOCH else number
    match = _RESET.search(headers.get("ratelimit", ""))
    return float(match[1]) if match else None


def _date(value: str) -> datetime | None:
    # An HTTP date has 29 characters; the parser is slow, and not strict, on much longer ones.
    if not 8 <= len(value) <= 64:
        return None
    try:
        moment = parsedate_to_datetime(value)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        moment.timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return moment

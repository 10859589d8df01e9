"""What one attempt tells the limiter about the service."""

from __future__ import annotations

from enum import Enum


class Signal(Enum):
    """
    The four things an attempt can mean for the number of requests in flight.

    Attributes:
        ACCEPTED: The service did the work, whatever it answered.
        THROTTLED: The service asked for fewer requests.
        OVERLOADED: The service, or the way to it, failed; few of these are normal.
        SILENT: It says nothing about the service: cancelled, or refused by our own side.
    """

    ACCEPTED = "accepted"
    THROTTLED = "throttled"
    OVERLOADED = "overloaded"
    SILENT = "silent"

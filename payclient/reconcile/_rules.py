"""What the user decided about how the two sides are compared."""

from __future__ import annotations

from datetime import tzinfo

from attrs import frozen


@frozen(kw_only=True)
class Rules:
    """
    How differences are judged.

    Attributes:
        time_zone: What the service's expiry times mean; without it, an expiry has passed when it has
            passed everywhere on Earth.
    """

    time_zone: tzinfo | None = None


STRICT = Rules()
"""Every difference counts."""

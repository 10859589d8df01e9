"""The defaults of the client that others need; its signatures repeat them, because editors show what is written."""

from __future__ import annotations

MAX_CONCURRENCY = 64
TIMEOUT = 10.0  # seconds
DEADLINE: float | None = 30.0  # seconds; None: no limit
STALL_TIMEOUT = 900.0  # seconds

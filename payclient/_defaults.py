"""The defaults that the client, the command line, the engines and reconciliation share."""

from __future__ import annotations

MAX_CONCURRENCY = 64
TIMEOUT = 10.0  # seconds
DEADLINE: float | None = 30.0  # seconds; None: no limit
STALL_TIMEOUT = 900.0  # seconds

"""The logger of the package."""

from __future__ import annotations

import logging

logger = logging.getLogger("payclient")
logger.addHandler(logging.NullHandler())  # a library does not configure logging

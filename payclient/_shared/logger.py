"""The logger of the package."""

import logging

logger = logging.getLogger("payclient")
logger.addHandler(logging.NullHandler())  # a library does not configure logging

"""Processes that coverage does not look into, because its own files and imports would be mistaken for ours."""

import os


def untraced(**more):
    """Return the environment of this process without what coverage tells its children, and with *more*."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")} | more

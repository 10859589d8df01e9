"""A disk that is full."""

from __future__ import annotations

from contextlib import contextmanager

import pytest


@pytest.fixture
def full_after():
    """Stand-in for a full disk: no file of this process can become longer than so many bytes."""
    resource = pytest.importorskip("resource")

    @contextmanager
    def full_after(size):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return full_after

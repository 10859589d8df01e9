"""What all tests share: the event loops, the real one and one whose clock jumps, and how properties are tried."""

from __future__ import annotations

import asyncio
import selectors

import pytest
from hypothesis import HealthCheck, settings

from reconciling import Clock, Service

# No wall time in a verdict: a busy machine is slow, and the first text drawn on a new one reads all of Unicode.
settings.register_profile("no wall time", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no wall time")


class _JumpingSelector(selectors.DefaultSelector):
    """Never sleeps: tells the loop how long it would have slept."""

    loop: VirtualTimeLoop

    def select(self, timeout=None):
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:  # nothing is scheduled, so only another thread or a socket can go on
            return super().select(None)
        self.loop.advance(timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer, so an hour of back-off takes a millisecond."""

    def __init__(self):
        selector = _JumpingSelector()
        selector.loop = self
        self._now = 0.0
        super().__init__(selector)
        self._clock_resolution = 1e-6

    def time(self):
        return self._now

    def advance(self, seconds):
        self._now += seconds


def pytest_asyncio_loop_factories(config, item):
    virtual = item.get_closest_marker("virtual_time") is not None
    return {"virtual": VirtualTimeLoop} if virtual else {"real": asyncio.new_event_loop}


@pytest.fixture(scope="session")
def service_of():
    """Give what makes a service in memory out of its answers."""
    return Service


@pytest.fixture(scope="session")
def clock_from():
    """Give what makes a clock that can be read in a test."""
    return Clock

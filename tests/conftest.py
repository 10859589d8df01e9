"""What all tests share: the event loops, the real one and one whose clock jumps, and how properties are tried."""

from __future__ import annotations

import asyncio
import os
import selectors
import sys
from contextlib import contextmanager

import pytest
from hypothesis import settings

from support import chance
from support.reconciling import Clock, Service

for _name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[_name]  # tests speak to this machine only, whatever proxy it uses for others

settings.load_profile(chance.QUICK)  # `--hypothesis-profile=thorough` for another


GRACE = 0.005
"""Seconds in which a busy kernel has delivered what was sent over loopback, which it mostly does at once."""


class _JumpingSelector(selectors.DefaultSelector):
    """Never sleeps: tells the loop how long it would have slept."""

    loop: VirtualTimeLoop

    def select(self, timeout=None):
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None or self.loop.in_threads:  # only a thread or a socket can go on
            return super().select(None)
        has_sockets = len(self.get_map()) > 1  # one is the loop's own, by which threads wake it
        if has_sockets and (ready := super().select(GRACE)):
            return ready
        self.loop.advance(timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer, so an hour of back-off takes a millisecond."""

    def __init__(self):
        selector = _JumpingSelector()
        selector.loop = self
        self._now = 0.0
        self.in_threads = 0
        super().__init__(selector)
        self._clock_resolution = 1e-6

    def time(self):
        return self._now

    def advance(self, seconds):
        self._now += seconds

    def run_in_executor(self, executor, function, *arguments):
        """Run *function* in a thread; the clock stands still meanwhile."""
        future = super().run_in_executor(executor, function, *arguments)
        self.in_threads += 1
        future.add_done_callback(self._back_from_thread)
        return future

    def _back_from_thread(self, _):
        self.in_threads -= 1


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


@pytest.fixture
def full_after(monkeypatch):
    """Stand-in for a full disk: no file of this process can become longer than *size* bytes."""
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python would cut what it caches, and fail to load it later

    @contextmanager
    def full_after(size):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return full_after

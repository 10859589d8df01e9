"""The registry of the workers that share a key."""

import pytest

from payclient.engines._registry import HEARTBEAT_SECONDS, WorkerRegistry


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def registry(clock):
    """Give a registry that is no longer new."""
    registry = WorkerRegistry(clock)
    clock.now += 100 * HEARTBEAT_SECONDS
    return registry


def test_living(registry):
    """Each worker hears how many have signed, and counts once."""
    assert [registry.heartbeat(worker, 1) for worker in ("a", "b", "a", "c")] == [1, 2, 2, 3]


def test_struck_off(registry, clock):
    """A worker expires after three missed heartbeats."""
    registry.heartbeat("a", 2)
    heard = []
    for _ in range(4):
        heard.append(registry.heartbeat("b", 2))
        clock.now += HEARTBEAT_SECONDS
    assert heard == [2, 2, 2, 1]


def test_back(registry, clock):
    """A worker counts again after its next heartbeat."""
    registry.heartbeat("a", 2)
    clock.now += 100 * HEARTBEAT_SECONDS
    assert (registry.heartbeat("b", 2), registry.heartbeat("a", 2)) == (1, 2)


def test_new(clock):
    """While the registry is new, it counts the expected workers, so the first does not take the whole rate."""
    registry = WorkerRegistry(clock)
    assert registry.heartbeat("a", 4) == 4
    clock.now += 3 * HEARTBEAT_SECONDS
    assert registry.heartbeat("a", 4) == 1


def test_more_than_expected(clock):
    """More than were expected are believed at once."""
    registry = WorkerRegistry(clock)
    assert [registry.heartbeat(worker, 2) for worker in "abc"] == [2, 2, 3]

"""The connection pool: which connections are kept between exchanges, without I/O."""

from __future__ import annotations

from collections import deque
from typing import Generic, Protocol, TypeVar


class StaleError(Exception):
    """A connection that was kept turned out to be closed; the exchange is repeated over another one."""


class Pooled(Protocol):
    """A connection that can be kept."""

    idle_since: float


_Connection = TypeVar("_Connection", bound=Pooled)


class Pool(Generic[_Connection]):
    """
    The connections to one host.

    The most recently used one is taken first, and no more are kept than were in use at once.

    Args:
        keepalive: Seconds for which an idle connection is kept.
    """

    def __init__(self, keepalive: float) -> None:
        self.connections: dict[_Connection, None] = {}  # in the order they were made
        self.idle: deque[_Connection] = deque()  # the most recently used at the right
        self._keepalive = keepalive
        self._most_in_use = 0

    def add(self, connection: _Connection) -> None:
        """Add a new connection, which is in use."""
        self.connections[connection] = None
        self._most_in_use = max(self._most_in_use, len(self.connections) - len(self.idle))

    def take(self, now: float) -> _Connection | None:
        """Return the most recently used idle connection, or None if all have been idle for too long."""
        if not self.idle or self.idle[-1].idle_since <= now - self._keepalive:
            return None
        connection = self.idle.pop()
        self._most_in_use = max(self._most_in_use, len(self.connections) - len(self.idle))
        return connection

    def give_back(self, connection: _Connection, now: float) -> None:
        """Keep a connection for the next exchange."""
        connection.idle_since = now
        self.idle.append(connection)

    def surplus(self, now: float) -> _Connection | None:
        """Return an idle connection that should be closed, if there is one."""
        if not self.idle:
            return None
        is_cold = self.idle[0].idle_since < now - self._keepalive
        return self.idle[0] if is_cold or len(self.connections) > self._most_in_use else None

    def remove(self, connection: _Connection) -> None:
        """Remove a closed connection."""
        self.connections.pop(connection, None)
        if connection in self.idle:
            self.idle.remove(connection)

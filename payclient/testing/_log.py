"""What the fake service remembers of the requests it got."""

from __future__ import annotations

from collections import deque

from attrs import define


@define(kw_only=True)
class ReceivedRequest:
    """
    One request, as the service saw it; the key is not kept.

    Attributes:
        method: Of HTTP.
        path: Without the query.
        reference: What was asked for, or None where the body did not say.
        status: What was answered. None as long as the request is in flight, and for good when its
            client left before the answer.
        started_at: On the event loop's clock, in seconds.
    """

    method: str
    path: str
    reference: str | None
    status: int | None = None
    started_at: float


class RequestLog:
    """
    The last requests, and how many there were of each reference.

    Args:
        size: Requests, and references, that are remembered.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            message = f"remember must be at least 1, got {size}"
            raise ValueError(message)
        self._size = size
        self._last: deque[ReceivedRequest] = deque(maxlen=size)
        self._counts: dict[str, int] = {}
        self._has_forgotten = False
        self.total = 0

    def begin(self, method: str, path: str, reference: str | None, started_at: float) -> ReceivedRequest:
        """Remember a request; its status is filled in by who answers it."""
        received = ReceivedRequest(method=method, path=path, reference=reference, started_at=started_at)
        self._last.append(received)
        self.total += 1
        if reference is not None:
            self._counts[reference] = self._counts.pop(reference, 0) + 1
            if len(self._counts) > self._size:
                del self._counts[next(iter(self._counts))]  # the one that was not asked for the longest
                self._has_forgotten = True
        return received

    def last(self) -> tuple[ReceivedRequest, ...]:
        """Return the remembered requests, in the order in which they came."""
        return tuple(self._last)

    def count(self, reference: str) -> int:
        """
        Return how many requests asked for *reference*.

        Raises:
            LookupError: When it is not among the remembered ones and some were forgotten.
        """
        if reference not in self._counts and self._has_forgotten:
            message = f"{reference!r} may have been asked for and forgotten; raise remember above {self._size}"
            raise LookupError(message)
        return self._counts.get(reference, 0)

"""What the fake service leaves to chance: the seconds an answer takes, which answers go wrong."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from attrs import field, frozen, validators

from payclient.testing._reply import Reply


@frozen(kw_only=True)
class Latency:
    """
    Seconds between a request and its answer, whatever the answer is.

    Attributes:
        seconds: The shortest.
        jitter: Added to it, drawn evenly from 0 to this.
    """

    seconds: float = field(default=0.0, validator=validators.ge(0))
    jitter: float = field(default=0.0, validator=validators.ge(0))

    def draw(self, random: Random) -> float:
        """Return the seconds for one answer."""
        return self.seconds + self.jitter * random.random() if self.jitter else self.seconds


@frozen(kw_only=True)
class Fault:
    """
    A share of the answers that is not the normal one.

    Attributes:
        share: From 0 to 1, of the requests that are in order and within the limits.
        reply: What they get instead.
    """

    share: float = field(validator=[validators.ge(0), validators.le(1)])
    reply: Reply


class Faults:
    """
    The faults of one service; each request meets one of them at most.

    Raises:
        ValueError: When the shares come to more than all requests.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = tuple(faults)
        total = sum(fault.share for fault in self._faults)
        if total > 1 + 1e-9:
            message = f"the shares of the faults must not exceed 1 together, got {total:g}"
            raise ValueError(message)

    def draw(self, random: Random) -> Reply | None:
        """Return the reply of the fault that one request meets, if any."""
        if not self._faults:
            return None
        point = random.random()
        for fault in self._faults:
            point -= fault.share
            if point < 0:
                return fault.reply
        return None

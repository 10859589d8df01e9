"""Hidden limits of a service: those of the sandbox, and one of the requests in flight."""

from attrs import field, frozen, validators

from payclient.cli._limits import Fault, FixedWindow, Gate, LimitedService, Limiter, RetryAfter, TokenBucket

__all__ = ["ConcurrencyLimit", "Fault", "FixedWindow", "LimitedService", "Limiter", "RetryAfter", "TokenBucket"]


@frozen(kw_only=True)
class ConcurrencyLimit:
    """
    A maximum of requests in flight.

    Attributes:
        count: Maximum of requests in flight.
        retry_after: The header of a throttled request; it says one second, because the real time is unknown.
    """

    count: int = field(validator=validators.ge(1))
    retry_after: RetryAfter = RetryAfter.ABSENT

    def gate(self) -> Gate:
        """Return a gate that compares the requests in flight with the maximum."""
        return lambda _, in_flight: 1.0 if in_flight >= self.count else 0.0

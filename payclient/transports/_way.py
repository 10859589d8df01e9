"""How far an attempt has come on its way to the service, so that an error can say where it ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import cast

from attrs import define, field

from payclient.errors import Sent, Step

_MARK = "payclient_way"
_MAX_ADDRESSES = 3
_BEFORE_SENDING = ("name", "connect", "proxy", "tls")


@define(eq=False)
class Way:
    """
    The steps of one connection, and with whom it is made.

    Attributes:
        proxy: Host and port of the proxy; "" without one.
        step: Where it is now.
        address: Of the other side, with its port: of the proxy, if there is one. Before it is connected, those tried.
        times: When each step began, on the event loop's clock.
    """

    proxy: str = ""
    step: Step = ""
    address: str = ""
    times: list[tuple[Step, float]] = field(factory=list)

    @property
    def sent(self) -> Sent:
        """Whether a request has reached the service, as far as the step shows it."""
        if self.step in _BEFORE_SENDING:
            return "no"
        return "yes" if self.step == "body" else "unknown"

    def enter(self, step: Step, at: float) -> None:
        """Begin a step."""
        self.step = step
        self.times.append((step, at))

    def at(self, step: Step) -> Way:
        """Return the same way at another step."""
        return Way(self.proxy, step, self.address)

    def mark(self, error: BaseException) -> None:
        """Have *error* tell where it struck: it is all that comes through a library, or out of a cancelled task."""
        if not hasattr(error, _MARK):
            with suppress(AttributeError):  # an exception with slots
                setattr(error, _MARK, self.at(self.step))


def way_of(error: BaseException | None) -> Way:
    """Return how far the attempt that ended with *error* had come, as far as that is known."""
    for link in chain(error):
        way = getattr(link, _MARK, None)
        if isinstance(way, Way):
            return way
    return Way()


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Give *error* and what it came from."""
    for _ in range(8):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def shown_addresses(addresses: Sequence[object]) -> str:
    """Return the first of the addresses of one host, for an error."""
    return ", ".join(map(shown_address, addresses[:_MAX_ADDRESSES]))


def shown_address(address: object) -> str:
    """Return a socket's address as people write it."""
    parts: tuple[object, ...] = cast("tuple[object, ...]", address) if isinstance(address, tuple) else ()
    if len(parts) < 2:
        return ""
    host, port = str(parts[0]), parts[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

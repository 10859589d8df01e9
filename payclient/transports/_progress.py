"""The progress of an attempt towards the service, so that an error can say where it ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import cast

from attrs import define, field

from payclient.errors import Sent, Step

_ATTRIBUTE = "payclient_progress"
_BEFORE_SENDING = ("name", "connect", "proxy", "tls")


@define(eq=False)
class Progress:
    """Progress of one connection, and its peer."""

    proxy: str = ""
    step: Step = ""
    address: str = ""  # of the peer, or of the proxy; before a connection exists, the addresses tried
    times: list[tuple[Step, float]] = field(factory=list)

    @property
    def sent(self) -> Sent:
        """Whether the service may have received the request, judged by the step."""
        if self.step in _BEFORE_SENDING:
            return "no"
        return "yes" if self.step == "body" else "unknown"

    def enter(self, step: Step, at: float) -> None:
        self.step = step
        self.times.append((step, at))

    def with_step(self, step: Step) -> Progress:
        return Progress(self.proxy, step, self.address)

    def attach_to(self, error: BaseException) -> None:
        if not hasattr(error, _ATTRIBUTE):
            with suppress(AttributeError):  # an exception with slots
                setattr(error, _ATTRIBUTE, self.with_step(self.step))


def progress_of(error: BaseException | None) -> Progress:
    """Return the progress that is attached to *error* or to one of its causes; an empty one if there is none."""
    for link in chain(error):
        progress = getattr(link, _ATTRIBUTE, None)
        if isinstance(progress, Progress):
            return progress
    return Progress()


def chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(8):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def address_in_words(address: object) -> str:
    parts: tuple[object, ...] = cast("tuple[object, ...]", address) if isinstance(address, tuple) else ()
    if len(parts) < 2:
        return ""
    host, port = str(parts[0]), parts[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

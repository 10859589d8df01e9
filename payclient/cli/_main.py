"""The entry point of the command; without the extra `cli`, it names the extra to install."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType
    from typing import NoReturn

_EXTRA = ("cyclopts", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run one command and return its exit status.

    Args:
        arguments: Those after the name of the command; the process's own if not given.
    """
    try:
        import signal  # noqa: PLC0415  the first import that takes a millisecond
    except KeyboardInterrupt:
        _end()
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a background job ignores it

    def answer(handler: Callable[[int, FrameType | None], object]) -> None:
        if is_default:
            signal.signal(signal.SIGINT, handler)

    # An exception would not do: raised while a class is made, it comes out as another one.
    answer(_end)
    try:
        from importlib.util import find_spec  # noqa: PLC0415  as early as that

        if missing := [name for name in _EXTRA if find_spec(name) is None]:
            sys.stderr.write(
                f"payclient: {' and '.join(missing)} missing; install with: pip install 'payclient[cli]'\n",
            )
            return 2
        from payclient.cli._app import run  # noqa: PLC0415  it imports the extra
        from payclient.cli._streams import process_streams  # noqa: PLC0415

        return run(
            sys.argv[1:] if arguments is None else arguments,
            process_streams(),
            on_imported=lambda: answer(signal.default_int_handler),
        )
    finally:
        answer(signal.default_int_handler)


def _end(*_: object) -> NoReturn:
    """Leave with one line: nothing has begun yet."""
    if sys.stderr is not None:
        sys.stderr.write("payclient: interrupted\n")
        sys.stderr.flush()
    os._exit(130)

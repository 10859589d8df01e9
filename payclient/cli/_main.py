"""The entry point of the command, which works, and says what to install, without the extra too."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_EXTRA = ("cyclopts", "rich")


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run one command and return its exit status.

    Args:
        arguments: Those after the name of the command; the process's own if not given.
    """
    try:  # imports take a third of a second, in which Ctrl-C is not yet answered by `run`
        from importlib.util import find_spec  # noqa: PLC0415  as early as that

        if missing := [name for name in _EXTRA if find_spec(name) is None]:
            sys.stderr.write(
                f"payclient: {' and '.join(missing)} missing; install with: pip install 'payclient[cli]'\n",
            )
            return 2
        from payclient.cli._app import run  # noqa: PLC0415  it imports the extra
        from payclient.cli._streams import process_streams  # noqa: PLC0415

        return run(sys.argv[1:] if arguments is None else arguments, process_streams())
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("payclient: interrupted\n")
        return 130

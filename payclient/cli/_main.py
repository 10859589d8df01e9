"""The entry point of the command. Without the extra `cli`, it names the extra to install."""

import gc
import sys
from collections.abc import Sequence

_EXTRA = ("cyclopts", "rich")
_MIN_COLLECTED = 20_000
"""Objects between two collections: Python's 700 cost a reconciliation a twelfth of its time, for hardly any garbage."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. *arguments* are the process's own if not given."""
    gc.set_threshold(_MIN_COLLECTED)
    try:
        from payclient.cli._app import run  # noqa: PLC0415  it imports the extra
        from payclient.cli._process import process_streams  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        if (name := str(missing.name).partition(".")[0]) not in _EXTRA:
            raise
        sys.stderr.write(f"payclient: {name} missing: pip install 'payclient[cli]'\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("payclient: interrupted\n")
        return 130
    return run(sys.argv[1:] if arguments is None else arguments, process_streams())

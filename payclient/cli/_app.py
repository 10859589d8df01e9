"""The table of commands."""

from __future__ import annotations

import asyncio
import errno
import inspect
import re
import signal
import traceback
from collections.abc import Callable, Container, Coroutine, Sequence
from importlib import import_module
from typing import Any

import attrs
from cyclopts import App, CycloptsError

from payclient.cli._status import Exit, status_of
from payclient.cli._streams import Streams, abandon
from payclient.errors import ConfigurationError, PayClientError

COMMANDS = {
    "get": "Look transactions up.",
    "wait": "Look transactions up again and again, until each has a status that is waited for.",
    "lookup": "Look up the references of Parquet files.",
    "reconcile": "Compare a ledger with what the service says about each reference in it.",
    "report": (
        "Write every file of a report again from its journal: the same bytes, without a network and without a key."
    ),
    "explain": "Show what the ledger says about one reference, what the service answered and when, and what follows.",
    "verify": (
        "Compare every file of a report with its manifest, and every row of its journal with the checksum of the row."
    ),
    "completion": "Print the script by which a shell completes commands and options; nothing is installed.",
    "sandbox": "Serve a payment service that is made up, until it is stopped with Ctrl-C.",
    "demo": "Reconcile a made-up ledger with the sandbox, and check that exactly the planted breaks are found.",
}
"""Each command with the first line of its docstring, so that the list is printed without importing them."""


def make_app(named: Container[str]) -> App:
    """
    Return the table of commands.

    Args:
        named: The commands to import now, with their whole help. The others are known by import path.
    """
    app = App(
        name="payclient",
        help="Ask the payment service what it knows, one transaction or a whole ledger.",
        version=_version,
        version_format="plaintext",
        help_format="plaintext",  # Markdown takes a third of the time, and this page has none
        help_epilogue=(
            "PAYCLIENT_BASE_URL and PAYCLIENT_ENVIRONMENT name the service, or the options of a command do. The key "
            "comes from PAYCLIENT_API_KEY or from a file, never from an argument, which other users of the machine can "
            "read. Try payclient get --help."
        ),
    )
    for name, summary in COMMANDS.items():
        path = f"payclient.cli._{name}"
        if name in named:
            module = import_module(path)
            app.command(getattr(module, name), help_format="markdown", help_epilogue=module.EXAMPLES)
        else:
            app.command(f"{path}:{name}", help=summary)
    return app


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415  sixteen modules that nothing else here needs

    return f"payclient {version('payclient')}"


_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What a disk says that is full or fails: the same command may well succeed when that is mended."""
_OPTION = re.compile(
    r"\A(?:(?:timeout|deadline|interval|max_interval|max_concurrency|max_rate|processes|canary|time_zone|grace)"
    r"(?= must )|(?:proxy|ca_file|client_cert|client_key)\b)"
)
"""An option as the library calls it, in front of what is wrong with it."""
_KEY_AS_ARGUMENT = re.compile(r"--(api[-_]?)?(key|token)(=|$)")


def run(arguments: Sequence[str], streams: Streams, *, on_imported: Callable[[], object] = lambda: None) -> int:
    """
    Run one command; whatever happens, the user gets one line and the shell a status.

    Args:
        arguments: Those after the name of the command.
        streams: Of the process.
        on_imported: Called before the command begins, when its modules are imported.
    """
    streams = attrs.evolve(streams, arguments=tuple(arguments))
    try:
        status = _dispatch(arguments, streams, on_imported)
        streams.stdout.flush()
    except CycloptsError as error:
        error.verbose = False
        return _end(streams, Exit.USAGE, f"{' '.join(str(error).split())} (see payclient --help)")
    except PayClientError as error:
        return _end(streams, status_of(error), _OPTION.sub(lambda name: f"--{name[0].replace('_', '-')}", str(error)))
    except BrokenPipeError:
        abandon(streams.stdout)
        return Exit.CLOSED
    except (OSError, ModuleNotFoundError) as error:
        return _end(streams, Exit.AGAIN if _is_disk_at_fault(error) else Exit.USAGE, _in_words(error))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return _end(streams, Exit.INTERRUPTED, "interrupted")
    except Exception:  # noqa: BLE001  the last boundary: Python's own status for it, 1, means something else here
        for line in traceback.format_exc().splitlines():
            streams.tell(line)
        return _end(streams, Exit.BUG, "this is a bug of payclient; please report the lines above")
    return status


def _end(streams: Streams, status: Exit, message: str) -> Exit:
    streams.tell(f"payclient: {message}")
    return status


def _is_disk_at_fault(error: OSError | ModuleNotFoundError) -> bool:
    from payclient.reconcile import JournalWriteError  # noqa: PLC0415  `get` need not load it

    return isinstance(error, JournalWriteError) or getattr(error, "errno", None) in _NO_ROOM


def _in_words(error: OSError | ModuleNotFoundError) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _dispatch(arguments: Sequence[str], streams: Streams, on_imported: Callable[[], object]) -> int:
    if any(_KEY_AS_ARGUMENT.match(argument) for argument in arguments):
        message = (
            "the key is never an argument, which others could read: set PAYCLIENT_API_KEY or pass --api-key-file PATH"
        )
        raise ConfigurationError(message)
    app = make_app(arguments)
    command: Callable[..., Any]
    command, bound, injected = app.parse_args(list(arguments), exit_on_error=False, print_error=False)
    if "console" in bound.arguments:  # help or version; no other command need load rich
        bound.arguments["console"] = streams.console()
    on_imported()
    given = {"streams": streams, "app": app}
    result = command(*bound.args, **bound.kwargs, **{name: given[name] for name in injected})
    if inspect.iscoroutine(result):
        result = asyncio.run(_interruptible(result))
    return result if isinstance(result, int) else Exit.DONE


async def _interruptible(command: Coroutine[Any, Any, Any]) -> Any:
    """
    Let SIGTERM do what SIGINT does in `asyncio.run`.

    The first one cancels, so that the command ends in order; the second one ends it at once.
    """
    loop, task = asyncio.get_running_loop(), asyncio.create_task(command)

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        loop.call_soon_threadsafe(task.cancel)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        return await task
    finally:
        signal.signal(signal.SIGTERM, before)

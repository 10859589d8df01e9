"""The table of commands, and the boundary of each."""

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

from payclient._shared.options import OPTIONS, options_of
from payclient.cli._streams import Exit, Streams, abandon, refuse, status_of
from payclient.errors import PayClientError

COMMANDS = {
    "get": "Look up transactions.",
    "ledger": "Show how a ledger is read, before anything is looked up; needs neither a key nor a network.",
    "reconcile": "Compare a ledger with the service, one reference at a time.",
    "report": "Rewrite every file of a report from its journal, without a network or a key.",
    "show": "Show the result of a report in a few lines: the verdict, the money, and the worst breaks.",
    "rejudge": "Judge the answers of a run again, by other rules, without a network or a key.",
    "decisions": "Take Owner, Resolution and Comment of a work list into `decisions.jsonl` beside the report.",
    "explain": "Show one reference in full: the ledger's values, the service's answers, and the findings.",
    "verify": "Check the files of a report and the rows of its journal against their checksums.",
    "diff": "Show what became of each break between two reports, without a network or a key.",
    "doctor": "Check the connection to the service step by step, and say what to do.",
    "sandbox": "Run a fake payment service until Ctrl-C.",
    "demo": "Reconcile a generated ledger with the sandbox, and check that exactly the planted breaks are found.",
}
"""Each command with the first line of its docstring: `--help` imports none of them."""
_OF_REPORT = ("report", "show", "rejudge", "decisions", "explain", "verify", "diff")
_HOME: dict[str, str] = dict.fromkeys(_OF_REPORT, "report")
"""Modules with several commands."""


def make_app(named: Container[str]) -> App:
    """Return the table of commands; those not *named* are registered by import path, with one line of help."""
    app = App(
        name="payclient",
        help="Look up transactions at the payment service, or reconcile a whole ledger with it.",
        version=_version,
        version_format="plaintext",
        help_format="plaintext",  # Markdown takes a third of the time, and this page has none
        help_epilogue=(
            "Set the service with PAYCLIENT_BASE_URL and PAYCLIENT_ENVIRONMENT, or with the options of a command. Set "
            "the key with PAYCLIENT_API_KEY or a file: other users of the machine can read arguments. Try payclient "
            "get --help."
        ),
    )
    for name, summary in COMMANDS.items():
        path = f"payclient.cli._{_HOME.get(name, name)}"
        if name in named:
            module = import_module(path)
            examples = module.EXAMPLES[name] if name in _HOME else module.EXAMPLES
            commands, _, more = examples.strip().partition("\n\n")
            epilogue = f"```console\n{commands}\n```\n\n{more}"
            app.command(getattr(module, name), help_format="markdown", help_epilogue=epilogue)
        else:
            app.command(f"{path}:{name}", help=summary)
    return app


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415  sixteen modules that nothing else here needs

    return f"payclient {version('payclient')}"


_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a full or failing disk: the same command may succeed once that is fixed."""
_OF_COMMANDS = ("canary", "deadline", "grace", "interval", "max_interval", "time_zone")
"""Options of commands that are not the client's, or that each command bounds itself."""
_OPTION = re.compile(
    rf"\A(?:(?:{'|'.join([*_OF_COMMANDS, *(name for name, option in OPTIONS.items() if option.attribute)])})(?= must )"
    rf"|(?:{'|'.join(name for name in options_of('network') if OPTIONS[name].attribute)})\b)"
)
"""An option under its name in the library, at the start of an error message."""
_KEY_AS_ARGUMENT = re.compile(r"--(api[-_]?)?(key|token)(=|$)")


def run(arguments: Sequence[str], streams: Streams, *, on_imported: Callable[[], object] = lambda: None) -> int:
    # `on_imported` is called before the command begins, when its modules are imported.
    streams = attrs.evolve(streams, arguments=tuple(arguments))
    try:
        status = _dispatch(arguments, streams, on_imported)
        streams.stdout.flush()
    except CycloptsError as error:
        from payclient.cli._options import about_usage  # noqa: PLC0415  `--help` need not load the ledger

        error.verbose = False
        return _end(streams, Exit.USAGE, about_usage(" ".join(str(error).split())))
    except PayClientError as error:
        return _end(streams, status_of(error), _OPTION.sub(lambda name: f"--{name[0].replace('_', '-')}", str(error)))
    except BrokenPipeError:
        abandon(streams.stdout)
        return Exit.CLOSED
    except ModuleNotFoundError as error:
        return _end(streams, Exit.USAGE, str(error))
    except OSError as error:
        return _end(streams, *_about_system(error))
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


def _about_system(error: OSError) -> tuple[Exit, str]:
    from payclient.reconcile import JournalWriteError  # noqa: PLC0415  `get` need not load it

    is_disk = isinstance(error, JournalWriteError) or error.errno in _NO_ROOM
    place = f"{error.filename}: " if error.filename else ""
    return Exit.AGAIN if is_disk else Exit.USAGE, f"{place}{error.strerror}" if error.strerror else str(error)


def _dispatch(arguments: Sequence[str], streams: Streams, on_imported: Callable[[], object]) -> int:
    if any(_KEY_AS_ARGUMENT.match(argument) for argument in arguments):
        refuse(
            "the key is never an argument, which others could read: set PAYCLIENT_API_KEY or pass --api-key-file PATH"
        )
    app = make_app(arguments)
    command: Callable[..., Any]
    command, bound, injected = app.parse_args(list(arguments), exit_on_error=False, print_error=False)
    if "console" in bound.arguments:  # help or version; no other command need load rich
        bound.arguments["console"] = streams.console()
    on_imported()
    result = command(*bound.args, **bound.kwargs, **({"streams": streams} if injected else {}))
    if inspect.iscoroutine(result):
        result = asyncio.run(_interruptible(result))
    return result if isinstance(result, int) else Exit.DONE


async def _interruptible(command: Coroutine[Any, Any, Any]) -> Any:
    """Handle SIGTERM as `asyncio.run` handles SIGINT: the first one cancels, the second one ends the process."""
    loop, task = asyncio.get_running_loop(), asyncio.create_task(command)

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        loop.call_soon_threadsafe(task.cancel)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        return await task
    finally:
        signal.signal(signal.SIGTERM, before)

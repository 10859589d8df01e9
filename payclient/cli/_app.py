"""The table of commands, and the boundary of each."""

from __future__ import annotations

import asyncio
import errno
import inspect
import os
import re
import shlex
import signal
import traceback
from collections.abc import Callable, Container, Coroutine, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any

import attrs
from cyclopts import App, CoercionError, CycloptsError, Group, MissingArgumentError, UnusedCliTokensError
from cyclopts.help import DefaultFormatter, TableSpec

from payclient._shared.checks import as_shown
from payclient._shared.escape import did_you_mean
from payclient._shared.options import OPTIONS
from payclient.cli._process import Call, Exit, RefusalError, Streams, abandon, has_credentials, refuse, status_of
from payclient.errors import ConfigurationError, PayClientError

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

GROUPS = {
    "Look up": {
        "get": "Look up transactions.",
        "doctor": "Check the connection to the service step by step, and propose what to do.",
    },
    "Reconcile": {
        "ledger": "Show how a ledger is read, without a network or a key.",
        "reconcile": "Compare a ledger with the service, one reference at a time.",
    },
    "Read a report": {
        "show": "Show the result in a few lines: the verdict, the money and the worst breaks.",
        "explain": "Show one reference in full: the ledger, the answers and the findings.",
        "diff": "Compare the breaks of two reports.",
        "verify": "Check the files and the journal of a report against their checksums.",
        "sign": "Sign an unchanged report, as its preparer or its reviewer.",
    },
    "Decide": {
        "decisions": "Import the decisions of an edited work list into the folder of its run.",
        "rejudge": "Judge the answers of a run again by other rules, without a network or a key.",
        "report": "Write every file of a report again from its journal.",
    },
    "Try": {
        "sandbox": "Run a fake payment service until Ctrl-C.",
        "demo": "Reconcile a generated ledger with the sandbox, and check the findings.",
    },
}
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}
"""Each command, in the order of use, with the first line of its docstring: `--help` imports none of them."""
_HOMES = {"Look up": "lookup", "Read a report": "report", "Decide": "report"}
"""Modules with several commands. Any other has the name of its command."""
_MODULES = {name: f"payclient.cli._{_HOMES.get(group, name)}" for group in GROUPS for name in GROUPS[group]}

_ABOUT = """\
$ payclient get T0000000001DEMO
$ payclient reconcile ledger.csv --out report

Set the service with PAYCLIENT_BASE_URL and PAYCLIENT_ENVIRONMENT, and the key
with PAYCLIENT_API_KEY or a file: other users of the machine can read arguments.
`payclient help reconcile` shows the options of a command. A DURATION is 10
(seconds), 90s, 5m, 36h or 3d.\
"""


def make_app(named: Container[str]) -> App:
    """Return the table of commands. Those not *named* are registered by import path, with one line of help."""
    app = App(
        name="payclient",
        help="Look up transactions at the payment service, or reconcile a whole ledger with it.",
        version=lambda: f"payclient {import_module('payclient._shared.version').__version__}",  # late: sixteen modules
        version_flags=("--version", "-V"),
        help_formatter=_Headings(),
        help_format="plaintext",  # Markdown takes a third of the time
        help_epilogue=_ABOUT,
        group_commands=Group("Options", sort_key=len(GROUPS)),
    )
    for position, (title, commands) in enumerate(GROUPS.items()):
        group = Group(title, sort_key=position)
        for order, (name, summary) in enumerate(commands.items()):
            more: dict[str, Any] = {"help": summary}
            if name in named:
                examples, _, status = _examples(name).partition("\n\n")
                lines = "  \n".join(f"`{line}`" for line in examples.splitlines())  # Markdown, each on its own
                more = {"help_format": "markdown", "help_epilogue": f"{lines}\n\n{status}"}
            app.command(f"{_MODULES[name]}:{name}", group=group, sort_key=order, **more)
    return app


def _examples(command: str) -> str:
    """Return the last section of the command's docstring: lines to type, and the exit statuses."""
    docstring = inspect.getdoc(getattr(import_module(_MODULES[command]), command)) or ""
    return inspect.cleandoc(docstring.partition("\nExamples:\n")[2])


class _Headings(DefaultFormatter):
    """Headings with their rows. Frames around them would take a third more lines."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        from cyclopts.help.specs import DefaultStyled, get_default_command_columns, get_default_parameter_columns  # noqa: PLC0415  `--help` alone needs them, and rich
        from rich.padding import Padding  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        if panel.entries:
            of_kind = get_default_command_columns if panel.format == "command" else get_default_parameter_columns
            columns = of_kind(console, options, panel.entries)
            table = TableSpec().build(columns, panel.entries)  # pyright: ignore[reportUnknownMemberType]  its **overrides
            console.print(Text(f"{panel.title}:", "bold"))
            console.print(Padding(DefaultStyled(table), (0, 0, 0, 2)))


_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a full or failing disk: the same command may succeed once that is fixed."""
_KINDS: Mapping[Any, str] = {int: "a whole number", float: "a number"}
_IS_OPTION = re.compile(r"--?[A-Za-z]")
_FLAGS = ("--help", "-h", "--version", "-V")
_KEY_AS_ARGUMENT = re.compile(r"--(api[-_]?)?(key|token)(=|$)")


def run(arguments: Sequence[str], streams: Streams) -> int:
    bound = dict[str, Any]()
    try:
        try:
            app = make_app(arguments)
            streams = attrs.evolve(streams, call=_call(app, arguments))
            status = _dispatch(app, arguments, streams, bound)
            streams.stdout.flush()
        except BrokenPipeError:
            abandon(streams.stdout)
            return Exit.CLOSED
        except (KeyboardInterrupt, asyncio.CancelledError):
            streams.warn("interrupted")
            return Exit.INTERRUPTED
        except (CycloptsError, PayClientError, OSError, ModuleNotFoundError) as error:
            return _refused(streams, error, bound)
    except Exception:  # noqa: BLE001  the last boundary: Python's own status for it, 1, means something else here
        streams.tell(*traceback.format_exc().splitlines())
        streams.warn("this is a bug of payclient: please report the lines above")
        return Exit.BUG
    return status


def _refused(streams: Streams, error: Exception, bound: Mapping[str, Any]) -> Exit:
    status, message = _about(error, streams.call)
    streams.warn(message)
    if status in (Exit.USAGE, Exit.REFUSED, Exit.AGAIN) and not isinstance(error, ModuleNotFoundError):
        from payclient.cli._next import after_error  # noqa: PLC0415  it imports reconciliation

        with suppress(OSError, PayClientError):  # no command is known for an unreadable path, or a wrong variable
            streams.tell(steps=after_error(error, status, streams.call, bound))
    return status


def _about(error: Exception, call: Call) -> tuple[Exit, str]:
    if isinstance(error, CycloptsError):
        return Exit.USAGE, _about_usage(error)
    if isinstance(error, PayClientError):
        return status_of(error), _words(error, call)
    if not isinstance(error, OSError):
        return Exit.USAGE, str(error)
    from payclient.reconcile import JournalWriteError  # noqa: PLC0415  `get` need not load it

    is_disk = isinstance(error, JournalWriteError) or error.errno in _NO_ROOM
    file = f"{error.filename}: " if error.filename else ""
    return Exit.AGAIN if is_disk else Exit.USAGE, f"{file}{error.strerror}" if error.strerror else str(error)


def _call(app: App, arguments: Sequence[str]) -> Call:
    """Return the call of a command, without options that show a password. An empty one for an unknown command."""
    if not {*arguments[:1]} & COMMANDS.keys():
        return Call()
    options = app[arguments[0]].assemble_argument_collection()
    switches = {name for argument in options if argument.parse and argument.hint is bool for name in argument.names}
    call = Call.of(arguments, {*switches, *_FLAGS})
    return attrs.evolve(call, options=tuple(option for option in call.options if not _is_secret(*option)))


def _is_secret(flag: str, value: str | None) -> bool:
    """Return whether the value of an option contains a password, or may be the key itself instead of its file."""
    is_no_file = flag == "--api-key-file" and value not in (None, "-") and not os.access(value or "", os.F_OK)
    return is_no_file or has_credentials(value or "")


def _words(error: PayClientError, call: Call) -> str:
    """Return the text of an error: an option in it as it was given, and no remedies that become commands."""
    if isinstance(error, ConfigurationError) and error.problem and (source := call.place_of(error.option)):
        return f"{source} {error.problem}"
    from payclient.reconcile.ledger import LedgerError  # noqa: PLC0415  only a refusal need load it

    if isinstance(error, LedgerError):
        return error.words(remedy for remedy in error.remedies if remedy.is_decision)
    return str(error)


def _about_usage(error: CycloptsError) -> str:
    error.verbose = False
    called = next(reversed(error.command_chain or ()), "")
    lines = _examples(called).splitlines() if called in COMMANDS else []  # Python's -OO drops docstrings
    example = lines[0][2:] if lines else f"payclient {called} --help"
    if isinstance(error, UnusedCliTokensError):
        return f"unexpected: {shlex.join(error.unused_tokens or ())}; the command is like: {example}"
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        name = " ".join(filter(None, (error.argument.name, error.argument.parameter.metavar)))
        if error.keyword is not None:
            return f"{error.keyword} needs a value, as in: {name}"
        return f"{name} is missing, as in: {example}"
    if isinstance(error, CoercionError) and error.msg:
        return str(error.msg)
    if isinstance(error, CoercionError) and error.token:
        choices = None if error.argument is None else error.argument.get_choices(force=True)
        if wanted := _KINDS.get(error.target_type, "") or ", ".join(choices or ()):
            return f"{error.token.keyword} must be {wanted}, got {as_shown(error.token.value)}"
    return " ".join(str(error).split())


def _check_secrets(arguments: Sequence[str]) -> None:
    """Refuse a key or a password among the arguments, which other users of the machine can read."""
    if any(_KEY_AS_ARGUMENT.match(argument) for argument in arguments):
        raise RefusalError(
            "the key is never an argument, which others could read: set PAYCLIENT_API_KEY or pass --api-key-file PATH",
            is_last=True,
        )
    for before, word in pairwise(("", *arguments)):
        if has_credentials(word):
            flag = next((text.partition("=")[0] for text in (word, before) if text.startswith("--")), "an argument")
            remedy = f": set {OPTIONS['proxy'].variable}" if flag == "--proxy" else ""
            problem = "has a user name or a password, which others could read"
            raise RefusalError(f"{flag} {problem}{remedy}", is_last=True)


def _dispatch(app: App, arguments: Sequence[str], streams: Streams, taken: dict[str, Any]) -> int:
    """Run the command. *taken* gets its arguments once they are understood."""
    _check_secrets(arguments)
    if arguments and arguments[0] in ("help", "version"):
        arguments = [*arguments[1:], f"--{arguments[0]}"]
    if arguments and arguments[0] in COMMANDS:
        _check_options(app[arguments[0]], arguments[1:])
    command: Callable[..., Any]
    command, bound, injected = app.parse_args(list(arguments), exit_on_error=False, print_error=False)
    if "console" in bound.arguments:  # help or version. No other command need load rich
        bound.arguments["console"] = streams.console()
    taken.update(bound.arguments)
    result = command(*bound.args, **bound.kwargs, **({"streams": streams} if injected else {}))
    if inspect.iscoroutine(result):
        result = asyncio.run(_interruptible(result))
    return result if isinstance(result, int) else Exit.DONE


def _check_options(command: App, words: Sequence[str]) -> None:
    """Refuse an option that *command* does not have, before missing options are reported."""
    names = [name for argument in command.assemble_argument_collection() if argument.parse for name in argument.names]
    typed = (word.partition("=")[0] for word in takewhile("--".__ne__, words) if _IS_OPTION.match(word))
    if (unknown := next((name for name in typed if name not in names and name not in _FLAGS), None)) is None:
        return
    from payclient.cli._options import LEDGER_ONLY  # noqa: PLC0415  `get` need not load the ledger

    if key := LEDGER_ONLY.get(unknown):
        refuse(f"unknown option {unknown}: it is the key {key} of [ledger] in the rules file")
    longer = next((name for name in names if len(unknown) == 2 and name.startswith(f"-{unknown}")), None)
    refuse(f"unknown option {unknown}{did_you_mean(longer or unknown, names)}")


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

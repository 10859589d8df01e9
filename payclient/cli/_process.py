"""The process of a command: its words, three streams, signals and an exit status."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import sys
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from enum import IntEnum
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NoReturn, TextIO, TypeAlias, cast

from attrs import evolve, field, frozen
from cyclopts import Group, Parameter, Token
from rich.cells import cell_len

from payclient import errors
from payclient._shared.escape import escape_unprintable, quote
from payclient._shared.options import OPTIONS
from payclient._shared.remedy import Option, Side, Way, quote_word
from payclient.errors import ConfigurationError

_SEVERAL = re.compile("--(allow-reference|date-format|ignore-column|not-found-message|null|skip-rows-like)")
_OF_FIELD = ("--column", "--debit-column", "--statement-column")
_CREDENTIALS = re.compile(r"//[^/?#\s]*@")
_LIKE_ADVICE = re.compile(r"\A( *)([NO])((?:ext|r): )")


def has_credentials(word: str) -> bool:
    """Return whether a URL in *word* has a user name or a password, which others must not read."""
    return _CREDENTIALS.search(word) is not None


def new_path(path: Path, ending: str = "") -> str:
    """Return *path* with *ending* or, if that exists, the first one like it with a number that does not."""
    path = path if path.name.strip(".") else path.resolve()  # nothing can be added to the names `.` and `..`
    path = path.parent / f"{path.name}{ending}"
    stem, first = path.stem, 2
    if re.search(r"-[2-9]\Z", stem):  # a number from here. A month or a day has two digits
        stem, first = stem[:-2], int(stem[-1]) + 1
    numbered = (path.parent / f"{stem}-{number}{path.suffix}" for number in count(first))
    return str(next(name for name in chain([path], numbered) if not name.exists()))


def shown(name: object) -> str:
    """Return the *name* of a file or folder for advice: quoted as in a command, so that it cannot look like one."""
    return quote_word(str(name)) or quote(str(name))


@frozen
class Call:
    """
    A command as it was typed, or as it is proposed.

    Attributes:
        name: The command.
        words: Its arguments without the options, in their order.
        options: Its options, in their order.
        first: What a person does before it. Without a name, this is the whole advice.
    """

    name: str = ""
    words: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    first: str = ""

    @classmethod
    def of(cls, arguments: Sequence[str], switches: Collection[str] = ()) -> Call:
        """Return the call of these *arguments*, the name first. Every option but the *switches* takes a value."""
        rest, words, options = list(arguments[1:]), list[str](), list[Option]()
        while rest:
            word = rest.pop(0)
            if word == "--":
                words += rest
                break
            flag, has_value, value = word.partition("=")
            if not word.startswith("--"):
                words.append(word)
            elif has_value or flag in switches or not rest or rest[0].startswith("--"):
                options.append((flag, value if has_value else None))
            else:
                options.append((flag, rest.pop(0)))
        return cls(arguments[0], tuple(words), tuple(options))

    def is_same(self, other: Call) -> bool:
        """Return whether both do the same. Options may be in another order."""
        return (self.name, self.words, {*self.options}) == (other.name, other.words, {*other.options})

    def having(self, *options: Option) -> Call:
        """Return the call with *options*. They replace options about the same subject."""
        new = {_subject(option): option for option in options}
        kept = [option for option in self.options if _subject(option) not in new]
        return evolve(self, options=(*kept, *new.values()))

    def using(self, ways: Iterable[Way], side: Side = "ledger") -> Call:
        """Return the call with the options of *ways*, as options of the statement for that side."""
        return self.having(*filter(None, (way.typed(side) for way in ways)))

    def after(self, first: str) -> Call:
        return evolve(self, first=first)

    def only(self, flags: Collection[str]) -> Call:
        return evolve(self, options=tuple(option for option in self.options if option[0] in flags))

    def place_of(self, option: str) -> str:
        """Return where an *option* of Python was given: its flag, or its variable. "" if it is a default."""
        flag, variable = Way(option).flag, OPTIONS[option].variable if option in OPTIONS else ""
        if any(flag == typed for typed, _ in self.options):
            return flag
        return variable if variable in os.environ else ""

    def text(self) -> str | None:
        """Return the command quoted for the shell. None if it cannot be quoted safely, or would show a password."""
        flat: list[str] = []
        for flag, value in self.options:
            is_joined = value is not None and (not value or value[0] == "-")
            flat += [f"{flag}={value}"] if is_joined else [flag] if value is None else [flag, value]
        is_marked = any(word.startswith("-") and word != "-" for word in self.words)
        words = [*self.words, *flat] if not is_marked else [*flat, "--", *self.words]
        quoted = [quote_word(word) for word in ("payclient", self.name, *words)]
        return None if None in quoted or any(map(has_credentials, words)) else " ".join(map(str, quoted))


def _subject(option: Option) -> Option:
    flag, value = option
    if _SEVERAL.fullmatch(flag):
        return option
    return (flag, (value or "").partition("=")[0]) if flag in _OF_FIELD else (flag, None)


if TYPE_CHECKING:
    from rich.console import Console


@frozen(kw_only=True)
class Streams:
    """Standard streams: data on `stdout`, everything for people on `stderr`. `call` is the command as it was typed."""

    # A line that a stranger wrote must not look like our advice, so `_advice` alone makes lines that begin like it.

    stdin: BinaryIO
    stdout: TextIO
    stderr: TextIO
    call: Call = field(factory=Call)

    def write(self, line: str) -> None:
        """Write data, at once. Control characters are escaped, except for line ends and tabs."""
        if not line.isprintable():
            line = re.sub(r"[^\n\t]+", lambda match: escape_unprintable(match[0]), line)
        self.stdout.write(f"{line}\n")
        self.stdout.flush()

    def show(self, lines: Iterable[str], steps: Iterable[Call] = ()) -> None:
        """Write *lines* as data, and the commands that follow."""
        for line in chain(map(_no_advice, lines), self._advice(steps)):
            self.write(escape_unprintable(line))

    def tell(self, *texts: str, steps: Iterable[Call] = ()) -> None:
        """Write lines for people. If they cannot be written, the exit status must still be the command's own."""
        try:
            for text in chain(map(_no_advice, texts), self._advice(steps)):
                self.stderr.write(f"{escape_unprintable(text)}\n")
                self.stderr.flush()
        except OSError:  # a full disk, or a reader that has gone
            abandon(self.stderr)

    def _advice(self, steps: Iterable[Call]) -> list[str]:
        """Return *steps* in lines, without the command just typed, or one that no shell takes safely."""
        texts: list[str] = []
        for step in steps:
            command = step.text() if step.name and (step.first or not step.is_same(self.call)) else None
            if command or not step.name:
                texts.append(", then: ".join(filter(None, (step.first, command))))
        return [f"{'Or' if index else 'Next'}: {text}" for index, text in enumerate(dict.fromkeys(texts))]

    def warn(self, text: str) -> None:
        self.tell(f"payclient: {text}")

    def console(self) -> Console:
        """Return rich's view of `stdout`. Colour and width follow the terminal and `NO_COLOR`."""
        from rich.console import Console  # noqa: PLC0415  output into a file or a pipe need not load it

        class OurConsole(Console):
            def on_broken_pipe(self) -> NoReturn:
                """Keep the exit status ours: rich would exit with 1, the status of breaks."""
                raise BrokenPipeError

        return OurConsole(file=self.stdout, highlight=False, markup=False, emoji=False)


def _no_advice(line: str) -> str:
    return _LIKE_ADVICE.sub(lambda match: f"{match[1]}<U+{ord(match[2]):04X}>{match[3]}", line)


def process_streams() -> Streams:
    """Return the process's own streams, able to write any text in any encoding."""
    return Streams(
        stdin=io.BytesIO() if sys.stdin is None else sys.stdin.buffer,  # None: closed before the process started
        stdout=_lenient(sys.stdout),
        stderr=_lenient(sys.stderr),
    )


def _lenient(stream: TextIO | None) -> TextIO:
    if stream is None:
        return io.StringIO()
    if hasattr(stream, "reconfigure"):  # a stand-in for the stream may lack it
        cast("Any", stream).reconfigure(errors="backslashreplace")
    return stream


def aligned(rows: Sequence[Sequence[str]], *, right: Collection[int] = (), indent: str = "") -> list[str]:
    """Return one line per row, with the cells of each column below each other. *right* columns end at one place."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]

    def cell(column: int, text: str) -> str:
        blanks = " " * (widths[column] - cell_len(text))
        return blanks + text if column in right else text + blanks

    return [indent + "  ".join(cell(column, text) for column, text in enumerate(row)).rstrip() for row in rows]


def abandon(stream: TextIO) -> None:
    """Discard unwritten output, so that the interpreter does not fail on it at exit."""
    try:
        number = stream.fileno()
    except OSError:  # not a stream of the system
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


_SECONDS = re.compile(r"\d{1,9}(\.\d+)?s?", re.ASCII)


def _read_seconds(_: object, tokens: Sequence[Token]) -> float:
    text = tokens[0].value
    if _SECONDS.fullmatch(text):
        return float(text.removesuffix("s"))
    from payclient.reconcile import read_duration  # noqa: PLC0415  `10` need not load it

    if (duration := read_duration(text)) is None:
        refuse(f"{tokens[0].keyword} must be a duration such as 10 (seconds), 90s, 5m, 36h or 3d, got {text!r}")
    return duration.total_seconds()


def _read_age(kind: object, tokens: Sequence[Token]) -> timedelta:
    return timedelta(seconds=_read_seconds(kind, tokens))


def _read_deadline(kind: object, tokens: Sequence[Token]) -> float | None:
    return None if tokens[0].value == "none" else _read_seconds(kind, tokens)


Flag: TypeAlias = Annotated[bool, Parameter(negative="", show_default=False)]
JsonFlag: TypeAlias = Annotated[bool, Parameter(name="--json", negative="", show_default=False)]
Texts: TypeAlias = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]
_AS_DURATION = Parameter(metavar="DURATION", show_default=lambda value: f"{value:g}s")
Seconds: TypeAlias = Annotated[float, Parameter(converter=_read_seconds), _AS_DURATION]
MaxAge: TypeAlias = Annotated[timedelta | None, Parameter(converter=_read_age, metavar="DURATION")]
Deadline: TypeAlias = Annotated[float | None, Parameter(converter=_read_deadline), _AS_DURATION]
OwnStreams: TypeAlias = Annotated[Streams, Parameter(parse=False)]
"""Kinds of parameters: switches, `--json`, repeated options, durations, and the streams, which are not an option."""

RARE = Parameter(group=Group("Rarely needed", sort_key=20))

_STOP_GRACE = 15.0
"""Seconds for lookups in flight to finish: longer than an attempt, shorter than a pause of the service may be."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_in_order(streams: Streams) -> Generator[asyncio.Event]:
    """Yield an event that the first SIGINT or SIGTERM sets, within a task of the running event loop."""
    # The second signal has its usual effect. The task is cancelled if the block takes too long after the first.
    loop, task, stop = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Event()
    with ExitStack() as stack, ExitStack() as handlers:

        def begin() -> None:
            stop.set()
            streams.warn(f"stopping, but lookups in flight may finish within {_STOP_GRACE:.0f} s (again: stop at once)")
            if task is not None:
                stack.callback(loop.call_later(_STOP_GRACE, task.cancel).cancel)

        def first(_: int, __: object) -> None:
            handlers.close()
            loop.call_soon_threadsafe(begin)

        for number in _SIGNALS:
            handlers.callback(signal.signal, number, signal.signal(number, first))
        yield stop


class RefusalError(ConfigurationError):
    """
    The command cannot be run like this.

    Attributes:
        ways: Options that help.
        first: What a person does first, then the same command helps.
        is_last: Whether to print the message without a proposed command.
    """

    ways: Sequence[Way] = ()
    first: str = ""
    is_last: bool = False


def refuse(message: str, *ways: Way, first: str = "") -> NoReturn:
    """End the command because it cannot be run like this."""
    raise RefusalError(message, ways=ways, first=first)


class Exit(IntEnum):
    """
    The exit status of a command.

    Attributes:
        DONE: All is as it should be.
        DIFFERENT: The service answered, and something is not as it should be.
        USAGE: The command cannot be run like this. No lookup was sent.
        REFUSED: The key or the address is missing or wrong, or the service refuses this caller. It is the same for
            every reference, and the operator has to act.
        BUG: A fault of payclient itself.
        AGAIN: Something could not be asked. The same command may well succeed later.
        INTERRUPTED: By the user.
        CLOSED: The output was closed (broken pipe).

    Source:
        sysexits.h for 70 and 75, the shells' 128 + signal number for 130 and 141.
    """

    DONE = 0
    DIFFERENT = 1
    USAGE = 2
    REFUSED = 3
    BUG = 70
    AGAIN = 75
    INTERRUPTED = 130
    CLOSED = 141


def status_of(error: errors.PayClientError) -> Exit:
    if isinstance(error, errors.ClientClosedError):
        return Exit.BUG
    if isinstance(error, errors.ConfigurationError) and error.option in OPTIONS and OPTIONS[error.option].variable:
        return Exit.REFUSED
    if isinstance(error, errors.TransactionNotFoundError | errors.RejectedError | errors.InvalidReferenceError):
        return Exit.DIFFERENT
    is_fatal = errors.classify(error).is_fatal and not isinstance(error, errors.ConfigurationError)
    if is_fatal or isinstance(error, errors.PermissionDeniedError):
        return Exit.REFUSED
    if isinstance(error, errors.CouldNotAskError):
        return Exit.AGAIN
    from payclient.reconcile import StoppedError, UnknownCanaryError  # noqa: PLC0415  `get` need not load it

    if isinstance(error, StoppedError):
        return Exit.INTERRUPTED
    return Exit.REFUSED if isinstance(error, UnknownCanaryError) else Exit.USAGE

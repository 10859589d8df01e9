"""The three streams of the process, as values that a test can replace."""

from __future__ import annotations

import io
import os
import shlex
import sys
from typing import BinaryIO, NoReturn, TextIO

from attrs import frozen
from rich.console import Console

from payclient.report import visible


@frozen(kw_only=True)
class Streams:
    """
    Where a command reads and writes: data on `stdout`, everything for people on `stderr`.

    Attributes:
        stdin: In bytes: a key, references or a ledger.
        stdout: What another program, or a file, may want.
        stderr: Narration, progress and errors.
        arguments: What the command was called with, so that it can say how to call it again.
    """

    stdin: BinaryIO
    stdout: TextIO
    stderr: TextIO
    arguments: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The command line, as a shell takes it."""
        return shlex.join(("payclient", *self.arguments))

    def write(self, line: str) -> None:
        """Write one line of data, at once; it holds nothing that a terminal would obey."""
        self.stdout.write(f"{line}\n")
        self.stdout.flush()

    def tell(self, text: str) -> None:
        """Tell the user one line, with the control characters of strangers made visible."""
        self.stderr.write(f"{visible(text)}\n")
        self.stderr.flush()

    def console(self) -> Console:
        """Return rich's view of `stdout`; colour and width follow the terminal and `NO_COLOR`."""
        return _Console(file=self.stdout, highlight=False, markup=False, emoji=False)


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        """Leave the exit status to us: rich would end the process with 1, which means something else here."""
        raise BrokenPipeError


def process_streams() -> Streams:
    """Return the process's own streams, able to write any text whatever their encoding."""
    return Streams(
        stdin=_binary(sys.stdin),
        stdout=_lenient(sys.stdout),
        stderr=_lenient(sys.stderr),
    )


def _binary(stream: TextIO | None) -> BinaryIO:
    return io.BytesIO() if stream is None else stream.buffer  # closed before we were started


def _lenient(stream: TextIO | None) -> TextIO:
    if stream is None:
        return io.StringIO()
    reconfigure = getattr(stream, "reconfigure", None)  # a stand-in for the stream may have none
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    return stream


def abandon(stream: TextIO) -> None:
    """Send what is still to be written to nowhere, so that the interpreter does not fail on it at its end."""
    try:
        number = stream.fileno()
    except OSError:  # not a stream of the system
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)

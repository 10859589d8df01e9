"""Remedies as values, the words that show them, and the quoting of commands for the shell that they are pasted into."""

import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import groupby
from typing import Literal, TypeAlias, cast

from attrs import frozen

from payclient._shared.escape import escape_unprintable

Side: TypeAlias = Literal["ledger", "statement"]
Option: TypeAlias = tuple[str, str | None]
"""A flag, and its value. None for a switch."""

_FLAGS = {
    "allow_references": "--allow-reference",
    "api_key": "--api-key-file",
    "debit_columns": "--debit-column",
    "not_found_messages": "--not-found-message",
}
_NOT_OF_STATEMENT = frozenset({"sheet", "format", "delimiter", "allow_empty"})


class Shell(Enum):
    """The shells that a command is quoted for."""

    POSIX = "sh"
    POWERSHELL = "PowerShell"
    CMD = "cmd.exe"


def shell_here(platform: str = sys.platform, environ: Mapping[str, str] = os.environ) -> Shell:
    """Return the shell that this process was started from."""
    if platform != "win32" or "MSYSTEM" in environ:
        return Shell.POSIX
    is_powershell = "PSModulePath" in environ and "PROMPT" not in environ  # cmd.exe always sets the latter
    return Shell.POWERSHELL if is_powershell else Shell.CMD


_BARE = re.compile(r"[\w./:\\-][\w./:\\=+-]*", re.ASCII)
_OF_CMD = re.compile('["%!$`^\u201c-\u201e]|\\\\\\Z')
"""Neither cmd.exe nor PowerShell takes these as they are between double quotes. Either may run the command."""
_OF_POWERSHELL = re.compile('"|\\\\\\Z')
"""PowerShell before 7.3 loses these on their way to a program."""
_SINGLE = re.compile("['\u2018-\u201b]")


def quote_word(word: str, shell: Shell | None = None) -> str | None:
    """Return *word* quoted for the shell. None if it cannot be quoted safely, so that no command can be proposed."""
    shell = shell or shell_here()
    if not word.isprintable():
        return None
    if shell is Shell.POSIX:
        return f"'{word}'" if word.startswith("=") and "'" not in word else shlex.quote(word)  # zsh expands =name
    if _BARE.fullmatch(word):
        return word
    if shell is Shell.CMD:
        return None if _OF_CMD.search(word) else f'"{word}"'
    return None if _OF_POWERSHELL.search(word) else "'" + _SINGLE.sub(lambda match: match[0] * 2, word) + "'"


@frozen
class Way:
    """
    An option that would help, or that is at fault.

    Attributes:
        option: Its name in Python, such as `header_row`.
        value: Its value. True for a switch.
        field: The field that a column is chosen for. Empty for other options.
    """

    option: str
    value: str | int | bool = True
    field: str = ""

    @property
    def flag(self) -> str:
        """The name of the option on the command line."""
        return _FLAGS.get(self.option) or f"--{self.option.replace('_', '-')}"

    @property
    def text(self) -> str:
        """The value as an argument of the command line. Empty for a switch."""
        return "" if self.value is True else f"{self.field}={self.value}" if self.field else f"{self.value}"

    def typed(self, side: Side = "ledger") -> Option | None:
        """Return the option as it is typed. None if it is not for a statement."""
        if side == "statement":
            return ("--statement-column", self.text) if self.option == "column" else None
        return self.flag, self.text or None

    @property
    def key(self) -> str:
        """The key of the rules file for a statement. Empty without one."""
        if self.option in _NOT_OF_STATEMENT:
            return ""
        if self.option == "ignore_column":
            return f"ignore_columns = {toml([self.value])} under [statement]"
        if self.option == "column":
            return f"{self.field} = {toml(self.value)} under [statement.columns]"
        value = {self.field: self.value} if self.field else self.value
        return f"{self.option} = {toml(value)} under [statement.reading]"


def toml(value: object) -> str:
    """Return *value* in the form of a rules file."""
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return "{ " + ", ".join(f"{name} = {toml(item)}" for name, item in items) + " }"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", r"\u007F")  # the rest is the same in TOML


@frozen
class Remedy:
    """
    Options that help together.

    Attributes:
        ways: The options.
        effect: What they do, as the rest of a sentence, such as `leaves it out`.
        is_decision: Whether a person has to decide it, so that no command with it is proposed.
    """

    ways: tuple[Way, ...]
    effect: str
    is_decision: bool = False

    def words(self, side: Side = "ledger") -> str:
        """Return the options as text, or keys of the rules file if an option is not for a statement."""
        options = [option for way in self.ways if (option := way.typed(side))]
        if len(options) < len(self.ways):
            keys = [way.key for way in self.ways]
            return f"{' and '.join(keys)} in the rules file" if all(keys) else ""
        return " ".join(_option_words(*option) for option in options)


def _option_words(flag: str, value: str | None) -> str:
    """Return an option as text for people. A value is quoted if a shell would need it."""
    if value is None:
        return flag
    shown = quote_word(value, Shell.POSIX) or f"'{escape_unprintable(value)}'"
    return f"{flag}={shown}" if value[0] == "-" else f"{flag} {shown}"


def advice(remedies: Iterable[Remedy], side: Side = "ledger") -> str:
    """Return the rest of a sentence that names the *remedies*. Empty without one."""
    parts: list[str] = []
    for effect, group in groupby(remedies, key=lambda remedy: remedy.effect):
        words = list(filter(None, (remedy.words(side) for remedy in group)))
        parts += [f"{' or '.join(words)} {effect}"] if words else []
    return f"; {', or '.join(parts)}" if parts else ""

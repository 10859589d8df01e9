"""The words of a command by their place, and the command composed of them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, count
from pathlib import Path

from attrs import evolve, frozen

from payclient._shared.options import OPTIONS
from payclient._shared.remedy import Option, Side, Way, quote_word

_SEVERAL = (
    "--allow-reference",
    "--date-format",
    "--ignore-column",
    "--not-found-message",
    "--null",
    "--skip-rows-like",
)
_OF_FIELD = ("--column", "--debit-column", "--statement-column")
_CREDENTIALS = re.compile(r"//[^/?#\s]*@")


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
    return str(next(each for each in chain([path], numbered) if not each.exists()))


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
        """Return the call with *options*, which replace those about the same subject."""
        new = dict.fromkeys(options)
        taken = {_subject(each) for each in new}
        kept = [each for each in self.options if _subject(each) not in taken]
        return evolve(self, options=(*kept, *new))

    def using(self, ways: Iterable[Way], side: Side = "ledger") -> Call:
        """Return the call with the options of *ways*, those of a statement for that side."""
        return self.having(*filter(None, (each.typed(side) for each in ways)))

    def after(self, first: str) -> Call:
        return evolve(self, first=first)

    def only(self, flags: Collection[str]) -> Call:
        return evolve(self, options=tuple(each for each in self.options if each[0] in flags))

    def place_of(self, option: str) -> str:
        """Return where an *option* of Python was given: its flag, or its variable. "" if it is a default."""
        flag, variable = Way(option).flag, OPTIONS[option].variable if option in OPTIONS else ""
        if any(flag == given for given, _ in self.options):
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
        if None in quoted or any(map(has_credentials, words)):
            return None
        return " ".join(map(str, quoted))


def _subject(option: Option) -> Option:
    flag, value = option
    if flag in _SEVERAL:
        return option
    return (flag, (value or "").partition("=")[0]) if flag in _OF_FIELD else (flag, None)

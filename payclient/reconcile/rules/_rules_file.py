"""Read rules from a TOML file strictly: anything unknown or invalid is refused with its line and key."""

import os
import re
import tomllib
from bisect import bisect_left
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from pathlib import Path
from types import UnionType
from typing import Any, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

from attrs import NOTHING, fields, has
from cattrs import Converter

from payclient._shared.escape import did_you_mean, escape_unprintable, quote
from payclient.reconcile.ledger import Dialect
from payclient.reconcile.rules._calendar import read_holidays
from payclient.reconcile.rules._rules import Rules, rules_as_json
from payclient.reconcile.values import Code, RulesError, Severity, Side

_MAX_OPEN_LINES = 50
_MAX_BYTES = 4 * 2**20
_AT_LINE = re.compile(r" ?\(at line (\d+), column \d+\)$")
_UNQUOTED = ("Invalid value", "Expected newline or end of document after a statement")
_AT_END = " (at end of document)"
Key: TypeAlias = tuple[str | int, ...]
"""The path from the outermost table; a number is the position in a list, from 0."""


def read_rules(path: str | os.PathLike[str]) -> Rules:
    """
    Read a rules file.

    Args:
        path: A TOML file in UTF-8.

    Raises:
        RulesError: When the file cannot be read or used; names the first fault with its line and key.
    """
    name = Path(path).name
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        message = f"the rules file {name} cannot be read: {error.strerror}"
        raise RulesError(message) from error
    if len(content) > _MAX_BYTES:
        message = f"the rules file {name} has more than {_MAX_BYTES} bytes, so it is something else"
        raise RulesError(message)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"{name}, line {line}: it is not UTF-8; save the file in that encoding"
        raise RulesError(message, line=line) from error
    return parse_rules(text, name=name, folder=Path(path).parent)


def parse_rules(text: str, *, name: str = "rules", folder: Path = Path()) -> Rules:
    """
    Read rules from the text of a file.

    Args:
        text: TOML.
        name: Name of the file in messages.
        folder: Where a file that the rules name is.

    Raises:
        RulesError: When the text cannot be used; names the first fault with its line and key.
    """
    key: Key = ()
    try:
        document: dict[str, Any] = tomllib.loads(text, parse_float=Decimal)
        match document:
            case {"calendar": {"holidays": str(file)}}:
                document["calendar"]["holidays"] = read_holidays(folder / file)
            case _:
                pass
        return rules_from_json(document)
    except RulesError as error:
        message, key, line = error.message, error.key, line_of(text, error.key)
        cause: Exception = error
    # `tomllib` also raises plain errors, for numbers that are too long and lists nested too deep.
    except (ValueError, RecursionError) as error:
        why, found = str(error), _AT_LINE.search(str(error))
        if found is None and why.endswith(_AT_END):
            line, why = open_line(text), f"{why.removesuffix(_AT_END)} from here to the end of the file"
        else:
            line = int(found[1]) if found else 0
        why = _AT_LINE.sub("", why)
        advice = "; text needs quotes" if why in _UNQUOTED else ""
        message, cause = f"it is not TOML: {escape_unprintable(why, max_length=200)}{advice}", error
    where = escape_unprintable(name) + (f", line {line}" if line else "")
    raise RulesError(f"{where}: {message}", key=key, line=line) from cause


def rules_from_json(value: Mapping[str, Any]) -> Rules:
    """
    Return the rules that `rules_as_json` was given.

    Raises:
        RulesError: When they cannot be used.
    """
    return cast("Rules", _made(Rules, (), value))


# Lines: TOML has no library that keeps them, so the beginnings of a file are parsed.


def line_of(text: str, key: Key) -> int:
    """Return the line of *key*, from 1; for a missing key the line of its table, or 0 without one."""
    lines, document = text.split("\n"), tomllib.loads(text)
    while key and not _has(document, key):
        key = key[:-1]
    if not key:
        return 0
    end = bisect_left(range(len(lines)), True, key=lambda size: _has(_beginning(lines, size)[1], key))
    return _beginning(lines, end - 1)[0] + 1


def open_line(text: str) -> int:
    """Return the line, from 1, of the value that is still open at the end of the file; of a long one the last line."""
    lines = text.rstrip("\r\n").split("\n")
    size = _beginning(lines, len(lines) - 1, at_least=max(0, len(lines) - _MAX_OPEN_LINES + 1))[0]
    return size + 1 if size >= 0 else len(lines)


def _beginning(lines: list[str], size: int, *, at_least: int = 0) -> tuple[int, Mapping[str, Any]]:
    """Return the largest number of lines, up to *size*, that parse, and their content; -1 if below *at_least*."""
    for end in range(size, at_least - 1, -1):
        try:
            return end, tomllib.loads("".join(f"{line}\n" for line in lines[:end]))
        except (ValueError, RecursionError):
            continue
    return -1, {}


def _has(document: Any, key: Key) -> bool:
    try:
        reduce(lambda value, part: value[part], key, document)
    except (KeyError, IndexError, TypeError):  # the value is not a table
        return False
    return True


# Values: a table becomes its class, whose validators check everything else; errors name the path.


def _made(kind: Any, key: Key, value: Any) -> Any:
    if get_origin(kind) is UnionType:  # with None, which TOML has not
        kind = get_args(kind)[0]
    origin, parts = get_origin(kind), get_args(kind)
    dotted = ".".join(escape_unprintable(part) for part in key if isinstance(part, str))
    if origin is tuple and has(parts[0]):
        if not isinstance(value, list):
            message = f"{dotted} must be a list of tables, each under [[{dotted}]]"
            raise RulesError(message, key=key)
        return [_made(parts[0], (*key, place), each) for place, each in enumerate(cast("list[object]", value))]
    if origin is not Mapping and not has(kind):
        return value
    if not isinstance(value, dict):
        message = f"{dotted} must be a table of keys and values, got {quote(value)}"
        raise RulesError(message, key=key)
    table = cast("dict[str, object]", value)
    if origin is Mapping:
        return {name: _made(parts[1], (*key, name), each) for name, each in table.items()}
    return _instance(kind, key, dotted, table)


def _instance(kind: Any, key: Key, dotted: str, table: Mapping[str, Any]) -> Any:
    known = {each.name: each for each in fields(kind) if each.init}
    if unknown := next((name for name in table if name not in known), None):
        message = f"there is no key {quote(unknown)}{did_you_mean(unknown, known)}; the keys are {', '.join(known)}"
        raise RulesError(f"{dotted}: {message}" if key else message, key=(*key, unknown))
    if missing := [name for name, each in known.items() if each.default is NOTHING and name not in table]:
        message = f"{dotted} has no {missing[0]}; {' and '.join(missing)} must be given"
        raise RulesError(message, key=key)
    if kind is not Dialect:
        kinds = get_type_hints(kind)
        table = {name: _made(kinds[name], (*key, name), one) for name, one in table.items()}
    try:
        return Dialect.named(**{"profile": "", **table}) if kind is Dialect else kind(**table)
    except ValueError as error:  # the message of a dialect begins with the name of the key
        within = error.key if isinstance(error, RulesError) else (str(error).partition(" ")[0],)
        raise RulesError(f"{dotted}.{error}" if key else str(error), key=(*key, *within)) from error


_Kind = TypeVar("_Kind")
_CODES = {code.value: code for code in Code}
_JSON = Converter(unstruct_collection_overrides={tuple: list})
_JSON.register_unstructure_hook(date, date.isoformat)
_JSON.register_unstructure_hook(datetime, datetime.isoformat)
_JSON.register_structure_hook(date, lambda value, _: date.fromisoformat(value))
_JSON.register_structure_hook(datetime, lambda value, _: datetime.fromisoformat(value))
_JSON.register_structure_hook(Side, lambda value, _: value)
_JSON.register_unstructure_hook(Severity, lambda severity: severity.word)
_JSON.register_structure_hook(Severity, lambda value, _: Severity[value.upper()])
_JSON.register_structure_hook(Code, lambda value, _: _CODES[value])
_JSON.register_unstructure_hook(Rules, rules_as_json)
_JSON.register_structure_hook(Rules, lambda value, _: rules_from_json(value))


def as_json(value: object) -> Any:
    return _JSON.unstructure(value)


def from_json(value: Any, kind: type[_Kind]) -> _Kind:
    return _JSON.structure(value, kind)

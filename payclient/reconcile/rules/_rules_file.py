"""Read rules from a TOML file strictly: what is unknown or invalid is refused with its line and key."""

from __future__ import annotations

import os
import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from types import UnionType
from typing import Any, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

from attrs import NOTHING, AttrsInstance, fields, has
from cattrs import Converter

from payclient._escape import escape_unprintable, quote
from payclient.ledger import Dialect
from payclient.reconcile.rules._calendar import read_holidays
from payclient.reconcile.rules._rules import Rules, rules_as_json
from payclient.reconcile.values import Code, RulesError, Severity, Side

_MAX_OPEN_LINES = 50
_MAX_BYTES = 4 * 2**20
_AT_LINE = re.compile(r" ?\(at line (\d+), column \d+\)$")
_AT_END = " (at end of document)"
Key: TypeAlias = tuple[str | int, ...]
"""The path from the outermost table; a number is the position in a list, from 0."""


def line_of(text: str, key: Key) -> int:
    """Return the line of *key*, from 1; for a missing key that of its table, and 0 without one."""
    lines = _lines(text)
    document = tomllib.loads("\n".join(lines))
    while key and not _has(document, key):
        key = key[:-1]
    if not key:
        return 0
    end = bisect_left(range(len(lines)), True, key=lambda size: _has(_beginning(lines, size)[1], key))
    return _beginning(lines, end - 1)[0] + 1


def open_line(text: str) -> int:
    """Return the line, from 1, of the value that is still open at the end of the file; of a long one the last line."""
    lines = _lines(text.rstrip("\r\n"))
    size = _beginning(lines, len(lines) - 1, at_least=max(0, len(lines) - _MAX_OPEN_LINES + 1))[0]
    return size + 1 if size >= 0 else len(lines)


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").split("\n")


def _beginning(lines: list[str], size: int, *, at_least: int = 0) -> tuple[int, Mapping[str, Any]]:
    """Return the largest number of lines, up to *size*, that parse, and their content; -1 if below *at_least*."""
    for end in range(size, at_least - 1, -1):
        try:
            return end, tomllib.loads("\n".join(lines[:end]))
        except (ValueError, RecursionError):
            continue
    return -1, {}


def _has(document: Any, key: Key) -> bool:
    for part in key:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):  # the value is not a table
            return False
    return True


_Value = TypeVar("_Value", bound=AttrsInstance)


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
    name = escape_unprintable(name)
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    # `tomllib` also raises plain errors, for numbers that are too long and lists nested too deep.
    except (ValueError, RecursionError) as error:
        raise _not_toml(name, str(error), text) from error
    try:
        _read_holidays(document, folder)
        return _made(Rules, (), document)
    except RulesError as error:
        line = line_of(text, error.key)
        where = f"{name}, line {line}" if line else name
        raise RulesError(f"{where}: {error.message}", key=error.key, line=line) from error


def _read_holidays(document: dict[str, Any], folder: Path) -> None:
    """Replace the name of a file by its dates."""
    calendar: Any = document.get("calendar")
    if isinstance(calendar, dict) and isinstance(name := cast("dict[str, Any]", calendar).get("holidays"), str):
        calendar["holidays"] = read_holidays(folder / name)


def rules_from_json(value: Mapping[str, Any]) -> Rules:
    """
    Return the rules that `rules_as_json` was given.

    Raises:
        RulesError: When they cannot be used.
    """
    return _made(Rules, (), value)


def _not_toml(name: str, why: str, text: str) -> RulesError:
    match = _AT_LINE.search(why)
    if match is None and why.endswith(_AT_END):
        line, why = open_line(text), f"{why.removesuffix(_AT_END)} from here to the end of the file"
    else:
        line = int(match[1]) if match else 0
    where = f"{name}, line {line}" if line else name
    return RulesError(
        f"{where}: it is not TOML: {escape_unprintable(_AT_LINE.sub('', why), max_length=200)}", line=line
    )


def _read(kind: Any, key: Key, value: Any) -> Any:
    """Return *value* for a field of type *kind*; a validator checks all but tables."""
    if get_origin(kind) is UnionType:  # with None, which TOML has not
        kind = get_args(kind)[0]
    if kind is Dialect:
        return _dialect(key, value)
    if has(kind):
        return _made(kind, key, value)
    if get_origin(kind) is Mapping:
        each = get_args(kind)[1]
        return {name: _read(each, (*key, name), value[name]) for name in _checked_table(key, value)}
    if get_origin(kind) is tuple and has(each := get_args(kind)[0]):
        return [_read(each, (*key, place), one) for place, one in enumerate(_checked_list(key, value))]
    return value


def _made(kind: type[_Value], key: Key, value: Any) -> _Value:
    """Make a value of *kind* from a table; errors name the table."""
    table, within = _checked_table(key, value), f"{_dotted(key)}." if key else ""
    known = {each.name: each for each in fields(kind) if each.init}
    _check_keys(key, table, known)
    if missing := [name for name, each in known.items() if each.default is NOTHING and name not in table]:
        message = f"{_dotted(key)} has no {missing[0]}; {' and '.join(missing)} must be given"
        raise RulesError(message, key=key)
    kinds = get_type_hints(kind)
    parts = {name: _read(kinds[name], (*key, name), each) for name, each in table.items()}
    try:
        return kind(**parts)
    except RulesError as error:
        raise RulesError(f"{within}{error.message}", key=(*key, *error.key)) from error


def _dialect(key: Key, value: Any) -> Dialect:
    table = _checked_table(key, value)
    _check_keys(key, table, [each.name for each in fields(Dialect)])
    try:
        return Dialect.named(**{"profile": "", **table})
    except ValueError as error:  # its message begins with the name of the key
        name = str(error).partition(" ")[0]
        raise RulesError(f"{_dotted(key)}.{error}", key=(*key, name)) from error


def _checked_table(key: Key, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        message = f"{_dotted(key)} must be a table of keys and values, got {quote(value)}"
        raise RulesError(message, key=key)
    return cast("dict[str, Any]", value)


def _checked_list(key: Key, value: list[Any] | str | None) -> list[Any]:  # or any other value of TOML
    if not isinstance(value, list):
        message = f"{_dotted(key)} must be a list of tables, each under [[{_dotted(key)}]]"
        raise RulesError(message, key=key)
    return value


def _check_keys(key: Key, table: Mapping[str, Any], known: Iterable[str]) -> None:
    if unknown := next((name for name in table if name not in known), None):
        where = f"{_dotted(key)}: " if key else ""
        message = f"{where}there is no key {quote(unknown)}; the keys are {', '.join(known)}"
        raise RulesError(message, key=(*key, unknown))


def _dotted(key: Key) -> str:
    return ".".join(escape_unprintable(part) for part in key if isinstance(part, str))


_Kind = TypeVar("_Kind")
_CODES = {code.value: code for code in Code}
_JSON = Converter(unstruct_collection_overrides={tuple: list})
_JSON.register_unstructure_hook(date, date.isoformat)
_JSON.register_unstructure_hook(datetime, datetime.isoformat)
_JSON.register_structure_hook(datetime, lambda value, _: datetime.fromisoformat(value))
_JSON.register_structure_hook(Side, lambda value, _: value)
_JSON.register_unstructure_hook(Severity, lambda severity: severity.word)
_JSON.register_structure_hook(Severity, lambda value, _: Severity[value.upper()])
_JSON.register_structure_hook(Code, lambda value, _: _CODES[value])
_JSON.register_unstructure_hook(Rules, rules_as_json)
_JSON.register_structure_hook(Rules, lambda value, _: rules_from_json(value))


def as_json(value: object) -> Any:
    """Return *value*, an attrs value or None, in plain values."""
    return _JSON.unstructure(value)


def from_json(value: Any, kind: type[_Kind]) -> _Kind:
    """Return the value of *kind* that `as_json` was given."""
    return _JSON.structure(value, kind)

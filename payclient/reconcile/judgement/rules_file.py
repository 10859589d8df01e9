"""Internal: read rules from a TOML file strictly: anything unknown or invalid is refused with its line and key."""

import os
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from itertools import takewhile
from pathlib import Path
from types import UnionType
from typing import Any, TypeAlias, cast, get_args, get_origin, get_type_hints

from attrs import NOTHING, fields, has

from payclient._shared.escape import did_you_mean, escape_unprintable, quote
from payclient.reconcile._codec import register
from payclient.reconcile.judgement.errors import RulesError
from payclient.reconcile.judgement.rules import Rules, rules_as_json
from payclient.reconcile.ledger import Dialect

_AT_LINE = re.compile(r" ?\(at line (\d+), column \d+\)$")
_UNQUOTED = ("Invalid value", "Expected newline or end of document after a statement")
_NAME = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_STATEMENT = re.compile(rf"\s*(\[\[?)?\s*((?:{_NAME.pattern})(?:\s*\.\s*(?:{_NAME.pattern}))*)\s*(?(1)\]|=)")
"""The header of a table, or a key."""
Key: TypeAlias = tuple[str | int, ...]
"""The path from the outermost table. A number is the position in a list, from 0."""


def read_rules(path: str | os.PathLike[str]) -> Rules:
    """
    Read a rules file.

    Args:
        path: A TOML file in UTF-8.

    Raises:
        RulesError: When the file cannot be read or used. Names the first fault with its line and key.
    """
    name = Path(path).name
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise RulesError(f"the rules file {name} cannot be read: {error.strerror}") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RulesError(f"{name}, line {line}: it isn't UTF-8: save the file in that encoding", line=line) from error
    return parse_rules(text, name=name)


def parse_rules(text: str, *, name: str = "rules") -> Rules:
    """
    Read rules from the text of a file.

    Args:
        text: TOML.
        name: Name of the file in messages.

    Raises:
        RulesError: When the text cannot be used. Names the first fault with its line and key.
    """
    key: Key = ()
    try:
        document: dict[str, Any] = tomllib.loads(text, parse_float=Decimal)
        return rules_from_json(document)
    except RulesError as error:
        message, key, line = error.message, error.key, line_of(text, error.key)
        cause: Exception = error
    # `tomllib` also raises plain errors, for numbers that are too long and lists nested too deep.
    except (ValueError, RecursionError) as error:
        found, why = _AT_LINE.search(str(error)), _AT_LINE.sub("", str(error))
        line = int(found[1]) if found else len(text.rstrip("\r\n").split("\n"))
        advice = "; text needs quotes" if why in _UNQUOTED else ""
        message, cause = f"it is not TOML: {escape_unprintable(why, max_length=200)}{advice}", error
    where = escape_unprintable(name) + (f", line {line}" if line else "")
    raise RulesError(f"{where}: {message}", key=key, line=line) from cause


def rules_from_json(value: Mapping[str, Any]) -> Rules:
    return cast("Rules", _made(Rules, (), value))


def line_of(text: str, key: Key) -> int:
    """Return the line of *key*, from 1, or of the innermost table or value around it. 0 if none is written."""
    # TOML libraries don't keep lines. Inline tables and lists count as on the line where they begin.
    best = line = 0
    table: Key = ()
    lists = Counter[str]()
    is_text = False
    for number, row in enumerate(text.split("\n"), 1):
        found = None if is_text else _STATEMENT.match(row)
        is_text ^= (row.count('"""') + row.count("'''")) % 2 == 1
        if found is None:
            continue
        names = tuple(name.strip("\"'") for name in _NAME.findall(found[2]))
        lists.update(names[:1] if found[1] == "[[" else ())
        if found[1]:
            table = (names[0], lists[names[0]] - 1, *names[1:]) if names[0] in lists else names
        path = table if found[1] else (*table, *names)
        common = len([*takewhile(lambda pair: pair[0] == pair[1], zip(path, key, strict=False))])
        if common > best:
            best, line = common, number
    return line


# Values: a table becomes its class, whose validators check everything else. Errors name the path.


def _made(kind: Any, key: Key, value: Any) -> Any:
    if get_origin(kind) is UnionType:  # with None, which TOML has not
        kind = get_args(kind)[0]
    origin, parts = get_origin(kind), get_args(kind)
    dotted = ".".join(escape_unprintable(part) for part in key if isinstance(part, str))
    if origin is tuple and has(parts[0]):
        if not isinstance(value, list):
            raise RulesError(f"{dotted} must be a list of tables, each under [[{dotted}]]", key=key)
        return [_made(parts[0], (*key, place), each) for place, each in enumerate(cast("list[object]", value))]
    if origin is not Mapping and not has(kind):
        return value
    if not isinstance(value, dict):
        raise RulesError(f"{dotted} must be a table of keys and values, got {quote(value)}", key=key)
    table = cast("dict[str, object]", value)
    if origin is Mapping:
        return {name: _made(parts[1], (*key, name), each) for name, each in table.items()}
    return _instance(kind, key, dotted, table)


def _instance(kind: Any, key: Key, dotted: str, table: Mapping[str, Any]) -> Any:
    known = {each.name: each for each in fields(kind) if each.init}
    if unknown := next((name for name in table if name not in known), None):
        message = f"there is no key {quote(unknown)}{did_you_mean(unknown, known)}: the keys are {', '.join(known)}"
        raise RulesError(f"{dotted}: {message}" if key else message, key=(*key, unknown))
    if missing := [name for name, each in known.items() if each.default is NOTHING and name not in table]:
        raise RulesError(f"{dotted} has no {missing[0]}; {' and '.join(missing)} must be given", key=key)
    if kind is not Dialect:
        kinds = get_type_hints(kind)
        table = {name: _made(kinds[name], (*key, name), one) for name, one in table.items()}
    try:
        return kind(**table)
    except ValueError as error:
        within = error.key if isinstance(error, RulesError) else (getattr(error, "option", ""),)
        raise RulesError(f"{dotted}.{error}" if key else str(error), key=(*key, *within)) from error


register(Rules, write=rules_as_json, read=rules_from_json)

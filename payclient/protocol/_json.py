"""Read untrusted JSON: strict where two parsers could disagree, and limited in depth, digits and values."""

import json
import re
from codecs import BOM_UTF8
from collections import Counter
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn, TypeGuard

_MAX_DIGITS = 40
_MAX_VALUES = 10_000
_MAX_DEPTH = 32
_KINDS: dict[type, str] = {type(None): "null", str: "text", list: "a list", dict: "an object"}
# Up to the next bracket or comma outside of a string, or the end. It matches wherever it begins,
# an open string included: a pattern that could fail would be tried again from every quote of the body.
_TO_STRUCTURE = re.compile(rb'(?:[^"\[\]{},]++|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z))*+([\[\]{},]|\Z)', re.DOTALL)


class JSONProblem(ValueError):  # noqa: N818  it is a finding about the data. The error is built from it
    """The bytes are not acceptable JSON. The text names the fault."""


def read_json(body: bytes) -> Any:
    # A byte order mark is accepted. Numbers with a point or an exponent become `Decimal`, without loss.
    # RFC 8259, in the stricter reading of RFC 7493 (I-JSON).
    try:
        text = body.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise JSONProblem(f"not UTF-8 at byte {error.start}") from None
    _check_structure(body)
    text = text.strip(" \t\r\n")
    try:
        value, end = _decode(text)
    except json.JSONDecodeError as error:
        raise JSONProblem(f"not JSON: {error.msg} at character {error.pos}") from None
    if end < len(text):
        raise JSONProblem(f"not JSON: Extra data at character {end}")
    if b"\\u" in body:
        try:
            json.dumps(value, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise JSONProblem("half a surrogate pair in a string") from None
    return value


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def kind(value: object) -> str:
    """Return the type of a JSON value in words, to follow "found"."""
    if isinstance(value, bool):
        return str(value).lower()
    return "empty text" if value == "" else _KINDS.get(type(value), "a number")


def named(name: str) -> str:
    """Quote *name*, or give its length: a truncated one could end in a part of a secret too short to be redacted."""
    return repr(name) if len(name) <= 40 else f"of {len(name)} characters"


def _check_structure(body: bytes) -> None:
    """Refuse deep nesting before the parser recurses into it, and more values than it can read quickly."""
    is_small = len(body) < _MAX_VALUES or body.count(b",") < _MAX_VALUES
    if is_small and body.count(b"[") + body.count(b"{") <= _MAX_DEPTH:
        return
    depth = values = 0
    for match in _TO_STRUCTURE.finditer(body):
        if match[1] in (b"[", b"{"):
            depth += 1
        elif match[1] != b",":
            depth -= 1
        values += match[1] in (b"[", b"{", b",")
        if depth < 0:  # the end, or where the parser stops
            return
        if depth > _MAX_DEPTH:
            raise JSONProblem(f"nested deeper than {_MAX_DEPTH} levels")
        if values > _MAX_VALUES:
            raise JSONProblem(f"more than {_MAX_VALUES} values")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise JSONProblem(f"the key {named(twice)} is duplicated in one object")
    return value


def _checked(text: str) -> str:
    if len(text) > _MAX_DIGITS:
        raise JSONProblem(f"a number of {len(text)} digits")
    return text


def _decimal(text: str) -> Decimal:
    try:
        value = Decimal(_checked(text))
    except InvalidOperation:  # an exponent beyond 18 digits
        raise JSONProblem(f"the number {text}, which is out of all bounds") from None
    if abs(value.adjusted()) > _MAX_DIGITS:
        raise JSONProblem(f"a number of magnitude 1e{value.adjusted()}")
    return value


def _constant(text: str) -> NoReturn:
    raise JSONProblem(f"{text} is not JSON")


_decode = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=lambda text: int(_checked(text)), parse_float=_decimal, parse_constant=_constant
).raw_decode

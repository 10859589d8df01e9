"""Convert run values to and from JSON."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, TypeVar

from cattrs import Converter

from payclient.reconcile.rules._rules import Rules, rules_as_json
from payclient.reconcile.rules._rules_file import rules_from_json
from payclient.reconcile.values import Code, Severity, Side

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

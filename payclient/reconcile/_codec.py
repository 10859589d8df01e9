"""Values to JSON and back: one converter. A class with another form registers it there."""

from collections.abc import Callable
from typing import Any, TypeVar

from cattrs.preconf.json import make_converter

_Kind = TypeVar("_Kind")
_JSON = make_converter(unstruct_collection_overrides={tuple: list})


def register(kind: Any, *, write: Callable[[Any], object] | None = None, read: Callable[[Any], object]) -> None:
    """Write and read values of *kind* with these functions. Without *write*, as they are."""
    _JSON.register_structure_hook(kind, lambda value, _: read(value))
    if write is not None:
        _JSON.register_unstructure_hook(kind, write)


def as_json(value: object) -> Any:
    return _JSON.unstructure(value)


def from_json(value: Any, kind: type[_Kind]) -> _Kind:
    return _JSON.structure(value, kind)

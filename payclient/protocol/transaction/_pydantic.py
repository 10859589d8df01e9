"""The pydantic core schemas of a transaction and of results, also used by FastAPI."""

from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, TypeAlias, cast, get_args, get_origin

from pydantic_core import core_schema

_Schemas: TypeAlias = Callable[[Any], core_schema.CoreSchema]
_OF_ERROR = {"type": str, "detail": str, "http_status": int}


def schema(kind: Any, read: Callable[[Mapping[str, Any]], Any] | None, of: _Schemas) -> core_schema.CoreSchema:
    """Return the schema of a class. An instance is taken as it is, and its JSON only if it can be read."""
    # So money is exact here too, and the payment code is masked in the output.

    def validated(value: object) -> object:
        if isinstance(value, kind):
            return value
        if read is None or not isinstance(value, Mapping):
            message = f"must be a {kind.__name__}" if read is None else "a transaction is an object of its fields"
            raise ValueError(message)
        return read(cast("Mapping[str, Any]", value))

    shape = _shape(kind, of)
    return core_schema.no_info_plain_validator_function(
        validated,
        ref=f"{kind.__module__}.{kind.__qualname__}",
        json_schema_input_schema=shape,
        serialization=core_schema.plain_serializer_function_ser_schema(kind.as_json, return_schema=shape),
    )


def _shape(hint: Any, of: _Schemas) -> core_schema.CoreSchema:
    """Return the schema of the JSON of a value with a type. *of* gives pydantic's own for the simple ones."""
    if hint in (bool, int, float, str, type(None)):
        return of(hint)
    if get_origin(hint) is tuple:
        return core_schema.list_schema(_shape(get_args(hint)[0], of))
    if isinstance(hint, UnionType):
        return core_schema.union_schema([_shape(each, of) for each in get_args(hint)])
    types = hint._json_types() if hasattr(hint, "_json_types") else _OF_ERROR  # noqa: SLF001  our own
    optional = getattr(hint, "_optional", ())
    fields = {
        name: core_schema.typed_dict_field(_shape(each, of), required=name not in optional)
        for name, each in types.items()
    }
    name = hint.__name__
    return core_schema.typed_dict_schema(fields, cls_name=name, config=core_schema.CoreConfig(title=name))

"""The pydantic core schemas of a transaction and of results, also used by FastAPI."""

from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin

from pydantic_core import core_schema

from payclient.protocol.transaction._model import DOCUMENTED, REQUIRED

_Value = TypeVar("_Value")
_SIMPLE: dict[object, Callable[[], core_schema.CoreSchema]] = {
    bool: core_schema.bool_schema,
    int: core_schema.int_schema,
    float: core_schema.float_schema,
    str: core_schema.str_schema,
    NoneType: core_schema.none_schema,
}


def transaction_shape() -> core_schema.CoreSchema:
    """Return the schema of the JSON of a transaction."""
    return _object("Transaction", {name: _field(name) for name in DOCUMENTED})


def shape_of(hint: object, nested: Callable[[Any], core_schema.CoreSchema]) -> core_schema.CoreSchema:
    """Return the schema of the JSON of a value with a type; *nested* gives those of classes."""
    if hint in _SIMPLE:
        return _SIMPLE[hint]()
    if get_origin(hint) is tuple:
        return core_schema.list_schema(shape_of(get_args(hint)[0], nested))
    if isinstance(hint, UnionType):
        return core_schema.union_schema([shape_of(each, nested) for each in get_args(hint)])
    return nested(hint)


def result_shape(name: str, fields: Mapping[str, core_schema.CoreSchema]) -> core_schema.CoreSchema:
    return _object(name, {each: core_schema.typed_dict_field(schema) for each, schema in fields.items()})


def schema(
    kind: type[_Value],
    shape: core_schema.CoreSchema,
    write: Callable[..., object],
    read: Callable[[Mapping[str, Any]], _Value] | None = None,
) -> core_schema.CoreSchema:
    """Return the schema of a class; an instance is taken as it is, and its JSON only if it can be read."""
    # So money is exact here too, and the payment code is masked in the output.

    def validated(value: object) -> _Value:
        if isinstance(value, kind):
            return value
        if read is None or not isinstance(value, Mapping):
            message = f"must be a {kind.__name__}" if read is None else "a transaction is an object of its fields"
            raise ValueError(message)
        return read(cast("Mapping[str, Any]", value))

    return core_schema.no_info_plain_validator_function(
        validated,
        ref=f"{kind.__module__}.{kind.__qualname__}",
        json_schema_input_schema=shape,
        serialization=core_schema.plain_serializer_function_ser_schema(write, return_schema=shape),
    )


def _object(name: str, fields: dict[str, core_schema.TypedDictField]) -> core_schema.CoreSchema:
    return core_schema.typed_dict_schema(fields, cls_name=name, config=core_schema.CoreConfig(title=name))


def _field(name: str) -> core_schema.TypedDictField:
    value = core_schema.str_schema() if DOCUMENTED[name] is str else core_schema.int_schema()
    is_required = name in REQUIRED
    return core_schema.typed_dict_field(
        value if is_required else core_schema.nullable_schema(value), required=is_required
    )

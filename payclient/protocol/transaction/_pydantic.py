"""The pydantic core schema of `Transaction`, also used by FastAPI."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from pydantic_core import core_schema

from payclient.protocol.transaction._codec import DOCUMENTED, REQUIRED

_Transaction = TypeVar("_Transaction")


def transaction_schema(
    kind: type[_Transaction], *, read: Callable[[Mapping[str, Any]], _Transaction], write: Callable[..., object]
) -> core_schema.CoreSchema:
    # So money is exact here too, and the payment code is masked in the output.
    shape = core_schema.typed_dict_schema(
        {name: _field(name) for name in DOCUMENTED},
        cls_name=kind.__name__,
        config=core_schema.CoreConfig(title=kind.__name__),
    )

    def validated(value: object) -> _Transaction:
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            message = "a transaction is an object of its fields"
            raise ValueError(message)  # noqa: TRY004  pydantic makes its own error of it
        return read(cast("Mapping[str, Any]", value))

    return core_schema.no_info_plain_validator_function(
        validated,
        ref=f"{kind.__module__}.{kind.__qualname__}",
        json_schema_input_schema=shape,
        serialization=core_schema.plain_serializer_function_ser_schema(write, return_schema=shape),
    )


def _field(name: str) -> core_schema.TypedDictField:
    value = core_schema.str_schema() if DOCUMENTED[name] is str else core_schema.int_schema()
    is_required = name in REQUIRED
    return core_schema.typed_dict_field(
        value if is_required else core_schema.nullable_schema(value), required=is_required
    )

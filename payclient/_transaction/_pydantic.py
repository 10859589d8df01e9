"""What pydantic, and FastAPI with it, needs to know of a transaction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import core_schema

from payclient._transaction._codec import DOCUMENTED, REQUIRED

if TYPE_CHECKING:
    from payclient._transaction._model import Transaction

_DESCRIPTION = r"^\s+{}: (.+?)(?=^\s+\w+: |^\s*$)"


def transaction_schema(kind: type[Transaction]) -> core_schema.CoreSchema:
    """
    Return the schema of *kind*: read by `from_json`, written by `as_json`.

    Note:
        So money is exact here too, and the payment code is masked in what is written.
    """
    shape = core_schema.typed_dict_schema(
        {name: _field(kind, name) for name in DOCUMENTED},
        cls_name=kind.__name__,
        config=core_schema.CoreConfig(title=kind.__name__),
    )

    def read(value: object) -> Transaction:
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            message = "a transaction is an object of its fields"
            raise ValueError(message)  # noqa: TRY004  pydantic makes its own error of it
        return kind.from_json(cast("Mapping[str, Any]", value))

    return core_schema.no_info_plain_validator_function(
        read,
        ref=f"{kind.__module__}.{kind.__qualname__}",
        json_schema_input_schema=shape,
        serialization=core_schema.plain_serializer_function_ser_schema(kind.as_json, return_schema=shape),
    )


def _field(kind: type[Transaction], name: str) -> core_schema.TypedDictField:
    value = core_schema.str_schema() if DOCUMENTED[name] is str else core_schema.int_schema()
    is_required = name in REQUIRED
    match = re.search(_DESCRIPTION.format(name), kind.__doc__ or "", re.MULTILINE | re.DOTALL)
    description = {"description": " ".join(match[1].split())} if match else {}
    return core_schema.typed_dict_field(
        value if is_required else core_schema.nullable_schema(value),
        required=is_required,
        metadata={"pydantic_js_updates": description},
    )

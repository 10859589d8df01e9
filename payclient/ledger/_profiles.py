"""The profiles that come with the package: how well-known programs and services write a ledger."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from attrs import frozen

from payclient.protocol import EMPTY


@frozen(kw_only=True)
class Profile:
    """
    How one program or service writes a ledger.

    Attributes:
        name: What users call it.
        about: The program or service, in a few words.
        dialect: What it declares, by the name of the attribute of `Dialect`.
        columns: The names of its columns, by field, most specific first.
        ignore_columns: Columns that are left unused, although they look like money or like a field.
        kind: The column that says what a line is, and its words, as the rule `[lines.kind]` has them.
        statuses: The meaning of its status words, as the rule `[statuses]` has it.
    """

    name: str
    about: str
    dialect: Mapping[str, Any] = EMPTY
    columns: Mapping[str, Sequence[str]] = EMPTY
    ignore_columns: Sequence[str] = ()
    kind: Mapping[str, Any] = EMPTY
    statuses: Mapping[str, str] = EMPTY


@cache
def profiles() -> Mapping[str, Profile]:
    """Return each profile by its name."""
    tables = tomllib.loads(Path(__file__).with_name("profiles.toml").read_text(encoding="utf-8"))
    return MappingProxyType({name: Profile(name=name, **table) for name, table in tables.items()})

"""Load the public names of a package at their first use."""

from __future__ import annotations

import sys

TYPE_CHECKING: bool = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def load_at_first_use(
    package: str,
    home: Mapping[str, tuple[str, ...]],
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of *package*."""
    # PEP 562.
    modules = {name: module for module, names in home.items() for name in names}

    def get(name: str) -> object:
        if name not in modules:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        from importlib import import_module  # noqa: PLC0415  not before it is needed

        return getattr(import_module(modules[name]), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, names

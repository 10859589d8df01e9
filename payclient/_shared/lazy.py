"""Load the public names of a package at their first use, and keep them."""

from __future__ import annotations

import sys

TYPE_CHECKING: bool = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def load_at_first_use(
    package: str, home: Mapping[str, tuple[str, ...]], rooms: tuple[str, ...] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of *package*. A name without a home is searched in *rooms*."""
    # PEP 562.
    modules = {name: module for module, names in home.items() for name in names}

    def get(name: str) -> object:
        from importlib import import_module  # noqa: PLC0415  not before it is needed

        of_package = vars(sys.modules[package])
        if name in modules:
            return of_package.setdefault(name, getattr(import_module(modules[name]), name))
        for room in () if name.startswith("_") else rooms:
            module = import_module(f"{package}.{room}")
            if name in vars(module):
                value = vars(module)[name]
                is_defined = name in module.__annotations__ or getattr(value, "__module__", None) == module.__name__
                if hasattr(module, "__path__") or is_defined:  # a package offers what it imports, too
                    return of_package.setdefault(name, value)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        of_package = vars(sys.modules[package])
        return sorted({*of_package, *of_package.get("__all__", ()), *modules})

    return get, names

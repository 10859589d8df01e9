"""Load the public names of a package at their first use, and keep them."""

from __future__ import annotations

import sys

TYPE_CHECKING: bool = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType


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
            if name in vars(module) and _is_of(module, name):
                return of_package.setdefault(name, vars(module)[name])
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        of_package = vars(sys.modules[package])
        return sorted({*of_package, *of_package.get("__all__", ()), *modules})

    return get, names


def _is_of(module: ModuleType, name: str) -> bool:
    """Return whether *module* is a package, which imports what it offers, or defines *name* itself."""
    is_defined = getattr(vars(module)[name], "__module__", None) == module.__name__
    return hasattr(module, "__path__") or name in module.__annotations__ or is_defined

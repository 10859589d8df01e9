"""Load the public names of a package at their first use, and keep them."""

from __future__ import annotations

import sys

TYPE_CHECKING: bool = False
if TYPE_CHECKING:
    from collections.abc import Callable


def load_at_first_use(
    package: str, *rooms: str, is_internal: bool = False
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of *package*. *rooms* have its names: the public ones, or all."""
    # PEP 562.

    def get(name: str) -> object:
        from importlib import import_module  # noqa: PLC0415  not before it is needed

        of_package = vars(sys.modules[package])
        is_public = name in of_package.get("__all__", ())
        for room in rooms if is_public or (is_internal and not name.startswith("_")) else ():
            module = import_module(f"{package}.{room}")
            if hasattr(module, name):
                value = getattr(module, name)
                is_defined = name in module.__annotations__ or getattr(value, "__module__", None) == module.__name__
                if hasattr(module, "__path__") or is_defined:  # a package offers what it imports, too
                    return of_package.setdefault(name, value)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        of_package = vars(sys.modules[package])
        return sorted({*of_package, *of_package.get("__all__", ())})

    return get, names

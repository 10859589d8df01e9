"""The version of the installed package, and the extra that a missing module is from."""

from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import version

__version__: str = version("payclient")


@contextmanager
def from_extra(extra: str, needs: str) -> Generator[None]:
    """Name the *extra* to install if a module is missing that the block imports. *needs* is who needs what."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(f"{needs}: pip install 'payclient[{extra}]'", name=missing.name) from missing

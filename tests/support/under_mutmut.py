"""
What mutmut needs of the tests that it runs, as the pytest plugin `-p support.under_mutmut`.

mutmut sets a context variable in each function that it traces. Before Python 3.12 the interpreter crashes when a
collection that begins inside of `ContextVar.set` runs code that sets one too (python/cpython#148891): there is none.
It also names the tests to run on pytest's command line, where a name with a backslash does not find its test.
"""

import gc
from zlib import crc32


def pytest_runtestloop():
    """Switch the garbage collector off, before the first test."""
    gc.disable()


def pytest_make_parametrize_id(val):
    """Name a text with a backslash, or an escape in its place, by its checksum."""
    if isinstance(val, str) and not (val.isascii() and val.isprintable() and "\\" not in val):
        return f"text-{crc32(val.encode(errors='surrogatepass')):08x}"
    return None

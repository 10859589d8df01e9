"""
Switch the garbage collector off, as the pytest plugin `-p support.without_gc`.

mutmut sets a context variable in each function that it traces. Before Python 3.12 the interpreter crashes when a
collection that begins inside of `ContextVar.set` runs code that sets one too (python/cpython#148891).
"""

import gc

gc.disable()

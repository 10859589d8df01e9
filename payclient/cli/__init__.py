"""
The command `payclient` (extra `cli`): arguments in, text and an exit status out.

It has no API of its own: what it does, `payclient`, `payclient.reconcile` and `payclient.testing` do.
"""

from payclient.cli._main import main

__all__ = ["main"]

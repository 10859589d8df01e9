"""
Internal: the command `payclient` (extra `cli`): arguments in, text and an exit status out.

It has no API: use `payclient`, `payclient.reconcile` and `payclient.testing` from Python.
"""

from payclient.cli._main import main as main

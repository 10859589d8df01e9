"""
Internal: the command `payclient` (extra `cli`): arguments in, text and an exit status out.

From Python, use `payclient`, `payclient.reconcile` and `payclient.testing` instead.
"""

from payclient.cli._main import main as main

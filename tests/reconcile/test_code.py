"""A code states all that is known about it, and nothing about it stands elsewhere."""

from __future__ import annotations

from payclient.ledger import COMPARED
from payclient.reconcile import Code
from payclient.reconcile.result._patterns import _CAUSES


def test_total():
    """Each code has a label of its own, advice, and fields unless it is a remark; its pattern can be looked for."""
    wrong = {
        code.value
        for code in Code
        if not code.label
        or not code.advice.endswith((".", "?"))
        or bool(code.fields) is code.is_soft
        or not set(code.fields) <= set(COMPARED)
        or (code.pattern is not None and code.pattern not in _CAUSES)
        or (code.is_of_status and not code.pattern)
    }
    assert wrong == set()
    assert len({code.label for code in Code}) == len(Code)

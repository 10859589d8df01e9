"""A code states all that is known about it, and nothing about it stands elsewhere."""

import re
from pathlib import Path

from payclient.reconcile import Bucket, Code, Finding, Row
from payclient.reconcile._judgement.causes import causes
from payclient.reconcile._judgement.codes import OF_TEXTS
from payclient.reconcile.ledger import COMPARED, Entry

_ROOT = Path(__file__).parents[2]


def _named_in(*patterns):
    """Return the codes that the modules of *patterns* name."""
    modules = (module for pattern in patterns for module in _ROOT.glob(pattern))
    text = "\n".join(module.read_text(encoding="utf-8") for module in modules)
    return {code for code in Code if re.search(rf'\bCode\.{code.name}\b|"{code}"', text)}


def _break(code):
    finding = Finding(code, "", ledger=2, service=3, leakage=1)
    return Row(entry=Entry(line=2, reference="A"), bucket=Bucket.BREAK, findings=(finding,))


def test_total():
    """Each code has a label of its own, advice, and fields unless it is a remark; its pattern can be looked for."""
    wrong = {
        code.value
        for code in Code
        if not code.label
        or not code.advice.endswith((".", "?"))
        or bool(code.fields) is code.is_soft
        or not set(code.fields) <= set(COMPARED)
        or (code.pattern is not None) is not any(causes(_break(code)))
        or (code.is_of_status and not code.pattern)
    }
    assert wrong == set()
    assert len({code.label for code in Code}) == len(Code)


def test_used():
    """Each code is found by a rule of the judgement, or is about a text, and by a test of it."""
    judging = (f"payclient/reconcile/_judgement/{name}.py" for name in ("compare", "judge", "records"))
    assert set(Code) - _named_in(*judging) - {*OF_TEXTS.values()} == set()
    assert set(Code) - _named_in("tests/reconcile/*.py") == set()

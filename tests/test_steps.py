"""What one lookup and one row cost, as a number of calls, which is the same on a busy machine."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

TESTS = Path(__file__).parent
pytestmark = pytest.mark.skipif(
    sys.implementation.name != "cpython" or sys.version_info[:2] != (3, 11),
    reason="other versions of Python make other calls: since 3.12, a comprehension is none",
)


@pytest.mark.parametrize(
    "name",
    [
        "above the transport",
        "fast",
        pytest.param(
            "httpx",
            marks=pytest.mark.skipif(
                getattr(httpx, "__version__", "")[:5] != "0.28.", reason="other versions of httpx make other calls"
            ),
        ),
        "a row of ledger",
        "a row of reconcile",
        "a row of report",
    ],
)
def test_goal(name):
    """A lookup or row makes no more calls than its goal allows; else the modules that make more are named."""
    # In a process of its own: a tool that other tests have imported, or a logger that they have set, would count.
    program = f"import sys; from bench import steps; sys.exit(not steps.check({name!r}))"
    path = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run([sys.executable, "-c", program], env=path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

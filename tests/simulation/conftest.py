"""What the simulated runs of a module leave to the garbage collector."""

import gc
import sys

import pytest


@pytest.fixture(scope="module", autouse=True)
def _killed_runs():
    """Finalise the coroutines of processes that were killed in a simulation: they end in a loop that is closed."""
    yield
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda _: None)
        gc.collect()

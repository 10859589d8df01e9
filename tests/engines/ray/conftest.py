"""One Ray of this machine for all of its tests."""

import os
import sys
from pathlib import Path

import pytest

from payclient.testing import FakeService

TESTS = Path(__file__).parents[2]


def start(ray, attempts=4):
    """Start Ray, again where it was not up within its 30 s: those are for an idle machine, and cannot be set."""
    try:
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # that is its class
        if attempts == 1 or "timed out during startup" not in str(error):
            raise
        ray.shutdown()
        start(ray, attempts - 1)


@pytest.fixture(scope="session")
def ray():
    import ray  # noqa: PLC0415  only the session ray installs it
    import ray.data  # noqa: PLC0415  the same

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAYCLIENT_API_KEY", FakeService().api_key)  # workers inherit it from the node, and that from here
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")  # it kills workers when other programs fill the memory
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        patch.setenv("RAY_NUM_REDIS_GET_RETRIES", "300")  # seconds to wait for its store
        start(ray)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        yield ray
        ray.shutdown()

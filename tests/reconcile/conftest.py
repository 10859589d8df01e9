"""The service and the clock of a reconciliation, as fixtures."""

from __future__ import annotations

import pytest

from reconciling import Clock, Service


@pytest.fixture(scope="session")
def service_of():
    return Service


@pytest.fixture(scope="session")
def clock_from():
    return Clock

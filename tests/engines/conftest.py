"""What the tests of the engines share: residents above a scripted transport, which end with their test."""

from __future__ import annotations

import pytest

from fakes import ScriptedTransport, client
from payclient.engines._resident import Resident


@pytest.fixture
def transport():
    return ScriptedTransport()


@pytest.fixture
def residents():
    """Give what makes a resident of a transport, and end each."""
    made = []

    def make(transport, *, loop=None, **options):
        made.append(Resident(client(transport, **options), loop))
        return made[-1]

    yield make
    for resident in made:
        resident.close()


@pytest.fixture
def resident(residents, transport):
    return residents(transport)

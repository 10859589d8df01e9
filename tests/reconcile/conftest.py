"""What several tests of the reconciliation need."""

import pytest

from support.nights import Nights


@pytest.fixture
def night(tmp_path):
    """Give what runs one night after the other."""
    return Nights(tmp_path)

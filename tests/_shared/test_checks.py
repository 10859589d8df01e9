"""Checks of counts and seconds."""

import math

import pytest

from payclient import ConfigurationError
from payclient._shared.checks import check_count, check_seconds


@pytest.mark.parametrize("given", [1, 64, 10**6], ids=str)
def test_count(given):
    """A count is any integer from 1."""
    assert check_count("max_concurrency", given) == given


def test_no_count(subtests):
    """A count is an integer of at least 1; the message names the option and what was given."""
    for given in (0, -1, True, 1.0, "3", None):
        with subtests.test(given=given):
            with pytest.raises(ConfigurationError) as caught:
                check_count("workers", given)
            assert str(caught.value) == f"workers must be an integer of at least 1, got {given!r}"


def test_no_seconds(subtests):
    """Seconds are a finite number above 0; the message names the option and what was given."""
    for given in (0, -1.0, True, math.nan, math.inf, "3", None):
        with subtests.test(given=given):
            with pytest.raises(ConfigurationError) as caught:
                check_seconds("timeout", given)
            assert str(caught.value) == f"timeout must be a number of seconds above 0, got {given!r}"

"""How laws are tried: the same few examples in a quick run, more in a full one, and many new ones in a thorough one."""

from hypothesis import HealthCheck, settings

QUICK, FULL, THOROUGH = "quick", "full", "thorough"
TIMES = {QUICK: 0.5, FULL: 1, THOROUGH: 10}

# No wall time in a verdict: a busy machine is slow, and the first text drawn on a new one reads all of Unicode.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile(QUICK, _COMMON, max_examples=50, derandomize=True, database=None)
settings.register_profile(FULL, _COMMON, max_examples=100, derandomize=True, database=None)
settings.register_profile(THOROUGH, _COMMON, max_examples=1000, derandomize=False)


def examples(count):
    """Try a law with *count* examples; with half as many in a quick run, and ten times as many in a thorough run."""
    return settings(max_examples=round(count * TIMES[settings.get_current_profile_name()]))

"""A day of a shop and its finance team on one client: whoever can be answered is, in every trouble and after it."""

import pytest

from support.day import play

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("load", [0.15, 0.7])
@pytest.mark.parametrize(
    ("scale", "rows", "seed"),
    [
        (0.2, 2_000, 1),
        (0.2, 2_000, 12),
        *(pytest.param(1.0, 20_000, seed, marks=pytest.mark.slow) for seed in (1, 2, 3)),
    ],
)
async def test_day(load, scale, rows, seed):
    """Visitors are answered beside a stream, waits and callbacks, and few requests are above the limit."""
    day = await play(load=load, rows=rows, scale=scale, seed=seed)
    answered = {f"{since:g}": day.answered(since, until) for since, until in day.quiet()}
    assert min(answered.values()) >= 0.97, answered  # of eighty in a short one, two may miss by chance
    within = {each.name: day.answered(each.begins, each.ends) for each in day.troubles if each.can_answer}
    assert min(within.values()) >= 0.8, within
    assert max(day.waits) < 60.0
    assert day.found == rows
    assert day.above / day.requests <= 0.03

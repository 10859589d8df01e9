"""Progress tells what is done, what is left and what holds it up, in one line."""

import asyncio
import io

import attrs
import pytest

from payclient import Stats
from payclient.cli._process import Streams
from payclient.cli._reconcile import progress_line, shown
from payclient.reconcile import Phase, Progress

READING = Progress(phase=Phase.READING, done=1200, total=None, differences=0, differences_amount=0, unresolved=0)
ASKING = attrs.evolve(READING, phase=Phase.ASKING, total=10000)
QUIET = Stats(lookups=0, attempts=0, retries=0, throttled=0, in_flight=4, limit=4.0, paused_seconds=0.0)


def test_line(subtests):
    """The line has what is known, and nothing that is not."""
    for progress, stats, rate, line in [
        (READING, QUIET, 0.0, "reading 1,200"),
        (ASKING, QUIET, 0.0, "asking 1,200/10,000; 4 in flight"),
        (ASKING, QUIET, 88.0, "asking 1,200/10,000; 88/s; 0:01:40 left; 4 in flight"),
        (
            attrs.evolve(ASKING, phase=Phase.CONFIRMING, differences=3, differences_amount=45000),
            QUIET,
            0.0,
            "confirming 1,200/10,000; 3 differ (45,000); 4 in flight",
        ),
        (
            attrs.evolve(ASKING, unresolved=2),
            attrs.evolve(QUIET, paused_seconds=39.7, retries=7, throttled=1500),
            0.0,
            "asking 1,200/10,000; paused 40 s by the service; 4 in flight; 2 unresolved; retries 7; 1,500 throttled",
        ),
        (attrs.evolve(ASKING, phase=Phase.JUDGING), QUIET, 88.0, "judging 1,200/10,000"),
        (
            attrs.evolve(ASKING, waiting="to ask 'T9'"),
            QUIET,
            0.0,
            "asking 1,200/10,000; waiting to ask 'T9'; 4 in flight",
        ),
    ]:
        with subtests.test(progress=progress):
            assert progress_line(progress, stats, rate) == line


def test_silence(subtests):
    """After five seconds without an answer the line says so, why, and when the run ends."""
    down, retrying = attrs.evolve(QUIET, last_failure="ServiceError: down"), attrs.evolve(ASKING, waiting="to retry")
    paused = attrs.evolve(QUIET, paused_seconds=40.0)
    silence = "no answer for 12 s (gives up after 15m)"
    for progress, stats, silent, line in [
        (ASKING, down, 4.9, "asking 1,200/10,000; 4 in flight"),
        (ASKING, down, 12.0, f"asking 1,200/10,000; {silence}: ServiceError: down; 4 in flight"),
        (retrying, down, 12.0, f"asking 1,200/10,000; {silence}: ServiceError: down; 4 in flight"),
        (retrying, QUIET, 12.0, "asking 1,200/10,000; waiting to retry; 4 in flight"),  # the service answers others
        (ASKING, QUIET, 12.0, f"asking 1,200/10,000; {silence}; 4 in flight"),  # nothing was heard
        (ASKING, paused, 12.0, "asking 1,200/10,000; paused 40 s by the service; 4 in flight"),
        (READING, down, 12.0, "reading 1,200"),
    ]:
        with subtests.test(progress=progress, stats=stats, silent=silent):
            assert progress_line(progress, stats, 0.0, silent) == line


async def run(stream, *, seconds=25, before=0):
    streams = Streams(stdin=io.BytesIO(), stdout=io.StringIO(), stderr=stream)
    async with shown(streams, lambda: QUIET) as on_progress:
        on_progress(attrs.evolve(READING, done=before + 7000))  # another phase, which does not count for this one
        on_progress(attrs.evolve(ASKING, done=before))
        await asyncio.sleep(1)
        on_progress(attrs.evolve(ASKING, done=before + 1000))
        await asyncio.sleep(seconds - 1)
    return stream.getvalue()


@pytest.mark.virtual_time
async def test_plain():
    """Without a terminal there is a new line every ten seconds; what an earlier run had done makes no rate."""
    resumed = await run(io.StringIO(), seconds=12, before=5000)
    assert resumed == "asking 6,000/10,000; no answer for 9 s (gives up after 15m); 100/s; 0:00:40 left; 4 in flight\n"
    assert await run(io.StringIO()) == (
        "asking 1,000/10,000; no answer for 9 s (gives up after 15m); 100/s; 0:01:30 left; 4 in flight\n"
        "asking 1,000/10,000; no answer for 19 s (gives up after 15m); 50/s; 0:03:00 left; 4 in flight\n"
    )


@pytest.mark.virtual_time
async def test_live(terminal, monkeypatch):
    """On a terminal that can, the line is rewritten, and gone in the end."""
    text = await run(terminal)
    assert (text.count("asking") > 100, text.endswith("\x1b[2K")) == (True, True)
    before = terminal.getvalue()
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in (await run(terminal)).removeprefix(before)


@pytest.mark.virtual_time
async def test_nothing_left():
    """No task is left behind, also when the block ends by an exception."""
    with pytest.raises(LookupError):
        async with shown(Streams(stdin=None, stdout=None, stderr=io.StringIO()), lambda: QUIET):
            raise LookupError
    assert asyncio.all_tasks() == {asyncio.current_task()}

"""Progress tells what is done, what is left and what holds it up, in one line."""

from __future__ import annotations

import asyncio
import io
import re

import attrs
import pytest

from payclient import Stats
from payclient.cli._progress import Meter, ProgressMode, duration, fitted, progress_line, shown
from payclient.cli._streams import Streams
from payclient.reconcile import Phase, Progress

READING = Progress(phase=Phase.READING, done=1200, total=None, differences=0, differences_amount=0, unresolved=0)
ASKING = attrs.evolve(READING, phase=Phase.ASKING, total=10000)
QUIET = Stats(lookups=0, attempts=0, retries=0, throttled=0, in_flight=4, limit=4.0, paused_seconds=0.0)


def test_line(subtests):
    """The line has what is known, and nothing that is not."""
    for progress, stats, rate, line in [
        (READING, QUIET, 0.0, "reading 1,200"),
        (ASKING, QUIET, 0.0, "asking 1,200/10,000; 4 in flight"),
        (ASKING, QUIET, 88.0, "asking 1,200/10,000; 88/s; 1 min 40 s left; 4 in flight"),
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
            "asking 1,200/10,000; paused 40 s by the service; 4 in flight; 2 unresolved; 7 retries; 1,500 throttled",
        ),
        (attrs.evolve(ASKING, phase=Phase.JUDGING), QUIET, 88.0, "judging 1,200/10,000"),
    ]:
        with subtests.test(progress=progress):
            assert progress_line(progress, stats, rate) == line


def test_duration(subtests):
    """A duration is said in its two largest units."""
    for seconds, text in [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (3599.9, "1 h 0 min"),
        (7500, "2 h 5 min"),
    ]:
        with subtests.test(seconds=seconds):
            assert duration(seconds) == text


def test_rate():
    """The rate is that of the last seconds, so that it falls when nothing goes on."""
    meter = Meter()
    meter.begin(0.0)
    rates = [meter.rate(done, now) for now, done in ((1.0, 100), (10.0, 1000), (20.0, 1000), (30.0, 1000))]
    assert rates == [100.0, 100.0, pytest.approx(900 / 19), 0.0]


def test_rate_after_resume():
    """The rate is of what this process did, and not of what an earlier run had done."""
    meter = Meter()
    meter.begin(0.0, 200_000)
    assert meter.rate(200_100, 1.0) == 100.0


def test_waiting():
    """What holds a run up is said before anything that may be cut off."""
    line = progress_line(attrs.evolve(ASKING, waiting="to ask 'T9' again (ServiceError)"), QUIET, 0.0)
    assert line == "asking 1,200/10,000; waiting to ask 'T9' again (ServiceError); 4 in flight"


@pytest.mark.parametrize(
    ("width", "shown"),
    [(80, "asking 1/9; 5/s; 4 in flight"), (27, "asking 1/9; 5/s"), (12, "asking 1/9"), (3, "asking 1/9")],
)
def test_fitted(width, shown):
    """A line that is too long loses whole parts from its end."""
    assert fitted("asking 1/9; 5/s; 4 in flight", width) == shown


def test_first_rate():
    """Before any time has passed there is no rate."""
    meter = Meter()
    meter.begin(5.0)
    assert meter.rate(10, 5.0) == 0.0


async def run(mode, stream, *, seconds=25, before=0):
    streams = Streams(stdin=io.BytesIO(), stdout=io.StringIO(), stderr=stream)
    async with shown(mode, streams, lambda: QUIET) as on_progress:
        on_progress(attrs.evolve(ASKING, done=before))
        await asyncio.sleep(1)
        on_progress(attrs.evolve(ASKING, done=before + 1000))
        await asyncio.sleep(seconds - 1)
    return stream.getvalue()


@pytest.mark.virtual_time
@pytest.mark.parametrize("mode", [ProgressMode.PLAIN, ProgressMode.AUTO])
async def test_plain(mode):
    """Without a terminal there is a new line every ten seconds."""
    assert await run(mode, io.StringIO()) == (
        "asking 1,000/10,000; 100/s; 1 min 30 s left; 4 in flight\n"
        "asking 1,000/10,000; 50/s; 3 min 0 s left; 4 in flight\n"
    )


@pytest.mark.virtual_time
async def test_resumed():
    """What an earlier run had done when this one began does not count for the rate."""
    assert "; 100/s; " in await run(ProgressMode.PLAIN, io.StringIO(), seconds=15, before=5000)


@pytest.mark.virtual_time
async def test_forced():
    """Live progress that is asked for is shown even where it does not look like a terminal."""
    assert (await run(ProgressMode.LIVE, io.StringIO())).count("asking") > 100


@pytest.mark.virtual_time
@pytest.mark.parametrize("mode", [ProgressMode.LIVE, ProgressMode.AUTO])
async def test_live(terminal, mode):
    """On a terminal the line is rewritten several times a second, and gone in the end."""
    text = await run(mode, terminal)
    assert (text.count("asking") > 100, text.endswith("\x1b[2K")) == (True, True)


@pytest.mark.virtual_time
async def test_dumb_terminal(terminal, monkeypatch):
    """A terminal that cannot rewrite gets plain lines."""
    monkeypatch.setenv("TERM", "dumb")
    assert (await run(ProgressMode.AUTO, terminal)).count("\x1b") == 0


@pytest.mark.virtual_time
async def test_none(terminal):
    """Nothing is shown when nothing is wanted."""
    assert await run(ProgressMode.NONE, terminal) == ""


@pytest.mark.virtual_time
async def test_narrow(terminal, monkeypatch):
    """On a narrow terminal the line ends between two parts, and never inside a word."""
    monkeypatch.setenv("COLUMNS", "30")
    lines = re.findall("asking[^\r\n\x1b]*", await run(ProgressMode.LIVE, terminal))
    whole = r"asking [\d,]+/10,000(; [\d,]+/s)?(; [\dhmins ]+ left)?(; 4 in flight)?"
    assert [line for line in lines if not re.fullmatch(whole, line.rstrip())] == []


@pytest.mark.virtual_time
async def test_nothing_left():
    """No task is left behind, also when the block ends by an exception."""
    with pytest.raises(LookupError):
        async with shown(ProgressMode.PLAIN, Streams(stdin=None, stdout=None, stderr=io.StringIO()), lambda: QUIET):
            raise LookupError
    assert asyncio.all_tasks() == {asyncio.current_task()}

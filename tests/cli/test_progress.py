"""Progress tells what is done, what is left and what holds it up, in one line."""

import asyncio
import io
import re

import attrs
import pytest

from payclient import Stats
from payclient.cli._progress import Meter, ProgressMode, duration, fitted, progress_line, shown
from payclient.cli._streams import Streams
from payclient.reconcile import Phase, Progress
from support.misses import check_each

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
        (
            attrs.evolve(ASKING, waiting="to ask 'T9'"),
            QUIET,
            0.0,
            "asking 1,200/10,000; waiting to ask 'T9'; 4 in flight",
        ),
    ]:
        with subtests.test(progress=progress):
            assert progress_line(progress, stats, rate) == line


def test_duration():
    """A duration is said in its two largest units."""
    texts = {0.4: "0 s", 59.4: "59 s", 59.6: "1 min 0 s", 3599.9: "1 h 0 min", 7500: "2 h 5 min"}
    check_each(texts, duration)


def test_rate():
    """The rate is that of the last seconds of this process, and none before any time has passed."""
    meter = Meter()
    meter.begin(0.0, 200_000)
    done = ((0.0, 0), (1.0, 100), (10.0, 1000), (20.0, 1000), (30.0, 1000))
    rates = [meter.rate(200_000 + count, now) for now, count in done]
    assert rates == [0.0, 100.0, 100.0, pytest.approx(900 / 19), 0.0]


def test_fitted():
    """A line that is too long loses whole parts from its end."""
    line = "asking 1/9; 5/s; 4 in flight"
    check_each({80: line, 27: "asking 1/9; 5/s", 12: "asking 1/9", 3: "asking 1/9"}, lambda width: fitted(line, width))


async def run(mode, stream, *, seconds=25, before=0):
    streams = Streams(stdin=io.BytesIO(), stdout=io.StringIO(), stderr=stream)
    async with shown(mode, streams, lambda: QUIET) as on_progress:
        on_progress(attrs.evolve(READING, done=before + 7000))  # another phase, which does not count for this one
        on_progress(attrs.evolve(ASKING, done=before))
        await asyncio.sleep(1)
        on_progress(attrs.evolve(ASKING, done=before + 1000))
        await asyncio.sleep(seconds - 1)
    return stream.getvalue()


@pytest.mark.virtual_time
@pytest.mark.parametrize("mode", [ProgressMode.PLAIN, ProgressMode.AUTO])
async def test_plain(mode):
    """Without a terminal there is a new line every ten seconds; what an earlier run had done makes no rate."""
    resumed = await run(mode, io.StringIO(), seconds=12, before=5000)
    assert resumed == "asking 6,000/10,000; 100/s; 40 s left; 4 in flight\n"
    assert await run(mode, io.StringIO()) == (
        "asking 1,000/10,000; 100/s; 1 min 30 s left; 4 in flight\n"
        "asking 1,000/10,000; 50/s; 3 min 0 s left; 4 in flight\n"
    )


@pytest.mark.virtual_time
async def test_live(terminal, monkeypatch):
    """On a terminal that can, and where it is asked for, the line is rewritten, and gone in the end; or never there."""
    text = await run(ProgressMode.AUTO, terminal)
    assert (text.count("asking") > 100, text.endswith("\x1b[2K")) == (True, True)
    assert (await run(ProgressMode.LIVE, io.StringIO())).count("asking") > 100
    before = terminal.getvalue()
    assert (await run(ProgressMode.NONE, terminal)) == before
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in (await run(ProgressMode.AUTO, terminal)).removeprefix(before)


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

"""Tasks in other processes: done once, or again when their process died, and never for ever."""

import multiprocessing
import os
from contextlib import closing
from functools import partial

import pytest

from payclient import AuthenticationError
from payclient.engines._pool import WorkerLostError, run_in_processes
from support.pool_tasks import die, die_at_first, double, full, refuse

pytestmark = pytest.mark.skipif(os.name == "nt", reason="it kills processes, as POSIX does")


def test_each_once():
    """Each task is done once, by as many processes as were asked for, which do more than one each."""
    done = list(run_in_processes(double, range(20), processes=2))
    assert sorted((task, result[0]) for task, result in done) == [(n, 2 * n) for n in range(20)]
    assert len({pid for _, (_, pid) in done}) <= 2
    assert os.getpid() not in {pid for _, (_, pid) in done}


def test_nothing():
    """Without tasks no process is started."""
    assert list(run_in_processes(double, [], processes=2)) == []


@pytest.mark.slow
def test_killed(tmp_path):
    """A task whose process is killed is done by another process."""
    done = list(run_in_processes(partial(die_at_first, folder=tmp_path), range(3), processes=2))
    assert sorted(task for task, _ in done) == [0, 1, 2]


@pytest.mark.slow
def test_killer():
    """A task that kills its process each time is abandoned after three crashes, and the error says so."""
    with pytest.raises(
        WorkerLostError,
        match="1: its worker process died 3 times, the last time killed by signal 9",
    ):
        list(run_in_processes(partial(die, of=1), range(2), processes=1))


@pytest.mark.parametrize(("work", "error"), [(refuse, AuthenticationError), (full, OSError)])
def test_raised(work, error):
    """What the work raises comes out as it was, and ends the other processes."""
    with pytest.raises(error):
        list(run_in_processes(work, range(10), processes=2))
    assert multiprocessing.active_children() == []


def test_leaving_early():
    """Leaving early leaves no process behind."""
    with closing(run_in_processes(double, range(20), processes=2)) as done:
        next(done)
    assert multiprocessing.active_children() == []

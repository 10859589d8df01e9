"""
Processes of this machine that do one task each at a time; one that dies has its task done by another.

Made for work that may be done twice, and for workers that may be killed: who works, and on what, is known here alone.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Final, Generic, TypeVar, cast

from attrs import define, frozen

from payclient.errors import PayClientError

_MOST_DEATHS: Final = 3
_PATIENCE: Final = 5.0
"""Seconds that a worker without a task is given to close its connections."""

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class WorkerLostError(PayClientError):
    """A task ended its worker process several times; the message says which, and how."""


@define(eq=False)
class _Worker(Generic[_Task]):
    process: SpawnProcess
    pipe: Connection
    task: _Task | None = None

    def begin(self, task: _Task) -> None:
        self.task = task
        with suppress(OSError):  # it has died meanwhile, which the next look at its pipe will show
            self.pipe.send(task)


@frozen
class _Raised:
    error: Exception


def spread(
    work: Callable[[_Task], _Result], tasks: Iterable[_Task], *, processes: int
) -> Generator[tuple[_Task, _Result]]:
    """
    Do *tasks* in other processes.

    Args:
        work: Does one task; it, the tasks and the results are pickled. Each process is started afresh, so a program
            that calls this does so under `if __name__ == "__main__"`.
        tasks: Hashable.
        processes: How many at most.

    Shape:
        A pair per task, in the order in which they are done. Leaving early ends the processes.

    Raises:
        WorkerLostError: When a task has ended its process for the third time.
        PayClientError: What *work* raised first, or an `OSError`; the other tasks are given up.
    """
    waiting, deaths = deque(tasks), Counter[_Task]()
    workers: list[_Worker[_Task]] = []
    try:
        while waiting or any(worker.task is not None for worker in workers):
            for worker in workers:
                if worker.task is None and waiting:
                    worker.begin(waiting.popleft())
            while waiting and len(workers) < processes:
                workers.append(_start(work))
                workers[-1].begin(waiting.popleft())
            ready = wait([worker.pipe for worker in workers])
            for worker in [worker for worker in workers if worker.pipe in ready]:
                task, result = worker.task, _receive(worker)
                if result is None:
                    workers.remove(worker)
                    if task is not None:
                        _mourn(task, worker.process, deaths)
                        waiting.append(task)
                elif isinstance(result[0], _Raised):
                    raise result[0].error
                else:
                    worker.task = None
                    yield cast("_Task", task), result[0]
        _dismiss(workers)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()


def _start(work: Callable[[_Task], object]) -> _Worker[_Task]:
    context = multiprocessing.get_context("spawn")  # a fork would copy threads' locks, and a client that is not its own
    ours: Any
    theirs: Any  # of another class on Windows
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work), name="payclient-worker", daemon=True)
    process.start()
    theirs.close()  # or its end would not show in ours
    return _Worker(process, ours)


def _receive(worker: _Worker[Any]) -> tuple[Any] | None:
    """Return what came, in a tuple of one; None when the worker has died."""
    try:
        return (worker.pipe.recv(),)
    except (EOFError, OSError):
        worker.process.join()
        worker.pipe.close()
        return None


def _mourn(task: _Task, process: SpawnProcess, deaths: Counter[_Task]) -> None:
    deaths[task] += 1
    if deaths[task] < _MOST_DEATHS:
        return
    code = process.exitcode or 0
    how = f"killed by signal {-code}" if code < 0 else f"with exit status {code}"
    message = f"{task}: the process that worked on it ended {_MOST_DEATHS} times, lastly {how}; it is given up"
    raise WorkerLostError(message)


def _dismiss(workers: Iterable[_Worker[Any]]) -> None:
    for worker in workers:
        worker.pipe.close()
    for worker in workers:
        worker.process.join(_PATIENCE)


# In the other process


def _serve(pipe: Connection, work: Callable[[Any], Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the first process decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        try:
            result = work(task)
        except (PayClientError, OSError) as error:  # a bug ends the process instead, and shows where it is
            result = _Raised(error)
        pipe.send(result)


def _end_with_parent() -> None:
    """End at once when the first process is killed: nobody wants the rest, and it would go on asking the service."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)

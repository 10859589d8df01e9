"""
A pool of local processes with one task each; when a process dies, another does its task again.

For work that may be repeated, and workers that may be killed. Unlike `concurrent.futures`, a dead worker does not break
the pool.
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

_MAX_CRASHES: Final = 3
_SHUTDOWN_SECONDS: Final = 5.0
"""How long an idle worker may take to close its connections."""

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class WorkerLostError(PayClientError):
    """A task crashed its worker process several times; the message says which, and how."""


@define(eq=False)
class _Worker(Generic[_Task]):
    process: SpawnProcess
    pipe: Connection
    task: _Task | None = None

    def start(self, task: _Task) -> None:
        self.task = task
        with suppress(OSError):  # it has just died; the next read of its pipe shows that
            self.pipe.send(task)


@frozen
class _Raised:
    error: Exception


def run_in_processes(
    work: Callable[[_Task], _Result],
    tasks: Iterable[_Task],
    *,
    processes: int,
) -> Generator[tuple[_Task, _Result]]:
    """
    Do *tasks* in other processes.

    Args:
        work: Does one task; it, the tasks and the results are pickled. Processes are spawned, so a program must call
            this under `if __name__ == "__main__"`.
        tasks: Hashable.
        processes: The maximum number.

    Note:
        Yields a pair per task, in order of completion. Leaving early kills the processes.

    Raises:
        WorkerLostError: When a task has crashed its process for the third time.
        PayClientError: The first error of *work*, which may also be an `OSError`; the other tasks are abandoned.
    """
    waiting, crashes = deque(tasks), Counter[_Task]()
    workers: list[_Worker[_Task]] = []
    try:
        while waiting or any(worker.task is not None for worker in workers):
            for worker in workers:
                if worker.task is None and waiting:
                    worker.start(waiting.popleft())
            while waiting and len(workers) < processes:
                workers.append(_start(work))
                workers[-1].start(waiting.popleft())
            ready = wait([worker.pipe for worker in workers])
            for worker in [worker for worker in workers if worker.pipe in ready]:
                task, result = worker.task, _receive(worker)
                if result is None:
                    workers.remove(worker)
                    if task is not None:
                        _record_crash(task, worker.process, crashes)
                        waiting.append(task)
                elif isinstance(result[0], _Raised):
                    raise result[0].error
                else:
                    worker.task = None
                    yield cast("_Task", task), result[0]
        _shut_down(workers)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()


def _start(work: Callable[[_Task], object]) -> _Worker[_Task]:
    context = multiprocessing.get_context("spawn")  # a fork would copy the locks of threads, and the parent's clients
    ours: Any
    theirs: Any  # of another class on Windows
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work), name="payclient-worker", daemon=True)
    process.start()
    theirs.close()  # otherwise our end would not see it close
    return _Worker(process, ours)


def _receive(worker: _Worker[Any]) -> tuple[Any] | None:
    """Return the message, in a tuple of one; None when the worker has died."""
    try:
        return (worker.pipe.recv(),)
    except (EOFError, OSError):
        worker.process.join()
        worker.pipe.close()
        return None


def _record_crash(task: _Task, process: SpawnProcess, crashes: Counter[_Task]) -> None:
    crashes[task] += 1
    if crashes[task] < _MAX_CRASHES:
        return
    code = process.exitcode or 0
    how = f"killed by signal {-code}" if code < 0 else f"with exit status {code}"
    message = f"{task}: its worker process died {_MAX_CRASHES} times, the last time {how}; giving up"
    raise WorkerLostError(message)


def _shut_down(workers: Iterable[_Worker[Any]]) -> None:
    for worker in workers:
        worker.pipe.close()
    for worker in workers:
        worker.process.join(_SHUTDOWN_SECONDS)


# In the other process


def _serve(pipe: Connection, work: Callable[[Any], Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        try:
            result = work(task)
        except (PayClientError, OSError) as error:  # a bug crashes the process instead, with its traceback
            result = _Raised(error)
        pipe.send(result)


def _end_with_parent() -> None:
    """Exit at once when the parent is killed; otherwise this process would keep sending requests for nothing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)

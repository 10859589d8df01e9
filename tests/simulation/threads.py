"""
The workload of threads that share a blocking client.

One thread runs at a time: that of the event loop, or a caller's. They hand over where one waits for the other, and
some time after a caller has told the loop something, as if the system had taken the processor away.
"""

import asyncio
import concurrent.futures
import gc
import threading
from contextlib import ExitStack, suppress
from functools import partial
from unittest import mock

import payclient.blocking
from payclient import errors
from simulation import oracles
from simulation.workloads import HEALTHY


class _Caller(threading.Thread):
    """A thread that runs while it has the turn."""

    def __init__(self, threads, work):
        super().__init__(daemon=True)
        self._threads, self._work = threads, work
        self._turn = threading.Semaphore(0)
        self.is_over = self.is_interrupted = False
        self.error = None  # that has ended it
        self.start()

    def run(self):
        self._turn.acquire()
        try:
            self._work(self)
        except BaseException as error:  # noqa: BLE001  for the one who has started it
            self.error = error
        self.is_over = True
        self._threads.turn.release()

    def resume(self):
        """Run this thread until it waits or ends."""
        if not self.is_over:
            self._turn.release()
            self._threads.turn.acquire()

    def pause(self):
        """Let the event loop run, until this thread is resumed."""
        self._threads.turn.release()
        self._turn.acquire()
        if self.is_interrupted:
            self.is_interrupted = False
            self._threads.interrupted()
            raise KeyboardInterrupt

    def sleep(self, seconds):
        self._threads.later(self, seconds)
        self.pause()


class _Threads:
    """The callers, and the event loop that a blocking client takes for that of its own thread."""

    def __init__(self, world):
        self._world, self.turn = world, threading.Semaphore(0)
        self._due = []  # callers that run on when the loop has ended
        self._waiting = {}  # the caller that waits for each answer
        self._run = self.client = None
        self._interrupted_at = -1.0
        self.callers = []

    def patched(self):
        """Return a block in which a blocking client hands over to this."""
        threads = self

        class Answer(concurrent.futures.Future):
            def result(self, timeout=None):
                threads.wait_for(self)
                return super().result(timeout)

            def exception(self, timeout=None):
                threads.wait_for(self)
                return super().exception(timeout)

        class LoopThread:
            def __init__(self, *, target, **_):
                threads._run = target

            def start(self):
                """Do nothing: the loop runs when all callers are there."""

            join = start

        undo = ExitStack()
        for place, name, value in (
            (asyncio, "new_event_loop", lambda: self._world.loop),
            (payclient.blocking, "Future", Answer),
            (payclient.blocking, "Thread", LoopThread),
            (payclient.blocking, "_pass_on", partial(self._interrupt_before, payclient.blocking._pass_on)),
        ):
            undo.enter_context(mock.patch.object(place, name, value))
        self._world.loop.on_told, self._world.loop.on_ending = self._take_away, self._run_on
        return undo

    def later(self, caller, most):
        """Resume a caller, up to *most* seconds later; when the loop has ended, next."""
        self._due.append(caller)
        if not self._world.loop.is_closed():
            self._world.loop.call_later(most * self._world.chance.random(), self._resume, caller)

    def _resume(self, caller):
        if caller in self._due:
            self._due.remove(caller)
            caller.resume()

    def wait_for(self, answer):
        """Let the caller that runs wait for an answer."""
        caller = threading.current_thread()
        answer.add_done_callback(lambda _: self.later(caller, 0.01))
        self._waiting[answer] = caller
        try:
            while not answer.done():
                caller.pause()
        finally:
            self._waiting.pop(answer, None)  # several may wait for the end

    def _take_away(self):
        caller = threading.current_thread()
        if isinstance(caller, _Caller) and self._world.chance.random() < 0.5:
            caller.sleep(0.02)

    def _run_on(self):
        for caller in tuple(self._due):
            if self._world.chance.random() < 0.5:
                self._resume(caller)

    def _interrupt_before(self, pass_on, answer, task):
        """Interrupt some callers when their call has ended, and before they are told."""
        caller = self._waiting.get(answer)
        if caller is not None and self._world.has("cancel") and self._world.chance.random() < 0.2:
            caller.is_interrupted = True
            caller.resume()
        pass_on(answer, task)

    def start(self, work, spread=0.0):
        """Start a caller, up to *spread* seconds later."""
        self.callers.append(_Caller(self, work))
        self.later(self.callers[-1], spread)

    def interrupt(self, number):
        """Interrupt a caller that waits, as Ctrl-C does."""
        caller = self.callers[int(number) % len(self.callers)]
        if not caller.is_over:
            caller.is_interrupted = True
            self.later(caller, 0.0)
            self._check_soon()

    def interrupted(self):
        """Note that a call has no thread any more from now on; it has some time to end."""
        self._interrupted_at = self._world.loop.time()

    def _check_soon(self):
        loop = self._world.loop
        loop.call_later(1.0 + oracles.slack(self._world), self._check_left, loop.jumped)

    def _check_left(self, jumped):
        """Complain of calls in the loop that no thread waits for."""
        is_soon = self._world.loop.time() < self._interrupted_at + oracles.slack(self._world)
        if self._world.loop.jumped > jumped or is_soon:  # then they have had no time to end
            self._check_soon()
            return
        calls = sum(task.get_coro().__name__ == "_run" for task in asyncio.all_tasks(self._world.loop))
        if calls > len(self.client._thread._open):
            self._world.fail("left behind", f"{calls} calls, some of them of threads that were interrupted")

    def run(self):
        """Run the event loop until it ends, and then the callers until they end."""
        self._run()
        while self._due:
            self._resume(self._due[0])
        gc.collect()  # so that asyncio complains of what nobody has read
        for caller in self.callers:
            if not caller.is_over:
                self._world.fail("waits for ever", "a thread whose client is closed")
            elif caller.error is not None:
                self._world.fail("error", f"a thread raised {caller.error!r}")


def in_threads(world):
    """Call from many threads, some of which are interrupted; close the client under way, or at the end."""
    threads, references = _Threads(world), world.plan.references
    with threads.patched():
        client = threads.client = payclient.blocking.Client(world.make_client()[0])
        for number, reference in enumerate(references):
            ask = _ask_for_some if number % 4 == 3 else _ask
            threads.start(partial(ask, world, client, reference), world.plan.spread)
        threads.start(partial(_close_at_the_end, world, client, threads))
        world.schedule({"cancel": threads.interrupt, "close": lambda _: threads.start(partial(_close, world, client))})
        if world.plan.faults and world.chance.random() < 0.4:
            world.loop.call_later(world.plan.spread * world.chance.random(), _end_loop, world)
        threads.run()


def _ask(world, client, reference, _):
    with suppress(KeyboardInterrupt):
        _check(world, reference, lambda: client.get_transaction(reference))


def _ask_for_some(world, client, reference, _):
    def read():
        with client.stream_transactions([reference, "T50", "T51"]) as outcomes:
            for outcome in outcomes:
                oracles.check_answer(world, outcome.reference, getattr(outcome, "transaction", None) or outcome.error)

    with suppress(KeyboardInterrupt):
        _check(world, reference, read)


def _check(world, reference, call):
    """Return the answer of a call; None after the end of the client."""
    try:
        answer = call()
    except errors.ClientClosedError as error:
        if not world.is_closing:
            world.fail("error", f"ClientClosedError for {reference}: {error}")
        return None
    except errors.PayClientError as error:
        answer = error
    if answer is not None:
        oracles.check_answer(world, reference, answer)
    return answer


def _end_loop(world):
    world.is_closing = True
    raise SystemExit


def _close(world, client, _):
    world.is_closing = True
    with suppress(KeyboardInterrupt):
        client.close()


def _close_at_the_end(world, client, threads, caller):
    """Close the client when all others have ended, and it has answered once more without faults."""
    others = [each for each in threads.callers if each is not caller]
    with suppress(KeyboardInterrupt):
        while not (all(each.is_over for each in others) or world.is_closing):
            caller.sleep(5.0)
        world.calm()
        until, answer = world.loop.time() + HEALTHY, errors.OutageError("")
        while isinstance(answer, errors.PayClientError) and not world.is_closing and world.loop.time() < until:
            answer = _check(world, "T99", lambda: client.get_transaction("T99"))
            caller.sleep(2.0)
        if isinstance(answer, errors.PayClientError) and not world.is_closing:
            world.fail("recovers", f"T99 after all faults: {answer!r}")
    _close(world, client, caller)

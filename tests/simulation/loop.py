"""The event loop of a simulation: it draws which task runs next, and its clock moves when none can."""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
from collections import deque
from hashlib import blake2b

from support.virtual_time import JumpingSelector, VirtualTimeLoop

HORIZON = 12 * 3600.0
"""Virtual seconds after which a run has hung."""
MAX_TICKS = 2_000_000
"""Steps after which a run goes in circles."""


class StuckError(Exception):
    """Somebody waits, and nothing can ever wake them."""


class KilledError(Exception):
    """The simulated process has died: nothing of it runs any more."""


class _Selector(JumpingSelector):
    """Refuses to wait for the outside world: there is none."""

    def select(self, timeout=None):
        if timeout is None:
            message = f"nothing is left to happen at {self.loop.time():.3f} s"
            raise StuckError(message)
        if timeout > 0:
            self.loop.advance(timeout)
        return []


class _Ready(deque):
    """The ready queue, out of which the loop picks."""

    loop: SimulatedLoop

    def popleft(self):
        return self.loop.pick(self)


class Task(asyncio.Task):
    """A task with the same hash in each run, so that sets of tasks have the same order."""

    _numbers = itertools.count()

    def __init__(self, *arguments, **options):
        self._number = next(self._numbers)
        super().__init__(*arguments, **options)

    def __hash__(self):
        return self._number


def is_step(handle):
    """Say whether a handle goes on with a task, rather than calling back."""
    return isinstance(getattr(handle._callback, "__self__", None), asyncio.Task)


class SimulatedLoop(VirtualTimeLoop):
    """An event loop without an outside world."""

    # Callbacks keep their order among themselves, as asyncio promises. The steps of tasks do not: each may be as
    # late as the slowest machine makes it.

    def __init__(self, choose=None, tick=None):
        super().__init__(_Selector())
        self._ready = _Ready()
        self._ready.loop = self
        self._choose = choose
        self._tick = tick
        self._digest = blake2b(digest_size=8)
        self.network = None  # answers what asyncio asks the system: names, connections
        self.at_tick = {}  # functions to call before the step of that number
        self.ticks = 0  # steps run
        self.jumped = 0.0  # virtual seconds by which the clock was moved by `jump`
        self.jumped_at = float("-inf")  # the first time
        self.complaints = []
        self.on_told = lambda: None  # called when a thread has told the loop something
        self.on_ending = lambda: None  # called in the last steps of the loop
        self.lateness = None  # returns the seconds by which a timer of the client is late; None for no such timer
        Task._numbers = itertools.count()
        self.set_task_factory(lambda loop, work, **options: Task(work, loop=loop, **options))
        self.set_exception_handler(lambda _, context: self.complaints.append(context))

    def pick(self, ready):
        """Return the handle that runs next."""
        self.ticks += 1
        if self._tick is not None:
            self._now += self._tick()
        for act in self.at_tick.pop(self.ticks, ()):
            act()
        if self.ticks > MAX_TICKS or self._now > HORIZON:
            message = f"still busy after {self.ticks} steps and {self._now:.0f} virtual seconds"
            raise StuckError(message)
        number, count = 0, 1
        if self._choose is not None and len(ready) > 1:
            number, count = self._draw(ready)
        self._digest.update(struct.pack("<IId", number, count, self._now))
        return deque.popleft(ready) if number == 0 else self._take(ready, number)

    def _draw(self, ready):
        is_first_callback = True
        candidates = []
        for number, handle in enumerate(ready):
            if is_step(handle):
                candidates.append(number)
            elif is_first_callback:
                candidates.append(number)
                is_first_callback = False
        if len(candidates) == 1:
            return candidates[0], 1
        return candidates[self._choose(len(candidates))], len(candidates)

    @staticmethod
    def _take(ready, number):
        handle = ready[number]
        del ready[number]
        return handle

    def note(self, *facts):
        """Make *facts* part of the trace."""
        self._digest.update(repr(facts).encode())

    @property
    def trace(self):
        """A hash of all that has happened."""
        return self._digest.hexdigest()

    def jump(self, seconds):
        """Let the clock jump, as when a machine was suspended, or a callback has blocked it."""
        self._now += seconds
        self.jumped_at = self.jumped_at if self.jumped else self._now
        self.jumped += seconds

    def call_at(self, when, callback, *arguments, context=None):
        """Schedule a timer; one of the client may be late."""
        if self.lateness is not None and (getattr(callback, "__module__", None) or "").startswith("payclient"):
            when += self.lateness()
        return super().call_at(when, callback, *arguments, context=context)

    def call_soon_threadsafe(self, callback, *arguments, context=None):
        """Call *callback* soon, for another thread."""
        handle = super().call_soon_threadsafe(callback, *arguments, context=context)
        self.on_told()
        return handle

    def stop(self):
        """Stop after this round."""
        self.on_ending()
        super().stop()

    async def shutdown_asyncgens(self):
        """Close what generators are left."""
        self.on_ending()
        await super().shutdown_asyncgens()

    # What asyncio and anyio ask the system for

    def run_in_executor(self, executor, function, *arguments):
        """Run *function* here, a little later; names are resolved by the simulated network."""
        if function is socket.getaddrinfo:
            return asyncio.Task(self.network.resolve(*arguments[:2]), loop=self)
        future = self.create_future()
        self.call_later(0.01, self._run_for, future, function, arguments)
        return future

    @staticmethod
    def _run_for(future, function, arguments):
        if future.cancelled():
            return
        try:
            result = function(*arguments)
        except Exception as error:  # noqa: BLE001  whatever it is, the one who waits for the thread gets it
            future.set_exception(error)
        else:
            future.set_result(result)

    async def getaddrinfo(self, host, port, **_):
        return await self.network.resolve(host, port)

    async def sock_connect(self, sock, address):
        await self.network.connect_socket(sock, address)

    async def sock_recv(self, sock, size):
        return await sock.end.read(size)

    async def sock_sendall(self, sock, data):
        if data:
            sock.send(data)

    async def create_connection(self, protocol_factory, host=None, port=None, *, sock=None, **_):
        transport = self.network.adopt(sock) if sock is not None else await self.network.connect((host, port))
        return transport.begin(protocol_factory()), transport.get_protocol()

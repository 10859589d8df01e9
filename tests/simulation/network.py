"""A network in memory: connections between the loop's clients and one host, with latency and faults."""

import asyncio
import socket
from collections import deque
from contextlib import contextmanager
from itertools import pairwise

from simulation.loop import StuckError

END = "end"
RESET = "reset"
MAX_READS_AT_END = 100
READ_BYTES = 64 * 1024
"""What a transport reads at once; more stays with the system until the protocol reads on."""
RESEND = 0.2
"""Seconds after which a lost segment is sent again; twice as many each further time."""


class Direction:
    """One way of a connection: delivers in order what is sent, each part some time later."""

    def __init__(self, network, number, deliver):
        self._network, self._number, self._deliver = network, number, deliver
        self._parts = deque()
        self._last = 0.0
        self.is_cut = False
        """Whether nothing arrives any more, and nobody is told: the other side has vanished."""

    def send(self, item):
        """Deliver bytes, `END` or `RESET`, in one or more parts; nothing when the process has ended."""
        for part in () if self._network.loop.is_closed() else self._network.split(item):
            self._parts.append(part)
            self._last = max(self._last, self._network.arrival())
            self._network.loop.call_at(self._last, self._arrive)

    def _arrive(self):
        if self.is_cut:
            return
        if (delay := self._network.blocked_for()) > 0:
            self._last = max(self._last, self._network.loop.time() + delay)
            self._network.loop.call_at(self._last, self._arrive)
            return
        if part := self._parts.popleft():
            self._deliver(part)


class _Socket:
    """What libraries ask of the socket below a transport: whether something waits to be read, for one."""

    family = socket.AF_INET

    def __init__(self, address, inbox):
        self._address = address
        self._inbox = inbox
        self._pair = None
        self._is_readable = self._is_closed = False

    def fileno(self):
        if self._is_closed:
            return -1
        if self._pair is None:
            self._pair = socket.socketpair()
            self._show()
        return self._pair[0].fileno()

    def show_readable(self, is_readable):
        if is_readable is not self._is_readable:
            self._is_readable = is_readable
            self._show()

    def _show(self):
        if self._pair is None:
            return
        if self._is_readable:
            self._pair[1].send(b"x")
        elif self._pair[0].getblocking():
            self._pair[0].setblocking(False)
        else:
            self._pair[0].recv(1)

    @contextmanager
    def dup(self):
        yield self

    def recv(self, size):
        if not self._inbox:
            raise BlockingIOError
        data = bytes(self._inbox[:size])
        del self._inbox[:size]
        return data

    def setsockopt(self, *_):
        """Take any option."""

    def getpeername(self):
        return self._address

    def getsockname(self):
        return ("10.0.0.99", 50000)

    def close(self):
        self._is_closed = True
        for end in self._pair or ():
            end.close()


class SimulatedSocket(socket.socket):
    """A socket of the system whose bytes go over the simulated network, before it is handed to a transport."""

    end = None
    """The transport, as long as nobody has adopted it."""

    def send(self, data, *_):
        return self.end.send(data)

    def getpeername(self):
        return self.end.get_extra_info("peername")

    def close(self):
        super().close()
        if self.end is not None:
            self.end.forget()


class ClientTransport(asyncio.Transport):
    """The client's end of a connection: a transport as asyncio's own is."""

    def __init__(self, network, connection, address):
        super().__init__()
        self._loop = network.loop
        self._connection = connection
        self._inbox = bytearray()
        self._socket = _Socket(address, self._inbox)
        self._end = None
        self._is_reading, self._is_scheduled = True, False
        self.unread_since = None
        """When something came that has not been read yet; None if there is nothing."""
        self.taken = 0
        """Bytes that the client has read."""
        self._arrival, self._reads_at_end = None, 0
        self._is_closing, self.is_lost, self._has_sent_end = False, False, False
        self.wrote_at = 0.0
        self._protocol = None

    def begin(self, protocol):
        """Tell *protocol* that the connection is made."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._schedule()
        return self

    # What arrives

    def arrive(self, item):
        """Take what came over the network, as the system's kernel does."""
        if self._is_closing:
            return
        if isinstance(item, bytes):
            self._inbox += item
        else:
            self._end = item
        self._show_unread()
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
        self._schedule()

    def _show_unread(self):
        is_readable = bool(self._inbox or self._end)
        self._socket.show_readable(is_readable=is_readable)
        if not is_readable:
            self.unread_since = None
        elif self.unread_since is None:
            self.unread_since = self._loop.time()

    def _schedule(self):
        is_due = self._is_reading and not self._is_closing and (self._inbox or self._end is not None)
        if is_due and self._protocol is not None and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._deliver)

    def _deliver(self):
        self._is_scheduled = False
        if self._is_closing or not self._is_reading:
            return
        if self._inbox:
            self._deliver_bytes()
        elif self._end == RESET:
            self._lose(ConnectionResetError(104, "Connection reset by peer"))
        elif self._end == END:
            self._end = None
            if not self._protocol.eof_received():
                self.close()
        self._schedule()

    def _deliver_bytes(self):
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            buffer = self._protocol.get_buffer(-1)
            data = self._take(len(buffer))
            buffer[: len(data)] = data
            self._protocol.buffer_updated(len(data))
        else:
            self._protocol.data_received(self._take(READ_BYTES))

    def _take(self, size):
        data = bytes(self._inbox[:size])
        del self._inbox[:size]
        self.taken += len(data)
        self._show_unread()
        return data

    # What a socket is asked for, before it is handed to a protocol

    async def read(self, size):
        """Return what has come; nothing at the end."""
        while not self._inbox and self._end is None:
            self._arrival = self._loop.create_future()
            await self._arrival
        self._reads_at_end += not self._inbox
        if self._reads_at_end > MAX_READS_AT_END:
            message = "somebody reads for ever at the end of a connection"
            raise StuckError(message)
        if not self._inbox and self._end == RESET:
            raise ConnectionResetError(104, "Connection reset by peer")
        return self._take(size)

    def send(self, data):
        """Send at once; return how much."""
        if self._end == RESET:
            raise ConnectionResetError(104, "Connection reset by peer")
        self._connection.to_host.send(bytes(data))
        return len(data)

    # What the protocol asks for

    def write(self, data):
        if self._is_closing or not data:
            return
        self._connection.on_write(self)
        self.wrote_at = self._loop.time()
        if self._end == RESET:
            self._lose(ConnectionResetError(104, "Connection reset by peer"))
        else:
            self._connection.to_host.send(bytes(data))

    def write_eof(self):
        if not (self._is_closing or self._has_sent_end):
            self._has_sent_end = True
            self._connection.to_host.send(END)

    def can_write_eof(self):
        return True

    def close(self):
        self.write_eof()
        self._lose(None)

    def abort(self):
        self.close()

    def _lose(self, error):
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._tell_lost, error)

    def _tell_lost(self, error):
        self.is_lost = True
        self._socket.close()
        self._protocol.connection_lost(error)

    def is_closing(self):
        return self._is_closing

    def is_reading(self):
        return self._is_reading and not self._is_closing

    def pause_reading(self):
        self._is_reading = False

    def resume_reading(self):
        self._is_reading = True
        self._schedule()

    def set_write_buffer_limits(self, high=None, low=None):
        """Take any: what is written leaves at once."""

    def get_write_buffer_size(self):
        return 0

    def get_protocol(self):
        return self._protocol

    def set_protocol(self, protocol):
        self._protocol = protocol

    def get_extra_info(self, name, default=None):
        known = {"socket": self._socket, "peername": self._socket.getpeername(), "sockname": ("10.0.0.99", 50000)}
        return known.get(name, default)

    def forget(self):
        """Give back what a connection holds that was made and never used."""
        if self.is_lost:
            return
        self._is_closing = self.is_lost = True
        self._socket.close()
        self._connection.to_host.send(END)


class Connection:
    """Both ends of a connection."""

    def __init__(self, network, number, address, accept):
        self.number = number  # counts the connections of a network
        self.on_write = network.on_write  # called with the client's end before it writes
        self.client = ClientTransport(network, self, address)  # the end of the client
        self.to_client = Direction(network, number, self.client.arrive)  # what the host sends
        receive = accept(self)
        self.to_host = Direction(network, number, receive)  # what the client sends

    def vanish(self):
        """Lose the other side, and tell neither."""
        self.to_client.is_cut = self.to_host.is_cut = True


class Network:
    """All that is between the clients and the host."""

    def __init__(self, loop, chance, accept, *, addresses, latency=(0.005, 0.03), loss=0.0, pieces=1):
        self.loop = loop  # whose clients they are
        self._chance = chance
        self._accept = accept
        self._addresses = addresses
        self._latency, self._loss, self._pieces = latency, loss, pieces
        self.connections = []
        self.sockets = []
        self.dead_addresses, self.dead_for_ever = set(), set()
        self.on_connect = lambda _: None
        self.on_write = lambda _: None  # called with the client's end of a connection before it writes
        self._attempts = self.opening = 0
        self._adopted = {}
        self._blocked_until = 0.0

    # Time

    def arrival(self):
        """Return when a part that is sent now arrives."""
        seconds, again = self._chance.uniform(*self._latency), RESEND
        while self._loss and self._chance.random() < self._loss and again < 10:
            seconds, again = seconds + again, again * 2
        return self.loop.time() + seconds

    def split(self, item):
        """
        Return the parts in which a message arrives: a share of it each, and empty ones too.

        Their number must not depend on the length, because signatures of TLS differ by a byte or two in each run.
        """
        if self._pieces == 1 or not isinstance(item, bytes):
            return [item]
        shares = sorted(self._chance.random() for _ in range(self._chance.randrange(self._pieces)))
        cuts = [0, *(int(share * len(item)) for share in shares), len(item)]
        return [item[start:end] for start, end in pairwise(cuts)]

    def block(self, seconds):
        """Let nothing through for *seconds*."""
        self._blocked_until = max(self._blocked_until, self.loop.time() + seconds)

    def heal(self, addresses):
        """Lose nothing any more, and let everything through at once."""
        self._blocked_until = self.loop.time()
        self._latency, self._loss = (0.001, 0.01), 0.0
        self.dead_addresses = {*self.dead_for_ever}
        self._addresses.update(addresses)

    def blocked_for(self):
        """Return the seconds that nothing gets through."""
        return self._blocked_until - self.loop.time()

    # Connections

    async def resolve(self, host, port):
        await asyncio.sleep(self._chance.uniform(0.0, 0.01))
        host = host.decode() if isinstance(host, bytes) else host
        if host not in self._addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, int(port))) for each in self._addresses[host]]

    async def connect(self, address):
        """Return the transport of a new connection."""
        self._attempts += 1
        self.opening += 1
        try:
            return await self._connect(address, self.on_connect(self._attempts - 1))
        finally:
            self.opening -= 1

    async def _connect(self, address, what):
        if address[0] in self.dead_addresses or what == "hang":
            await asyncio.sleep(130)  # the system gives up sooner or later
            raise TimeoutError(110, "Connection timed out")
        await asyncio.sleep(self._chance.uniform(*self._latency) * 2)
        while (delay := self.blocked_for()) > 0:
            await asyncio.sleep(delay + RESEND)
        if what == "refuse" or not any(address[0] in known for known in self._addresses.values()):
            raise ConnectionRefusedError(111, "Connection refused")
        connection = Connection(self, len(self.connections), address, self._accept)
        self.connections.append(connection)
        return connection.client

    async def connect_socket(self, sock, address):
        """Connect a socket of the system, as far as its owner can see."""
        self.sockets.append(sock)
        self._adopted[sock] = end = await self.connect(address)
        if isinstance(sock, SimulatedSocket):
            sock.end = end

    def adopt(self, sock):
        """Return the transport for a connected socket."""
        if isinstance(sock, SimulatedSocket):
            sock.end = None
        sock.close()
        return self._adopted.pop(sock)

    def open_connections(self):
        """Return what clients have not closed: the numbers of connections, and sockets of the system."""
        for sock in [sock for sock in self._adopted if sock.fileno() < 0]:
            self._adopted.pop(sock).forget()
        return [c.number for c in self.connections if not c.client.is_lost], [
            sock for sock in self.sockets if sock.fileno() >= 0
        ]

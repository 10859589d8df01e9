"""The simulated proxy: what it says to CONNECT, how its tunnels end, and what it must never see."""

from base64 import b64encode
from functools import partial
from random import Random

from simulation import host
from simulation.keys import EVERY
from simulation.network import END, READ_BYTES, RESET
from simulation.plan import PROXY_CONNECTING, TUNNELS
from simulation.service import MISSING, OTHER, REFUSALS, found
from support.raw_server import head, http

NAME = "proxy.example"
PORT = 3128
ADDRESSES = {NAME: ["10.0.1.1", "10.0.1.2"]}
PASSWORD = "of-the-clerk-51d2e84b"
SPELLINGS = (PASSWORD, b64encode(f"clerk:{PASSWORD}".encode()).decode().rstrip("=")[:-1])
"""The password as it is, and in base64."""
OPEN = head("HTTP/1.1 200 Connection established")
PAGE = f"<html>Sign in, clerk:{PASSWORD}</html>".encode()
HTML = "Content-Type: text/html"
MAX_TAKEN = 16 * 1024 + 2 * READ_BYTES
"""Bytes that a client may read of an endless answer to CONNECT: those allowed, and two reads of asyncio after them."""
_ENDLESS = 400


ADDRESS = f"http://clerk:{PASSWORD}@{NAME}:{PORT}"
"""For a client."""


class Proxy:
    """Opens tunnels to the service, or does what the plan says instead."""

    def __init__(self, world):
        self._world, self._plan = world, world.plan
        plan = world.plan
        self._faults = {int(fault.at): fault for fault in plan.faults if fault.kind in TUNNELS}
        self._connecting = {int(fault.at): fault for fault in plan.faults if fault.kind in PROXY_CONNECTING}
        self._chance = Random(f"proxy {plan.seed}")
        self._down_until = -1.0
        self._asked = self._made = 0
        self._began = {}
        self.refusals, self.has_spoilt_tls = set(), False
        self.tunnels = []  # every connection that was made by the process that runs

    @property
    def _is_calm(self):
        return self._world.service.is_calm

    def on_connect(self, number):
        """Say what becomes of an attempt to connect."""
        if self._is_calm:
            return None
        if self._world.loop.time() < self._down_until:
            return "refuse"
        fault = self._connecting.get(number)
        if fault is None:
            return None
        if fault.kind in ("proxy refuse", "proxy hang"):
            self._world.strike(fault.kind)
            return fault.kind.removeprefix("proxy ")
        self._began[self._made] = fault.kind
        return None

    def accept(self, connection):
        """Take a new connection; return the function that takes what the client sends."""
        if connection.client.get_extra_info("peername")[0] not in ADDRESSES[NAME]:
            self._world.fail("around", "a connection that does not go to the proxy")
        began = "" if self._is_calm else self._began.get(self._made, "")
        self._made += 1
        tunnel = Tunnel(self, connection, began)
        self.tunnels.append(tunnel)
        return tunnel.receive

    def move(self):
        """Go on with another process of clients."""
        self.tunnels = []

    # What happens to it

    def strike(self, kind):
        """Note that a fault strikes."""
        self._world.strike(kind)

    def restart(self, seconds):
        """Break every tunnel, and take no connection for a while."""
        for tunnel in self.tunnels:
            tunnel.send(RESET)
        self._down_until = self._world.loop.time() + seconds

    def timed(self):
        """Return what happens to it at a time, by name; each is called with a number."""
        return {
            "proxy restart": self.restart,
            "proxy idle end": lambda _: self._end_idle(END),
            "proxy idle reset": lambda _: self._end_idle(RESET),
        }

    def _end_idle(self, how):
        """End every tunnel through which no answer is awaited."""
        for tunnel in self.tunnels:
            if tunnel.peer is not None and tunnel.peer.requests and not tunnel.peer.is_busy:
                tunnel.end(how)

    # What it is asked

    def ask(self, tunnel, text):
        """Answer a request for a tunnel, a little later."""
        world, number = self._world, self._asked
        self._asked += 1
        lines = text.decode().split("\r\n")
        target = f"{host.NAME}:443"
        if lines[:2] != [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]:
            world.fail("tunnel", f"the proxy was asked {lines[:2]}")
        fault = None if self._is_calm else self._faults.get(number)
        world.loop.note("tunnel", number, fault and fault.kind)
        self.later(self._chance.uniform(0.0, self._plan.latency[1]), self._answer, tunnel, number, fault)

    def later(self, seconds, act, *arguments):
        self._world.loop.call_later(seconds, act, *arguments)

    def _answer(self, tunnel, number, fault):
        if not tunnel.is_open:
            return
        tunnel.fault = "" if self._is_calm or fault is None else fault.kind
        if tunnel.fault:
            self._world.strike(tunnel.fault)
        if tunnel.fault in _SAYS:
            self._refuse(tunnel, *_SAYS[tunnel.fault])
        elif tunnel.fault in _DOES:
            _DOES[tunnel.fault](self, tunnel)
        elif tunnel.fault == "proxy late":
            self.later(fault.value, self._open, tunnel, number)
        else:
            self._open(tunnel, number)

    def _refuse(self, tunnel, data, after):
        status = int(data[9:12]) if data.startswith(b"HTTP/") else 0
        is_whole = self._plan.pieces == 1 or status >= 300
        tunnel.is_refused = is_whole
        if 300 <= status < 500 and status != 429:
            self.refusals.add(status)
        if not is_whole:
            self.spoil_tls()  # its bytes may come when the tunnel has been taken for open
        if after:
            tunnel.end(after, data)
        else:
            tunnel.say(data)

    def _open(self, tunnel, number):
        if not tunnel.is_open:
            return
        reached = self._world.service.on_connect(number)
        if reached == "hang":
            return
        if reached == "refuse":
            tunnel.end(END, http(PAGE, "502 Bad Gateway", HTML))
            return
        if tunnel.fault in ("proxy http behind", "proxy stranger", "proxy garbles"):
            self.spoil_tls()
        tunnel.number = len(self._world.service.peers)
        tunnel.peer = self._world.serve(tunnel, is_stranger=tunnel.fault == "proxy stranger")
        tunnel.say(OPEN)

    # Faults, by their names

    def _announce(self, tunnel):
        tunnel.say(head("HTTP/1.1 103 Early Hints", "Link: </x>"))
        self._open(tunnel, self._asked)

    def _drip(self, tunnel):
        for number in range(len(OPEN)):
            self.later(number * 0.5, tunnel.say, OPEN[number : number + 1])

    def _endless(self, tunnel, part):
        tunnel.say(b"HTTP/1.1 200 OK\r\n" if part.startswith(b"X") else part)
        for number in range(_ENDLESS):
            self.later(number * 0.01, tunnel.say, part * (1000 // len(part)))

    # What it sees

    def see(self, tunnel, data):
        """Complain of the key in what came, also where it came in parts."""
        tunnel.seen = (tunnel.seen + data)[-len(data) - max(map(len, EVERY)) :]
        if any(key.encode() in tunnel.seen for key in EVERY):
            self._world.fail("key", "in what the proxy sees")
        if tunnel.is_refused and data:
            self._world.fail("tunnel", f"{len(data)} bytes for a tunnel that was refused by {tunnel.fault!r}")

    def check_end(self):
        """Complain of a client that has read more of an endless answer than it has to."""
        for tunnel in self.tunnels:
            if tunnel.fault.startswith("proxy endless") and tunnel.client.taken > MAX_TAKEN:
                self._world.fail("endless", f"{tunnel.client.taken} bytes of an answer to CONNECT were read")

    def spoil_tls(self):
        """Note that what looks like a final failure of TLS is of its making."""
        self.has_spoilt_tls = True


class Tunnel:
    """
    One connection to the proxy: a request for a tunnel, and then what the client and the service say.

    To the service's side of the tunnel this is the connection, and one direction of it.

    Args:
        proxy: Whose it is.
        connection: Of the client.
        began: What goes wrong with its first bytes, or "".

    Attributes:
        fault: What was done to its tunnel, or "".
        peer: The service's side, once there is a tunnel.
        is_open: Whether the proxy can still send.
        is_refused: Whether the client must know that it is no tunnel.
        seen: The last bytes that the proxy has seen.
    """

    def __init__(self, proxy, connection, began):
        self._proxy, self._connection, self._began = proxy, connection, began
        self._text = b""
        self._parts = 0
        self.client, self.to_client, self.number = connection.client, self, 0
        self.fault, self.peer, self.seen = "", None, b""
        self.is_open, self.is_refused = True, False

    # From the client

    def receive(self, item):
        """Take what the client sent."""
        if not self.is_open:
            self._receive_late(item)
        elif not isinstance(item, bytes):
            self._leave(item)
        elif not self._fails(item):
            self._take(item)

    def _receive_late(self, item):
        if isinstance(item, bytes):
            self._proxy.see(self, item)
            self._connection.to_client.send(RESET)

    def _leave(self, item):
        if self.peer is None:
            self.end(END)
        else:
            self.peer.receive(item)

    def _fails(self, data):
        """Do what goes wrong with the first bytes."""
        began, self._began = self._began, ""
        if began:
            self._proxy.strike(began)
            self.end(RESET if began == "proxy reset first" else END)
        return not self.is_open

    def _take(self, data):
        self._proxy.see(self, data)
        if self.peer is not None:
            self._pass_on(data)
            return
        self._text += data
        text, is_whole, _ = self._text.partition(b"\r\n\r\n")
        if is_whole:
            self._text = b""
            self._proxy.ask(self, text)

    def _pass_on(self, data):
        if not data:
            return
        if self.fault == "proxy silence behind":
            self._connection.vanish()
        elif self.fault in _BEHIND:
            data, how = _BEHIND[self.fault]
            self.end(how, data)
        else:
            self.peer.receive(data)

    # To the client

    def say(self, data):
        """Say *data* as the proxy."""
        if self.is_open and data:
            self._connection.to_client.send(data)

    def send(self, item):
        """Pass on what the service says."""
        if not self.is_open:
            return
        if not isinstance(item, bytes):
            self.end(item)
            return
        self._parts += 1
        if self.fault in ("proxy ends within", "proxy resets within") and self.peer.is_established:
            self.end(END if self.fault == "proxy ends within" else RESET, item[: len(item) // 2])
            return
        if self.fault == "proxy garbles" and self._parts == 1 + len(item) % 3:
            item = item[:-1] + bytes([item[-1] ^ 1])
        self._connection.to_client.send(item)

    def end(self, how, data=b""):
        """Say *data*, and then no more: `END` or `RESET`."""
        if not self.is_open:
            return
        self.is_open = False
        if data:
            self._connection.to_client.send(data)
        self._connection.to_client.send(how)
        if self.peer is not None:
            self.peer.is_open = False

    def vanish(self):
        """Lose the other side, and tell neither."""
        self._connection.vanish()


_CUT = OPEN[:20]
_407 = "407 Proxy Authentication Required"
_SAYS = {
    "proxy 407": (http(b"", _407), END),
    "proxy challenge": (http(PAGE, _407, 'Proxy-Authenticate: Basic realm="x"', HTML), END),
    "proxy forbids": (http(PAGE, "403 Forbidden", HTML), END),
    "proxy redirects": (http(b"", "302 Found", "Location: http://portal.example/"), END),
    "proxy not found": (MISSING, END),
    "proxy unauthorized": (REFUSALS["unauthorized"], END),
    "proxy 502": (http(PAGE, "502 Bad Gateway", HTML), END),
    "proxy 429": (http(b"", "429 Too Many Requests", "Retry-After: 600"), END),
    "proxy found": (found(OTHER), ""),
    "proxy page": (http(PAGE, "200 OK", HTML), ""),
    "proxy bytes before": (b"\0\0" + OPEN, ""),
    "proxy bytes behind": (OPEN + b"x", ""),
    "proxy reset": (b"", RESET),
    "proxy end": (b"", END),
    "proxy reset in head": (_CUT, RESET),
    "proxy end in head": (_CUT, END),
    "proxy silence": (b"", ""),
    "proxy banner": (b"SSH-2.0-OpenSSH_9.6\r\n", ""),
}
"""What the proxy says instead of opening a tunnel, and how it ends the connection; not at all if ""."""
_DOES = {
    "proxy announces": Proxy._announce,
    "proxy drip": Proxy._drip,
    "proxy endless head": partial(Proxy._endless, part=b"X-Odd: 1\r\n"),
    "proxy endless announcements": partial(Proxy._endless, part=head("HTTP/1.1 100 Continue")),
}
_BEHIND = {
    "proxy reset behind": (b"", RESET),
    "proxy end behind": (b"", END),
    "proxy http behind": (http(PAGE, "400 Bad Request", HTML), END),
}
"""What comes instead of the service's handshake, and how the connection ends."""

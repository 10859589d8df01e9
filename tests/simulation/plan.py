"""What one run comes to: the client, the work, the service and the faults."""

import re
from ast import literal_eval

from attrs import astuple, field, fields, frozen

MAX_FAULTS_OF_ONE = 3
"""Answers about one reference that the service spoils, at most: so that a stream has to answer it in the end."""

THROTTLING = (
    *("throttled", "throttled until", "throttled until, undated", "throttled bare", "throttled for years"),
    "unavailable",
)
FAILING = ("error 500", "gateway page", "maintenance", "echo of the key")
BROKEN = ("garbage", "empty", "cut", "reset before", "reset within", "end before", "no content")
ODD = ("no http", "endless head", "endless body", "compressed and cut")
SLOW = ("stall", "drip", "late")
WRONG = ("other transaction", "other not found", "bare 404", "one behind")
EXTRA = tuple(
    f"extra {what}, {when}"
    for what in ("found", "missing", "rejected", "unauthorized", "elsewhere")
    for when in ("same write", "later", "next")
)
HARMLESS = ("interim", "chunked", "compressed", "close after")
ANSWERS = (*THROTTLING, *FAILING, *BROKEN, *ODD, *SLOW, *WRONG, *EXTRA, *HARMLESS)
"""By the number of the request that is answered so."""

CONNECTING = ("refuse", "hang", "vanish", "reset handshake")
"""By the number of the attempt to connect."""

TIMED = ("partition", "restart", "idle end", "mute", "slowness", "wall clock", "dead address", "dead name")
"""By the virtual time."""

KEYS = ("source fails", "source hangs", "source is behind")
"""By the number of the call of a source of keys."""

ROTATES = "key rotates"
"""By the virtual time; the key before is taken for some seconds more."""

CALLERS = ("reader stalls", "input stalls", "observer raises", "predicate raises")
"""By the number of the outcome, the reference or the attempt at which code of a caller's stalls or raises."""

RATE = "rate changes"
"""By the virtual time; to so many attempts per second."""

NEVER_HEALED = ("address dead for ever", "one a second for ever", "reader gone for ever")
"""By the virtual time. What can progress does, also after all other faults."""

TROUBLES = ("small buffers", "queues of one", "a commit for each row", "late timers", "a limit of one")
"""Places where the client itself is disturbed for a whole run."""

REVOKED = "revoked key"
"""By the virtual time, for some seconds; drawn apart, so that it changes no other plan."""

TICKS = ("cancel", "close", "jump")
"""By the step of the event loop."""

BLOWS = ("kill", "disk full", "fsync", "stop")
"""What ends one process of a reconciliation each: at a step of its event loop, or so many steps after its start."""

LIMITS = ("limit of a bucket", "limit of a window", "limit of a cap")
"""By the number of requests that the service takes."""

AIMED = ("cancel as answered", "close as answered")
"""By the number of the request: so many seconds after its answer has been sent, spoilt or not."""

PROXY = {
    "a proxy that refuses": (
        *("proxy 407", "proxy challenge", "proxy forbids", "proxy redirects", "proxy not found", "proxy unauthorized"),
        *("proxy 502", "proxy 429"),
    ),
    "a proxy that speaks for the service": (
        *("proxy found", "proxy page", "proxy bytes before", "proxy bytes behind", "proxy banner", "proxy stranger"),
        *("proxy http behind", "proxy garbles"),
    ),
    "a proxy that leaves": (
        *("proxy reset", "proxy end", "proxy reset in head", "proxy end in head", "proxy reset behind"),
        *("proxy end behind", "proxy ends within", "proxy resets within"),
    ),
    "a proxy that is slow": (
        *("proxy silence", "proxy announces", "proxy drip", "proxy late", "proxy endless head"),
        *("proxy endless announcements", "proxy silence behind"),
    ),
}
TUNNELS = tuple(kind for kinds in PROXY.values() for kind in kinds)
"""By the number of the request for a tunnel."""

PROXY_CONNECTING = ("proxy refuse", "proxy hang", "proxy reset first", "proxy end first")
"""By the number of the connection to the proxy."""

PROXY_TIMED = ("proxy idle end", "proxy idle reset", "proxy restart")
"""By the virtual time."""

BREAKING = (
    *("no http", "endless head", "endless body", "address dead for ever"),
    *("cut", "reset before", "reset within", "end before", *CONNECTING),
    *("partition", "restart", "mute", "dead address", "dead name", "kill", "disk full", "fsync"),
    *(each for each in TUNNELS if each != "proxy announces"),
    *PROXY_CONNECTING,
    "proxy restart",
)
"""What may break a connection that carries a request, or keep one from being made."""


IDLE = ("idle end", "proxy idle end", "proxy idle reset")
"""What ends connections on which no answer is awaited."""

SLOWING = (
    *SLOW,
    *("endless head", "endless body", "address dead for ever", "one a second for ever"),
    *("hang", "vanish", "partition", "mute", "slowness", "dead address", "dead name", "jump"),
    *("proxy silence", "proxy drip", "proxy late", "proxy silence behind", "proxy hang"),
    "proxy bytes behind",  # in a part of its own, the first byte of a record that does not end
)
"""What may let an attempt wait for its time-out."""


MUTANTS = 1_000_000_000
"""A seed beyond it is that of a mutant: its number, and the seed of the plan that was changed."""


@frozen
class Fault:
    """One thing that goes wrong."""

    kind: str  # its name
    at: float  # the number of the request, of the attempt to connect or of the step, or the second
    value: float = 0.0  # how much of it: seconds, or the number of a task

    def __str__(self):
        return f"{self.kind} at {self.at:g}" + (f" ({self.value:g})" if self.value else "")


@frozen
class Limit:
    """What the service takes before it throttles."""

    kind: str = "none"  # `none`, `bucket`, `window` or `cap`
    count: int = 0  # requests: of a burst and per second, of a window, or at once
    seconds: float = 1.0  # of a window
    tells: bool = False  # whether it says how long to wait


@frozen
class Plan:
    """One run."""

    seed: int  # of it all
    work: str = "lookups"  # `lookups`, `stream`, `batch`, `wait`, `crowd` or `reconcile`
    transport: str = "httpx"
    is_tls: bool = False  # whether the service is asked over TLS
    proxy: bool = False  # whether there is a proxy on the way
    clients: int = 1  # how many share the key
    concurrency: int = 4  # attempts in flight of each, at most
    max_rate: float | None = None  # attempts per second of all clients together, or None
    has_source: bool = False  # whether a function gives the key
    timeout: float = 5.0  # seconds for one attempt
    deadline: float = 60.0  # seconds for one lookup
    references: tuple[str, ...] = ("T1", "T2", "T3")  # in the order in which they are asked for; some twice
    spread: float = 1.0  # seconds over which single lookups begin
    is_shuffled: bool = True  # whether tasks run in any order
    order: tuple[tuple[int, int], ...] | None = None
    tick: float = 0.0  # the most seconds that a step of the loop takes
    latency: tuple[float, float] = (0.005, 0.03)  # the least and the most seconds that a part of a message takes
    loss: float = 0.0  # the chance that a part is lost and sent again
    pieces: int = 1  # in how many parts a message arrives, at most
    work_seconds: float = 0.2  # the most that the service works on a request
    limit: Limit = Limit()  # what the service takes
    troubles: tuple[str, ...] = ()  # where the client itself is disturbed
    faults: tuple[Fault, ...] = field(factory=tuple)  # in the order in which they were drawn

    def __str__(self):
        """Return its fields that are not as usual, its references and its faults, for `plan_of`."""
        others = [each for each in fields(Plan) if each.name not in ("seed", "references", "faults")]
        said = {each.name: getattr(self, each.name) for each in others if getattr(self, each.name) != each.default}
        said = {"seed": self.seed, **said} | ({"limit": astuple(self.limit)} if "limit" in said else {})
        faults = "; ".join(f"{each.kind} at {each.at!r} ({each.value!r})" for each in self.faults)
        return f"{' '.join(f'{name}={value}' for name, value in said.items())} / {' '.join(self.references)} / {faults}"


def plan_of(text):
    """Return the plan from its text, which may have other white space, and no values of 0 in faults."""
    said, references, faults = re.split(r" /(?: |$)", " ".join(text.split()))
    values = {name: _value(value) for name, value in re.findall(r"(\w+)=(.+?)(?= \w+=|$)", said)}
    found = re.findall(r"([^;]+) at ([\d.]+)(?: \(([\d.]+)\))?(?:; |$)", faults)
    return Plan(
        **values | ({"limit": Limit(*values["limit"])} if "limit" in values else {}),
        references=tuple(references.split()),
        faults=tuple(Fault(kind, literal_eval(at), literal_eval(value or "0.0")) for kind, at, value in found),
    )


def _value(text):
    try:
        return literal_eval(text)
    except ValueError:  # a word
        return text

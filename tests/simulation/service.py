"""The simulated payment service: what is true, what it answers, and how its answers go wrong."""

import gzip
import json
from datetime import timedelta
from email.utils import format_datetime

from attrs import define, frozen

from payclient.protocol import BODY_LIMIT
from simulation.plan import ANSWERS, CONNECTING, HARMLESS, MAX_FAULTS_OF_ONE
from support.fakes import document
from support.raw_server import chunked, head, http

OTHER = "T9999"
"""A transaction that is known, and that nobody asks for."""
_SLOWNESS = 1.2
"""Seconds that an answer takes longer while the service is slow."""
_FOR_YEARS = 9_999_999_999
"""Seconds that an absurd refusal names."""


def amount_of(reference):
    """Return what is true of a transaction."""
    return 1000 + int(reference[1:])


def is_known(reference):
    return reference[0] in "TC"


def paid_at(reference):
    """Return when a transaction is paid, in the workload of waits."""
    return 7.3 * int(reference[1:]) % 60


def found(reference, status="Paid", number=None):
    """Return the answer about a transaction; *number* is that of the request, as its merchant's reference."""
    more = {} if number is None else {"merchant_reff": str(number)}
    return http(document(reference, amount=amount_of(reference), status=status, **more))


def _refusal(status, message, **more):
    return http(json.dumps({"success": False, "message": message, **more}).encode(), status)


def _describing(answer):
    """Return an answer with the state of a limit in its headers, which asks for no wait."""
    return answer.replace(b"\r\n", b"\r\nX-RateLimit-Remaining: 4999\r\nX-RateLimit-Reset: 3600\r\n", 1)


MISSING = _refusal("404 Not Found", "Transaction not found")
REFUSALS = {
    "missing": MISSING,
    "rejected": _refusal("422 Unprocessable Entity", "Transaction cannot be shown"),
    "unauthorized": _refusal("401 Unauthorized", "Unauthenticated"),
    "elsewhere": _refusal("404 Not Found", "The route could not be found"),
}


def _truth(reference, status, number):
    if is_known(reference):
        return found(reference, status, number)
    return MISSING if reference[0] == "U" else REFUSALS["rejected"]


@frozen
class Exchange:
    """One request that came."""

    number: int  # counts the requests of the run
    reference: str  # what it asked for
    sent_at: float  # by the client, which cannot know in which order two requests arrive
    at: float  # when it came
    fault: str  # what was done to its answer, or ""
    pause: float | None  # seconds that its answer asked to wait, or None


@define
class _Bucket:
    tokens: float
    filled_at: float = 0.0


class Service:
    """Answers requests, by the plan."""

    def __init__(self, loop, plan, chance, wall):
        self._loop, self._plan, self._chance, self._wall = loop, plan, chance, wall
        self._faults = {int(fault.at): fault for fault in plan.faults if fault.kind in ANSWERS}
        self._connecting = {int(fault.at): fault for fault in plan.faults if fault.kind in CONNECTING}
        self._vanishing = {}
        self._spoilt = {}
        self._bare = set()
        self.exchanges, self.peers = [], []  # exchanges: Every request that came; peers: Every connection that was made
        self.on_answered = lambda _number, _reference: None
        self.on_reuse = lambda: None
        self.on_fault = lambda _kind: None  # called with the kind of a fault as it strikes
        self.takes = lambda _key: True  # returns whether a key is valid
        self.is_calm, self.is_slow = False, False
        self._in_line = []
        self._absurd = 0
        self._down_until = -1.0
        self._revoked_until = self._slow_until = -1.0
        self.has_revoked = False  # whether it has ever refused the key
        self._forget()

    def _forget(self):
        self._bucket = _Bucket(self._plan.limit.count, self._loop.time())
        self._window, self._used, self._working = -1, 0, 0

    # Connections

    def on_connect(self, number):
        """Say what becomes of an attempt to connect."""
        if self.is_calm:
            return None
        if self._loop.time() < self._down_until:
            return "refuse"
        fault = self._connecting.get(number)
        if fault is not None and fault.kind in ("vanish", "reset handshake"):
            self._vanishing[len(self.peers)] = fault
        if fault is None or fault.kind not in ("refuse", "hang"):
            return None
        self.on_fault(fault.kind)
        return fault.kind

    def add(self, peer):
        """Take a new connection."""
        self.peers.append(peer)

    def on_bytes(self, peer):
        """See the first bytes of a connection, before they mean anything."""
        fault = self._vanishing.get(peer.connection.number)
        if fault is None or self.is_calm:
            return
        if fault.kind == "reset handshake" and not peer.requests:
            self.on_fault(fault.kind)
            peer.reset()
        elif fault.kind == "vanish" and peer.requests >= fault.value:
            self.on_fault(fault.kind)
            peer.connection.vanish()

    def move(self, loop):
        """Go on with another event loop: the process of the clients has died, and another takes its place."""
        for peer in self.peers:
            peer.is_open = False
        self._loop = loop
        self._working = 0
        self._in_line.clear()

    def restart(self, seconds):
        """Break every connection, take none for a while, and forget everything but the transactions."""
        for peer in self.peers:
            peer.reset()
        self._down_until = self._loop.time() + seconds
        self._forget()

    def revoke(self, seconds):
        """Refuse the key for a while."""
        self._revoked_until = self._loop.time() + seconds

    def slow_down(self, seconds):
        """Take longer for every answer, for a while."""
        self._slow_until = self._loop.time() + 10 * seconds

    def mute(self):
        """Let what waits for a request lose everything that comes, in silence."""
        for peer in self.peers:
            if peer.requests and not peer.is_busy and peer.is_open:
                peer.connection.vanish()

    def end_idle(self):
        """Close every connection that waits for a request."""
        for peer in self.peers:
            if peer.requests and not peer.is_busy:  # before its first one, a handshake may be under way
                peer.close()

    # Requests

    def on_request(self, peer, request):
        """Answer a request."""
        number, reference = len(self.exchanges), request.reference
        throttled = None if self.is_calm else self._throttled()
        fault = None if throttled else self._fault(number, reference)
        kind, value = ("limit", throttled[1]) if throttled else (fault.kind, fault.value) if fault else ("", 0.0)
        pause = throttled[1] if throttled else _pause(kind, value)
        exchange = Exchange(number, reference, peer.connection.client.wrote_at, self._loop.time(), kind, pause)
        self.exchanges.append(exchange)
        self._loop.note("request", number, reference, kind)
        if throttled:
            answer, seconds = throttled[0], 0.0
        elif not self.takes(request.key) or (self._loop.time() < self._revoked_until and not self.is_calm):
            self.has_revoked = True
            answer, seconds, kind = REFUSALS["unauthorized"], 0.0, ""
        else:
            answer, seconds = (
                _truth(
                    reference, self._status(reference), int(reference[1:]) if self._plan.work == "reconcile" else number
                ),
                self._chance.uniform(0.0, self._plan.work_seconds)
                + _SLOWNESS * (self._loop.time() < self._slow_until and not self.is_calm),
            )
            if reference[0] == "C" and not self._is_healed(reference):
                status = "500 Internal Server Error" if int(reference[1:]) % 2 else "503 Service Unavailable"
                answer = _refusal(status, "Server error")
        self._working += 1
        peer.is_busy, peer.key = True, request.key
        if peer.is_spoilt:
            self.on_reuse()
        self._loop.call_later(seconds, self._answer, peer, self.exchanges[-1], answer, kind, value)

    def _is_healed(self, reference):
        """Return whether a transaction that is never answered is so after all, when the faults of a night are over."""
        return self.is_calm and self._plan.work == "reconcile" and int(reference[1:]) % 2 == 1

    def _status(self, reference):
        is_open = self._plan.work in ("wait", "crowd") and self._loop.time() < paid_at(reference)
        return "Pending" if is_open else "Paid"

    def _fault(self, number, reference):
        fault = None if self.is_calm else self._faults.get(number)
        if fault is None or fault.kind in HARMLESS:
            return fault
        if self._spoilt.get(reference, 0) >= MAX_FAULTS_OF_ONE or reference[0] == "C":
            return None
        if fault.kind == "compressed and cut" and reference[0] != "T":  # the status of a refusal says enough
            return None
        if fault.kind == "throttled for years":
            self._absurd += 1
            if self._absurd > 2:  # with three of them a stream has no outcome for too long
                return None
        if fault.kind == "bare 404":
            if reference in self._bare:  # said twice, it is the service's word
                return None
            self._bare.add(reference)
        self._spoilt[reference] = self._spoilt.get(reference, 0) + 1
        return fault

    def _throttled(self):
        limit, now = self._plan.limit, self._loop.time()
        if limit.kind == "bucket":
            bucket = self._bucket
            bucket.tokens = min(limit.count, bucket.tokens + (now - bucket.filled_at) * limit.count)
            bucket.filled_at = now
            is_over = bucket.tokens < 1
            bucket.tokens -= not is_over
        elif limit.kind == "window":
            window, elapsed = divmod(now, limit.seconds)
            if window != self._window:
                self._window, self._used = window, 0
            is_over = self._used >= limit.count
            self._used += not is_over
            if is_over and limit.tells:
                seconds = int(limit.seconds - elapsed) + 1
                return http(b"", "429 Too Many Requests", f"Retry-After: {seconds}"), float(seconds)
        else:
            is_over = limit.kind == "cap" and self._working >= limit.count
        return (http(b"", "429 Too Many Requests"), None) if is_over else None

    def _answer(self, peer, exchange, answer, kind, value):
        if self.is_slow:
            self._line_up(peer, exchange, answer, kind, value)
        else:
            self._send(peer, exchange, answer, kind, value)

    def _line_up(self, *answer):
        """Send one answer a second, and none over a connection that is closed."""
        self._in_line.append(answer)
        if len(self._in_line) == 1:
            self._loop.call_later(1.0, self._serve_next)

    def _serve_next(self):
        while self._in_line and not self._in_line[0][0].is_open:
            self._send(*self._in_line.pop(0))
        if self._in_line:
            self._send(*self._in_line.pop(0))
        if self._in_line:
            self._loop.call_later(1.0, self._serve_next)

    def _send(self, peer, exchange, answer, kind, value):
        self._working = max(0, self._working - 1)
        if not peer.is_open:
            peer.is_busy = False
            return
        reference = exchange.reference
        if self.is_calm and kind != "limit":
            kind = ""
        if kind:
            self.on_fault(kind if kind != "limit" else f"limit of a {self._plan.limit.kind}")
        peer.is_busy = False
        self.on_answered(exchange.number, reference)
        prefix, peer.behind = peer.behind, b""
        if peer.lagging is not None:
            answer, peer.lagging = peer.lagging, answer
        if kind.startswith("extra"):
            self._send_extra(peer, prefix + answer, *kind.removeprefix("extra ").split(", "))
        elif kind in _SPOILT:
            peer.send(prefix)
            _SPOILT[kind](self, peer, reference, answer, value)
        else:
            peer.send(prefix + answer)

    def _send_extra(self, peer, answer, what, when):
        extra = found(OTHER) if what == "found" else REFUSALS[what]
        if when == "same write":
            peer.is_spoilt = self._plan.pieces == 1  # both come at once, so the client has seen it
            if self._plan.proxy:
                peer.send_apart(answer, extra)
            else:
                peer.send(answer + extra)
            return
        peer.send(answer)
        if when == "next":
            peer.behind = extra
        else:
            self._loop.call_later(self._chance.uniform(0.0, 0.5), peer.send, extra)

    # Faults, by their names

    def _throttle(self, peer, _reference, _answer, value):
        peer.send(http(b"", "429 Too Many Requests", f"Retry-After: {value + 1:.3f}"))

    def _throttle_until(self, peer, _reference, _answer, value):
        now = self._wall()
        until = format_datetime(now.replace(microsecond=0) + timedelta(seconds=int(value) + 1), usegmt=True)
        date = format_datetime(now.replace(microsecond=0), usegmt=True)
        peer.send(http(b"", "429 Too Many Requests", f"Retry-After: {until}", f"Date: {date}"))

    def _throttle_undated(self, peer, _reference, _answer, value):
        until = format_datetime((self._wall() + timedelta(seconds=int(value) + 1)).replace(microsecond=0), usegmt=True)
        peer.send(http(b"", "429 Too Many Requests", f"Retry-After: {until}"))

    def _unavailable(self, peer, _reference, _answer, value):
        peer.send(http(b"", "503 Service Unavailable", f"Retry-After: {value + 1:.3f}"))

    def _reset_within(self, peer, _reference, answer, _value):
        peer.send(answer[: len(answer) // 2])
        peer.reset()

    def _cut(self, peer, _reference, answer, _value):
        peer.send(answer[:-10])
        peer.close()

    def _drip(self, peer, _reference, answer, _value):
        for number, start in enumerate(range(0, len(answer), 20)):
            self._loop.call_later(number * 0.5, peer.send, answer[start : start + 20])

    def _late(self, peer, _reference, answer, value):
        self._loop.call_later(value, peer.send, answer)

    def _echo(self, peer, _reference, _answer, _value):
        peer.send(_refusal("500 Internal Server Error", f"cannot serve {peer.key}"))

    def _fall_behind(self, peer, _reference, answer, _value):
        """Give each later request over this connection the answer of the one before."""
        peer.send(answer)
        peer.lagging = answer

    def _gateway_page(self, peer, reference, _answer, _value):
        """Send a page that quotes a response like those before, which comes in a segment of its own."""
        quoted = http(document(reference, amount=amount_of(reference) + 1, status="Paid"))
        page = http(b"<html>Bad gateway: " + quoted, "502 Bad Gateway", "Content-Type: text/html")
        peer.send(page[: -len(quoted)])
        self._loop.call_later(0.001, peer.send, quoted)

    def _no_content(self, peer, _reference, _answer, _value):
        peer.send(head("HTTP/1.1 204 No Content"))

    def _in_chunks(self, peer, _reference, answer, _value):
        lines, _, body = answer.partition(b"\r\n\r\n")
        kept = [line for line in lines.decode().split("\r\n") if not line.startswith("Content-Length")]
        peer.send(head(*kept, "Transfer-Encoding: chunked") + chunked(body))


def _pause(kind, value):
    if kind == "throttled for years":
        return _FOR_YEARS
    if kind in ("throttled", "unavailable"):
        return value + 1
    if kind == "throttled until, undated":
        return 1e-6  # at least: how long it is depends on the way of the answer
    return int(value) + 1 if kind == "throttled until" else None


def _sends(data):
    return lambda _service, peer, _reference, _answer, _value: peer.send(data)


def _compressed(answer, cut=None):
    """Return an answer with its body compressed, and the last *cut* bytes of that left out."""
    head_, _, body = answer.partition(b"\r\n\r\n")
    status = head_.split(b"\r\n")[0].partition(b" ")[2].decode()
    data = gzip.compress(body, mtime=0)
    return http(data[: -cut if cut else None], status, "Content-Encoding: gzip")


def _close_after(_service, peer, _reference, answer, _value):
    peer.send(answer.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
    peer.close()


_SPOILT = {
    "throttled": Service._throttle,
    "throttled for years": _sends(http(b"", "429 Too Many Requests", f"Retry-After: {_FOR_YEARS}")),
    "throttled until": Service._throttle_until,
    "throttled until, undated": Service._throttle_undated,
    "throttled bare": _sends(http(b"", "429 Too Many Requests")),
    "unavailable": Service._unavailable,
    "error 500": _sends(_describing(_refusal("500 Internal Server Error", "Server error"))),
    "gateway page": Service._gateway_page,
    "maintenance": _sends(_refusal("404 Not Found", "Transaction not found: database under maintenance")),
    "echo of the key": Service._echo,
    "other not found": _sends(_refusal("404 Not Found", "Transaction not found", data={"reference": OTHER})),
    "garbage": _sends(http(b'{"success": tru')),
    "empty": _sends(http(b"")),
    "cut": Service._cut,
    "reset before": lambda _service, peer, *_: peer.reset(),
    "reset within": Service._reset_within,
    "end before": lambda _service, peer, *_: peer.close(),
    "no content": Service._no_content,
    "stall": lambda *_: None,
    "drip": Service._drip,
    "late": Service._late,
    "other transaction": _sends(found(OTHER)),
    "bare 404": _sends(_refusal("404 Not Found", "Not Found")),
    "one behind": Service._fall_behind,
    "interim": lambda _service, peer, _reference, answer, _value: peer.send(head("HTTP/1.1 100 Continue") + answer),
    "chunked": Service._in_chunks,
    "compressed": lambda _service, peer, _reference, answer, _value: peer.send(_compressed(answer)),
    "compressed and cut": lambda _service, peer, _reference, answer, _value: peer.send(_compressed(answer, cut=4)),
    "no http": _sends(b"220 mail.example ESMTP\r\n"),
    "endless head": _sends(b"HTTP/1.1 200 OK\r\n" + b"X-Odd: 1\r\n" * 12_000),
    "endless body": _sends(http(b" " * (BODY_LIMIT + 1))),
    "close after": _close_after,
}

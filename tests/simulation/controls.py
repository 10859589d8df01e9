"""Positive controls: each removes one guard of the client, and the simulation has to notice."""

import __future__

import importlib
import inspect
import multiprocessing
import sys
import textwrap
import time
from contextlib import contextmanager
from functools import partial

from attrs import field, frozen

from simulation import world
from simulation.draws import draw
from simulation.shrink import names_of

_ATTEMPT = "client._session:Session._attempt"
_WAIT = "client.policies._limiter:Limiter.acquire"
_PAUSE = "client.policies._limiter:Limiter.pause"
_WAITS = ("wait", "crowd")
_RENEW = "client._keys:Keys.renew"
_ACCEPTED = "client.policies._capacity:Capacity.accepted"
_WAIT_FOR = "client._client:AsyncClient.wait_for"
_LEAVE = "client._lookup:InFlight.__exit__"
_BELIEVED = "client._lookup:is_believed"
OURS, INJECTED = ("httpx", "fast"), ("injected",)
_KNOWN_HEAD = "transports._parser:KnownHead.find"
_HEARD = "transports._network:opens_tunnel"
UNVERIFIED = "__import__('ssl')._create_unverified_context()"


@frozen
class Control:
    """One guard, and how it is removed."""

    name: str  # what the guard does
    place: str  # its function, as `module:name` below the package
    guard: str  # its text in the source of the function; it stands there once
    instead: str  # what stands there instead
    transports: tuple[str, ...] = field(default=())  # over which transports it matters; all if empty
    works: tuple[str, ...] = field(default=())  # in which workloads it matters; all if empty
    is_proxied: bool = False  # whether it matters through a proxy only
    needs: tuple[str, ...] = field(default=())
    oracle: str = ""  # the one that has to complain; any if empty

    @contextmanager
    def removed(self):
        """Run the block without the guard."""
        module, _, path = self.place.partition(":")
        module = importlib.import_module(f"payclient.{module}")
        *owners, name = path.split(".")
        original = inspect.getattr_static(getattr(module, owners[0]) if owners else module, name)
        changed = self._changed(original, module)
        ours = [each for key, each in sys.modules.items() if key.startswith("payclient")]
        # A function is changed wherever it has been imported.
        places = [getattr(module, owners[0])] if owners else [m for m in ours if vars(m).get(name) is original]
        for place in places:
            setattr(place, name, changed)
        try:
            yield
        finally:
            for place in places:
                setattr(place, name, original)

    def _changed(self, function, module):
        source = textwrap.dedent(inspect.getsource(function))
        if source.count(self.guard) != 1:
            message = f"{self.place} has {self.guard!r} {source.count(self.guard)} times"
            raise LookupError(message)
        names = {}
        flags = __future__.annotations.compiler_flag
        changed = compile(source.replace(self.guard, self.instead), module.__file__, "exec", flags)
        exec(changed, function.__globals__, names)
        return names[function.__name__]

    def adapted(self, plan):
        """Return the plan if it has what the guard is for, or None."""
        is_over = not self.transports or plan.transport in self.transports
        is_through = plan.proxy or not self.is_proxied
        has = {*(fault.kind for fault in plan.faults), *plan.troubles, *(["source"] if plan.has_source else [])}
        if not has.issuperset(self.needs):
            return None
        return plan if is_over and is_through and (not self.works or plan.work in self.works) else None


CONTROLS = (
    # Whose answer it is
    Control("a transaction is compared with its reference", "protocol._wire:_outcome",
            "if transaction.reference != reference:", "if False:"),
    Control("a refusal of another reference is none", "protocol._refusal:_other_reference",
            "and str(each) != reference", "and False"),
    Control("refusals are believed from fresh connections only", _BELIEVED,
            "return is_fresh or unconfirmed is not None", "return True"),
    Control("a bare not found is believed at the second time", _BELIEVED,
            "isinstance(before, errors.TransactionNotFoundError) and (was_fresh or not is_fresh)", "True"),
    Control("a bare not found is believed from fresh connections only", _BELIEVED,
            "(was_fresh or not is_fresh)", "True"),
    Control("no doubtful answer is the last while closing", "client._session:Session._check_open",
            "raise closed() from None", "raise"),
    Control("a connection out of step is discarded", "client._session:Session._discard_if_doubtful",
            "is_doubtful = classify(error).again is Again.ONCE or (names_no_reference(error) and not lookup.is_fresh)",
            "is_doubtful = False"),
    Control("a second answer spoils its connection", "transports._parser:ResponseParser.on_message_begin",
            "if self._response_is_over:", "if False:", OURS),
    Control("a connection with something to read is not used", "transports._connections:Pool.take",
            "if connection.is_usable and not connection.unread(0):", "if connection.is_usable:", OURS),
    Control("an unfinished exchange ends its connection", "transports._connections:Pool.give_back",
            "if not connection.is_usable or self.is_closed:", "if self.is_closed:", OURS),
    # A head that a connection has received before
    Control("a known head is compared", _KNOWN_HEAD, "self.pattern.match(",
            "re.compile(re.sub(rb'(?<=: )[^(\\r]+', rb'[^\\r]*', self.pattern.pattern)).match(", OURS),
    Control("a known head says another length each time", _KNOWN_HEAD,
            "len(body) == int(headers[_LENGTH])", "headers", OURS),
    Control("what is behind the body of a known head is seen", _KNOWN_HEAD, "len(body) == int(headers[_LENGTH])",
            "len(body := body[: int(headers[_LENGTH])])", OURS),
    Control("a known head begins a response", "transports._parser:ResponseParser.feed",
            "is_first and self.received <=", "self.received <=", OURS,
            oracle="another transaction"),
    Control("a connection knows its own heads only", "transports._parser:ResponseParser.__init__",
            "self.known_head: KnownHead | None = None",
            "last = globals().get('_last'); self.known_head = last and last.known_head; globals()['_last'] = self",
            OURS, oracle="known head"),
    # Connections
    Control("a stale connection is replaced", "transports._connections:Connections.exchange",
            "is_stale = is_stale_possible and not connection.parser.received", "is_stale = False", OURS),
    Control("an injected client is cancelled by a scope", "transports._client:HttpxClientTransport.send",
            "return await _in_own_scope(self._exchange_until_fresh(request))",
            "return await self._exchange_until_fresh(request)", INJECTED),
    Control("an answer without a waiting lookup is dropped", "transports._connections:Connection._finish",
            "if self._response is not None and not self._response.done():", "if self._response is not None:", OURS),
    # Proxies
    Control("no connection goes around the proxy", "transports._connections:Dialer._connect",
            "self._proxy, None", "None, None", OURS, is_proxied=True),
    Control("a tunnel or a handshake that failed closes its connection", "transports._connections:Dialer._connect",
            "on_failure.callback(opened.close)", "pass", OURS, is_proxied=True),
    Control("the service proves who it is", "transports._connections:Dialer._connect",
            "await self._in_thread(_system_trust)", UNVERIFIED, OURS, is_proxied=True),
    Control("a refused tunnel is not used", "transports._network:_check_tunnel", "if status >= 300:", "if False:",
            is_proxied=True),
    Control("a tunnel with something behind its 200 is not used", "transports._network:_check_tunnel",
            "if rest:", "if False:", is_proxied=True),
    Control("a proxy that leaves opens no tunnel", "transports._connections:_open_tunnel",
            'raise TunnelError("closed the connection before it opened the tunnel")', "return", OURS, is_proxied=True),
    Control("what is no HTTP opens no tunnel", _HEARD,
            "if rest[: len(_BEGINNING)] != _BEGINNING[: len(rest)]:", "if False:",
            is_proxied=True),
    Control("an answer to CONNECT has an end", _HEARD, "if len(received) > _MAX_HEAD:", "if False:", is_proxied=True),
    # Slots
    Control("a slot is given back after a cancelled attempt", "client._admission:Admission.settle",
            "self.limiter.release(", "signal is not Signal.SILENT and self.limiter.release("),
    Control("a slot that was granted and cancelled is given back", _WAIT, "self._in_flight -= 1", "pass"),
    Control("who leaves the queue lets the next one in", _WAIT,
            "same tick\n            self._grant_due()", "same tick"),
    Control("a lookup that has left the queue is granted no slot", "client.policies._limiter:Limiter._grant_due",
            "if not turn.future.done():", "if True:"),
    Control("slots are bounded by the limit", "client.policies._limiter:Limiter._opens_at",
            "self._in_flight >= self.capacity.limit(now)", "self._in_flight > self.capacity.limit(now)"),
    Control("a pause is kept", "client.policies._limiter:Limiter.release",
            "if pause > MAX_OWN_WAIT:", "if False:"),
    Control("a shorter pause does not end a longer one", _PAUSE,
            "max(self.paused_until, self._now() + seconds)", "self._now() + seconds", oracle="pause"),
    Control("who waits as a pause begins is told", "client._admission:Admission._tell_of_pause",
            "lookup.reject(failure)", "pass", oracle="waits"),
    Control("who comes in a pause is told", "client._admission:Admission.too_late", "pause <= remaining", "True",
            oracle="waits"),
    Control("a pause is bounded", "client.policies._retry:pause_of", "min(asked or 0.0, MAX_PAUSE)", "asked or 0.0",
            oracle="recovers", needs=("throttled for years",)),
    Control("headers that describe a limit ask for no pause", "protocol._refusal:ErrorResponse.error",
            "is_throttled=kind is errors.RateLimitedError", "is_throttled=True", oracle="pause"),
    Control("the rate is kept", "client.policies._limiter:Limiter._grant", "if self._gap:", "if False:"),
    Control("what is not known yet refuses nobody", "client.policies._capacity:Capacity.needed",
            "if not self._answered_at:", "if False:", oracle="refused"),
    Control("one congestion cuts the rate once", "client.policies._capacity:Capacity.throttled",
            "may_cut = now >= self._cut_at + max(_MIN_CUT_GAP, 2 * self.round_trip)", "may_cut = True"),
    # Outages
    Control("who waits in an outage is told", "client._outage:Outage._look", "lookup.reject(self.rejection())",
            "pass", works=("lookups",), oracle="waits"),
    Control("who comes in an outage is told", "client._admission:Admission.is_rejected",
            "lookup.is_rejectable and self.outage.is_on", "False", works=("lookups",), oracle="waits"),
    Control("an answer ends an outage", "client._outage:Outage._answered", "self._turn(State.QUIET)", "pass",
            oracle="recovers"),
    Control("one probe a second", "client._outage:Outage.probe",
            "if now < (self._probed_at if is_first else self.sent_at) + _PROBE_GAP:", "if False:", oracle="probes"),
    Control("what has failed before takes one probe", "client._outage:Outage.probe", "self.sent_at = now", "pass",
            oracle="probes"),
    Control("after an outage the limiter starts slowly", "client._outage:Outage._answered",
            "self._limiter.capacity.recover(now)", "pass", oracle="slow start"),
    Control("a reference that always fails is no evidence", "client._outage:Outage.is_evidence",
            "self._failing.get(reference, _NEVER)[0] >= self.answered_at", "True", works=("lookups",), oracle="waits"),
    Control("an outage has an age", "client._outage:Outage._age", "if not self._in_flight and", "if False and",
            works=("lookups",), oracle="recovers"),
    Control("what is slow is not silent", "client._outage:Outage.sent", "_SILENT", "0.3",
            oracle="refused"),
    Control("who is refused for now asks as long as there is time", "client.policies._retry:Retries.delay",
            "(0 if self.is_timed else seen[Again.LATER])", "seen[Again.LATER]", works=("lookups",),
            oracle="gives up"),
    # Time
    Control("an earlier time-out moves the timer", "client.policies._timeouts:Clock.schedule",
            "if when < self._fires_at and", "if self._timer is None and"),
    Control("the timer goes on to the next time-out", "client.policies._timeouts:Clock._fire",
            "if following < math.inf:", "if False:"),
    Control("a clock that was stopped keeps no timer", "client.policies._timeouts:Clock.cancel",
            "if self._is_stopped:", "if False:"),
    Control("a late timer lets the loop read first", "client.policies._timeouts:Clock._fire",
            "if is_late and not self._has_waited:", "if False:", oracle="late timer", needs=("jump",)),
    Control("a late timer ends no connecting", "transports._connections:Dialer.dial", "if is_blocked:", "if False:",
            OURS, oracle="late timer", needs=("jump",)),
    # Equal lookups
    Control("a failed call is no longer in flight", _LEAVE, "call is self or (", "("),
    Control("the deadline of one lookup is not that of another", _LEAVE,
            "isinstance(error, errors.DeadlineExceededError) or", ""),
    Control("those who wait are woken when a call was cancelled", _LEAVE,
            "ended.set_result(", "failure and ended.set_result("),
    Control("a lookup that waits no more ends no other", _LEAVE, "if not ended.done():", "if True:"),
    # Life
    Control("closing lets attempts end", "client._session:Session.aclose", "if self._pending:", "if False:"),
    Control("closing waits for the transport, cancelled or not", "client._session:Session.aclose",
            "await shielded(self._transport.aclose())",
            "await asyncio.wait([asyncio.ensure_future(self._transport.aclose())], timeout=0)"),
    Control("the key is taken out of what is shown", "protocol._secret:Redaction.__call__",
            "if beginning in layer:", "if False:"),
    # Who has an answer, and whose error it is
    Control("a cancelled attempt is no answer", _ATTEMPT, "result = CANCELLED",
            'result = _Result("cancelled", Signal.ACCEPTED)', oracle="growth"),
    Control("freshness is that of the last attempt", _ATTEMPT, "lookup.is_fresh = response.is_fresh",
            "lookup.is_fresh = lookup.is_fresh or response.is_fresh"),
    # Keys
    Control("lookups share one call of the source", _RENEW,
            "call = self._call = self._call or self._start(self.source)",
            "call = self._call = self._start(self.source)", oracle="source", needs=("source",)),
    Control("the last lookup that leaves ends the call of the source", _RENEW,
            "if not (call.waiters or call.task.done()):", "if False:", oracle="source", needs=("source hangs",)),
    Control("a call of the source outlives the lookup that made it", _RENEW, "call.timer.cancel()", "pass",
            oracle="source", needs=("source hangs",)),
    Control("a lookup that shares another one takes its call of the source over", _RENEW, "call_later(_TAKEOVER,",
            "call_soon(", oracle="source", needs=("source hangs",)),
    Control("a key that is refused is asked for again", "client._session:Session._delay",
            "isinstance(error, errors.AuthenticationError) and self._keys.source and not lookup.declined[0]",
            "False", oracle="error", needs=("key rotates",)),
    Control("what may be a key is taken out of the words of a source", "client._keys:_failure",
            '_TOKEN.sub("…", redact(str(error)))', "str(error)", oracle="key", needs=("source fails",)),
    # Which answer is shared
    Control("a confirmation joins no earlier lookup", "client._lookup:SingleFlight.joinable",
            "call.made.sent_at is None or call.made.sent_at > after", "True",
            oracle="older", works=("crowd",)),
    Control("what confirms is asked after it was called", "client._client:AsyncClient._look_up",
            "after = now if is_newer or is_fresh else -math.inf", "after = -math.inf",
            oracle="older", works=("crowd",)),
    Control("nobody joins what may be older than an answer given", _LEAVE,
            "(is_told and name != POLL and call.made.sent_at is not None)", "False", oracle="older", works=("crowd",)),
    # Waits
    Control("a wait ends at its deadline, whatever is in flight", _WAIT_FOR, "wait.ends_at, is_poll=True",
            "None, is_poll=True", oracle="deadline", works=_WAITS),
    Control("closing ends waits and back-offs", "client._session:Session.sleep", "await self._closing.wait()",
            "await asyncio.sleep(until)", works=_WAITS, oracle="close", needs=("close",)),
    # The limit
    Control("an attempt from before a cut lets nothing grow", _ACCEPTED,
            "if ticket.started_at < self._cut_at:", "if False:", oracle="growth"),
    Control("a limit that is not used does not grow", _ACCEPTED,
            "if ticket.load * 2 >= self._slow_start:", "if True:", oracle="growth"),
    Control("a gap makes up for a late timer, and for no blocked loop", "client.policies._limiter:Limiter._pace",
            "min(self._gap, _MAX_LATENESS)", "self._gap"),
    Control("no probe in a pause", "client.policies._limiter:Limiter.probe",
            "self.in_flight >= self._max or max(self.paused_until, self._due_at) > now", "self.in_flight >= self._max"),
    Control("closing refuses those who queue", "client.policies._limiter:Limiter.close", "self._grant_due()", "pass",
            needs=("close",)),
    # The time of one lookup
    Control("an attempt has a time-out", _ATTEMPT, "at_most=options.timeout, ", "", oracle="time-out"),
    Control("a deadline ends the wait for a slot", "client._admission:Admission._queue",
            'with LookupPhase(lookup, "queued"):', "if True:", oracle="deadline"),
    Control("a client that is closed takes no lookup", "client._session:Session.check_usable", "if self._is_closed:",
            "if False:", needs=("close",)),
    Control("a compressed body is read", "protocol._wire:_read",
            'if coding := response.headers.get("content-encoding"):', 'if coding := "":', needs=("compressed",)),
    # Streams
    Control("the workers of a stream end with its block", "client._stream:Stream.__aexit__",
            "await until_done(self.close(None))", "await asyncio.sleep(0)", works=("stream",)),
    Control("the last worker wakes the reader", "client._stream:Stream._settle", "if self._is_done():", "if False:"),
    Control("a known reference tells a bad row from an outage", "client._stream:Stream._ask_known",
            "if not (is_unclear and", "if True or not (is_unclear and"),
    Control("a row that fails for a temporary reason is asked again", "client._stream:Deferral.decide",
            "if not (self.is_on and is_temporary):", "if True:", works=("stream",)),
    Control("no row is to blame for an outage", "client._stream:Deferral.decide",
            "if self.answers == row.answers_when_sent and", "if False and", works=("stream",)),
    Control("a deferred row wakes the worker that waits", "client._stream:Stream._judge", "self._news.set()", "pass",
            works=("stream",), oracle="held up", needs=("input stalls",)),
    Control("bad rows that hold up the input are told from an outage", "client._stream:Stream._ask_known",
            "or is_held_up or", "or", works=("stream",), needs=("queues of one",)),
    Control("results that are ready are read before the end", "client._stream:Stream.__anext__",
            "if self._ready:", "if self._ready and not self._is_done():", works=("stream",), oracle="lost",
            needs=("observer raises",)),
    # Threads
    Control("a thread that calls as the client ends is told", "blocking:LoopThread.wait",
            "if self.problem is None:", "if True:", works=("threads",), oracle="waits for ever"),
    Control("the end of the loop cancels its tasks", "blocking:LoopThread._end",
            "self._cancel()", "pass", works=("threads",)),
    Control("a thread that calls a loop that has ended is told", "blocking:LoopThread.wait",
            "with suppress(RuntimeError):", "if True:", works=("threads",)),
    Control("a loop that ends begins no call", "blocking:LoopThread._start",
            "or self._ending is not None", "", works=("threads",)),
    Control("a thread that is interrupted leaves no lookup", "blocking:LoopThread.wait",
            "answer.cancel()", "pass", works=("threads",), needs=("cancel",)),
    Control("who asks a client to close asks its loop to stop", "blocking:LoopThread.stop",
            "with suppress(RuntimeError):", "if True:", works=("threads",)),
    # The journal
    Control("an answer of the night before stands", "reconcile._journal.journal:_take",
            "journal.answers.add(pending.position, answer, paid_reff=judgement.paid_reff_of(answer, rules=rules))",
            "pass",
            works=("reconcile",), oracle="reuse"),
    Control("an answer is committed before the next lookup", "reconcile._journal.answers:Answers.committed",
            "if self._database.path is None:", "if True:", works=("reconcile",)),
    Control("failures are asked again by the next run", "reconcile._journal.journal:Journal.forget_failures",
            "db.execute(_FORGET_FAILURES)", "pass", works=("reconcile",)),
)  # fmt: skip


def search(control, *, seeds):
    """Return how many seeds it took to see that a guard is missing, and which oracles saw it; None if none did."""
    with control.removed():
        for seed in range(seeds):
            plan = control.adapted(draw(seed))
            names = names_of(world.run(plan)) if plan is not None else set()
            if names and control.oracle in {"", *names}:
                return control.name, seed + 1, sorted(names)
    return control.name, None, []


def main(names, *, seeds, jobs):
    """Remove each guard, all or those whose names hold one of *names*, and print a table; return the exit status."""
    chosen = [each for each in CONTROLS if not names or any(name in each.name for name in names)]
    began, unseen = time.monotonic(), []
    print("| without this guard | seeds | seen by |\n|---|---|---|")
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
        numbers = [CONTROLS.index(each) for each in chosen]
        for name, number, oracles in pool.imap_unordered(partial(_search, seeds=seeds), numbers, chunksize=1):
            print(f"| {name} | {number or f'more than {seeds}'} | {', '.join(oracles)} |", flush=True)
            if number is None:
                unseen.append(name)
    took = (time.monotonic() - began) / 60
    print(f"controls: {len(chosen) - len(unseen)} of {len(chosen)} seen, {took:.1f} minutes")
    return 1 if unseen else 0


def _search(number, *, seeds):
    return search(CONTROLS[number], seeds=seeds)

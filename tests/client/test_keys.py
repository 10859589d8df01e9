"""The API key from a function: asked at first use, asked again when refused, and kept nowhere else."""

import ast
import asyncio
import json
import logging
import pickle
import traceback
from functools import partial
from pathlib import Path

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from payclient import (
    AuthenticationError,
    ClientClosedError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    Failed,
    Found,
    KeySourceError,
    ResponseError,
)
from payclient._shared.options import OPTIONS
from payclient.client import _config
from payclient.client._keys import Keys
from support.chance import examples
from support.fakes import ScriptedTransport, answer, client, document, now

pytestmark = pytest.mark.virtual_time

OLD, NEW = "sk-former-key-000001", "sk-current-key-000002"
UNKNOWN = "vault-token-8f2a-99"


class Guarded:
    """A transport that accepts one key at a time; each answer takes a second."""

    def __init__(self, accepts=OLD, *, is_fresh=True):
        self.accepts = accepts
        self.is_fresh = is_fresh
        self.sent = []

    async def send(self, request):
        bearer = request.authorization()
        self.sent.append(bearer.removeprefix("Bearer "))
        is_accepted = bearer == f"Bearer {self.accepts}"
        await asyncio.sleep(1)
        if is_accepted:
            return answer(document(json.loads(request.body)["reference"]))
        return answer(b'{"success": false, "message": "Invalid API key ' + bearer.encode() + b'"}', 401)

    async def aclose(self):
        pass


class Vault:
    """Gives the keys one after the other, the last one for ever; counts how often it is asked."""

    def __init__(self, *keys):
        self.keys = list(keys)
        self.asked = 0

    def __call__(self):
        self.asked += 1
        return self.keys.pop(0) if len(self.keys) > 1 else self.keys[0]


class AsyncVault(Vault):
    """The same, and it takes a while."""

    async def __call__(self):
        await asyncio.sleep(3)
        return super().__call__()


@pytest.mark.parametrize("kind", [Vault, AsyncVault])
async def test_asked_at_first_use(kind):
    """The function is not called before the first lookup, and once for all that begin at the same time."""
    vault = kind(OLD)
    pay = client(Guarded(), api_key=vault)
    before = vault.asked
    await asyncio.gather(*(pay.get_transaction(f"T{number}") for number in range(5)))
    await pay.get_transaction("T1")
    assert (before, vault.asked) == (0, 1)


@pytest.mark.parametrize("kind", [Vault, AsyncVault])
async def test_asked_again_when_refused(kind):
    """A key that is refused is asked for again, and the lookup sent with the new one."""
    transport, vault = Guarded(accepts=NEW), kind(OLD, NEW)
    pay = client(transport, api_key=vault)
    assert (await pay.get_transaction("T1")).reference == "T1"
    await pay.get_transaction("T2")
    assert (transport.sent, vault.asked) == ([OLD, NEW, NEW], 2)


async def test_refused_twice():
    """When the new key is refused as well, that is the error; a lookup asks once."""
    transport, vault = Guarded(accepts="sk-none-of-these-000"), Vault(OLD, NEW, "sk-a-third-key-00003")
    with pytest.raises(AuthenticationError):
        await client(transport, api_key=vault).get_transaction("T1")
    assert (transport.sent, now()) == ([OLD, NEW], 2.0)


async def test_refusal_with_the_new_key():
    """With the new key, a refusal over a reused connection has to be confirmed again."""
    transport = ScriptedTransport(T1=[attrs.evolve(answer(b"{}", each), is_fresh=False) for each in (401, 401, 404)])
    assert (await client(transport, api_key=Vault(OLD, NEW)).get_transaction("T1")).reference == "T1"
    assert len(transport.sent) == 4


async def test_not_asked_when_the_service_fails():
    """Another error than a refused key does not ask for the key again."""
    transport, vault = ScriptedTransport(), Vault(OLD, NEW)
    transport.script("T1", answer(b"{}", 503))
    await client(transport, api_key=vault).get_transaction("T1")
    assert (len(transport.sent), vault.asked) == (2, 1)


async def test_same_key_again():
    """When the function gives the same key again, the request is not repeated."""
    transport, vault = Guarded(accepts=NEW), Vault(OLD)
    with pytest.raises(AuthenticationError):
        await client(transport, api_key=vault).get_transaction("T1")
    assert (transport.sent, vault.asked) == ([OLD], 2)


async def test_rotation_in_the_middle_of_a_stream():
    """A rotation in the middle of a stream loses no row."""
    transport, vault = Guarded(), AsyncVault(OLD, NEW)
    pay = client(transport, api_key=vault, max_concurrency=8)
    asyncio.get_running_loop().call_later(50.5, setattr, transport, "accepts", NEW)
    async with pay.stream_transactions([f"T{number}" for number in range(1000)]) as stream:
        outcomes = [outcome async for outcome in stream]
    assert {type(outcome) for outcome in outcomes} == {Found}
    assert sorted(outcome.index for outcome in outcomes) == list(range(1000))
    assert (vault.asked, len(transport.sent) <= 1008) == (2, True)


async def test_deadline_counts_asking():
    """The deadline of each lookup bounds how long the function may take; with the last of them its call ends."""
    ended_at = []

    async def never():
        try:
            await asyncio.sleep(1000)
        finally:
            ended_at.append(now())

    pay = client(Guarded(), api_key=never, deadline=5.0)

    async def timed(lookup):
        with pytest.raises(DeadlineExceededError) as caught:
            await lookup
        return now(), repr(caught.value.__cause__)

    patient = pay.with_options(deadline=7.0)
    lookups = [pay.get_transaction("T1"), pay.get_transaction("T2"), patient.get_transaction("T3")]
    found = await asyncio.gather(*map(timed, lookups))
    await asyncio.sleep(1.0)
    cause = "KeySourceError('the key source has not answered')"
    assert (found, ended_at) == ([(5.0, cause), (5.0, cause), (7.0, cause)], [7.1])
    async with patient.stream_transactions(["T4"], stall_timeout=60.0) as stream:  # which has no deadline in the queue
        assert isinstance(await anext(stream), Failed)
        with pytest.raises(DeadlineExceededError):
            await anext(stream)
    assert (now(), ended_at[1]) == (68.0, 15.1)
    await asyncio.sleep(0.2)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_closed_while_asking():
    """Closing ends the call of the function, and the lookups that wait for it."""
    pay = client(Guarded(), api_key=AsyncVault(OLD))
    lookup = asyncio.create_task(pay.get_transaction("T1"))
    await asyncio.sleep(1)
    await pay.aclose()
    with pytest.raises(ClientClosedError):
        await lookup
    assert now() == 1.0


@pytest.mark.parametrize("given", ["", "two words", None, 7])
async def test_unusable_key(given):
    """A source that gives what cannot be a key has failed, which passes; what it gave is not shown."""
    with pytest.raises(KeySourceError, match="the key source gave no usable key: it ") as caught:
        await client(Guarded(), api_key=lambda: given).get_transaction("T1")
    assert [word for word in ("two words", "PAYCLIENT_API_KEY") if word in str(caught.value)] == []


@pytest.mark.parametrize("nothing", ["", None])
async def test_source_that_is_starting(nothing):
    """A source that gives nothing at first costs a retry, and no row of a stream."""
    pay = client(Guarded(), api_key=Vault(nothing, OLD))
    async with pay.stream_transactions(["T1", "T2"]) as outcomes:
        assert [type(outcome) async for outcome in outcomes] == [Found, Found]


class Failing(AsyncVault):
    """The same, and some of its calls fail; *fails* tells by the number of the call."""

    def __init__(self, *keys, fails, words="no such secret"):
        super().__init__(*keys)
        self.fails = fails
        self.words = words

    async def __call__(self):
        key = await super().__call__()
        if self.fails(self.asked):
            raise LookupError(self.words)
        return key


async def test_nothing_was_sent_without_a_key():
    """An error of a connection after a failure of the function says that nothing was sent: there was no request."""
    vault = Failing(OLD, fails=lambda asked: asked == 1)
    transport = ScriptedTransport(default=lambda _: ConnectionFailedError("refused", sent="no"))
    with pytest.raises(ConnectionFailedError) as caught:
        await client(transport, api_key=vault).get_transaction("T1")
    assert caught.value.sent == "no"


async def test_failure_is_shared():
    """One call of the function, and its failure, are shared by all lookups that came meanwhile; each has its own."""
    vault = Failing(OLD, fails=lambda _: True)
    pay = client(Guarded(), api_key=vault, retry=None)
    found = await asyncio.gather(*(pay.get_transaction(f"T{number}") for number in range(20)), return_exceptions=True)
    assert {(type(each), str(each), each.attempts) for each in found} == {
        (KeySourceError, "the key source failed: LookupError: no such secret", 0)
    }
    assert (len({id(each) for each in found}), vault.asked) == (20, 1)


async def test_stream_goes_on_while_the_function_fails():
    """A stream goes on with the key that still serves, while one row was refused and the function fails for long."""

    class OneSick(Guarded):
        async def send(self, request):
            is_sick = json.loads(request.body)["reference"] == "T100" and now() < 60
            return answer(b"{}", 401) if is_sick else await super().send(request)

    vault = Failing(OLD, fails=lambda number: number > 1)
    pay = client(OneSick(), api_key=vault, max_concurrency=8)
    async with pay.stream_transactions([f"T{number}" for number in range(1000)]) as stream:
        outcomes = [outcome async for outcome in stream]
    assert ({type(outcome) for outcome in outcomes}, len(outcomes)) == ({Found}, 1000)


async def test_stream_without_any_key():
    """A stream ends with the error when the function fails for the first three rows, as without a connection."""
    vault = Failing(OLD, fails=lambda _: True)
    seen = []
    with pytest.raises(KeySourceError):
        async with client(Guarded(), api_key=vault).stream_transactions(f"T{number}" for number in range(99)) as stream:
            seen.extend([outcome async for outcome in stream])
    assert (seen, vault.asked <= 12) == ([], True)


async def test_words_of_the_function():
    """What a function that fails says is shown without any key: not a known one, and not one that is yet unknown."""
    vault = Failing(OLD, fails=lambda number: number > 1, words=f"403 for {OLD}: {UNKNOWN} at 10.0.0.12:8200\n" * 9)
    with pytest.raises(KeySourceError) as caught:
        await client(Guarded(accepts=NEW), api_key=vault, retry=None).get_transaction("T1")
    assert str(caught.value).startswith(
        "the key source failed: LookupError: 403 for [api key]: … at 10.0.0.12:8200<U+000A>403"
    )
    shown = shown_by(caught.value)
    assert ([key for key in (OLD, UNKNOWN) if key in shown], len(str(caught.value)) < 300) == ([], True)


@examples(150)
@example(callers=[(0.0, None, False), *[(4.0, 0.5, False)] * 3], failing=set())
@given(
    callers=st.lists(
        st.tuples(st.floats(0, 20), st.sampled_from([None, 0.0, 0.5, 3.0]), st.booleans()), min_size=1, max_size=10
    ),
    failing=st.sets(st.integers(1, 4)),
)
async def test_one_call_at_a_time(callers, failing):
    """Whoever is cancelled and which calls fail: there is one call at a time, and all others are answered."""
    under_way, most = 0, 0
    vault = Failing(OLD, OLD, NEW, fails=failing.__contains__)

    async def source():
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return await vault()
        finally:
            under_way -= 1

    # Three who leave after half a second look like an outage.
    pay = client(Guarded(accepts=NEW), api_key=source, max_concurrency=8, deadline=None, on_outage="wait")

    async def ask(number, at, patience, is_bulk):
        await asyncio.sleep(at)
        async with asyncio.timeout(patience):
            return await (pay.get_transactions([f"T{number}"]) if is_bulk else pay.get_transaction(f"T{number}"))

    asking = (ask(number, *caller) for number, caller in enumerate(callers))
    for (_, patience, _), result in zip(callers, await asyncio.gather(*asking, return_exceptions=True), strict=True):
        assert not isinstance(result, TimeoutError) or patience is not None
        is_typed = isinstance(result, KeySourceError | AuthenticationError | TimeoutError)
        assert is_typed or not isinstance(result, BaseException), result
    await asyncio.sleep(0.2)  # a caller who shares a lookup might have taken over
    assert (under_way, most <= 1, asyncio.all_tasks()) == (0, True, {asyncio.current_task()})


@pytest.mark.parametrize("way", ["lookup", "wait"])
async def test_shared_by_equal_lookups(way):
    """Of two equal lookups that wait for a slow source, the second waits on for the same call when the first leaves."""
    calls = []

    async def slow():
        calls.append(now())
        await asyncio.sleep(3.0)
        return OLD

    async with client(Guarded(), api_key=slow) as pay:
        if way == "lookup":
            first, second = (asyncio.create_task(pay.get_transaction("T1")) for _ in range(2))
        else:
            wait = partial(pay.wait_for, "T1", until=lambda _: True, deadline=20.0)
            first, second = (asyncio.create_task(wait()) for _ in range(2))
        await asyncio.sleep(2.9)
        first.cancel()
        await second
        assert (len(calls), now()) == (1, pytest.approx(4.0))


async def test_fingerprint():
    """There is no fingerprint before the first use, and that of the current key after it."""
    transport, vault = Guarded(), Vault(OLD, NEW)
    pay = client(transport, api_key=vault)
    seen = [pay.key_fingerprint]
    await pay.get_transaction("T1")
    seen.append(pay.key_fingerprint)
    transport.accepts = NEW
    await pay.get_transaction("T1")
    seen.append(pay.key_fingerprint)
    assert seen == ["", *(client(Guarded(), api_key=key).key_fingerprint for key in (OLD, NEW))]
    assert repr(pay).endswith(f"key_fingerprint='{seen[2]}')")


def shown_by(error):
    """Return all that a traceback with locals, a repr and a pickle show."""
    frames = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "".join([*frames.format(), repr(error), repr(vars(error)), str(pickle.dumps(error))])


async def test_kept_nowhere(caplog):
    """Neither key is in a frame, a log or a pickle, also where the service repeats it."""
    caplog.set_level(logging.DEBUG)
    with pytest.raises(AuthenticationError) as caught:
        await client(Guarded(accepts="sk-none-of-these-000"), api_key=AsyncVault(OLD, NEW)).get_transaction("T1")
    chain = [caught.value, caught.value.__cause__, caught.value.__context__]
    shown = caplog.text + "".join(shown_by(error) for error in chain if error is not None)
    assert "[api key]" in shown
    assert [key for key in (OLD, NEW) if key in shown.replace("OLD", "")] == []


async def test_former_key_is_redacted():
    """After a rotation the former key is redacted as well: a request that carried it may still be answered."""
    keys = Keys(None, Vault(OLD, NEW))
    await keys.renew(0)
    await keys.renew(1)
    assert keys.redact(f"{OLD} {NEW}") == "[api key] [api key]"


async def test_key_of_the_attempt_is_redacted():
    """The text of an answer is redacted with the key of its attempt, however often the key was renewed meanwhile."""

    class Slow(Guarded):
        async def send(self, request):
            is_slow = json.loads(request.body)["reference"] == "T0"
            bearer = request.authorization()
            if not is_slow:
                return await super().send(request)
            await asyncio.sleep(8)
            return answer(json.dumps({"success": False, "message": f"wrong code for {bearer}"}).encode(), 422)

    transport = Slow()
    pay = client(transport, api_key=Vault(OLD, "sk-second-key-000003", NEW))
    slow = asyncio.create_task(pay.get_transaction("T0"))
    for accepted in (OLD, "sk-second-key-000003", NEW):
        transport.accepts = accepted
        await pay.get_transaction("T1")
    with pytest.raises(ResponseError) as caught:
        await slow
    assert ("[api key]" in str(caught.value), OLD in shown_by(caught.value)) == (True, False)


async def test_polls_ask_too():
    """A wait survives a rotation."""
    transport, vault = Guarded(), Vault(OLD, NEW)
    asyncio.get_running_loop().call_later(20, setattr, transport, "accepts", NEW)
    await client(transport, api_key=vault).wait_for("T1", until=lambda _: now() > 60, deadline=900.0)
    assert vault.asked == 2


OF_ENVIRONMENT = {name: getattr(_config, f"resolve_{name}") for name in ("api_key", "base_url", "environment")}


def test_all_of_environment():
    """No other function reads a variable of an option, which could be shown. The transport's variable isn't secret."""
    package = Path(_config.__file__).parents[1]
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in package.rglob("*.py")}
    found = {
        (path.stem, node.name)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and ".value(given)" in ast.unparse(node)
    }
    assert found == {("_network", "resolve_transport"), *(("_config", f"resolve_{name}") for name in OF_ENVIRONMENT)}


@pytest.mark.parametrize("name", OF_ENVIRONMENT)
@pytest.mark.parametrize("bad", ["", "no such \u2028 value"])
def test_environment_in_no_frame(name, bad, monkeypatch):
    """What reads the environment refuses a value without the key in any frame of its traceback."""
    for option in OPTIONS.values():
        if option.variable:
            monkeypatch.setenv(option.variable, bad)
    monkeypatch.setenv("PAYCLIENT_API_KEY", f"{OLD} and {OLD}")
    with pytest.raises(ConfigurationError) as caught:
        OF_ENVIRONMENT[name](None)
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)][1:]
    assert frames
    assert not [frame for frame in frames if OLD in repr(frame.f_locals)]

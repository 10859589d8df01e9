"""The fake service keeps every rule of the specification, and says what it assumes beyond."""

import asyncio
from itertools import product

import httpx
import pytest

from payclient.testing import Assumptions, FakeService, Latency, ReceivedRequest, Reply
from support.limits import LimitedService, at_once, window
from testing.asking import HEADERS, LIVE, SANDBOX, ask, ask_all

pytestmark = pytest.mark.virtual_time

TEN_FIELDS = {
    "reference": str,
    "merchant_reff": str,
    "payment_method": str,
    "payment_name": str,
    "amount": int,
    "fee": int,
    "amount_received": int,
    "payment_code": str,
    "expdate": str,
    "status": str,
}


@pytest.fixture
def service():
    service = LimitedService()
    service.add(reference="T1", amount=20000, status="Paid")
    return service


async def hang_up(asking):
    """Let a request reach the service, then leave."""
    await asyncio.sleep(1)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


async def test_success(service):
    """Part 4, rules 1 to 3: JSON with `success` true, and in `data` the ten fields of the reference, on both paths."""
    service.add(reference="T2")
    for path, reference in product((LIVE, SANDBOX), ("T1", "T2")):
        answer = await ask(service, reference, path=path)
        data = answer.json()["data"]
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        assert (answer.json(), data["reference"]) == ({"success": True, "data": data}, reference)
        assert {name: type(value) for name, value in data.items()} == TEN_FIELDS


@pytest.mark.parametrize(
    ("change", "assumption"),
    [
        pytest.param({"path": "/transaction/detail"}, "unknown_path", id="path"),
        pytest.param({"path": f"{LIVE}/"}, "unknown_path", id="path with a slash"),
        pytest.param({"method": "GET"}, "wrong_method", id="method"),
        pytest.param({"headers": {"content-type": "application/json"}}, "refused_key", id="no key"),
        pytest.param({"headers": {**HEADERS, "authorization": "Bearer other"}}, "refused_key", id="other key"),
        pytest.param({"headers": {**HEADERS, "authorization": "fake-api-key"}}, "refused_key", id="no Bearer"),
        pytest.param({"headers": {**HEADERS, "content-type": "text/plain"}}, "wrong_content_type", id="content type"),
        pytest.param({"headers": {"authorization": HEADERS["authorization"]}, "content": b"{}"}, "wrong_content_type",
                     id="no content type"),
        pytest.param({"content": b"reference=T1"}, "unreadable_body", id="form"),
        pytest.param({"content": b'["T1"]'}, "unreadable_body", id="list"),
        pytest.param({"content": b"[" * 10_000}, "unreadable_body", id="deep"),
        pytest.param({"content": b'{"reference":"T1","x":"' + b"x" * 70_000 + b'"}'}, "unreadable_body", id="long"),
        pytest.param({"content": b"{}"}, "no_reference", id="no reference"),
        pytest.param({"content": b'{"reference":1}'}, "no_reference", id="reference is a number"),
        pytest.param({"content": b'{"reference":""}'}, "no_reference", id="empty reference"),
        pytest.param({"reference": "T9"}, "unknown_reference", id="unknown reference"),
    ],
)  # fmt: skip
async def test_refused(service, change, assumption):
    """Part 4: a request that breaks a rule about path, method, headers or body gets no transaction."""
    expected = getattr(service.assumptions, assumption)
    answer = await ask(service, **change)
    assert (answer.status_code, answer.content) == (expected.status, expected.content({}))


async def test_content_type_with_charset(service):
    """A content type may carry parameters."""
    headers = {**HEADERS, "content-type": "application/json; charset=utf-8"}
    assert (await ask(service, headers=headers)).status_code == 200


async def test_own_key():
    """The service accepts only its `api_key`."""
    service = FakeService(api_key="mine")
    service.add(reference="T1")
    keys = ("mine", "fake-api-key")
    answers = [await ask(service, headers={**HEADERS, "authorization": f"Bearer {key}"}) for key in keys]
    assert [answer.status_code for answer in answers] == [200, 401]


async def test_other_assumptions():
    """`Assumptions` can be replaced."""
    service = FakeService(assumptions=Assumptions(unknown_reference=Reply(body={"success": False, "code": 7})))
    answer = await ask(service, "T9")
    assert (answer.status_code, answer.json()) == (200, {"success": False, "code": 7})


def test_every_assumption_is_marked():
    """Each answer that the specification does not show is described as an assumption."""
    assert [name for name in Assumptions.__slots__ if f"{name}:" not in Assumptions.__doc__ + "__weakref__:"] == []


async def test_stored(service):
    """A stored transaction can be changed, each has a reference, and no field is one that the service does not have."""
    service.add(reference="T2", status="Pending")["status"] = "Paid"
    assert (await ask(service, "T2")).json()["data"]["status"] == "Paid"
    service.load({"reference": f"L{number}", "amount": number} for number in (1, 2))
    assert [(await ask(service, name)).json()["data"]["amount"] for name in ("L1", "L2")] == [1, 2]
    assert service.add()["reference"] != service.add()["reference"]
    with pytest.raises(TypeError, match="total"):
        service.add(total=1)


async def test_script(service):
    """A script is used up in its order, then the reference is normal again; others are normal throughout."""
    service.add(reference="T2")
    service.script("T1", Reply(status=500), Reply(status=429, headers={"Retry-After": "2"}))
    assert [(await ask(service, name)).status_code for name in ("T1", "T2", "T1", "T1")] == [500, 200, 429, 200]


async def test_script_of_unknown_reference(service):
    """A script needs no transaction; a reply that would show one is then the unknown reference."""
    service.script("T9", Reply(status=429, headers={"Retry-After": "2"}), Reply())
    first, second = await ask(service, "T9"), await ask(service, "T9")
    assert (first.status_code, first.headers["retry-after"], second.status_code) == (429, "2", 404)


async def test_script_and_wrong_key(service):
    """A request that is not in order uses no scripted reply up."""
    service.script("T1", Reply(status=500))
    await ask(service, headers={**HEADERS, "authorization": "Bearer other"})
    assert (await ask(service)).status_code == 500


async def test_script_before_faults(service, monkeypatch):
    """A script has priority over the faults of a subclass."""
    monkeypatch.setattr(service, "fault", lambda: Reply(status=502))
    service.script("T1", Reply(status=418))
    assert [(await ask(service)).status_code for _ in range(2)] == [418, 502]


async def test_limit_before_script():
    """A request that a limit refuses uses no scripted reply up, and does not count as one in flight."""
    service = LimitedService(refuse=window(1))
    service.script("T1", Reply(status=500), Reply(status=502))
    statuses = [await ask_all(service, "T1", "T1"), service.in_flight]
    await asyncio.sleep(60)
    assert [*statuses, await ask_all(service, "T1")] == [[500, 429], 0, [502]]


async def test_latency():
    """Every answer takes the latency and the delay of its reply, on the event loop's clock."""
    service = FakeService(latency=Latency(seconds=2))
    service.script("T1", Reply(status=500, delay=3))
    await ask(service)
    assert asyncio.get_running_loop().time() == pytest.approx(5)


async def test_slow_and_unknown():
    """A slow reply is slow for a reference without a transaction, too."""
    service = FakeService()
    service.script("T9", Reply(delay=3))
    answer = await ask(service, "T9")
    assert (answer.status_code, asyncio.get_running_loop().time()) == (404, pytest.approx(3))


async def test_jitter():
    """Jitter spreads the answers over its range, the same way for the same seed."""

    async def times(seed):
        service = FakeService(latency=Latency(seconds=1, jitter=1), seed=seed)
        begun = asyncio.get_running_loop().time()
        await ask_all(service, "T1")
        return round(asyncio.get_running_loop().time() - begun, 6)

    first, again, other = await times(1), await times(1), await times(2)
    assert (first == again, first == other, 1 < first < 2) == (True, False, True)


async def test_not_at_once(service):
    """Even without latency, other tasks run before the answer."""
    turns = []
    asyncio.get_running_loop().call_soon(turns.append, "other")
    await ask(service)
    assert turns == ["other"]


async def test_dead():
    """A dead reply keeps the request in flight for as long as its client waits."""
    service = LimitedService()
    service.script("T1", Reply(never_responds=True))
    asking = asyncio.create_task(ask(service))
    await asyncio.sleep(86_400)
    in_flight = service.in_flight
    await hang_up(asking)
    assert in_flight == 1


@pytest.mark.parametrize("reply", [Reply(never_responds=True), Reply(delay=60)], ids=["dead", "slow"])
async def test_cancelled(service, reply):
    """A cancelled request is not in flight, has no status, and frees its slot."""
    service = LimitedService(refuse=at_once(1))
    service.add(reference="T1")
    service.script("T1", reply)
    await hang_up(asyncio.create_task(ask(service)))
    assert (service.in_flight, service.requests[0].status, (await ask(service)).status_code) == (0, None, 200)


async def test_disconnected():
    """A client that leaves while it waits frees its place at once, and is sent nothing."""
    service = LimitedService(refuse=at_once(1), latency=Latency(seconds=60))
    events = [{"type": "http.request", "body": b'{"reference":"T1"}'}, {"type": "http.disconnect"}]
    sent = []

    async def receive():
        await asyncio.sleep(1)
        return events.pop(0)

    async def send(message):
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    scope = {"type": "http", "method": "POST", "path": LIVE, "headers": raw}
    await service(scope, receive, send)
    assert (asyncio.get_running_loop().time(), service.in_flight, sent) == (pytest.approx(2), 0, [])


async def test_left_before_the_body():
    """A client that leaves in the middle of its request is not counted as a request."""
    service = LimitedService()

    async def receive():
        return {"type": "http.disconnect"}

    await service({"type": "http", "method": "POST", "path": LIVE, "headers": []}, receive, None)
    assert (service.in_flight, service.total) == (0, 0)


async def test_body_in_pieces(service):
    """A body that arrives in several messages is joined."""

    async def pieces():
        for piece in (b'{"refer', b'ence":', b'"T1"}'):
            yield piece

    assert (await ask(service, content=pieces())).status_code == 200


async def test_failing_send(service):
    """A failing send frees the slot too."""

    class Unsent(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request):
            async def send(message):
                raise OSError("gone")

            async def receive():
                return {"type": "http.request", "body": request.content}

            scope = {"type": "http", "method": "POST", "path": LIVE, "headers": request.headers.raw}
            await service(scope, receive, send)

    async with httpx.AsyncClient(transport=Unsent()) as client:
        with pytest.raises(OSError, match="gone"):
            await client.post("http://fake", json={"reference": "T1"}, headers=HEADERS)
    assert service.in_flight == 0


async def test_not_http(service):
    """A scope that is not HTTP is refused, so that servers do without a lifespan."""
    with pytest.raises(ValueError, match="lifespan"):
        await service({"type": "lifespan"}, None, None)


@pytest.fixture
def service_of_log():
    service_of_log = FakeService()
    service_of_log.load({"reference": name} for name in ("T1", "T2", "T3"))
    return service_of_log


async def test_request(service_of_log):
    """A request is remembered with method, path, reference, status and the loop's time at its start."""
    await asyncio.sleep(5)
    await ask(service_of_log, path=SANDBOX)
    headers = service_of_log.requests[0].headers
    expected = ReceivedRequest(method="POST", path=SANDBOX, reference="T1", headers=headers, status=200, started_at=5.0)
    assert service_of_log.requests == (expected,)


async def test_headers(service_of_log):
    """The headers of a request are remembered, but not the key; one that was refused is remembered as well."""
    await ask(service_of_log)
    await ask(service_of_log, "T9", headers={})
    known, keyless = service_of_log.requests
    assert (known.headers["content-type"], known.headers["authorization"]) == ("application/json", "***")
    assert service_of_log.api_key not in repr(service_of_log) + str(service_of_log.requests)
    assert (keyless.reference, keyless.status, "authorization" in keyless.headers) == ("T9", 401, False)


async def test_count(service_of_log):
    """Requests are kept in order of arrival, and counted, in total and per reference."""
    service_of_log.script("T1", Reply(status=500))
    for reference in ("T1", "T1", "T2"):
        await ask(service_of_log, reference)
    assert ([each.reference for each in service_of_log.requests], service_of_log.total) == (["T1", "T1", "T2"], 3)
    assert [service_of_log.count(reference) for reference in ("T1", "T2", "T3")] == [2, 1, 0]


async def test_becomes(service):
    """A transaction that becomes something else does so on the event loop's clock, from the first request on."""
    service.add(reference="T5", status="Pending", becomes=[(0.0, "Review"), (1e6, "Paid")])
    assert (await ask(service, "T5")).json()["data"]["status"] == "Review"


async def test_advance(service):
    """Time that a test lets pass needs no real second; it counts from `add` for what was not asked for yet."""
    service.add(reference="T5", status="Pending", becomes=[(30, "Review"), (60, "Paid")])
    service.advance(29)
    found = [(await ask(service, "T5")).json()["data"]["status"]]
    for seconds in (1, 30, 1000):
        service.advance(seconds)
        found.append((await ask(service, "T5")).json()["data"]["status"])
    assert found == ["Pending", "Review", "Paid", "Paid"]


async def test_advance_before_add(service):
    """What passed before a transaction was added does not count for it."""
    service.advance(100)
    service.add(reference="T5", status="Pending", becomes=[(30, "Paid")])
    assert (await ask(service, "T5")).json()["data"]["status"] == "Pending"


@pytest.mark.parametrize("becomes", [[30, "Paid"], ["30", "Paid"], [("30", "Paid")], [(30, None)], [(30, "Paid", 1)]])
def test_unusable_becomes(service, becomes):
    """What is not pairs of seconds and a status is refused."""
    with pytest.raises(TypeError, match="becomes must be pairs such as"):
        service.add(reference="T5", becomes=becomes)

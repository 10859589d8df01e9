"""The payment page of the documentation: its handlers, in process and over a socket; `browser` plays it in Chromium."""

import asyncio
import json
import runpy
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from payclient.testing import Reply, serve
from support.fakes import DOWN, answer, client, document, timeline
from support.limits import LimitedService

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
EXAMPLE = SimpleNamespace(**runpy.run_path(str(EXAMPLES / "payment_page.py")))


class Running:
    """The application beside its service."""

    def __init__(self, service, pay, app, visitor):
        self.service, self.pay, self.visitor = service, pay, visitor
        self.shop = app.state.shop
        self.order = self.shop.orders["1"]

    async def settled(self):
        """Wait for what the callbacks have started."""
        await asyncio.gather(*(task for task in self.shop.running if task.get_name() == "settle"))


def order(service, **fields):
    made = service.add(reference="T1", status="Pending", amount=15000, **fields)
    return EXAMPLE.Order(made["reference"], made["merchant_reff"], 15000, made["payment_code"], made["expdate"])


@asynccontextmanager
async def running(**fields):
    service = LimitedService(api_key="fake-api-key")
    orders = {"1": order(service, **fields)}
    http_client = httpx.AsyncClient(transport=httpx.ASGITransport(service))
    pay = client(None, http_client=http_client, api_key=service.api_key, retry=None)
    app = EXAMPLE.make_app(pay, orders, seconds=60.0, interval=0.01)
    async with app.router.lifespan_context(app), serve(app) as url:
        async with httpx.AsyncClient(base_url=url, trust_env=False) as visitor:
            yield Running(service, pay, app, visitor)


async def events(visitor):
    """Yield what the page hears."""
    async with visitor.stream("GET", "/pay/1/events", timeout=60) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


async def test_page():
    """The page shows code, amount, expiry and state, and nothing of it is stored."""
    async with running() as shop:
        answer = await shop.visitor.get("/pay/1")
    shown = answer.text
    for text in ("15,000", "8800000000000001", "2030-01-31 23:59:59", "Waiting for your payment."):
        assert text in shown
    assert answer.headers["cache-control"] == "no-store"


async def test_policy():
    """The page may load its own script and style only, and holds neither in itself."""
    async with running() as shop:
        answer = await shop.visitor.get("/pay/1")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';")
    assert ("unsafe" in policy, "<style" in answer.text, "onclick" in answer.text) == (False, False, False)


async def test_without_script():
    """Without JavaScript the page refreshes as long as it is open, and is right each time."""
    async with running(becomes=[(30, "Paid")]) as shop:
        first = await shop.visitor.get("/pay/1")
        shop.service.advance(30)
        second = await shop.visitor.get("/pay/1")
    assert ('http-equiv="refresh"' in first.text, "Waiting" in first.text) == (True, True)
    assert ('http-equiv="refresh"' in second.text, "Paid. Thank you." in second.text) == (False, True)


async def test_no_such_order():
    """A number that is no order's is a 404, for the page and its events."""
    async with running() as shop:
        found = [(await shop.visitor.get(path)).status_code for path in ("/pay/9", "/pay/9/events")]
    assert found == [404, 404]


@pytest.mark.parametrize(("becomes", "state"), [("Paid", "paid"), ("Expired", "over"), ("Canceled", "over")])
async def test_turns_by_itself(becomes, state):
    """A page that is watched hears of its end once, and then the events end."""
    async with running(becomes=[(30, becomes)]) as shop:
        heard = []
        async for event in events(shop.visitor):
            heard.append((event["state"], event["is_last"]))
            shop.service.advance(30)
        assert (heard, shop.order.state) == ([("open", False), (state, True)], state)


@pytest.mark.parametrize(
    ("fields", "difference"),
    [({"amount": 1}, "amount is 1, expected 15000"), ({"merchant_reff": "INV-9"}, "merchant_reff is")],
    ids=["amount", "merchant reference"],
)
async def test_not_as_ordered(fields, difference, caplog):
    """What was paid in another way is being checked: it is not paid, the page says so, and the log has why."""
    async with running() as shop:
        shop.service.add(reference="T1", **{"status": "Paid", "amount": 15000, **fields})
        shown = (await shop.visitor.get("/pay/1")).text
        assert (shop.order.state, "is being checked" in shown, "http-equiv" in shown) == ("checking", True, False)
        assert "T1 has to be checked: " in caplog.text
        assert difference in caplog.text
        shop.service.add(reference="T1", status="Paid", amount=15000)
        shop.order.merchant_reff = (await shop.pay.get_transaction("T1")).merchant_reff
        await shop.visitor.post("/callback", json={"reference": "T1"})
        await shop.settled()
        assert shop.order.state == "paid"


@pytest.mark.parametrize("status", ["Refunded", "SETTLED_NEW"])
async def test_other_status(status, caplog):
    """A status that is none of the page's ends the page: it is being checked, and the log names the status."""
    async with running(becomes=[(30, status)]) as shop:
        heard = []
        async for event in events(shop.visitor):
            heard.append(event["state"])
            shop.service.advance(30)
        assert (heard, f"status is '{status}'" in caplog.text) == (["open", "checking"], True), caplog.text


async def test_invalid_reference(caplog):
    """An order whose reference is invalid is being checked, wherever that is noticed first."""
    async with running() as shop:
        shop.order.reference = " T1"
        shown = await shop.visitor.get("/pay/1")
        assert (shown.status_code, "is being checked" in shown.text, shop.service.total) == (200, True, 0)
        shop.order.state = "open"
        assert [event["state"] async for event in events(shop.visitor)] == ["open", "checking"]
    assert caplog.text.count("has to be checked: ") == 2


def payment(seconds, then):
    """Return a transport to an order that is open, and after some seconds as *then* says."""
    return timeline({"T1": [(seconds, then)]}, latency=0.0)


async def play_browser(order, shop, heard):
    """Do as an `EventSource` and the script of the page: open the events again until the last one was heard."""
    pause = 3.0
    while True:
        async for event in EXAMPLE.states(order, shop):
            fields = dict(line.split(": ", 1) for line in event.strip().splitlines())
            pause = float(fields.get("retry", 3000)) / 1000
            heard.append(json.loads(fields["data"]))
            if heard[-1]["is_last"]:
                return
        await asyncio.sleep(pause)


PLAYED = {
    "paid too little": (3.0, answer(document("T1", status="Paid", amount=1)), "checking", 6),
    "paid": (3.0, answer(document("T1", status="Paid", amount=15000, merchant_reff="INV-1")), "paid", 6),
    "unknown": (0.0, answer(b'{"success": false, "message": "Transaction not found"}', 404), "checking", 9),
    "declined": (0.0, answer(b'{"success": false, "message": "The amount is odd"}', 422), "checking", 4),
    "refused key": (0.0, answer(b'{"success": false, "message": "Invalid API key"}', 401), "open", 30),
    "open": (9e9, None, "open", 14),
}


@pytest.mark.virtual_time
@pytest.mark.parametrize("case", PLAYED)
async def test_lookups_of_an_open_page(case):
    """A page that stays open for 100 s asks ever less often, and not at all when it has heard the last event."""
    seconds, then, state, most = PLAYED[case]
    transport, heard = payment(seconds, then), []
    order = EXAMPLE.Order("T1", "INV-1", 15000, "88", "2030-01-31 23:59:59")
    async with client(transport, retry=None) as pay:
        page = asyncio.create_task(play_browser(order, EXAMPLE.Shop(pay, {"1": order}, 900.0, 2.0), heard))
        await asyncio.sleep(24.0)
        settled = len(transport.sent)
        await asyncio.sleep(76.0)
        is_over = page.done()
        page.cancel()
        await asyncio.gather(page, return_exceptions=True)
    assert (order.state, heard[-1]["state"], is_over) == (state, state, state != "open")
    assert (len(transport.sent) <= most, is_over <= (settled == len(transport.sent))) == (True, True), transport.times()


async def test_service_down_and_back():
    """While the service is down the page waits, and turns to paid when it is back."""
    async with running(becomes=[(30, "Paid")]) as shop:
        shop.service.script("T1", *[Reply(status=503)] * 5)
        heard = []
        async for event in events(shop.visitor):
            heard.append(event["state"])
            shop.service.advance(30)
        assert (heard, shop.service.count("T1") > 5) == (["open", "paid"], True)


@pytest.mark.virtual_time
async def test_outage_to_the_end(caplog):
    """An order whose wait ends in an outage is still open, and the log says that it could not be asked for."""
    order = EXAMPLE.Order("T1", "INV-1", 15000, "88", "2030-01-31 23:59:59")
    async with client(payment(0.0, DOWN)) as pay:
        await EXAMPLE.Shop(pay, {"1": order}, 900.0, 2.0).follow(order, deadline=60.0)
    assert (order.state, "T1 could not be asked for: 'T1' was not seen" in caplog.text) == ("open", True)


async def test_visitor_who_leaves():
    """When a visitor leaves, the lookups for that page end."""
    async with running() as shop:
        async for _ in events(shop.visitor):
            break
        while len(shop.pay._calls) or shop.pay.stats.in_flight or shop.service.in_flight:
            await asyncio.sleep(0)  # a test that hangs here is one that fails
        assert [task for task in asyncio.all_tasks() if task.get_name().startswith("payclient")] == []


async def test_callback_is_confirmed():
    """A callback is answered at once, and believed only after a lookup, whatever it says."""
    async with running(becomes=[(30, "Paid")]) as shop:
        claim = {"reference": "T1", "status": "Paid", "amount": 15000}
        first = await shop.visitor.post("/callback", json=claim)
        await shop.settled()
        states = [shop.order.state]
        shop.service.advance(30)
        second = await shop.visitor.post("/callback", json=claim)
        await shop.settled()
        states.append(shop.order.state)
    assert (first.status_code, second.status_code, states) == (200, 200, ["open", "paid"])


@pytest.mark.parametrize("body", [b"", b"[]", b'"T1"', b"{}", b"{", b"\xff"])
async def test_callback_that_says_nothing(body):
    """A callback without a reference is refused, and asks nothing."""
    async with running() as shop:
        answer = await shop.visitor.post("/callback", content=body)
        assert (answer.status_code, shop.service.total) == (400, 0)


async def test_callback_for_another_order():
    """A callback about what was not ordered asks nothing."""
    async with running() as shop:
        answer = await shop.visitor.post("/callback", json={"reference": "T2"})
        await shop.settled()
        assert (answer.status_code, shop.service.total) == (200, 0)


async def test_callback_while_the_service_is_down():
    """A callback that could not be confirmed leaves the order open for the page and the night."""
    async with running() as shop:
        shop.service.script("T1", Reply(status=503))
        await shop.visitor.post("/callback", json={"reference": "T1"})
        await shop.settled()
        assert shop.order.state == "open"


async def test_night():
    """At night what is open is waited for until it settles, and what is settled is not asked for."""
    async with running(becomes=[(30, "Paid")]) as shop:
        shop.service.advance(30)
        await shop.shop.settle_open(deadline=60.0)
        asked = shop.service.total
        await shop.shop.settle_open(deadline=60.0)
        assert (shop.order.state, shop.service.total) == ("paid", asked)


async def test_metrics():
    """Metrics count orders by state, and the attempts of the client."""
    async with running(becomes=[(0, "Paid")]) as shop:
        await shop.visitor.get("/pay/1")
        lines = (await shop.visitor.get("/metrics")).text.splitlines()
    assert {'shop_orders{state="open"} 0', 'shop_orders{state="paid"} 1', "payclient_attempts_total 1"} <= {*lines}


def test_one_command(tmp_path):
    """One command starts the application against a service of its own, and says what to open."""
    with subprocess.Popen(
        [sys.executable, EXAMPLES / "payment_page.py", "0"], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        try:
            line = process.stdout.readline()
        finally:
            process.kill()
    assert line.startswith("open http://127.0.0.1:0/pay/1 (is paid), /pay/2 (expires)")

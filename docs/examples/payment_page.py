"""
A payment page that turns to *paid* by itself: `python payment_page.py`, then open http://127.0.0.1:8000/pay/1.

It runs against a sandbox in the same process. The page shows the code to pay with, the amount and the expiry. It hears
of changes through server-sent events, and refreshes itself where there is no JavaScript. A callback is confirmed by a
lookup; what is lost on the way is found at night.
"""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Annotated, Any

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, StreamingResponse

from payclient import (
    AsyncClient,
    CouldNotAskError,
    InvalidReferenceError,
    RejectedError,
    TransactionNotFoundError,
    WaitDeadlineError,
)
from payclient.testing import FakeService, serve

WAITING = {"Pending"}
PAID = {"Paid"}  # these are the sandbox's words: use your service's
OVER = {"Canceled", "Expired"}
WORDS = {
    "open": "Waiting for your payment. This page changes by itself.",
    "paid": "Paid. Thank you.",
    "over": "This payment can no longer be made.",
    "checking": "Your payment is being checked. You need not do anything.",
}
AGAIN = 15
"""Seconds until a page opens its events again when they end without a last one, or loads itself without JavaScript."""
log = logging.getLogger("shop")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass
class Order:
    """One row of your own database."""

    reference: str
    merchant_reff: str
    amount: int
    payment_code: str
    expires: str
    state: str = "open"

    @property
    def is_settled(self) -> bool:
        return self.state in ("paid", "over")


@dataclass
class Shop:
    """What the handlers share."""

    client: AsyncClient
    orders: dict[str, Order]
    seconds: float
    interval: float
    running: set[asyncio.Task[None]] = field(default_factory=set)

    async def settle(self, order: Order) -> None:
        """Ask whether *order* was paid, as it was ordered, and note it; the page or the night may ask again."""
        try:
            confirmation = await self.client.confirm(
                order.reference, amount=order.amount, merchant_reff=order.merchant_reff, status=PAID
            )
        except CouldNotAskError as error:
            if error.is_first:  # False for each visitor that a known outage refuses
                log.warning("%s could not be confirmed: %s", order.reference, error)
            return
        except InvalidReferenceError as error:
            self.check(order, str(error))
            return
        stated = None if confirmation.transaction is None else confirmation.transaction.status
        if confirmation:
            order.state = "paid"
        elif stated in OVER:
            order.state = "over"
        elif stated is not None and stated not in WAITING:  # paid as not ordered, or a status that is not expected here
            self.check(order, "; ".join(map(str, confirmation.differences)))

    def check(self, order: Order, why: str) -> None:
        """Leave *order* to a person; it is confirmed again by a callback, and at night."""
        order.state = "checking"
        log.error("%s has to be checked: %s", order.reference, why)

    async def follow(self, order: Order, *, deadline: float, interval: float = 2.0) -> None:
        """Look *order* up until it is settled or to be checked, ever less often, up to every 30 s."""
        try:
            await self.client.wait_for(
                order.reference, until=lambda found: found.status not in WAITING, deadline=deadline, interval=interval
            )
        except CouldNotAskError as error:
            log.warning("%s could not be asked for: %s", order.reference, error)
        except WaitDeadlineError:
            pass  # it is still open
        except (TransactionNotFoundError, RejectedError, InvalidReferenceError) as error:
            self.check(order, str(error))
        else:
            await self.settle(order)

    async def settle_open(self, *, deadline: float = 3600.0) -> None:
        """Follow what is not settled: orders whose page was closed and whose callback was lost."""
        async with asyncio.TaskGroup() as tasks:
            for order in self.orders.values():
                if not order.is_settled:
                    tasks.create_task(self.follow(order, deadline=deadline))

    async def every_night(self) -> None:
        """Settle what is open, each night at three, UTC."""
        while True:
            now = datetime.now(UTC)
            night = now.replace(hour=3, minute=0, second=0, microsecond=0)
            await asyncio.sleep(((night - now) % timedelta(days=1)).total_seconds())
            await self.settle_open()

    def start(self, work: Coroutine[Any, Any, None], *, name: str = "settle") -> None:
        task = asyncio.create_task(work, name=name)
        self.running.add(task)  # the event loop keeps no strong reference to it
        task.add_done_callback(self.running.discard)


router = APIRouter()


def shop_of(request: Request) -> Shop:
    shop: Shop = request.app.state.shop
    return shop


InShop = Annotated[Shop, Depends(shop_of)]


def make_app(
    client: AsyncClient, orders: dict[str, Order], *, seconds: float = 900.0, interval: float = 2.0
) -> FastAPI:
    """
    Return the application.

    Args:
        client: Closed with the application.
        orders: By the number in the address of their page.
        seconds: How long one connection of a page is kept; the page then opens another.
        interval: Seconds between the first two lookups for a page.
    """
    shop = Shop(client, orders, seconds, interval)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with client:
            shop.start(shop.every_night(), name="every night")
            yield
            for task in shop.running:
                task.cancel()
            await asyncio.gather(*shop.running, return_exceptions=True)

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.shop = shop
    app.include_router(router)
    return app


@router.get("/pay/{number}")
async def page(number: str, shop: InShop) -> HTMLResponse:
    if (order := shop.orders.get(number)) is None:
        return HTMLResponse("<!doctype html><title>Not found</title><p>No such payment.", 404, HEADERS)
    if order.state == "open":
        await shop.settle(order)  # so that the page is right without JavaScript too
    return HTMLResponse(page_of(number, order), headers=HEADERS)


@router.get("/pay/{number}/events")
async def events(number: str, shop: InShop) -> Response:
    if (order := shop.orders.get(number)) is None:
        return Response(status_code=404)
    return StreamingResponse(states(order, shop), media_type="text/event-stream", headers=HEADERS)


async def states(order: Order, shop: Shop) -> AsyncIterator[str]:
    """Yield the state as an event, and the last one; ends with the visitor, and with it the lookups."""
    yield event_of(order)
    if order.state == "open":
        await shop.follow(order, deadline=shop.seconds, interval=shop.interval)
        yield event_of(order)


@router.post("/callback")
async def callback(request: Request, shop: InShop) -> Response:
    """Take the reference from the body, and nothing else: a callback is a hint and never evidence."""
    try:
        reference = (await request.json())["reference"]
    except (ValueError, TypeError, KeyError):
        return Response(status_code=400)
    for order in shop.orders.values():
        if order.reference == reference and not order.is_settled:
            shop.start(shop.settle(order))
    return Response(status_code=200)  # at once, or the service sends it again


@router.get("/metrics")
async def metrics(shop: InShop) -> PlainTextResponse:
    stats, found = shop.client.stats, [order.state for order in shop.orders.values()]
    lines = [f'shop_orders{{state="{state}"}} {found.count(state)}' for state in WORDS]
    lines += [f"payclient_attempts_total {stats.attempts}", f"payclient_throttled_total {stats.throttled}"]
    lines += [f"payclient_in_flight {stats.in_flight}", f"payclient_paused_seconds {stats.paused_seconds:g}"]
    return PlainTextResponse("\n".join(lines) + "\n")


@router.get("/page.js")
async def script() -> Response:
    return Response(SCRIPT, media_type="text/javascript", headers=HEADERS)


@router.get("/page.css")
async def style() -> Response:
    return Response(STYLE, media_type="text/css", headers=HEADERS)


def event_of(order: Order) -> str:
    told = {"state": order.state, "words": WORDS[order.state], "is_last": order.state != "open"}
    return f"retry: {AGAIN * 1000}\ndata: {json.dumps(told)}\n\n"


def page_of(number: str, order: Order) -> str:
    refresh = f'<noscript><meta http-equiv="refresh" content="{AGAIN}"></noscript>' if order.state == "open" else ""
    return PAGE.format(
        refresh=refresh,
        number=escape(number),
        state=order.state,
        words=escape(WORDS[order.state]),
        amount=f"{order.amount:,}",
        code=escape(order.payment_code),
        expires=escape(order.expires),
    )


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Payment {number}</title>
{refresh}
<link rel="stylesheet" href="/page.css">
<script src="/page.js" defer></script>
</head>
<body>
<main data-state="{state}" data-events="/pay/{number}/events">
<h1>Payment {number}</h1>
<p id="words" role="status">{words}</p>
<dl>
<dt>Amount</dt><dd>{amount}</dd>
<dt>Code to pay with</dt><dd class="code">{code}</dd>
<dt>Pay before</dt><dd>{expires}</dd>
</dl>
</main>
</body>
</html>
"""

SCRIPT = """"use strict";
const main = document.querySelector("main");
if (main.dataset.state === "open") {
  const source = new EventSource(main.dataset.events);
  source.onmessage = (message) => {
    const told = JSON.parse(message.data);
    if (told.state !== main.dataset.state) {
      main.dataset.state = told.state;
      document.getElementById("words").textContent = told.words;
    }
    if (told.is_last) source.close();
  };
}
"""

STYLE = """
:root { color-scheme: light dark; font: 18px/1.5 system-ui, sans-serif; }
body { margin: 0; display: grid; min-height: 100vh; place-items: center; background: Canvas; color: CanvasText; }
main { width: min(30rem, 100vw - 3rem); padding: 1rem 0; }
h1 { font-size: 1.3rem; margin: 0 0 1rem; }
#words { padding: .8rem 1rem; border-left: .4rem solid #8a6d00; background: #fff6d6; color: #3d3000; }
main[data-state="paid"] #words { border-color: #1b7a3d; background: #e2f6e8; color: #0c3d1e; }
main[data-state="checking"] #words { border-color: #1f5fa8; background: #e4effb; color: #10305a; }
main[data-state="over"] #words { border-color: #a3261c; background: #fbe6e4; color: #57120c; }
dl { display: grid; grid-template-columns: auto 1fr; gap: .4rem 1.5rem; margin: 1.5rem 0 0; }
dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.code { font-weight: 600; letter-spacing: .05em; }
"""


async def main(port: int = 8000) -> None:
    """Serve four orders of a made-up service: paid after 20 s, expired, still open, and paid too little."""
    logging.basicConfig(level=logging.WARNING)
    service = FakeService()
    orders = {}
    for number, becomes, amount in (
        ("1", [(20, "Paid")], 150_000),
        ("2", [(20, "Expired")], 150_000),
        ("3", [], 150_000),
        ("4", [(20, "Paid")], 149_000),
    ):
        made = service.add(reference=f"T{number}SHOP", status="Pending", amount=amount, becomes=becomes)
        orders[number] = Order(made["reference"], made["merchant_reff"], 150_000, made["payment_code"], made["expdate"])
    async with serve(service) as url:
        client = AsyncClient(api_key=service.api_key, base_url=url, environment="sandbox", deadline=5.0)
        pages = "/pay/1 (is paid), /pay/2 (expires), /pay/3 (stays open) or /pay/4 (is paid too little)"
        print(f"open http://127.0.0.1:{port}{pages}; Ctrl-C stops", flush=True)
        config = uvicorn.Config(make_app(client, orders), port=port, log_level="warning")
        await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))

"""A FastAPI application in which all requests share one client."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, TypedDict

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse

from payclient import AsyncClient, PayClientError


class State(TypedDict):
    pay: AsyncClient


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[State]:
    async with AsyncClient(deadline=5.0) as pay:
        yield {"pay": pay}


def pay_of(request: Request) -> AsyncClient:
    pay: AsyncClient = request.state.pay
    return pay


Pay = Annotated[AsyncClient, Depends(pay_of)]
# The sandbox's word: look up a payment you know to be paid, and use the word the service returns.
PAID = {"Paid"}
# Stands for your database: reference and amount.
ORDERS = {"INV-T0000000001DEMO": ("T0000000001DEMO", 150_000)}

app = FastAPI(lifespan=lifespan)


@app.get("/orders/{number}")
async def order(number: str, pay: Pay) -> dict[str, str | bool]:
    if number not in ORDERS:
        raise HTTPException(404, "no such order")
    reference, amount = ORDERS[number]
    confirmation = await pay.confirm(reference, amount=amount, merchant_reff=number, status=PAID)
    return {"order": number, "is_paid": confirmation.is_confirmed}


@app.get("/payments/{reference}")
async def payment(reference: str, pay: Pay) -> dict[str, str | int]:
    transaction = await pay.get_transaction(reference)
    return {"reference": transaction.reference, "status": transaction.status, "amount": transaction.amount}


@app.get("/health")
async def health(pay: Pay) -> dict[str, str | float]:
    stats = pay.stats
    if stats.is_ready:
        return {"payments": "overloaded" if stats.is_overloaded else "ready"}
    if not stats.outage_seconds:
        return {"payments": "paused by the service", "seconds": stats.paused_seconds}
    return {"payments": "outage", "seconds": stats.outage_seconds, "last_failure": stats.last_failure}


@app.exception_handler(PayClientError)
async def no_answer(request: Request, error: PayClientError) -> JSONResponse:
    if error.http_status == 500:  # a mistake of the application, such as a forgotten variable
        raise error
    if error.http_status == 503 and error.is_first:  # False for each visitor that a known outage refuses
        logging.getLogger(__name__).error("could not ask: %s: %s", type(error).__name__, error)
    return JSONResponse({"detail": error.detail}, error.http_status, error.http_headers)

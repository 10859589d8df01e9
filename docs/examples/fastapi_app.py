"""A FastAPI application in which all requests share one client."""

import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, TypedDict

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse

from payclient import (
    AsyncClient,
    DeadlineExceededError,
    InvalidReferenceError,
    KeySourceError,
    PayClientError,
    RejectedError,
    ResponseError,
    TransactionNotFoundError,
    TransportError,
)


class State(TypedDict):
    pay: AsyncClient


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[State]:
    async with AsyncClient(deadline=5.0) as pay:
        yield {"pay": pay}


def pay_of(request: Request) -> AsyncClient:
    return request.state.pay


app = FastAPI(lifespan=lifespan)


@app.get("/payments/{reference}")
async def payment(reference: str, pay: Annotated[AsyncClient, Depends(pay_of)]) -> dict[str, str | int]:
    transaction = await pay.get_transaction(reference)
    return {"reference": transaction.reference, "status": transaction.status, "amount": transaction.amount}


@app.get("/health")
async def health(pay: Annotated[AsyncClient, Depends(pay_of)]) -> dict[str, str | float]:
    stats = pay.stats
    if stats.is_ready:
        return {"payments": "ready"}
    return {"payments": "outage", "seconds": stats.outage_seconds, "last_failure": stats.last_failure}


# No handler for ConfigurationError and ClientClosedError: a mistake of the application is a 500, and logged.


@app.exception_handler(InvalidReferenceError)
@app.exception_handler(TransactionNotFoundError)
async def no_such_payment(request: Request, error: PayClientError) -> JSONResponse:
    return JSONResponse({"detail": "no such payment"}, 404)


@app.exception_handler(RejectedError)
async def declined(request: Request, error: RejectedError) -> JSONResponse:
    return JSONResponse({"detail": "the payment service declines this reference"}, 422)


@app.exception_handler(DeadlineExceededError)
@app.exception_handler(KeySourceError)
@app.exception_handler(ResponseError)
@app.exception_handler(TransportError)
async def could_not_ask(request: Request, error: PayClientError) -> JSONResponse:
    if getattr(error, "refused", 1) == 1:  # an outage is logged once, not for each visitor
        logging.getLogger(__name__).error("could not ask: %s: %s", type(error).__name__, error)
    seconds = math.ceil(getattr(error, "retry_after", None) or 5)
    return JSONResponse(
        {"detail": "the payment service cannot be asked now"}, 503, headers={"Retry-After": str(seconds)}
    )

"""A FastAPI application in which all requests share one client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, TypedDict

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse

from payclient import AsyncClient, InvalidReferenceError, PayClientError, RateLimitedError, TransactionNotFoundError


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


@app.exception_handler(InvalidReferenceError)
@app.exception_handler(TransactionNotFoundError)
async def no_such_payment(request: Request, error: PayClientError) -> JSONResponse:
    return JSONResponse({"detail": "no such payment"}, status_code=404)


@app.exception_handler(PayClientError)
async def could_not_ask(request: Request, error: PayClientError) -> JSONResponse:
    seconds = error.retry_after if isinstance(error, RateLimitedError) else None
    headers = {} if seconds is None else {"Retry-After": f"{seconds:.0f}"}
    return JSONResponse({"detail": "the payment service cannot be asked now"}, status_code=503, headers=headers)

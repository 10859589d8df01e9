"""A Starlette application in which all requests share one client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from payclient import AsyncClient, PayClientError, TransactionNotFoundError


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[dict[str, AsyncClient]]:
    async with AsyncClient(deadline=5.0) as pay:
        yield {"pay": pay}


async def payment(request: Request) -> JSONResponse:
    transaction = await request.state.pay.get_transaction(request.path_params["reference"])
    return JSONResponse(transaction.as_json())


async def no_such_payment(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": "no such payment"}, 404)


async def could_not_ask(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": "the payment service cannot be asked now"}, 503)


app = Starlette(
    routes=[Route("/payments/{reference}", payment)],
    exception_handlers={TransactionNotFoundError: no_such_payment, PayClientError: could_not_ask},
    lifespan=lifespan,
)

"""A Starlette application in which all requests share one client."""

import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from payclient import (
    AsyncClient,
    DeadlineExceededError,
    InvalidReferenceError,
    KeySourceError,
    RejectedError,
    ResponseError,
    TransactionNotFoundError,
    TransportError,
)


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[dict[str, AsyncClient]]:
    async with AsyncClient(deadline=5.0) as pay:
        yield {"pay": pay}


async def payment(request: Request) -> JSONResponse:
    transaction = await request.state.pay.get_transaction(request.path_params["reference"])
    return JSONResponse(transaction.as_json())


async def no_such_payment(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": "no such payment"}, 404)


async def declined(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": "the payment service declines this reference"}, 422)


async def could_not_ask(request: Request, error: Exception) -> JSONResponse:
    if getattr(error, "refused", 1) == 1:  # an outage is logged once, not for each visitor
        logging.getLogger(__name__).error("could not ask: %s: %s", type(error).__name__, error)
    seconds = math.ceil(getattr(error, "retry_after", None) or 5)
    return JSONResponse({"detail": "the payment service cannot be asked now"}, 503, {"Retry-After": str(seconds)})


app = Starlette(
    routes=[Route("/payments/{reference}", payment)],
    exception_handlers={  # not ConfigurationError and ClientClosedError: a mistake of the application is a 500
        InvalidReferenceError: no_such_payment,
        TransactionNotFoundError: no_such_payment,
        RejectedError: declined,
        DeadlineExceededError: could_not_ask,
        KeySourceError: could_not_ask,
        ResponseError: could_not_ask,
        TransportError: could_not_ask,
    },
    lifespan=lifespan,
)

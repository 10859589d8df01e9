"""A Litestar application in which all requests share one client."""

import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from litestar import Litestar, Request, Response, get
from litestar.datastructures import State
from litestar.params import FromPath

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


@asynccontextmanager
async def lifespan(app: Litestar) -> AsyncIterator[None]:
    async with AsyncClient(deadline=5.0) as pay:
        app.state.pay = pay
        yield


@get("/payments/{reference:str}")
async def payment(reference: FromPath[str], state: State) -> dict[str, str | int | None]:
    transaction = await state.pay.get_transaction(reference)
    return transaction.as_json()


def no_such_payment(request: Request, error: PayClientError) -> Response:
    return Response({"detail": "no such payment"}, status_code=404)


def declined(request: Request, error: RejectedError) -> Response:
    return Response({"detail": "the payment service declines this reference"}, status_code=422)


def could_not_ask(request: Request, error: PayClientError) -> Response:
    if getattr(error, "refused", 1) == 1:  # an outage is logged once, not for each visitor
        logging.getLogger(__name__).error("could not ask: %s: %s", type(error).__name__, error)
    seconds = math.ceil(getattr(error, "retry_after", None) or 5)
    detail = {"detail": "the payment service cannot be asked now"}
    return Response(detail, status_code=503, headers={"Retry-After": str(seconds)})


def mistake(request: Request, error: Exception) -> Response:
    """Everything else, ConfigurationError and ClientClosedError included; Litestar logs it in debug mode only."""
    logging.getLogger(__name__).error("internal server error", exc_info=error)
    return Response({"detail": "internal server error"}, status_code=500)


app = Litestar(
    [payment],
    exception_handlers={
        InvalidReferenceError: no_such_payment,
        TransactionNotFoundError: no_such_payment,
        RejectedError: declined,
        DeadlineExceededError: could_not_ask,
        KeySourceError: could_not_ask,
        ResponseError: could_not_ask,
        TransportError: could_not_ask,
        500: mistake,
    },
    lifespan=[lifespan],
)

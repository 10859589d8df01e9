"""A Litestar application in which all requests share one client: `uvicorn litestar_app:app`."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from litestar import Litestar, Request, Response, get
from litestar.datastructures import State
from litestar.params import FromPath

from payclient import AsyncClient, PayClientError


@asynccontextmanager
async def lifespan(app: Litestar) -> AsyncIterator[None]:
    async with AsyncClient(deadline=5.0) as pay:
        app.state.pay = pay
        yield


@get("/payments/{reference:str}")
async def payment(reference: FromPath[str], state: State) -> dict[str, str | int | None]:
    pay: AsyncClient = state.pay
    return (await pay.get_transaction(reference)).as_json()


def no_answer(request: Request[Any, Any, Any], error: PayClientError) -> Response[dict[str, str]]:
    if error.http_status == 500:  # a mistake of the application, such as a forgotten variable
        return mistake(request, error)
    if error.http_status == 503 and error.is_first:  # False for each visitor that a known outage refuses
        logging.getLogger(__name__).error("could not ask: %s: %s", type(error).__name__, error)
    return Response({"detail": error.detail}, status_code=error.http_status, headers=error.http_headers)


def mistake(request: Request[Any, Any, Any], error: Exception) -> Response[dict[str, str]]:
    """Litestar logs mistakes of the application in debug mode only."""
    logging.getLogger(__name__).error("internal server error", exc_info=error)
    return Response({"detail": "internal server error"}, status_code=500)


app = Litestar([payment], exception_handlers={PayClientError: no_answer, 500: mistake}, lifespan=[lifespan])

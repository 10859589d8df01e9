"""A Starlette application in which all requests share one client: `uvicorn starlette_app:app`."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from payclient import AsyncClient, PayClientError


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[dict[str, AsyncClient]]:
    async with AsyncClient(deadline=5.0) as pay:
        yield {"pay": pay}


async def payment(request: Request) -> JSONResponse:
    transaction = await request.state.pay.get_transaction(request.path_params["reference"])
    return JSONResponse(transaction.as_json())


async def no_answer(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, PayClientError) or error.http_status == 500:  # a mistake of the application
        raise error
    if error.http_status == 503 and error.is_first:  # False for each visitor that a known outage refuses
        logging.getLogger(__name__).error("could not ask: %s: %s", type(error).__name__, error)
    return JSONResponse({"detail": error.detail}, error.http_status, error.http_headers)


app = Starlette(
    routes=[Route("/payments/{reference}", payment)], exception_handlers={PayClientError: no_answer}, lifespan=lifespan
)

"""A Litestar application in which all requests share one client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from litestar import Litestar, Request, Response, get
from litestar.datastructures import State
from litestar.params import FromPath

from payclient import AsyncClient, PayClientError, TransactionNotFoundError


@asynccontextmanager
async def lifespan(app: Litestar) -> AsyncIterator[None]:
    async with AsyncClient(deadline=5.0) as pay:
        app.state.pay = pay
        yield


@get("/payments/{reference:str}")
async def payment(reference: FromPath[str], state: State) -> dict[str, str | int | None]:
    transaction = await state.pay.get_transaction(reference)
    return transaction.as_json()


def no_such_payment(request: Request, error: TransactionNotFoundError) -> Response:
    return Response({"detail": "no such payment"}, status_code=404)


def could_not_ask(request: Request, error: PayClientError) -> Response:
    return Response({"detail": "the payment service cannot be asked now"}, status_code=503)


app = Litestar(
    [payment],
    exception_handlers={TransactionNotFoundError: no_such_payment, PayClientError: could_not_ask},
    lifespan=[lifespan],
)

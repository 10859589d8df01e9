"""An application of some 200 lines, as strict users write it: it extends both clients, and is only type-checked."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from typing import (
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    Self,
    TypedDict,
    TypeVar,
    Unpack,
    assert_never,
    assert_type,
)
from zoneinfo import ZoneInfo

from payclient import (
    AsyncClient,
    Attempt,
    Confirmation,
    CouldNotAskError,
    Failed,
    Found,
    OutageError,
    Outcome,
    PayClientError,
    RetryPolicy,
    Stats,
    Transaction,
    TransactionNotFoundError,
)
from payclient.blocking import Client

logger = logging.getLogger(__name__)
Given = ParamSpec("Given")
Result = TypeVar("Result")
Answer = Literal["paid", "unpaid", "unknown"]


class Options(TypedDict, total=False):
    """What the shop passes on."""

    deadline: float | None
    max_rate: float | None


class Lookups(Protocol):
    """The part of a client that a page needs: the real one has it, and so has a fake."""

    async def get_transaction(self, reference: str, *, deadline: float | None = None) -> Transaction:
        """Look one up."""
        ...


@dataclass
class Audit:
    """The lookups that were made."""

    references: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def record(self, attempt: Attempt) -> None:
        """Count an attempt."""
        self.references.append(attempt.reference)
        if attempt.error is not None:
            self.errors[attempt.error] += 1


class ShopClient(AsyncClient):
    """A client that prefixes references, and keeps an audit."""

    def __init__(self, shop: str, **options: Unpack[Options]) -> None:
        self.audit = Audit()
        super().__init__(on_attempt=self.audit.record, retry=RetryPolicy(max_attempts=2), **options)
        self.shop = shop

    async def get_transaction(
        self, reference: str, *, deadline: float | None = None, fresh: bool = False
    ) -> Transaction:
        """Look up one of the shop's own."""
        return await super().get_transaction(f"{self.shop}{reference}", deadline=deadline, fresh=fresh)

    async def get_transactions(
        self, references: Iterable[str], *, concurrency: int | None = None, deadline: float | None = None
    ) -> list[Outcome]:
        """Look up several of the shop's own."""
        own = [f"{self.shop}{reference}" for reference in references]
        return await super().get_transactions(own, concurrency=concurrency or 4, deadline=deadline)

    async def confirm(
        self,
        reference: str,
        *,
        amount: int,
        merchant_reff: str | None = None,
        status: Collection[str] = ("Paid",),
        deadline: float | None = None,
    ) -> Confirmation:
        """Confirm with the shop's word."""
        return await super().confirm(
            reference, amount=amount, merchant_reff=merchant_reff, status=status, deadline=deadline
        )

    async def wait_until_paid(self, reference: str) -> Transaction:
        """Wait for a quarter of an hour."""
        return await self.wait_for(
            reference, until={"Paid"}, unless=lambda seen: seen.status == "Expired", deadline=900
        )

    def patient(self) -> Self:
        """Return a view, which is of this class too."""
        return self.with_options(deadline=60, on_outage="wait")


class ShopBlockingClient(Client):
    """The same for scripts."""

    shop = "S-"

    def get_transaction(self, reference: str, *, deadline: float | None = None, fresh: bool = False) -> Transaction:
        """Look up one of the shop's own."""
        return super().get_transaction(f"{self.shop}{reference}", deadline=deadline, fresh=fresh)

    def with_prefix(self, shop: str) -> Self:
        """Return a view with another prefix."""
        view = self.with_options(deadline=5)
        view.shop = shop
        return view


def counted(
    method: Callable[Concatenate[ShopClient, Given], Awaitable[Result]],
) -> Callable[Concatenate[ShopClient, Given], Awaitable[Result]]:
    """Log the calls of a function that takes the client first."""

    @wraps(method)
    async def call(client: ShopClient, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        logger.info("%s", client.shop)
        return await method(client, *args, **kwargs)

    return call


@counted
async def answer(client: ShopClient, reference: str, amount: int) -> Answer:
    """Tell a page whether an order is paid."""
    try:
        confirmation = await client.confirm(reference, amount=amount)
    except OutageError as error:
        logger.warning("again in %.0f s", error.retry_after)
        return "unknown"
    except CouldNotAskError:
        return "unknown"
    return "paid" if confirmation.is_confirmed else "unpaid"


def describe(outcome: Outcome) -> str:
    """Say what became of a row."""
    match outcome:
        case Found(reference=reference, transaction=transaction):
            return f"{reference}: {transaction.status} {transaction.amount:,}"
        case Failed(reference=reference, error=TransactionNotFoundError()):
            return f"{reference}: missing"
        case Failed(reference=reference, error=error):
            return f"{reference}: {type(error).__name__}"
        case _:
            assert_never(outcome)


async def expiry(client: Lookups, reference: str) -> datetime | None:
    """Take anything that looks up."""
    return (await client.get_transaction(reference, deadline=2.0)).expires_at(ZoneInfo("Asia/Jakarta"))


@asynccontextmanager
async def lifespan(shop: str, **options: Unpack[Options]) -> AsyncGenerator[ShopClient]:
    """Own the client of an application."""
    async with ShopClient(shop, **options) as client:
        yield client


async def several(client: ShopClient, references: Iterable[str]) -> Counter[str]:
    """Read a stream in two ways."""
    block: AbstractAsyncContextManager[AsyncIterator[Outcome]] = client.stream_transactions(references, concurrency=4)
    async with block as outcomes:
        statuses = Counter([outcome.transaction.status async for outcome in outcomes if isinstance(outcome, Found)])
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(client.get_transaction(reference)) for reference in statuses]
    assert_type(tasks[0].result(), Transaction)
    return statuses


def script(client: ShopBlockingClient, references: Iterable[str]) -> Iterator[str]:
    """Do the same without an event loop."""
    block: AbstractContextManager[Iterator[Outcome]] = client.stream_transactions(references)
    with block as outcomes:
        yield from map(describe, outcomes)
    assert_type(client.with_prefix("T-"), ShopBlockingClient)
    assert_type(client.confirm("a", amount=1, status={"Paid"}).differences[0].field, str)
    yield str(client.get_transaction("a", deadline=2.0).as_json())


def health(stats: Stats, error: PayClientError | None) -> dict[str, object]:
    """Show a health page."""
    if error is not None:
        return {"detail": error.detail, "status": error.http_status, **error.http_headers}
    return {"ready": stats.is_ready, "seconds": stats.answered_ago}


async def main() -> None:
    """Run all of it."""
    async with lifespan("S-", deadline=5.0) as client:
        assert_type(client.patient(), ShopClient)
        assert_type(await answer(client, "1", 15_000), Answer)
        print(await expiry(client, "1"), await several(client, ["1", "2"]), health(client.stats, None))
        print(await client.wait_until_paid("1"), await client.patient().get_transactions({"1", "2"}))
    with ShopBlockingClient(deadline=5.0) as blocking:
        print(*script(blocking, ("1", "2")), sep="\n")

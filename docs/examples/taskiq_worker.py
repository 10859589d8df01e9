"""A taskiq worker in which all tasks share one client; replace the broker with the one that you use."""

from typing import Annotated

from taskiq import Context, InMemoryBroker, TaskiqDepends, TaskiqEvents, TaskiqState

from payclient import AsyncClient

broker = InMemoryBroker()


@broker.on_event(TaskiqEvents.WORKER_STARTUP)
async def start(state: TaskiqState) -> None:
    state.pay = AsyncClient()


@broker.on_event(TaskiqEvents.WORKER_SHUTDOWN)
async def stop(state: TaskiqState) -> None:
    await state.pay.aclose()


@broker.task
async def until_paid(reference: str, context: Annotated[Context, TaskiqDepends()]) -> dict[str, str | int | None]:
    transaction = await context.state.pay.wait_for(
        reference, until={"Paid"}, unless={"Canceled", "Expired"}, deadline=900.0
    )
    return transaction.as_json()

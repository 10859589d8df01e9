"""A Celery worker with one client per process, created after the fork by the first task that needs it."""

from functools import cache

from celery import Celery
from celery.signals import worker_process_shutdown

from payclient import DeadlineExceededError, ServiceError, TransportError
from payclient.blocking import Client

app = Celery("payments", broker="memory://", backend="cache+memory://")  # replace both with yours


@cache
def client() -> Client:
    return Client()


@worker_process_shutdown.connect
def close(**_: object) -> None:
    if client.cache_info().currsize:
        client().close()


@app.task(autoretry_for=(ServiceError, TransportError, DeadlineExceededError), retry_backoff=True)
def look_up(reference: str) -> dict[str, str | int | None]:
    return client().get_transaction(reference).as_json()

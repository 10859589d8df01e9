"""A Celery worker with one client per process, created after the fork by the first task that needs it."""

from functools import cache

from celery import Celery, Task
from celery.signals import worker_process_shutdown

from payclient import DeadlineExceededError, KeySourceError, RateLimitedError, ServiceError, TransportError
from payclient.blocking import Client

app = Celery("payments", broker="memory://", backend="cache+memory://")  # replace both with yours


@cache
def client() -> Client:
    return Client()


@worker_process_shutdown.connect
def close(**_: object) -> None:
    if client.cache_info().currsize:
        client().close()


@app.task(bind=True, max_retries=5)
def look_up(task: Task, reference: str) -> dict[str, str | int | None]:
    try:
        return client().get_transaction(reference).as_json()
    except (RateLimitedError, ServiceError, TransportError, DeadlineExceededError, KeySourceError) as error:
        seconds = getattr(error, "retry_after", None) or 30 * 2**task.request.retries
        raise task.retry(exc=error, countdown=seconds) from error

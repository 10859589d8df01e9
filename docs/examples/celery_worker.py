"""A Celery worker with one client per process, created after the fork: `celery -A celery_worker worker`."""

from functools import cache

from celery import Celery, Task
from celery.signals import worker_process_shutdown

from payclient import CouldNotAskError
from payclient.blocking import Client

app = Celery("payments", broker="memory://", backend="cache+memory://")  # replace both with yours


@cache
def client() -> Client:
    return Client()


@worker_process_shutdown.connect
def close(**_: object) -> None:
    if client.cache_info().currsize:
        client().close()


@app.task(bind=True, max_retries=10)
def look_up(task: Task, reference: str) -> dict[str, str | int | None]:
    try:
        return client().get_transaction(reference).as_json()
    except CouldNotAskError as error:
        if not error.is_retryable:  # a refused key, or a proxy that would lock the account
            raise
        seconds = max(error.retry_after, min(30 * 2**task.request.retries, 1800))
        raise task.retry(exc=error, countdown=seconds) from error

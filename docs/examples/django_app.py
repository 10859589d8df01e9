"""
A Django application in one file, with one client per process.

An async view under ASGI: `uvicorn django_app:app`. A plain view under WSGI: `gunicorn -k gthread django_app:wsgi_app`.
"""

import atexit
import logging
from functools import cache

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.utils.deprecation import MiddlewareMixin

from payclient import AsyncClient, PayClientError
from payclient.blocking import Client


class PaymentErrors(MiddlewareMixin):
    """The answers to errors of all views; a mistake of the application stays a 500, and is logged."""

    def process_exception(self, _: HttpRequest, error: Exception) -> JsonResponse | None:
        if not isinstance(error, PayClientError) or error.http_status == 500:
            return None
        if error.http_status == 503 and error.is_first:  # False for each visitor that a known outage refuses
            logging.getLogger(__name__).error("could not ask: %s: %s", type(error).__name__, error)
        return JsonResponse({"detail": error.detail}, status=error.http_status, headers=error.http_headers)


settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="only-for-this-example",
    MIDDLEWARE=[f"{__name__}.PaymentErrors"],
    LOGGING={  # without it, nothing is logged to the console when DEBUG is off
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"stderr": {"class": "logging.StreamHandler"}},
        "root": {"handlers": ["stderr"]},
    },
)


@cache
def client() -> AsyncClient:
    """Return the client of this process; Django has no event at which to create or close it."""
    return AsyncClient(deadline=5.0)


async def payment(request: HttpRequest, reference: str) -> JsonResponse:
    """Under ASGI all async views of a process share one event loop, and so one client."""
    transaction = await client().get_transaction(reference)
    return JsonResponse(transaction.as_json())


@cache
def blocking_client() -> Client:
    made = Client(deadline=5.0)
    atexit.register(made.close)
    return made


def plain_payment(request: HttpRequest, reference: str) -> JsonResponse:
    """Under WSGI Django would run an async view in a new event loop for each request."""
    return JsonResponse(blocking_client().get_transaction(reference).as_json())


urlpatterns = [path("payments/<str:reference>", payment), path("plain/payments/<str:reference>", plain_payment)]
app, wsgi_app = get_asgi_application(), get_wsgi_application()

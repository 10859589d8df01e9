"""A Django application, in one file: an async view under ASGI, a plain view under WSGI, one client per process."""

import logging
import math
from functools import cache

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.utils.deprecation import MiddlewareMixin

from payclient import (
    AsyncClient,
    DeadlineExceededError,
    InvalidReferenceError,
    KeySourceError,
    RejectedError,
    ResponseError,
    TransactionNotFoundError,
    TransportError,
)
from payclient.blocking import Client


class PaymentErrors(MiddlewareMixin):
    """The answers to errors of all views; ConfigurationError and ClientClosedError stay a 500, and are logged."""

    def process_exception(self, _: HttpRequest, error: Exception) -> JsonResponse | None:
        match error:
            case InvalidReferenceError() | TransactionNotFoundError():
                return JsonResponse({"detail": "no such payment"}, status=404)
            case RejectedError():
                return JsonResponse({"detail": "the payment service declines this reference"}, status=422)
            case DeadlineExceededError() | KeySourceError() | ResponseError() | TransportError():
                if getattr(error, "refused", 1) == 1:  # an outage is logged once, not for each visitor
                    logging.getLogger(__name__).error("could not ask: %s: %s", type(error).__name__, error)
                seconds = math.ceil(getattr(error, "retry_after", None) or 5)
                detail = {"detail": "the payment service cannot be asked now"}
                return JsonResponse(detail, status=503, headers={"Retry-After": str(seconds)})
        return None


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
    return Client(AsyncClient(deadline=5.0))


def plain_payment(request: HttpRequest, reference: str) -> JsonResponse:
    """Under WSGI Django would run an async view in a new event loop for each request."""
    return JsonResponse(blocking_client().get_transaction(reference).as_json())


urlpatterns = [path("payments/<str:reference>", payment), path("plain/payments/<str:reference>", plain_payment)]
app, wsgi_app = get_asgi_application(), get_wsgi_application()

"""A Django application, in one file, with an async view and one client per process."""

from functools import cache

from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path

from payclient import AsyncClient, PayClientError, TransactionNotFoundError

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="only-for-this-example")


@cache
def client() -> AsyncClient:
    """Return the client of this process; Django has no event at which to create or close it."""
    return AsyncClient(deadline=5.0)


async def payment(request: HttpRequest, reference: str) -> JsonResponse:
    try:
        transaction = await client().get_transaction(reference)
    except TransactionNotFoundError:
        return JsonResponse({"detail": "no such payment"}, status=404)
    except PayClientError:
        return JsonResponse({"detail": "the payment service cannot be asked now"}, status=503)
    return JsonResponse(transaction.as_json())


urlpatterns = [path("payments/<str:reference>", payment)]
app = get_asgi_application()

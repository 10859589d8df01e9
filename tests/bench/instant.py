"""A transport that answers at once, so that what is measured is payclient and nothing else."""

import json

from payclient import AsyncClient
from payclient.transports import Response
from support.fakes import SAMPLE

HEAD, MIDDLE, TAIL = (
    json.dumps({"success": True, "data": {**SAMPLE, "reference": "@", "merchant_reff": "@"}}).encode().split(b"@")
)


class InstantTransport:
    async def send(self, request):
        reference = request.body[14:-2]
        body = HEAD + reference + MIDDLE + reference + TAIL  # one merchant_reff for all would be paid twice
        return Response(200, {"content-type": "application/json"}, body)

    async def discard(self, response):
        raise AssertionError("every answer is the right one")

    async def aclose(self):
        pass


def client(**options):
    return AsyncClient(
        api_key="bench-key-0123456789", base_url="https://pay.example", transport=InstantTransport(), **options
    )

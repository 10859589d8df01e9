"""The documented request, sent to an ASGI application in process."""

import asyncio

import httpx

LIVE = "/api/transaction/detail"
SANDBOX = "/api-sandbox/transaction/detail"
HEADERS = {"authorization": "Bearer fake-api-key", "content-type": "application/json"}


async def ask(app, reference="T1", *, method="POST", path=LIVE, headers=HEADERS, content=None):
    """Send one request; what is not given is as documented."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://fake") as client:
        if content is None:
            return await client.request(method, path, headers=headers, json={"reference": reference})
        return await client.request(method, path, headers=headers, content=content)


async def ask_all(app, *references):
    """Send one request per reference at once; return the statuses in their order."""
    answers = await asyncio.gather(*(ask(app, reference) for reference in references))
    return [answer.status_code for answer in answers]

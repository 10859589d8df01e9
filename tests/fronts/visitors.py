"""
The visitors of one process, or its stream: `KIND URL RATE SECONDS SEED`; prints what they have seen as JSON.

By hand is what people write around httpx: five seconds for each visitor, a wait as told or twice as long as the last.
"""

import asyncio
import json
import random
import sys
from collections import Counter

import httpx

from payclient import AsyncClient, Found, PayClientError
from support.fakes import KEY

DEADLINE = 5.0


class ByHand:
    """A lookup with httpx and a retry loop."""

    def __init__(self, url, statuses):
        self.url, self.statuses = f"{url}/api/transaction/detail", statuses
        self.client = httpx.AsyncClient(timeout=DEADLINE, headers={"Authorization": f"Bearer {KEY}"})

    async def __aenter__(self):
        await self.client.__aenter__()
        return self

    async def __aexit__(self, *error):
        await self.client.__aexit__(*error)

    async def get_transaction(self, reference):
        async with asyncio.timeout(DEADLINE):
            wait = 0.25
            while True:
                answer = await self.client.post(self.url, json={"reference": reference})
                self.statuses[str(answer.status_code)] += 1
                if answer.status_code == 200:
                    return
                told = float(answer.headers.get("retry-after", 0))
                await asyncio.sleep(told or wait * random.uniform(0.5, 1.5))
                wait *= 2


async def visit(client, rate, seconds, seed):
    """Have visitors come at random; return when each came, and the class of the error that he got, or None."""
    loop, visits = asyncio.get_running_loop(), []
    began = due = loop.time()
    number = 0

    async def ask(number):
        came, told = loop.time() - began, None
        try:
            await client.get_transaction(f"V{seed}x{number}")
        except (PayClientError, TimeoutError, httpx.HTTPError) as error:
            told = type(error).__name__
        visits.append((came, told))

    async with asyncio.TaskGroup() as visitors:
        while (due := due + random.expovariate(rate)) < began + seconds:
            await asyncio.sleep(due - loop.time())
            number += 1
            visitors.create_task(ask(number))
    return visits


async def stream(client, seconds, seed):
    rows = 0
    try:
        async with (
            asyncio.timeout(seconds),
            client.stream_transactions(f"S{seed}x{number}" for number in range(10**6)) as outcomes,
        ):
            async for outcome in outcomes:
                rows += isinstance(outcome, Found)
    except TimeoutError:
        return rows
    return rows


async def main(kind, url, rate, seconds, seed):
    random.seed(seed)
    statuses = Counter()

    def observe(attempt):
        statuses[str(attempt.status or attempt.error)] += 1

    made = (
        ByHand(url, statuses)
        if kind == "by hand"
        else AsyncClient(
            api_key=KEY, base_url=url, environment="sandbox", deadline=DEADLINE, timeout=DEADLINE, on_attempt=observe
        )
    )
    visits, rows = [], 0
    async with made as client:
        if kind == "stream":
            rows = await stream(client, seconds, seed)
        else:
            visits = await visit(client, rate, seconds, seed)
    print(json.dumps({"visits": visits, "statuses": statuses, "rows": rows}))


if __name__ == "__main__":
    kind, url, rate, seconds, seed = sys.argv[1:]
    asyncio.run(main(kind, url, float(rate), float(seconds), int(seed)))

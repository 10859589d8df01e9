"""A service in memory with some of its answers, and a clock that can be read in a test."""

import asyncio
from datetime import UTC, datetime, timedelta

from payclient import Transaction, errors
from payclient.reconcile.ledger import Entry

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOT_FOUND = errors.TransactionNotFoundError("no such transaction: not found")
DOWN = errors.ServiceError("the service cannot answer now", status_code=503)
MALFORMED = errors.UnexpectedResponseError(
    "the answer cannot be read: data.amount is a list", status_code=200, is_about_reference=True
)


def entry(line, reference, **fields):
    """Return a paid row of 100."""
    return Entry(line=line, reference=reference, **({"amount": 100, "status": "paid"} | fields))


def paid(reference, **fields):
    """Return the transaction of such a row."""
    return Transaction(**({"reference": reference, "amount": 100, "status": "Paid"} | fields))


class Service:
    """Answers each reference with the next of its answers, and with the last one from then on."""

    def __init__(self, answers):
        self._answers = {reference: list(each) for reference, each in answers.items()}
        self.asked = []

    async def __call__(self, reference):
        self.asked.append(reference)
        await asyncio.sleep(0)
        answers = self._answers.get(reference) or [NOT_FOUND]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Clock:
    """Noon, and one second later each time it is read."""

    def __init__(self, start=NOON):
        self.now = start

    def __call__(self):
        self.now += timedelta(seconds=1)
        return self.now

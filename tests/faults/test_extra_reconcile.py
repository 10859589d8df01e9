"""A reconciliation with a service that sends answers too many: nothing that is there is missing."""

import json
import logging
import random
from collections import Counter
from functools import partial

import pytest

from faults.stage import stage
from payclient.reconcile import Code, reconcile
from payclient.reconcile.ledger import Entry
from support.fakes import document
from support.raw_server import RawServer, http

REFUSALS = [
    http(json.dumps({"success": False, "message": message}).encode(), status)
    for status, message in (
        ("404 Not Found", "Transaction not found"),
        ("200 OK", "Transaction not found"),
        ("422 Unprocessable Content", "The transaction cannot be shown"),
        ("401 Unauthorized", "Unauthenticated."),
    )
]


def service(draw, share):
    """Return steps that answer as they should, but for one more refusal behind a share of the answers."""

    async def answer(connection):
        while (reference := await connection.request()) is not None:
            found = http(document(reference, status="Paid", merchant_reff=reference))
            extra = draw.choice(REFUSALS) if draw.random() < share else b""
            await connection.write((REFUSALS[0] if reference.startswith("U") else found) + extra)

    return answer


@pytest.mark.parametrize(
    "carrier", ["own", "fast", *(pytest.param(each, marks=pytest.mark.slow) for each in ("httpx", "httpx2"))]
)
async def test_reconciled(carrier, rows, row, record_property, caplog):
    """With an extra refusal behind 30 % of the answers, exactly the unknown references are missing."""
    row(f"extra refusals behind 30 % of the answers, reconciled over {carrier}", "missing_at_service")
    caplog.set_level(logging.INFO)  # the libraries say some twenty things about each request
    if carrier.startswith("httpx") and rows < 20_000:
        rows //= 4  # a caller's pool takes ten times as long
    references = [f"{'U' if number % 10 == 9 else 'T'}{number}" for number in range(rows)]
    entries = [
        Entry(line=line, reference=reference, amount=15000, status="Paid") for line, reference in enumerate(references)
    ]
    server = RawServer(service(random.Random(7), 0.3))
    async with stage(server, carrier=carrier) as pay:
        confirm = partial(pay.get_transaction, fresh=True)
        judged = [each async for each in reconcile(entries, pay.get_transaction, confirm=confirm, concurrency=20)]
        requests = len(server.requests)
    missing = [each.reference for each in judged if Code.MISSING_AT_SERVICE in {f.code for f in each.findings}]
    record_property("figures", f"{requests:,} requests for {rows:,} rows, {len(server.connections):,} connections")
    assert missing == [reference for reference in references if reference.startswith("U")]
    assert Counter(each.bucket.value for each in judged) == {"matched": rows - rows // 10, "break": rows // 10}

"""Answers of a service for the tests of its memory, as a client passes them to a recorder."""

from __future__ import annotations

import json

from payclient.errors import PayClientError
from payclient.protocol import Response, parse_response
from payclient.reconcile.drift import Recorder

DATA = {
    "reference": "T1",
    "merchant_reff": "INV-1",
    "payment_method": "QRIS",
    "payment_name": "QRIS",
    "amount": 15_000,
    "fee": 500,
    "amount_received": 14_500,
    "payment_code": "1234567890",
    "expdate": "2026-11-21 10:00:00",
    "status": "Paid",
}
HEADERS = {"content-type": "application/json", "content-length": "350"}
MORNING = 1_795_226_400.0  # 2026-11-21 02:00 UTC


def answer(recorder, reference="T1", *, body=None, code=200, headers=HEADERS, seconds=0.05, without=(), **changes):
    """Pass one answer to *recorder*: the documented one with *changes*, or another *body*."""
    data = {name: value for name, value in {**DATA, "reference": reference, **changes}.items() if name not in without}
    value = {"success": True, "data": data} if body is None else body
    sent = value if isinstance(value, bytes) else json.dumps(value).encode()
    response = Response(code, headers, sent, is_fresh=True)
    try:
        transaction, error = parse_response(response, reference), ""
    except PayClientError as failure:
        transaction, error = None, type(failure).__name__
    recorder.add(reference, response, seconds, transaction=transaction, error=error, redact=str)
    return transaction


def recorded(count=3, *, at=MORNING, **changes):
    """Return the profile of *count* answers for as many references."""
    recorder = Recorder(now=lambda: at)
    for number in range(count):
        answer(recorder, f"T{number:05d}", **changes)
    return recorder.profile

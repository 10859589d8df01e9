"""Pickles of a released version, as queues and result backends keep them while an application is deployed."""

import base64
import json
import pickle
from datetime import datetime
from pathlib import Path

import pytest

from payclient import (
    ConfigurationError,
    Confirmation,
    Failed,
    FieldDifference,
    Found,
    OutageError,
    RateLimitedError,
    Stats,
    Transaction,
    TransactionNotFoundError,
    WaitDeadlineError,
)
from payclient.engines import LookupSpec

STORED = Path(__file__).with_name("pickles.json")
PAID = Transaction(
    reference="T1",
    merchant_reff="INV-1",
    amount=15_000,
    fee=2_500,
    payment_code="8800000000000001",
    expdate=datetime(2030, 1, 31, 23, 59, 59),  # noqa: DTZ001  the service gives no zone
    status="Paid",
    raw={"status": "Paid"},
    deviations=("status: not documented",),
    request_id="r-1",
)
VALUES = {
    "transaction": PAID,
    "found": Found("T1", PAID, index=3),
    "failed": Failed("T2", TransactionNotFoundError("no such transaction", attempts=2, request_id="r-2"), index=4),
    "confirmation": Confirmation(
        reference="T1",
        compared=("amount", "status"),
        differences=(FieldDifference(field="amount", expected=1, found=15_000),),
        transaction=PAID,
    ),
    "stats": Stats(
        lookups=1, attempts=2, retries=1, throttled=0, in_flight=0, limit=4.0, paused_seconds=0.0, last_failure="x"
    ),
    "outage": OutageError("no answer", retry_after=3.0, outage_seconds=9.0, last_failure="x", refused=2),
    "throttled": RateLimitedError("slow down", attempts=1),
    "wait": WaitDeadlineError("not yet", lookups=3, waited=9.0, statuses={"Pending": 0.0}, transaction=PAID),
    "configuration": ConfigurationError("timeout must be", option="timeout", problem="must be"),
    "spec": LookupSpec(base_url="https://pay.example", environment="sandbox"),
}


def facts(value):
    """Return what *value* has; an error is not equal to another one."""
    if isinstance(value, Failed):
        return value.reference, value.index, facts(value.error)
    return (type(value), value.args, vars(value)) if isinstance(value, Exception) else value


def write():
    """Write the pickles of this version, before its release; later versions only add a version."""
    kept = {name: base64.b64encode(pickle.dumps(value, protocol=4)).decode() for name, value in VALUES.items()}
    STORED.write_text(json.dumps({"0.1.0": kept}, indent=1) + "\n", encoding="utf-8")


STORED_VALUES = [(version, *each) for version, kept in json.loads(STORED.read_text()).items() for each in kept.items()]


@pytest.mark.parametrize(("version", "name", "stored"), STORED_VALUES, ids=lambda each: each[:14])
def test_stored(version, name, stored):
    """A value that a released version has pickled is read as the same value."""
    assert facts(pickle.loads(base64.b64decode(stored))) == facts(VALUES[name])


def test_all():
    """Every value of this table is stored."""
    assert {name for _, name, _ in STORED_VALUES} == {*VALUES}

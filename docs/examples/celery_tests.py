"""Tests of the Celery worker: `pytest celery_tests.py`, with the client of the pytest plugin."""

import celery_worker
import pytest

from payclient import AuthenticationError
from payclient.blocking import Client
from payclient.testing import Reply


@pytest.fixture
def look_up(pay_client, monkeypatch):
    with Client(pay_client) as client:
        monkeypatch.setattr(celery_worker, "client", lambda: client)
        yield lambda reference: celery_worker.look_up.apply([reference]).get()  # here, without a worker


def test_paid(look_up, pay_service):
    pay_service.add(reference="T1", status="Paid", amount=15000)
    pay_service.script("T1", *[Reply(status=500)] * 4)  # so the first try fails, and Celery's second finds it
    assert look_up("T1")["status"] == "Paid"


def test_refused_key(look_up, pay_service):
    pay_service.script("T1", Reply(status=401))
    with pytest.raises(AuthenticationError):
        look_up("T1")

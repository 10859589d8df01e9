"""Tests of the Flask application: `pytest flask_tests.py`, with the client of the pytest plugin."""

import flask_app
import pytest

from payclient.blocking import Client


@pytest.fixture
def visitor(pay_client, monkeypatch):
    with Client(pay_client) as client:
        monkeypatch.setattr(flask_app, "pay", lambda: client)
        yield flask_app.app.test_client()


def test_paid(visitor, pay_service):
    pay_service.add(reference="T1", status="Paid", amount=15000)
    assert visitor.get("/payments/T1").json["status"] == "Paid"


def test_unknown(visitor):
    assert visitor.get("/payments/T2").status_code == 404

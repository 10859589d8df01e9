"""Tests of the Django application: `pytest django_tests.py`, with the client of the pytest plugin."""

import django_app
import pytest
from django.test import AsyncClient


@pytest.fixture
def visitor(pay_client, monkeypatch):
    monkeypatch.setattr(django_app, "client", lambda: pay_client)
    return AsyncClient()


async def test_paid(visitor, pay_service):
    pay_service.add(reference="T1", status="Paid", amount=15000)
    assert (await visitor.get("/payments/T1")).json()["status"] == "Paid"


async def test_unknown(visitor):
    assert (await visitor.get("/payments/T2")).status_code == 404

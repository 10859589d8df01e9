"""A transaction is a field of a pydantic model, and a response model of FastAPI."""

from typing import Annotated

import httpx
import pytest
from fastapi import Body, FastAPI
from pydantic import BaseModel, TypeAdapter, ValidationError

from payclient import Transaction
from payclient.protocol.transaction import read_transaction
from support.fakes import SAMPLE

FOUND = read_transaction(SAMPLE)
MASKED = {**SAMPLE, "payment_code": "********1234"}
READ = TypeAdapter(Transaction)


class Payment(BaseModel):
    transaction: Transaction
    others: list[Transaction] = []


def make_app():
    app = FastAPI()

    @app.get("/found")
    async def found() -> Transaction:
        return FOUND

    @app.get("/bare")
    async def bare():
        return [FOUND, {"transaction": FOUND}]

    @app.post("/several")
    async def several(transaction: Annotated[Transaction, Body()]) -> list[Transaction]:
        return [transaction]

    return app


def browser():
    return httpx.AsyncClient(transport=httpx.ASGITransport(make_app()), base_url="http://app")


def test_field_of_a_model():
    """A model takes a transaction as it is, and writes its ten fields, the payment code masked."""
    payment = Payment(transaction=FOUND)
    assert (payment.transaction is FOUND, payment.model_dump()) == (True, {"transaction": MASKED, "others": []})


async def test_without_a_type():
    """A handler without a return type may return transactions too, alone or in lists and dictionaries."""
    async with browser() as visitor:
        assert (await visitor.get("/bare")).json() == [MASKED, {"transaction": MASKED}]


def test_round_trip():
    """What a model wrote, it reads again."""
    again = Payment.model_validate_json(Payment(transaction=FOUND, others=[FOUND]).model_dump_json())
    assert (again.transaction.as_json(), len(again.others)) == (MASKED, 1)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("T1", "a transaction is an object of its fields"),
        ({"reference": "T1", "amount": 1.5, "status": "Paid"}, "amount: number 1.5 is not an exact whole number"),
        ({"reference": "T1", "amount": 1}, "status: absent"),
    ],
)
def test_refused(given, problem):
    """What is no transaction is refused by the rules of an answer, so money is exact here too."""
    with pytest.raises(ValidationError, match=problem):
        READ.validate_python(given)


@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_schema(mode):
    """The schema has the ten fields with their types."""
    schema = READ.json_schema(mode=mode)
    fields = schema["properties"]
    assert (list(fields), schema["required"]) == (list(SAMPLE), ["reference", "amount", "status"])
    assert (fields["amount"]["type"], fields["fee"]["anyOf"]) == ("integer", [{"type": "integer"}, {"type": "null"}])


async def test_response_model():
    """FastAPI answers with a transaction, and takes one as a body."""
    async with browser() as visitor:
        assert (await visitor.get("/found")).json() == MASKED
        assert (await visitor.post("/several", json=SAMPLE)).json() == [MASKED]
        assert (await visitor.post("/several", json={**SAMPLE, "amount": "much"})).status_code == 422


async def test_openapi():
    """OpenAPI shows one component with the ten fields, wherever it is used."""
    async with browser() as visitor:
        document = (await visitor.get("/openapi.json")).json()
    assert list(document["components"]["schemas"]["Transaction"]["properties"]) == list(SAMPLE)

"""Odd answers are odd in the one way that they are named for."""

from __future__ import annotations

import json

import pytest

from payclient._http import Response
from payclient._models import Transaction
from payclient._wire import parse_response
from payclient.errors import (
    AuthenticationError,
    RateLimitedError,
    ReferenceMismatchError,
    RejectedError,
    TransactionNotFoundError,
    UnexpectedResponseError,
)
from payclient.testing import ODDITIES, FakeService, Reply, changed, without
from testing.asking import ask

TOLERATED = {
    "amount_as_text",
    "amount_as_text_with_cents",
    "fee_null",
    "status_as_number",
    "optional_fields_null",
    "optional_fields_empty",
    "payment_code_as_number",
    "expdate_with_zone",
    "expdate_zero",
    "unknown_field",
    "byte_order_mark",
}
MEANINGS = {
    **dict.fromkeys(ODDITIES, UnexpectedResponseError),
    **dict.fromkeys(TOLERATED, Transaction),
    "wrong_reference": ReferenceMismatchError,
    "success_false": RejectedError,
    "rate_limited_page": RateLimitedError,
}


async def answer_to(reply):
    service = FakeService()
    service.add(reference="T1")
    service.script("T1", reply)
    return await ask(service)


def meaning(answer):
    """Return the class of what the client makes of an answer."""
    try:
        return type(parse_response(Response(answer.status_code, answer.headers, answer.content), "T1"))
    except (
        UnexpectedResponseError,
        RateLimitedError,
        RejectedError,
        TransactionNotFoundError,
        AuthenticationError,
    ) as error:
        return type(error)


@pytest.mark.parametrize("name", ODDITIES)
async def test_meaning(name):
    """Every oddity is a transaction where it is harmless, and else the error that says so."""
    assert meaning(await answer_to(ODDITIES[name])) is MEANINGS[name]


@pytest.mark.parametrize("name", sorted(TOLERATED))
async def test_is_odd(name):
    """Every oddity that is tolerated leaves a note, so it did arrive."""
    answer = await answer_to(ODDITIES[name])
    assert parse_response(Response(200, answer.headers, answer.content), "T1").deviations != ()


async def test_changed():
    """A changed field is the only difference, and a function gets the value as it was."""
    normal = (await answer_to(Reply())).json()
    odd = (await answer_to(Reply(body=changed(amount=lambda amount: amount + 1, fee=None)))).json()
    assert odd == {**normal, "data": {**normal["data"], "amount": normal["data"]["amount"] + 1, "fee": None}}


async def test_without():
    """A missing field is the only difference."""
    normal = (await answer_to(Reply())).json()["data"]
    odd = (await answer_to(Reply(body=without("fee", "expdate")))).json()["data"]
    assert normal.keys() - odd.keys() == {"fee", "expdate"}


async def test_stored_stays():
    """An odd answer does not change what is stored."""
    service = FakeService()
    stored = dict(service.add(reference="T1"))
    replies = [*ODDITIES.values(), Reply(body=lambda envelope: envelope["data"].clear())]
    service.script("T1", *replies)
    for _ in replies:
        await ask(service)
    assert (await ask(service)).json()["data"] == stored


async def test_cut():
    """A body that was cut is no JSON."""
    with pytest.raises(json.JSONDecodeError):
        (await answer_to(ODDITIES["cut_json"])).json()

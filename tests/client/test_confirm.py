"""Confirm a claim about a transaction: what is compared, and in what it differs."""

import pickle

import pytest

from payclient import ConfigurationError, Confirmation, ServiceError
from payclient.protocol import UNPAID
from payclient.reconcile import Status
from payclient.reconcile._judgement.codes import WORDS
from support.fakes import DOWN, NOT_FOUND, ScriptedTransport, answer, client, document, timeline

CLAIM = {"amount": 15000, "merchant_reff": "INV-1001", "status": {"Paid"}}


def stating(**fields):
    """Return a transport whose one answer states these fields."""
    return ScriptedTransport(default=lambda _: answer(document("T1", **{"status": "Paid", **fields})))


async def confirmed(claim=CLAIM, **stated):
    return await client(stating(**stated)).confirm("T1", **claim)


def differences(confirmation):
    return [(each.field, each.expected, each.found) for each in confirmation.differences]


async def test_confirmed():
    """A claim that is true is confirmed, and says what was compared and with what."""
    found = await confirmed()
    assert (found.is_confirmed, found.differences, found.compared) == (True, (), ("merchant_reff", "amount", "status"))
    assert (found.reference, found.transaction.amount, bool(found)) == ("T1", 15000, True)


NOT_CONFIRMED = [
    ({"amount": 14999}, [("amount", 15000, 14999)]),
    ({"amount": 15001, "amount_received": 12501}, [("amount", 15000, 15001)]),
    ({"merchant_reff": "INV-1002"}, [("merchant_reff", "INV-1001", "INV-1002")]),
    ({"merchant_reff": "inv-1001"}, [("merchant_reff", "INV-1001", "inv-1001")]),
    ({"merchant_reff": None}, [("merchant_reff", "INV-1001", None)]),
    ({"merchant_reff": "-"}, [("merchant_reff", "INV-1001", "-")]),
    ({"status": "Pending"}, [("status", ("Paid",), "Pending")]),
    ({"status": "Settling"}, [("status", ("Paid",), "Settling")]),
    ({"status": "paid"}, [("status", ("Paid",), "paid")]),
    ({"status": "Pending", "amount": 1}, [("amount", 15000, 1), ("status", ("Paid",), "Pending")]),
    ({"amount_received": 12499}, [("amount_received", 12500, 12499)]),
    ({"fee": None, "amount_received": 0}, [("amount_received", 15000, 0)]),
]


async def test_differences():
    """What differs is not confirmed, nor is a payment of which the service says that less arrived."""
    for stated, expected in NOT_CONFIRMED:
        found = await confirmed(**stated)
        assert (stated, found.is_confirmed, bool(found), differences(found)) == (stated, False, False, expected)


async def test_in_words():
    """A difference says what was found and what would have done, with nothing that hides or runs."""
    found = await confirmed(
        {**CLAIM, "status": {"Settled", "Paid"}}, merchant_reff="\x1b[2J", amount=1, status="P\u0430id"
    )
    assert [str(difference) for difference in found.differences] == [
        "merchant_reff is '<U+001B>[2J', expected 'INV-1001'",
        "amount is 1, expected 15000",
        "status is 'P\u0430id' (contains U+0430), expected 'Paid' or 'Settled'",
    ]


@pytest.mark.parametrize("status", [["Settling"], ["Paid", "Settling"], {"Settling": 1}])
async def test_own_words(status):
    """A status that only this service knows will do, if the caller names it."""
    assert (await confirmed({**CLAIM, "status": status}, status="Settling")).is_confirmed


async def test_less_received():
    """With an accepted status, less than was due is not confirmed, whatever the word is, unless it means *not paid*."""
    for word in ("Lunas", "PAID", "settled"):
        found = await confirmed({**CLAIM, "status": {word}}, status=word, fee=100, amount_received=5)
        assert (word, found.is_confirmed, differences(found)) == (word, False, [("amount_received", 14900, 5)])
    for word in UNPAID:
        assert (await confirmed({**CLAIM, "status": {word}}, status=word, fee=100, amount_received=5)).is_confirmed
    assert {word for word, meaning in WORDS.items() if meaning is not Status.PAID} == UNPAID


async def test_deviations_do_not_matter():
    """What is not compared, not documented or more than was owed does not make the claim false."""
    for stated in (
        {"fee": None, "amount_received": 15000},
        {"fee": None, "amount_received": 1},
        {"amount_received": 99999},
    ):
        assert (stated, (await confirmed(**stated)).is_confirmed) == (stated, True)
    assert (await confirmed({**CLAIM, "status": {"Pending"}}, status="Pending", amount_received=0)).is_confirmed
    assert (await confirmed(merchant_reff=" INV-1001 ")).is_confirmed


async def test_without_merchant_reff():
    """A field that is not given is not compared, and not named among those that were; one that is empty is refused."""
    for claim in ({}, {"merchant_reff": None}):
        found = await confirmed({"amount": 15000, "status": {"Paid"}, **claim}, merchant_reff="INV-9")
        assert (claim, found.is_confirmed, found.compared) == (claim, True, ("amount", "status"))
    for said in ("", " ", "-", " - "):
        with pytest.raises(ConfigurationError, match="merchant_reff must be a text with a letter or a digit, or None"):
            await confirmed({**CLAIM, "merchant_reff": said})


async def test_unknown_reference():
    """A claim about a transaction that the service does not know is not confirmed."""
    found = await client(timeline({"T1": [(0, NOT_FOUND)]})).confirm("T1", **CLAIM)
    assert (found.is_confirmed, found.transaction, differences(found)) == (False, None, [("reference", "T1", None)])
    assert str(found.differences[0]) == "reference is nothing, expected 'T1'"


async def test_could_not_ask():
    """When the service could not be asked, the claim is neither true nor false: that is an error."""
    with pytest.raises(ServiceError):
        await client(timeline({"T1": [(0, DOWN)]}, latency=0), retry=None).confirm("T1", **CLAIM)


async def test_pickle():
    """A confirmation can be sent to another process."""
    found = await confirmed(status="Pending")
    assert pickle.loads(pickle.dumps(found)) == found
    assert isinstance(found, Confirmation)

"""Confirm a claim about a transaction: what is compared, and in which words it differs."""

from __future__ import annotations

import pickle

import pytest

from payclient import ConfigurationError, Confirmation, InvalidReferenceError, ServiceError
from payclient.reconcile import Code
from support.fakes import answer, client, document
from support.timeline import DOWN, NOT_FOUND, Timeline

CLAIM = {"amount": 15000, "merchant_reff": "INV-1001", "status": {"Paid"}}


class Stating:
    """A transport whose one answer states these fields."""

    def __init__(self, **fields):
        self.fields = {"status": "Paid", **fields}

    async def send(self, _):
        return answer(document("T1", **self.fields))

    async def aclose(self):
        pass


async def confirmed(claim=CLAIM, **stated):
    return await client(Stating(**stated)).confirm("T1", **claim)


def codes(confirmation):
    return [finding.code for finding in confirmation.findings]


async def test_confirmed():
    """A claim that is true is confirmed, and says what was compared and with what."""
    found = await confirmed()
    assert (found.is_confirmed, found.findings, found.compared) == (True, (), ("merchant_reff", "amount", "status"))
    assert (found.reference, found.transaction.amount, bool(found)) == ("T1", 15000, True)


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"amount": 14999}, [Code.UNDERPAID]),
        ({"amount": 15001, "amount_received": 12501}, [Code.OVERPAID]),
        ({"merchant_reff": "INV-1002"}, [Code.MERCHANT_REFF_DIFFERS]),
        ({"merchant_reff": "inv-1001"}, [Code.MERCHANT_REFF_DIFFERS]),
        ({"merchant_reff": None}, [Code.MERCHANT_REFF_DIFFERS, Code.TOLERATED_DEVIATION]),
        ({"status": "Pending"}, [Code.RECORDED_NOT_PAID]),
        ({"status": "Refunded"}, [Code.REFUND_NOT_RECORDED]),
        ({"status": "Settling"}, [Code.UNKNOWN_STATUS]),
        ({"status": "paid"}, [Code.UNKNOWN_STATUS]),
        ({"status": "Pending", "amount": 1}, [Code.RECORDED_NOT_PAID, Code.UNDERPAID]),
    ],
    ids=str,
)
async def test_findings(stated, expected):
    """What differs is not confirmed, and has the code of a report."""
    found = await confirmed(**stated)
    assert (found.is_confirmed, bool(found)) == (False, False)
    assert [code for code in codes(found) if code is not Code.SERVICE_ARITHMETIC] == expected


async def test_words_of_a_report():
    """A finding says both sides in the words of a report."""
    found = await confirmed(amount=14000, amount_received=11500)
    assert [finding.sentence for finding in found.findings] == [
        "amount is 15000 in the ledger and 14000 at the service, which is 1000 less",
    ]


@pytest.mark.parametrize("status", [["Settling"], ["Paid", "Settling"], {"Settling": 1}])
async def test_own_words(status):
    """A status that only this service knows will do, if the caller names it."""
    assert (await confirmed({**CLAIM, "status": status}, status="Settling")).is_confirmed


async def test_known_word_leads():
    """Of several statuses that will do, one with a known meaning says what the difference is."""
    found = await confirmed({**CLAIM, "status": {"Settling", "Paid", "Awaiting"}}, status="Pending")
    assert codes(found) == [Code.RECORDED_NOT_PAID]


async def test_soft_finding():
    """Remarks are reported, and do not make the claim false."""
    found = await confirmed(fee=None, amount_received=15000)
    assert (found.is_confirmed, codes(found)) == (True, [Code.TOLERATED_DEVIATION])


async def test_without_merchant_reff():
    """A field that is not given is not compared, and not named among those that were."""
    claim = {"amount": 15000, "status": {"Paid"}}
    found = await confirmed(claim, merchant_reff="INV-9")
    assert (found.is_confirmed, found.compared) == (True, ("amount", "status"))


async def test_unknown_reference():
    """A claim about a transaction that the service does not know is not confirmed."""
    found = await client(Timeline({"T1": [(0, NOT_FOUND)]})).confirm("T1", **CLAIM)
    assert (found.is_confirmed, found.transaction, codes(found)) == (False, None, [Code.MISSING_AT_SERVICE])
    assert found.findings[0].sentence == "the service knows no transaction 'T1'"


async def test_could_not_ask():
    """When the service could not be asked, the claim is neither true nor false: that is an error."""
    with pytest.raises(ServiceError):
        await client(Timeline({"T1": [(0, DOWN)]}, latency=0), retry=None).confirm("T1", **CLAIM)


@pytest.mark.parametrize("status", ["Paid", [], None, ["Paid", 1], [""], 7])
async def test_refused_status(status):
    """The statuses that will do are a set of words."""
    with pytest.raises(ConfigurationError, match=r"status must be a set of statuses, such as \{'Paid'\}, got "):
        await confirmed({**CLAIM, "status": status})


async def test_no_reference():
    """What cannot be a reference is refused before anything is sent."""
    with pytest.raises(InvalidReferenceError):
        await client(Stating()).confirm(" ", **CLAIM)


async def test_pickle():
    """A confirmation can be sent to another process."""
    found = await confirmed(status="Pending")
    assert pickle.loads(pickle.dumps(found)) == found
    assert isinstance(found, Confirmation)

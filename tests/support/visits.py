"""What the examples of every web framework must answer."""

import asyncio

from payclient import AsyncClient
from payclient.testing import Reply
from support.fakes import ScriptedTransport

CODE = "************0001"
REFUSED_KEY = Reply(status=401)
DECLINED = Reply(status=422)
BUSY = Reply(status=429, headers={"Retry-After": "600"})  # of which five minutes are believed


async def assert_answers(visitor, service, caplog, path="/payments"):
    """An answer, a reference that is unknown or no reference, a refusal, and "could not ask", which is logged."""
    for reference, replies in (("T3", [DECLINED] * 9), ("T4", [REFUSED_KEY] * 9), ("T5", [BUSY])):
        service.script(reference, *replies)
    found = await visitor.get(f"{path}/T1")
    assert (found.status_code, found.json()["status"]) == (200, "Paid")
    assert found.json().get("payment_code", CODE) == CODE
    asked = ("T9", "%20", "T3", "T4", "T5")
    answers = {reference: await visitor.get(f"{path}/{reference}") for reference in asked}
    assert {reference: answer.status_code for reference, answer in answers.items()} == {
        "T9": 404,
        "%20": 404,
        "T3": 422,
        "T4": 503,
        "T5": 503,
    }
    assert [answers[reference].headers.get("Retry-After") for reference in asked] == [None, None, None, "5", "300"]
    logged = [record.message for record in caplog.records if record.message.startswith("could not ask")]
    errors = ["AuthenticationError", "RateLimitedError"]
    assert [message.split(": ")[1] for message in logged] == errors


async def assert_outage_is_logged_once(visitor, service, caplog, path="/payments"):
    """In an outage all visitors have 503 with `Retry-After`, and one line of the log is for all who are refused."""
    for number in range(6):
        service.script(f"D{number}", *[Reply(status=503)] * 9)
    for _ in range(9):
        answers = await asyncio.gather(*(visitor.get(f"{path}/D{number % 6}") for number in range(12)))
    assert {answer.status_code for answer in answers} == {503}
    assert "1" in {answer.headers.get("Retry-After") for answer in answers}
    refused = [record for record in caplog.records if record.message.startswith("could not ask: OutageError")]
    assert len(refused) == 1


def keyless_client():
    """A client whose key source fails; it sends nothing."""

    def no_key():
        message = "the vault is sealed"
        raise OSError(message)

    return AsyncClient(api_key=no_key, retry=None, transport=ScriptedTransport())


async def assert_could_not_ask(visitor, path="/payments/T1"):
    """A key source that fails is "could not ask", with the time at which to come back."""
    answer = await visitor.get(path)
    assert (answer.status_code, answer.headers.get("Retry-After")) == (503, "5"), answer.text

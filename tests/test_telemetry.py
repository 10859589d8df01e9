"""Logging: quiet by default, one line per attempt, no secrets."""

import logging
import subprocess
import sys

import pytest

from payclient import RetryPolicy, UnexpectedResponseError
from support.fakes import KEY, SAMPLE, ScriptedTransport, answer, client


@pytest.mark.virtual_time
async def test_one_line_per_attempt(caplog):
    """Each attempt is one DEBUG line with number, status, time and error class."""
    transport = ScriptedTransport(latency=1.25)
    transport.script("T1", answer(status=500))
    with caplog.at_level(logging.DEBUG, "payclient"):
        async with client(transport, retry=RetryPolicy(initial_backoff=0)) as pay:
            await pay.get_transaction("T1")
    lines = [record.getMessage() for record in caplog.records if record.name == "payclient"]
    assert lines == [
        "attempt 1: status 500 in 1.250 s, ServiceError",
        "attempt 2: status 200 in 1.250 s, found",
    ]


async def test_no_secrets(caplog):
    """At DEBUG, for every logger, neither key nor payload is written, whatever the service echoes."""
    echo = answer(f"<html>you sent: Authorization: Bearer {KEY}</html>".encode(), x_request_id=f"id-{KEY}")
    transport = ScriptedTransport()
    transport.script("T1", echo)
    with caplog.at_level(logging.DEBUG):
        async with client(transport, retry=RetryPolicy(initial_backoff=0)) as pay:
            await pay.get_transaction("T1")
            transport.script("T2", echo, echo)
            with pytest.raises(UnexpectedResponseError) as caught:
                await pay.get_transaction("T2")
    assert "T1" not in caplog.text
    assert SAMPLE["payment_code"] not in caplog.text
    shown = f"{caplog.text} {caught.value} {caught.value!r} {vars(caught.value)}"
    assert KEY not in shown
    assert "[api key]" in caught.value.body


def test_quiet():
    """Without any configuration of logging, nothing is written to standard error."""
    program = "import logging, payclient; payclient.AsyncClient; logging.getLogger('payclient').warning('x')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")

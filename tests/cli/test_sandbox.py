"""`payclient sandbox`: options become limits, faults and transactions of the fake service."""

import socket

import pytest

from payclient.cli._sandbox import faults_of, limit_of, load
from payclient.errors import ConfigurationError
from payclient.testing import FakeService
from support.limits import FixedWindow, RetryAfter, TokenBucket
from support.misses import check_each


def test_options():
    """A rate is per second or per minute, or refused with an example; the kinds of faults share their share."""
    assert limit_of("50/s") == TokenBucket(rate=50)
    assert limit_of("600/min") == FixedWindow(count=600, retry_after=RetryAfter.SECONDS)
    for rate in ["", "50", "0/s", "-1/s", "1.5/s", "50/h", "\u0665/s", "9" * 4301 + "/s"]:
        with pytest.raises(ConfigurationError, match="--rate-limit must be like 50/s or 600/min"):
            limit_of(rate)
    for share in (0.0, 0.02, 1.0):
        assert sum(fault.share for fault in faults_of(share)) == pytest.approx(share)


UNUSABLE = {
    "x": "is not JSON (Expecting value: line 1 column 1 (char 0))",
    "": "is not JSON (Expecting value: line 1 column 1 (char 0))",
    "[]": "is a JSON list, not an object",
    "1": "is a JSON int, not an object",
    '{"colour": "T1"}': "a transaction has no field colour; it has reference, merchant_reff, payment_method, ",
    '{"amount": "much"}': "amount must be an int, got 'much'",
    '{"fee": null}': "fee must be an int, got None",
}


def test_load(tmp_path):
    """Each line is a transaction, the rest of which is made up; any other is refused with number and content."""
    file, service = tmp_path / "transactions.jsonl", FakeService()
    file.write_text('{"reference": "T1", "amount": 5000}\n{"reference": "T2"}\n')
    load(service, file)
    assert [service.add(reference="T3")["fee"], len(service._transactions)] == [2500, 3]

    def refused(line):
        file.write_text(f'{{"reference": "T1"}}\n{line}\n')
        with pytest.raises(ConfigurationError) as caught:
            load(FakeService(), file)
        return str(caught.value).startswith(f"{file}, line 2: {UNUSABLE[line]}")

    check_each(dict.fromkeys(UNUSABLE, True), refused)


def test_refused(command):
    """A file that is not there and a port that is in use are named."""
    result = command("sandbox", "--transactions", "no-such-file")
    assert (result.status, result.said) == (2, "payclient: no-such-file: No such file or directory\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = command("sandbox", "--port", str(port))
    expected = f"payclient: cannot listen on 127.0.0.1 port {port}: "
    assert (result.status, result.err[: len(expected)]) == (2, expected)

"""`payclient sandbox`: options become limits, faults and transactions of the fake service."""

from __future__ import annotations

import re
import socket

import pytest

from payclient.cli._sandbox import faults_of, limit_of, load
from payclient.errors import ConfigurationError
from payclient.testing import FakeService, FixedWindow, RetryAfter, TokenBucket


@pytest.mark.parametrize(
    ("rate", "limit"),
    [("50/s", TokenBucket(rate=50)), ("600/min", FixedWindow(count=600, retry_after=RetryAfter.SECONDS))],
)
def test_limit(rate, limit):
    """A rate is per second or per minute."""
    assert limit_of(rate) == limit


def test_no_limit(subtests):
    """An invalid rate is refused with an example."""
    for rate in ["", "50", "0/s", "-1/s", "1.5/s", "50/h", "\u0665/s", "9" * 4301 + "/s"]:
        with subtests.test(rate=rate):
            with pytest.raises(ConfigurationError, match="--rate-limit must be like 50/s or 600/min"):
                limit_of(rate)


@pytest.mark.parametrize("share", [0.0, 0.02, 1.0])
def test_faults(share):
    """The kinds of faults share the requested share of faults."""
    assert sum(fault.share for fault in faults_of(share)) == pytest.approx(share)


def test_load(tmp_path):
    """Each line of the file is a transaction; what it does not say is made up."""
    file = tmp_path / "transactions.jsonl"
    file.write_text('{"reference": "T1", "amount": 5000}\n{"reference": "T2"}\n')
    service = FakeService()
    load(service, file)
    assert [service.add(reference="T3")["fee"], len(service._transactions)] == [2500, 3]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("x", "is not JSON (Expecting value: line 1 column 1 (char 0))"),
        ("[]", "is a JSON list, not an object"),
        ("1", "is a JSON int, not an object"),
        ('{"colour": "T1"}', "a transaction has no field colour; it has reference, merchant_reff, payment_method, "),
        ("", "is not JSON (Expecting value: line 1 column 1 (char 0))"),
        ('{"amount": "much"}', "amount must be an int, got 'much'"),
        ('{"fee": null}', "fee must be an int, got None"),
    ],
)
def test_unusable_line(tmp_path, line, problem):
    """An invalid line of transactions is refused with its number and content."""
    file = tmp_path / "transactions.jsonl"
    file.write_text(f'{{"reference": "T1"}}\n{line}\n')
    with pytest.raises(ConfigurationError, match=rf"transactions\.jsonl, line 2: {re.escape(problem)}"):
        load(FakeService(), file)


def test_no_file(command):
    """A file that is not there is named."""
    result = command("sandbox", "--transactions", "no-such-file")
    assert (result.status, result.err) == (2, "payclient: no-such-file: No such file or directory\n")


def test_port_taken(command):
    """A port that is in use is named."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = command("sandbox", "--port", str(port))
    expected = f"payclient: cannot listen on 127.0.0.1 port {port}: "
    assert (result.status, result.err[: len(expected)]) == (2, expected)

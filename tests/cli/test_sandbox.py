"""`payclient sandbox`: options become limits, faults and transactions of the fake service."""

import asyncio
import socket

import pytest

from payclient._shared.remedy import Shell
from payclient.cli._sandbox import SandboxService, _variables, limit_of, load
from payclient.errors import ConfigurationError
from payclient.testing import FakeService
from support.misses import check_each
from testing.asking import ask, ask_all


def test_options():
    """A rate is per second or per minute, or refused with an example."""
    assert (limit_of("50/s"), limit_of("600/min")) == ((50, 1), (600, 60))
    for rate in ["", "50", "0/s", "-1/s", "1.5/s", "50/h", "\u0665/s", "9" * 4301 + "/s"]:
        with pytest.raises(ConfigurationError, match="--rate-limit must be like 50/s or 600/min"):
            limit_of(rate)


@pytest.mark.virtual_time
@pytest.mark.parametrize(("rate", "told", "pause"), [("3/s", None, 1 / 3), ("3/min", "20", 20)])
async def test_limit(rate, told, pause):
    """The requests of one period are admitted at once, and then its rate; only one of a minute says when."""
    service = SandboxService(rate_limit=rate)
    service.add(reference="T1")
    assert (await ask_all(service, *["T1"] * 5)).count(200) == 3
    assert (await ask(service)).headers.get("retry-after") == told
    await asyncio.sleep(pause * 1.1)
    assert (await ask_all(service, *["T1"] * 5)).count(200) == 1


@pytest.mark.virtual_time
@pytest.mark.parametrize(("share", "failed"), [(0.0, 0), (0.3, 90), (1.0, 300)])
async def test_faults(share, failed):
    """The faults have their share of the answers, the same with the same seed."""

    async def answers():
        service = SandboxService(fault_share=share, seed=1)
        service.add(reference="T1")
        seen = [await ask(service) for _ in range(300)]
        return [(each.status_code, each.headers["content-length"], each.text) for each in seen]

    seen = await answers()
    in_order = [each for each in seen if each[0] == 200 and each[1] != "100000" and '"reference":"T1"' in each[2]]
    assert 300 - len(in_order) == pytest.approx(failed, abs=20)
    assert seen == await answers()


UNUSABLE = {
    "x": "Expecting value: line 1 column 1 (char 0)",
    "": "Expecting value",
    "[]": "payclient.testing",
    "1": "payclient.testing",
    '{"colour": "T1"}': "unknown field of a transaction: colour; it has reference, merchant_reff, payment_method, ",
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
        return str(caught.value).startswith(f"{file}, line 2 is not a transaction in JSON: {UNUSABLE[line]}")

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


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        (Shell.POSIX, "export PAYCLIENT_BASE_URL=http://127.0.0.1:1 PAYCLIENT_API_KEY=k"),
        (Shell.POWERSHELL, "$env:PAYCLIENT_BASE_URL = 'http://127.0.0.1:1'; $env:PAYCLIENT_API_KEY = 'k'"),
        (Shell.CMD, 'set "PAYCLIENT_BASE_URL=http://127.0.0.1:1" & set "PAYCLIENT_API_KEY=k"'),
    ],
)
def test_variables(shell, line):
    """The first line of the sandbox can be pasted into the shell that it was started from."""
    assert _variables(shell, BASE_URL="http://127.0.0.1:1", API_KEY="k") == line

"""`payclient reconcile` after the key was changed: the canary shows whether both keys are of one merchant."""

import pytest

from payclient.testing import FakeService, Reply
from support.reports import contents, rows_of, summary_of

LINES = ["T1,15000,Paid", "T2,9000,Canceled"]


@pytest.fixture
def rotate(configured, server, service, monkeypatch):
    """Change the key, and the *merchant* that it is of."""

    def rotate(key, merchant=service):
        merchant.api_key, server.service = key, merchant
        monkeypatch.setenv("PAYCLIENT_API_KEY", key)

    return rotate


def other_merchant():
    other = FakeService()
    other.add(reference="T9", amount=1, status="Paid")
    return other


def key_of(folder):
    return summary_of(folder)["service"]["key_fingerprint"]


def test_canary(night, rotate, command, tmp_path):
    """Nights with one canary go on under other keys, forth and back, and each report names both keys."""
    assert night("1", "--canary", "T1", lines=LINES).status == 1
    for name, previous, key in (("2", "1", "second"), ("3", "2", "fake-api-key"), ("4", "3", "second")):
        rotate(key)
        result = night(name, "--canary", "T1", "--previous", previous, "--fail-on-new", "low", lines=LINES)
        assert (result.status, summary_of(tmp_path / name)["since"]["breaks"]["still_open"]) == (0, 1)
        assert summary_of(tmp_path / name)["service"]["other_keys"] == [key_of(tmp_path / previous)]
        assert f"{key_of(tmp_path / previous)}: in the previous run" in (tmp_path / name / "report.html").read_text()
    assert (command("diff", "1", "2").status, command("verify", "2").status) == (0, 0)


def test_without_canary(night, rotate, command, tmp_path):
    """Without a canary that both find, the refusal ends with a command that has one, and what to make sure of."""
    night("1", lines=LINES)
    rotate("second")
    for given in ((), ("--canary", "T2"), ("--canary", "none")):
        result = night("2", *given, "--previous", "1", lines=LINES)
        if given != ("--canary", "T2"):
            assert (result.status, "only a canary that both find shows" in result.err) == (2, True)
            ((is_to_check, following),) = result.steps
            assert (is_to_check, "make sure that both keys are of one merchant, then:" in result.err) == (True, True)
            assert following[-2:] == ["--canary", "T1"]
            assert command(*following).status == 1
        else:
            assert (result.status, summary_of(tmp_path / "2")["since"]["breaks"]["still_open"]) == (1, 1)


def test_diff(night, rotate, command):
    """Two reports of different keys are compared if both found a reference, and refused without one in common."""
    night("1", lines=LINES)
    rotate("second")
    night("2", lines=LINES)
    rotate("theirs", other_merchant())
    night("3", lines=["T9,1,Paid"])
    assert command("diff", "1", "2").status == 0
    refused = command("diff", "1", "3")
    assert (refused.status, "only a canary that both find shows" in refused.err, refused.steps) == (2, True, [])


@pytest.mark.parametrize("canary", [["--canary", "T1"], []])
def test_other_merchant(night, rotate, command, service, tmp_path, canary):
    """The key of another merchant writes no report, with the proposed command neither. The right key then goes on."""
    night("1", *canary, lines=LINES)
    before = contents(tmp_path / "1")
    rotate("theirs", other_merchant())
    refused = night("2", *canary, "--previous", "1", lines=LINES)
    if not canary:
        assert refused.status == 2
        refused = command(*refused.following[0])
    assert (refused.status, "does not know the canary 'T1'" in refused.err) == (3, True)
    assert not (tmp_path / "2" / "summary.json").exists()
    rotate("fake-api-key", service)
    assert night("2", "--canary", "T1", "--previous", "1", lines=LINES).status == 1
    assert contents(tmp_path / "1") == before


@pytest.mark.parametrize("canary", [["--canary", "T2"], []])
def test_resumed(night, rotate, command, service, tmp_path, canary):
    """A run that began with another key is resumed with a canary, asks nothing twice, and keeps its name and key."""
    one_by_one = ("--max-concurrency", "1", *canary)
    service.script("T2", *[Reply()] * len(canary[1:]), Reply(status=401), Reply(status=401))
    assert night("1", *one_by_one, lines=LINES).status == 3
    rotate("theirs", other_merchant())
    refused = night("1", *one_by_one, lines=LINES)
    if not canary:
        assert (refused.status, "journal.sqlite cannot be resumed: its key fingerprint is" in refused.err) == (2, True)
        refused = command(*refused.following[0])
    assert (refused.status, "does not know the canary" in refused.err) == (3, True)
    rotate("second", service)
    resumed = night("1", *one_by_one, *([] if canary else ["--canary", "T1"]), lines=LINES)
    assert (resumed.status, "answered already: 1 of 2 references" in resumed.err) == (1, True)
    rotate("fake-api-key")
    night("2", lines=LINES)
    assert key_of(tmp_path / "1") == key_of(tmp_path / "2")
    assert len(summary_of(tmp_path / "1")["service"]["other_keys"]) == 2
    names = [summary_of(tmp_path / name)["run"].rpartition("-")[2] for name in ("1", "2")]
    assert names[0] == names[1]
    assert [row["bucket"] for row in rows_of(tmp_path / "1")] == ["matched", "break"]


def test_nothing_found(night, rotate, command, service, tmp_path):
    """Answers of a wrong key, which found nothing, do not stop the right one. As a previous run they are refused."""
    rotate("theirs", FakeService())
    assert night("1", lines=LINES).status == 3
    rotate("fake-api-key", service)
    refused = night("2", "--previous", "1", lines=LINES)
    assert (refused.status, refused.steps) == (2, [])
    assert night("1", lines=LINES).status == 1
    assert "other_keys" not in summary_of(tmp_path / "1")["service"]

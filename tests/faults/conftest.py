"""What holds for every fault: the key is shown nowhere, and the run ends with one line per row."""

import logging
import sys

import pytest

from support.fakes import KEY

pytest.register_assert_rewrite("faults.stage")
if sys.platform != "linux":
    # How much still arrives over a connection that is torn down is up to the system: the rows say what Linux does.
    collect_ignore_glob = ["test_*.py"]


def pytest_addoption(parser):
    """Let `pytest tests/faults --full` make the storm as long as the table says."""
    parser.addoption("--full", action="store_true", help="10,000 cancelled lookups for 500, 20,000 rows for 2,000")


@pytest.fixture(params=[100, pytest.param(500, marks=pytest.mark.slow)])
def storm(request):
    """How many lookups are cancelled in a storm."""
    return 20 * request.param if request.config.getoption("full", default=False) else request.param


@pytest.fixture(params=[500, pytest.param(2_000, marks=pytest.mark.slow)])
def rows(request):
    """How many rows are reconciled."""
    return 10 * request.param if request.config.getoption("full", default=False) else request.param


@pytest.fixture(params=["httpx", "fast", pytest.param("httpx2", marks=pytest.mark.slow)])
def each_of_ours(request, monkeypatch):
    """Play a row over each transport of ours, chosen as a user would."""
    monkeypatch.setenv("PAYCLIENT_TRANSPORT", request.param)


@pytest.fixture(autouse=True)
def key_is_not_shown(caplog, capfd):
    """Whatever happens, the API key is in no log of any library, at any level, and in no output."""
    caplog.set_level(logging.DEBUG)
    yield
    output = capfd.readouterr()
    assert KEY not in caplog.text + output.out + output.err


@pytest.fixture
def row(record_property):
    """Return a function that names each row which a test plays, and the verdict that is required."""

    def name(sentence, verdict):
        record_property("row", (sentence, verdict))

    return name


def pytest_terminal_summary(terminalreporter):
    """Print one line per row, when nothing but faults was run."""
    reports = [report for group in ("passed", "failed", "error") for report in terminalreporter.stats.get(group, ())]
    if not reports or not all("tests/faults/" in report.nodeid for report in reports):
        return
    rows, failed, figures = set(), set(), []
    for report in reports:
        properties = getattr(report, "user_properties", ())  # none where collecting failed
        played = [tuple(value) for name, value in properties if name == "row"]
        rows.update(played)
        if report.failed:
            named = getattr(getattr(report, "context", None), "msg", None)  # of a subtest
            failed.update(each for each in played if named == each[0] or len(played) == 1)
        if text := dict(properties).get("figures"):
            figures.append(f"{played[-1][0]}: {text}")
    terminalreporter.section(f"{len(rows)} faults, {len(failed)} of them not withstood")
    for played in sorted(rows, key=lambda item: item[::-1]):
        sentence, verdict = played
        terminalreporter.write_line(f"{'FAILED' if played in failed else 'ok':6}  {verdict:26}  {sentence}")
    for line in figures:
        terminalreporter.write_line(line)

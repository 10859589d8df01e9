"""The script of the page about nights does what its table says, from an empty folder."""

import configparser
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.blocks import Reader

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "reconcile-every-night.md"
TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = PAGE.parents[1] / "examples"
TONIGHT = "reports/2026-11-21"
STUBS = {
    # A run that begins has a journal, and one that ends a manifest.
    "payclient": 'echo "$*" >>asked.txt; read -r status <next.txt; sed -i 1d next.txt; '
    '[ "$status" = 2 ] || { mkdir -p "$4" && touch "$4/journal.sqlite"; }; '
    '[[ " 0 1 75 " != *" $status "* ]] || touch "$4/manifest.json"; '
    'cat said.txt 2>/dev/null || echo VERDICT; exit "$status"',
    "mail": '{ echo "${@:2}"; cat; } >>mails.txt',
    "sleep": 'echo "$1" >>slept.txt',
    "date": '[ "$1" = +%F ] && echo 2026-11-21 || echo 093000',
}

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the script is for bash")


def stub(tmp_path, name, text, folder="bin"):
    """Write a program."""
    file = tmp_path / folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/usr/bin/env bash\n{text}\n")
    file.chmod(0o755)


def put(tmp_path, *names):
    """Put ledgers where the script has moved those that arrived."""
    (tmp_path / "reports").mkdir(exist_ok=True)
    for name in names:
        (tmp_path / "reports" / f"{name}.csv").touch()


@pytest.fixture
def night(tmp_path):
    """Run the script in an empty folder, with programs of ours in the place of payclient, mail and sleep."""
    shutil.copy(EXAMPLES / "nightly.sh", tmp_path)

    def night(*statuses, stubs=tuple(STUBS), folders=(), **environment):
        for name in stubs:
            stub(tmp_path, name, STUBS[name])
        (tmp_path / "next.txt").write_text("".join(f"{status}\n" for status in statuses))
        path = os.pathsep.join([str(tmp_path / "worse"), str(tmp_path / "bin"), *folders, "/usr/bin", "/bin"])
        done = subprocess.run(
            ["bash", "nightly.sh"], cwd=tmp_path, env={"PATH": path, **environment}, timeout=90, check=False
        )
        lines = {name: tmp_path / f"{name}.txt" for name in ("asked", "mails", "slept")}
        found = {name: file.read_text().splitlines() if file.exists() else [] for name, file in lines.items()}
        return done.returncode, len(found["asked"]), found["slept"], found["mails"]

    return night


@pytest.mark.parametrize(
    ("status", "mail"),
    [
        (0, []),
        (1, [f"{TONIGHT}: breaks, or not compared finance@example.com", "VERDICT"]),
        (2, [f"{TONIGHT}: cannot be compared, or a wrong option finance@example.com it@example.com", "VERDICT"]),
        (3, [f"{TONIGHT}: not set up, refused, or nothing was found it@example.com", "VERDICT"]),
        (70, [f"{TONIGHT}: failed with status 70 it@example.com", "VERDICT"]),
        (130, [f"{TONIGHT}: failed with status 130 it@example.com", "VERDICT"]),
    ],
)
def test_status(night, status, mail):
    """Each status is acted upon once, by the mail that the table says, and is the script's own."""
    assert night(status) == (status, 1, [], mail)


def test_incomplete_and_then_clean(night):
    """While the service cannot be asked the same command runs again after a pause, and nothing is mailed."""
    assert night(75, 75, 0) == (0, 3, ["600", "600"], [])


def test_incomplete_and_then_breaks(night):
    """What the last run says is mailed."""
    status, asked, _, mails = night(75, 1)
    assert (status, asked, mails[0]) == (1, 2, f"{TONIGHT}: breaks, or not compared finance@example.com")


def test_incomplete_all_night(night):
    """The number of runs is limited, and then a mail is sent."""
    mails = [f"{TONIGHT}: incomplete after 12 runs it@example.com", "VERDICT"]
    assert night(*[75] * 20) == (75, 12, ["600"] * 11, mails)


def test_incomplete_with_breaks(night, tmp_path):
    """Breaks do not stop the repetition: rows that could not be asked are asked again. Operations are told, too."""
    (tmp_path / "said.txt").write_text("INCOMPLETE: 1 break, 3 unresolved\n")
    status, asked, slept, mails = night(*[1] * 13)
    mail = f"{TONIGHT}: breaks, or not compared finance@example.com it@example.com"
    assert (status, asked, len(slept), mails[0]) == (1, 12, 11, mail)


def test_without_payclient(night):
    """A command that is not there is not taken for breaks."""
    status, _, _, mails = night(stubs=("mail", "sleep", "date"))
    assert (status, mails[0]) == (127, f"{TONIGHT}: failed with status 127 it@example.com")


# The pause gives up its share of the lock first, or the second night could find it held.
@pytest.mark.parametrize(
    ("name", "text", "status"), [("mail", "exit 1", 70), ("sleep", "exec 9>&-; kill -9 $PPID", -9)]
)
def test_untold(night, tmp_path, name, text, status):
    """Breaks that nobody was told of are no success, and the run is repeated until somebody is."""
    stub(tmp_path, name, text, "worse")
    (tmp_path / "said.txt").write_text("INCOMPLETE: 1 break, 3 unresolved\n")
    put(tmp_path, "2020-01-01")
    assert night(*[1] * 13)[0] == status
    (tmp_path / "worse" / name).unlink()
    (tmp_path / "said.txt").unlink()
    status, _, _, mails = night(1, 0)
    assert (status, mails) == (0, ["reports/2020-01-01: breaks, or not compared finance@example.com", "VERDICT"])


def test_first_night(night, tmp_path):
    """Without an earlier night there is no previous run."""
    assert night(0)[:2] == (0, 1)
    said = (tmp_path / "asked.txt").read_text()
    assert ("--previous" in said, said.endswith(" --fail-on partial\n")) == (False, True)


def pairs(tmp_path):
    """Give the day and the day before of each run that was asked for."""
    lines = (tmp_path / "asked.txt").read_text().splitlines()
    words = [line.replace("reports/", "").split() for line in lines]
    return [(each[3], each[each.index("--previous") + 1] if "--previous" in each else None) for each in words]


def test_previous(night, tmp_path):
    """The previous run is what the script ended last, however its folder is named, and only news count then."""
    put(tmp_path, "2020-01-01", "2020-01-02")
    (tmp_path / "ledger.csv").touch()
    assert night(0, 1, 75, 0)[:2] == (0, 4)
    for name in ("2026-11-20", "2020-01-02-2", "2020-01-02-rejudged"):  # runs that somebody made beside them
        (tmp_path / "reports" / name).mkdir()
        (tmp_path / "reports" / name / "manifest.json").touch()
    put(tmp_path, "2020-01-01-corrected")
    assert night(0, 0)[:2] == (0, 6)
    today = [("2026-11-21", "2020-01-02")]
    again = [("2020-01-01-corrected", "2026-11-21"), *today]  # tonight's once more, as it was
    assert pairs(tmp_path) == [("2020-01-01", None), ("2020-01-02", "2020-01-01"), *today * 2, *again]
    put(tmp_path, "2020-01-03")
    assert night(0, 0)[0] == 0
    assert pairs(tmp_path)[6:] == [("2020-01-03", "2020-01-01-corrected"), *today]
    assert (tmp_path / "asked.txt").read_text().endswith("--previous reports/2020-01-02 --fail-on-new medium\n")


def test_each_ledger_once(night, tmp_path):
    """A ledger isn't taken for the next night's. A second one of the day has its own folder, which then is resumed."""
    for text in ("one", None, "two", None):
        if text is not None:
            (tmp_path / "ledger.csv").write_text(text)
        night(0)
        assert not (tmp_path / "ledger.csv").exists()
    asked = [line.split()[1:4] for line in (tmp_path / "asked.txt").read_text().splitlines()]
    texts = [(tmp_path / ledger).read_text() for ledger, _, _ in asked]
    assert texts == ["one", "one", "two", "two"]
    assert [ledger for ledger, _, _ in asked] == [f"{folder}.csv" for _, _, folder in asked]


def test_not_compared(night, tmp_path):
    """A ledger that is refused is taken up again every night, after the night that is over, and delays no other."""
    put(tmp_path, "2020-01-01", "2020-01-02")
    assert night(2, 0, 2)[:2] == (2, 3)
    (tmp_path / "ledger.csv").touch()
    assert night(1, 0)[:2] == (0, 5)
    assert pairs(tmp_path)[3:] == [("2020-01-01", "2020-01-02"), ("2026-11-21", "2020-01-01")]


@pytest.mark.parametrize("status", [3, 70])
def test_interrupted(night, tmp_path, status):
    """What began is ended first, so that the next night starts from it. A ledger without a report isn't overtaken."""
    put(tmp_path, "2020-01-01", "2020-01-02")
    (tmp_path / "ledger.csv").touch()
    assert night(0, status)[:2] == (status, 2)
    assert night(0, 0)[:2] == (0, 4)
    began = [("2020-01-02", "2020-01-01")]
    assert pairs(tmp_path) == [("2020-01-01", None), *began * 2, ("2026-11-21", "2020-01-02")]


@pytest.mark.slow
def test_for_real(night, tmp_path):
    """With the sandbox, the script writes its folder, and takes the night before it as the previous run."""
    (tmp_path / "ledger.csv").write_text("reference,amount,status\nT0000000001DEMO,150000,Paid\n")
    (tmp_path / "rules.toml").write_text('time_zone = "Asia/Jakarta"\n')
    with Reader(tmp_path) as somebody:
        line, *_ = somebody.adapted(somebody.start_sandbox("payclient sandbox")).splitlines()
        settings = dict(pair.split("=") for pair in line.removeprefix("export ").split())
        real = {"stubs": ("mail", "sleep"), "folders": [str(Path(sys.executable).parent)], **settings}
        assert night(**real)[0] == 0
        (folder,) = [path for path in (tmp_path / "reports").iterdir() if path.is_dir()]
        first = json.loads((folder / "summary.json").read_text())
        before = folder.rename(folder.with_name("2020-01-01"))
        before.with_name(f"{folder.name}.csv").rename(tmp_path / "ledger.csv")
        (tmp_path / "reports" / "nights.txt").write_text("reports/2020-01-01\n")
        assert night(**real)[0] == 0
    (folder,) = {path for path in before.parent.iterdir() if path.is_dir()} - {before}  # midnight may have passed
    second = json.loads((folder / "summary.json").read_text())
    assert (first["since"], second["since"]["run"]) == (None, first["run"])
    assert (folder / "report.html").exists()


def test_units():
    """The systemd units can be read, and run the script of the page; the page links them."""
    service, timer = (configparser.ConfigParser(strict=True) for _ in range(2))
    for unit, name in ((service, "reconcile.service"), (timer, "reconcile.timer")):
        assert f"](../examples/{name})" in TEXT
        unit.read_string((EXAMPLES / name).read_text(encoding="utf-8"))
    assert service["Service"]["ExecStart"].endswith("/nightly.sh")
    assert (timer["Timer"]["Persistent"], service["Service"]["SuccessExitStatus"]) == ("true", "1")

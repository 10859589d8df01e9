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
STUBS = {
    "payclient": '[ "$1" = verify ] && { [ -e "$3/whole" ]; exit; }; '
    'echo "$*" >>asked.txt; read -r status <next.txt; sed -i 1d next.txt; '
    'cat said.txt 2>/dev/null || echo VERDICT; exit "$status"',
    "mail": '{ echo "$2: $3"; cat; } >>mails.txt',
    "sleep": 'echo "$1" >>slept.txt',
    "date": '[ "$1" = +%F ] && echo 2026-11-21 || echo 093000',
}

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the script is for bash")


@pytest.fixture
def night(tmp_path):
    """Run the script in an empty folder, with programs of ours in the place of payclient, mail and sleep."""
    shutil.copy(EXAMPLES / "nightly.sh", tmp_path)

    def night(*statuses, stubs=tuple(STUBS), folders=(), **environment):
        bin_ = tmp_path / "bin"
        bin_.mkdir(exist_ok=True)
        for name in stubs:
            (bin_ / name).write_text(f"#!/usr/bin/env bash\n{STUBS[name]}\n")
            (bin_ / name).chmod(0o755)
        (tmp_path / "next.txt").write_text("".join(f"{status}\n" for status in statuses))
        path = os.pathsep.join([str(bin_), *folders, "/usr/bin", "/bin"])
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
        (1, ["Ledger: breaks, or not compared: finance@example.com", "VERDICT"]),
        (2, ["Ledger: cannot be read, or a wrong option: finance@example.com", "VERDICT"]),
        (3, ["Ledger: not set up, refused, or nothing was found: it@example.com", "VERDICT"]),
        (70, ["Ledger: failed with status 70: it@example.com", "VERDICT"]),
        (130, ["Ledger: failed with status 130: it@example.com", "VERDICT"]),
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
    assert (status, asked, mails[0]) == (1, 2, "Ledger: breaks, or not compared: finance@example.com")


def test_incomplete_all_night(night):
    """The number of runs is limited, and then a mail is sent."""
    mails = ["Ledger: incomplete after 12 runs: it@example.com", "VERDICT"]
    assert night(*[75] * 20) == (75, 12, ["600"] * 11, mails)


def test_incomplete_with_breaks(night, tmp_path):
    """Breaks do not stop the repetition: rows that could not be asked are asked again."""
    (tmp_path / "said.txt").write_text("INCOMPLETE: 1 break, 3 unresolved\n")
    status, asked, slept, mails = night(*[1] * 13)
    assert (status, asked, len(slept), mails[0]) == (1, 12, 11, "Ledger: breaks, or not compared: finance@example.com")


def test_without_payclient(night):
    """A command that is not there is not taken for breaks."""
    status, _, _, mails = night(stubs=("mail", "sleep"))
    assert (status, mails[0]) == (127, "Ledger: failed with status 127: it@example.com")


def test_first_night(night, tmp_path):
    """Without an earlier night there is no previous run."""
    assert night(0)[:2] == (0, 1)
    said = (tmp_path / "asked.txt").read_text()
    assert ("--previous" in said, said.endswith(" --fail-on partial\n")) == (False, True)


def test_last_whole_night(night, tmp_path):
    """The previous run is the last night before this one whose report is whole, and then only news count."""
    for name in ("2020-01-01/whole", "2020-01-02/whole", "2020-01-03/damaged", "9999-01-01/whole"):
        (tmp_path / "reports" / name).mkdir(parents=True)
    (tmp_path / "reports" / "2020-01-04.txt").touch()
    (tmp_path / "reports" / "2020-01-02-2").mkdir()  # of another ledger of that day, as a refusal proposes
    (tmp_path / "reports" / "2020-01-02-2" / "whole").touch()
    (tmp_path / "reports" / "2020-01-02-rejudged").mkdir()  # its decisions are taken in 2020-01-02
    (tmp_path / "reports" / "2020-01-02-rejudged" / "whole").touch()
    assert night(75, 0)[:2] == (0, 2)
    said = (tmp_path / "asked.txt").read_text().splitlines()
    assert [line.partition(" --confirm-after 10m ")[2] for line in said] == [
        "--previous reports/2020-01-02-2 --fail-on-new medium"
    ] * 2


def test_each_ledger_once(night, tmp_path):
    """A ledger isn't taken for the next night's. A second one of the day has its own folder, which then is resumed."""
    for text in ("one", None, "two", None):
        if text is not None:
            (tmp_path / "ledger.csv").write_text(text)
        night(0)
        assert not (tmp_path / "ledger.csv").exists()
        for ledger in (tmp_path / "reports").glob("*.csv"):
            (ledger.with_suffix("") / "manifest.json").parent.mkdir(exist_ok=True)
            (ledger.with_suffix("") / "manifest.json").touch()
    asked = [line.split()[1:4] for line in (tmp_path / "asked.txt").read_text().splitlines()]
    texts = [(tmp_path / ledger).read_text() for ledger, _, _ in asked]
    assert texts == ["one", "one", "two", "two"]
    assert [ledger for ledger, _, _ in asked] == [f"{folder}.csv" for _, _, folder in asked]


def test_interrupted_nights(night, tmp_path):
    """Each earlier ledger without a report is reconciled before tonight's, the oldest first, if it wasn't refused."""
    for name in ("2020-01-01", "2020-01-02", "2020-01-03"):
        (tmp_path / "reports" / name).mkdir(parents=True)
        (tmp_path / "reports" / f"{name}.csv").touch()
    (tmp_path / "reports" / "2020-01-02" / "manifest.json").touch()
    (tmp_path / "ledger.csv").touch()
    status, asked, _, mails = night(2, 3, 0)
    told = ["Ledger: cannot be read, or a wrong option: finance@example.com", "VERDICT"]
    told += ["Ledger: not set up, refused, or nothing was found: it@example.com", "VERDICT"]
    assert (status, asked, mails) == (0, 3, told)
    folders = [line.split(" --out ")[1].split()[0] for line in (tmp_path / "asked.txt").read_text().splitlines()]
    assert folders == [f"reports/{day}" for day in ("2020-01-01", "2020-01-03", "2026-11-21")]
    assert night(0, 0)[1] == 3 + 2  # 2020-01-03 again, and today


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

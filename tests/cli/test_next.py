"""Every refusal, and every verdict but clean, ends with commands that can be pasted; each of them is run."""

import io
import re
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace

import openpyxl
import pytest

from payclient.cli._next import after_verdict, rejudging
from payclient.cli._process import Call, new_path
from payclient.reconcile import Condition
from payclient.reconcile._judgement.summary import Compared
from payclient.reconcile.ledger import UnreadSheet, UnusedColumn
from payclient.testing import Reply
from support.misses import check_each

CLEAN = "reference,amount,status\nT1,15000,Paid\nT2,7000,Canceled\n"
RUN = "reconcile ledger.csv --out new"
SAVED = "--save-rules rules.toml"

READING = {
    "Order,amount\nT1,15000\n": (f"{RUN} --column reference=Order",),
    "reference,wert\nT1,15000\n": (f"{RUN} --column amount=wert",),
    "reference,wert,x\nT1,15000,7000\n": (f"{RUN} --column amount=wert", f"{RUN} --column amount=x"),
    "reference,debit,credit\nT1,,15000\nT2,7000,\n": (
        f"ledger ledger.csv --column amount=credit --debit-column amount=debit {SAVED}",
        f"ledger ledger.csv --column amount=debit --debit-column amount=credit {SAVED}",  # as one's own books have them
    ),
    "reference,amount,type\nT1,15000,CREDIT\nT2,7000,DEBIT\n": (f"{RUN} --column direction=type",),
    "November\n\nreference,amount\nT1,15000\n": (f"ledger ledger.csv --header-row 3 {SAVED}",),
    "reference,amount,currency\nT1,15000,IDR\nT2,7,USD\n": (
        f"ledger ledger.csv --only-currency IDR {SAVED}",
        f"ledger ledger.csv --only-currency USD {SAVED}",
    ),
    "reference,amount\nT1,15000\nT\udcfc,5\n": (f"ledger ledger.csv --encoding cp1252 {SAVED}",),
    "": ("ledger ledger.csv",),
    "reference,amount\n": ("ledger ledger.csv",),
    "reference^amount\nT1^15000\n": (f"{RUN} --delimiter '^'",),
    "Beleg,Beleg,amount\nT1,T2,15000\n": (),
    'reference,amount\nT1,"15000\nT2,7000\n': (f"correct ledger.csv, line 2, then: {RUN}",),
    "reference,amount\nT1,15000\nTotal,15000\n": ("ledger ledger.csv",),
    "T1\nT2\n": (),  # the first payment, as a header, would be lost
}
"""A ledger that cannot be read as it is, and the commands that follow."""

NAMED = ", ".join(f"{name} (ledger.csv, AT)" for name in ("20", "breaks", "broken", "edited"))

CALLS = {
    "reconcile": "reconcile --help",
    "reconsile ledger.csv": "--help",
    f"{RUN} --grace soon": "reconcile --help",
    f"{RUN} --column amount": "reconcile --help",
    f"{RUN} --fail-on-new low": "reconcile --help",
    f"{RUN} --payout 5": "reconcile --help",
    f"{RUN} --grace 24h": "ledger ledger.csv",
    f"{RUN} --decimal ,": f"ledger ledger.csv --decimal , {SAVED}",
    f"{RUN} --column amount=Betrag": "ledger ledger.csv",
    f"{RUN} --ignore-column Betrag": "ledger ledger.csv",
    f"{RUN} --previous 200": f"name the report that is meant: {NAMED}",
    f"{RUN} --previous none/20": (),
    f"{RUN} --previous edited": "verify edited",
    f"{RUN} --previous 20 --environment live": (),
    f"{RUN} --format xlsx": f"{RUN} --format csv",
    "reconcile ledger.csv --out kept": "reconcile ledger.csv --out kept-2",
    "reconcile empty --out new": (),
    "reconcile other.csv --out a --previous other.csv": f"name the report that is meant: {NAMED}",
    "ledger ledger.csv --decimal , --save-rules totals.toml": (
        "ledger ledger.csv --decimal , --save-rules totals-2.toml"
    ),
    "explain T1 20": "explain 20 T1",
    "show nowhere": f"name the report that is meant: {NAMED}",
    f"{RUN} --statement named.csv": f"{RUN} --statement named.csv --statement-column reference=Trx",
    f"{RUN} --statement point.csv --statement-column amount=Wert": f"{RUN} --statement point.csv",
    "reconcile ledger.csv --out 20 --previous 20": "reconcile ledger.csv --previous 20 --out 20-2",
    "reconcile ledger.csv --out 20 --assume-status none": "rejudge 20 --assume-status none --out 20-rejudged",
    "reconcile ledger.csv --out 20 --not-found-message gone": (
        "reconcile ledger.csv --not-found-message gone --out 20-2"
    ),
    "reconcile other.csv --out 20": "reconcile other.csv --out 20-2",
    "reconcile ledger.csv --out broken": "reconcile ledger.csv --out broken-2",
    "reconcile ledger.csv --out own": "reconcile ledger.csv --out own-2",
    "report broken": "verify broken",
    f"{RUN} --previous 20/report.html": f"{RUN} --previous 20",
    "report 20x": f"name the report that is meant: {NAMED}",
    "report none/20": (),
    "verify 200/": f"name the report that is meant: {NAMED}",
    "verify empty": (),
    "explain broken T1": "verify broken",
    "rejudge 20 --out 20": "rejudge 20 --out 20-2",
    "diff 20 edited": "verify edited",
    "diff edited 20": "verify edited",
    "decisions 20/report.xlsx --by=": "decisions --help",
    "decisions 20/report.xlsx --folder breaks --by a": (),
    "rejudge 20 --out broken": "rejudge 20 --out broken-2",
    "rejudge decided --out new": (),
    "reconcile ledger.csv --out new --decisions decided": (),
    "verify decided": (),
    "reconcile --thousands .": "reconcile --help",
    "get": "get --help",
    "ledger ledger.csv --minor-units x": "ledger --help",
    "sandbox --rate-limit x": "sandbox --help",
}
"""A call that is refused, and the command that follows."""

MENDED = {
    f"{RUN} --rules bad.toml": ("edit bad.toml, line 1", "bad.toml", 'grace = "0s"\n'),
    "ledger quote.csv": ("correct quote.csv, line 3", "quote.csv", CLEAN),
    f"{RUN} --rules grace.toml": ("edit grace.toml", "grace.toml", ""),
    "rejudge 20 --rules bad.toml --out new": ("edit bad.toml, line 1", "bad.toml", ""),
}
"""A call that is refused because of a file, which a person mends; then the command that follows is the same call."""

VERDICTS = {
    (RUN, "reference,amount,status\nT1,14000,Paid\n"): "explain new T1",
    (RUN, "reference,amount,status\nT1,x,Paid\n"): "ledger ledger.csv",
    (RUN, "reference,amount,status\nT9,1,Paid\n"): "doctor",
    (RUN, "reference,amount,status\nT7,1,Paid\n"): ("doctor", f"wait until the service answers, then: {RUN}"),
    (RUN, "reference,status\nT1,Paid\n"): (),  # there is no other column to choose
    (RUN, "reference,amount,status,note\nT1,15000,Paid,a\n"): "ledger ledger.csv",
    (RUN, "reference,amount,Order Status\nT1,15000,cancelled\n"): (
        f"ledger ledger.csv --column 'status=Order Status' {SAVED}",
        "ledger ledger.csv",
    ),
    (RUN, "reference,amount,Branch,Result,Code\nT1,15000,Java,Paid,7\n"): (
        f"ledger ledger.csv --column status=Result {SAVED}",
        "ledger ledger.csv",
    ),
    ("ledger ledger.csv", "reference,amount,Branch,Ergebnis\nT1,15000,Java,ok\n"): (
        "decide about each column that is not used, then: reconcile ledger.csv --out report",
    ),
    (f"{RUN} --rules totals.toml", "reference,amount\nT1,15000\nTotal,99000\n"): (
        "ledger ledger.csv --rules totals.toml"
    ),
    (f"{RUN} --assume-status none", "reference,amount\nT1,15000\n"): (
        "make sure that every row of the ledger is paid, then: rejudge new --out new-rejudged --assume-status paid"
    ),
    (f"{RUN} --allow-empty", "reference,amount\n"): "ledger ledger.csv --allow-empty",
    (f"{RUN} --previous 20", "reference,amount,status\nT1,15000,Paid\n"): "explain new T2",
    (f"{RUN} --statement point.csv --payout 5", CLEAN): "show new",
    (f"{RUN} --statement noted.csv", CLEAN): (
        "decide about each unused column of the statement, in [statement] of the rules file, then: "
        f"{RUN} --statement noted.csv"
    ),
    ("report breaks", CLEAN): "explain breaks T1",
    ("show breaks", CLEAN): "explain breaks T1",
    ("diff 20 breaks", CLEAN): "explain breaks T1",
    ("rejudge breaks --out new", CLEAN): "diff breaks new",
    ("explain 20 T9", CLEAN): "show 20",
    ("verify edited", CLEAN): "report edited",
    ("ledger ledger.csv", "reference,amount,status\nT1,15000,Lunas\n"): f"ledger ledger.csv {SAVED}",
}
"""A call, the ledger, and the command that follows its verdict."""

FILES = {
    "other.csv": "reference,amount,status\nT1,15000,Paid\n",
    "named.csv": "Trx,amount\nT1,15000\n",
    "point.csv": "reference,amount\nT1,15000\n",
    "noted.csv": "reference,amount,note\nT1,15000,a\n",
    "web.csv": "<html><table></table></html>",
    "quote.csv": 'reference,amount\nT1,15000\n"T2,7\n',
    "totals.toml": "[ledger]\nskip_totals = true\n",
    "bad.toml": 'grase = "2d"\n',
    "grace.toml": 'grace = "2d"\n',
}


@pytest.fixture
def folder(night, prepared, tmp_path, service):
    """Give a folder with a clean run, copies of it that were changed, a run with breaks, and other files."""

    def prepare():
        night("20", lines=CLEAN.splitlines()[1:])
        night("breaks", lines=["T1,14000,Paid"])
        for name, damaged in {"edited": "breaks.csv", "broken": "journal.sqlite"}.items():
            shutil.copytree(tmp_path / "20", tmp_path / name)
            (tmp_path / name / damaged).write_text("changed")
        shutil.copytree(tmp_path / "20", tmp_path / "decided")
        for name in ("decisions.jsonl", "breaks.csv", "manifest.json"):
            (tmp_path / "decided" / name).write_text("changed")
        (tmp_path / "own").mkdir()
        (tmp_path / "kept").write_text("a file")
        (tmp_path / "empty").mkdir()
        (tmp_path / "own" / "breaks.csv").write_text("mine")

    prepared("folder", prepare)
    service.add(reference="T7", amount=1, status="Paid")
    service.script("T7", *[Reply(status=403)] * 9)
    return tmp_path


@pytest.fixture
def follow(configured, folder, tmp_path_factory, monkeypatch):
    """Run a call in a copy of the folder, and after *mend* the commands that it ends with; return these."""

    def follow(call, ledger=CLEAN, mend=lambda: None):
        copy = shutil.copytree(folder, tmp_path_factory.mktemp("copy") / "copy")
        monkeypatch.chdir(copy)
        for name, content in {"ledger.csv": ledger, **FILES}.items():
            (copy / name).write_bytes(content.encode(errors="surrogateescape"))
        first = configured(*shlex.split(call))
        mend()
        for number, (has_note, words) in enumerate(first.steps):
            monkeypatch.chdir(shutil.copytree(copy, copy.with_name(f"{number}")))
            assert shlex.join(words) != call or has_note, (call, first)
            result = configured(*words)
            if not has_note or mend.__name__ != "<lambda>":
                assert result.said != first.said or first.status < 2, (call, words, result)
                assert (result.status == 2) <= (words[-1] == "--help"), (call, words, result)
        return tuple(first.lines)

    return follow


def test_reading(follow):
    """A ledger that is refused is followed by the commands that read it, or by the one that shows it."""
    check_each(READING, lambda ledger: follow(RUN, ledger))


def test_calls(follow):
    """A call that is refused is followed by the command that helps."""

    def in_any_order(line):  # the newest report is named first, and a minute may end between two
        start, _, reports = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "AT", line).partition("that is meant: ")
        return start, sorted(reports.split(", "))

    expected = {call: (each,) if isinstance(each, str) else each for call, each in CALLS.items()}
    check_each(
        {call: [*map(in_any_order, lines)] for call, lines in expected.items()},
        lambda call: [*map(in_any_order, follow(call))],
    )


def test_mended(follow):
    """A file that cannot be used is to be mended, and then the same command runs."""

    def actual(call):
        def mend():
            Path(name).write_text(content)

        _, name, content = MENDED[call]
        return follow(call, mend=mend)

    check_each({call: (f"{first}, then: {call}",) for call, (first, _, _) in MENDED.items()}, actual)


def test_verdicts(follow):
    """Every verdict but clean is followed by the command that leads on."""
    expected = {key: (each,) if isinstance(each, str) else each for key, each in VERDICTS.items()}
    check_each(expected, lambda key: follow(*key))


def test_other_sheet(follow):
    """Of a workbook whose first sheet has no row, the one with rows is proposed."""
    book = openpyxl.Workbook()
    sheet = book.create_sheet("Nov 26")
    for row in (("reference", "amount", "status"), ("T1", 15000, "Paid"), ("T2", 7000, "Canceled")):
        sheet.append(row)
    stored = io.BytesIO()
    book.save(stored)
    ledger = stored.getvalue().decode(errors="surrogateescape")
    assert follow(f"{RUN} --format xlsx", ledger) == (f"{RUN} --format xlsx --sheet 'Nov 26'",)


def test_no_command(configured, monkeypatch):
    """A path that cannot be looked at has no next command; a bug in finding one has the exit status of a bug."""
    monkeypatch.setenv("PAYCLIENT_ENVIRONMENT", "k3y-" * 5)
    for call in (("show", "x" * 300), ("reconcile", "l.csv", "--out", "a", "--previous", "b")):
        result = configured(*call)
        assert (result.status, result.following, "Traceback" in result.err) == (2, [], False)
    monkeypatch.setattr("payclient.cli._next.after_error", None)
    result = configured("show", "none")
    assert (result.status, "this is a bug of payclient" in result.err) == (70, True)


def test_last_option():
    """Of two values for one subject, the last counts: the commands take an option once."""
    options = ("--encoding", "utf-16"), ("--encoding", "utf-16-le"), ("--null", "-"), ("--null", "?")
    assert Call("ledger").having(*options).text() == "payclient ledger --encoding utf-16-le --null=- --null '?'"


def test_after_verdict():
    """Each condition of a run but *clean* has its commands; one after a mark takes something else first."""
    compared = Compared(unused=(UnusedColumn("State", {"Paid": 1}),), unread_sheets=(UnreadSheet("B", 1),))
    found = {}
    for condition in Condition:
        summary = SimpleNamespace(compared=compared, to_act_upon=(condition,))
        steps = after_verdict(summary, ["T1"], Call("reconcile", ("l.csv",), (("--out", "r"),)), Path("r"))
        found[condition.value] = " ".join(f"{'!' if each.first else ''}{each.name}" for each in steps)
    assert found == {
        **dict.fromkeys(("nothing_read", "rejected", "newly_left_out"), "ledger"),
        "nothing_found": "doctor",
        "nothing_answered": "doctor !reconcile",
        "unresolved": "!reconcile",
        "breaks": "explain",
        "not_tied": "show",
        "not_known": "show",
        "clean": "",
        **dict.fromkeys(("amounts_left_out", "columns_left_out"), "ledger ledger"),
        "sheets_left_out": "!ledger",
        "statement_left_out": "!reconcile",
        "status_left_out": "!rejudge",
    }


def test_new_path(tmp_path, monkeypatch):
    """The number at the end of a name is counted on; a day is not such a number, and `.` is not a name."""
    for name, new in {"c2d-2": "c2d-3", "run": "run-2", "2026-11-20": "2026-11-20-2"}.items():
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert Path(new_path(tmp_path / name)).name == Path(new_path(Path())).name == new
        assert rejudging(Call(), Path()).text() == f"payclient rejudge . --out {tmp_path / name}-rejudged"

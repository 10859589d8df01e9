"""`payclient reconcile`: a ledger in, a report and a verdict out."""

import json
import os
import signal
from threading import Thread

import pytest
from attrs import fields

from payclient.reconcile.ledger import Dialect
from payclient.testing import Reply
from support.fakes import KEY
from support.in_thread import serving
from support.raw_server import RawServer
from support.reports import summary_of
from support.tls_server import AUTHORITY, refusing

HEADER = "reference,amount,status"


@pytest.fixture
def reconcile(night):
    """Reconcile a ledger of these lines."""
    return lambda *arguments, out="report", **ledger: night(out, *arguments, **ledger)


@pytest.fixture
def report(tmp_path):
    """Give the folder of the report."""
    return tmp_path / "report"


def test_refused_certificate(command, report, tmp_path, monkeypatch):
    """A service that refuses the client certificate behind the handshake ends the run with status 3, not with 75."""
    authority, ledger = tmp_path / "authority.pem", tmp_path / "ledger.csv"
    authority.write_bytes(AUTHORITY.cert_pem.bytes())
    ledger.write_text("reference,amount,status\n" + "".join(f"T{n},1,Paid\n" for n in range(100)))
    monkeypatch.setenv("PAYCLIENT_API_KEY", KEY)
    with serving(server := RawServer(refusing(45))):
        url = server.url.replace("http://127.0.0.1", "https://localhost")
        options = ("--base-url", url, "--ca-file", str(authority), "--out", str(report))
        result = command("reconcile", str(ledger), *options)
    assert result.status == 3
    assert "refused the client certificate (alert certificate expired)" in result.err


def test_verdict(reconcile):
    """The verdict is followed by the worst breaks, sums that add up, what cannot appear in it, and what is next."""
    result = reconcile(lines=["T1,15000,Paid", "T2,9000,Canceled", "T3,1,Paid", "T4,1.5E+07,Paid"])
    assert (
        result.out
        == """\
BREAKS: amount and status of 4 ledger rows: 1 matched, 2 breaks, 1 rejected.

the worst of 2 breaks:
  line 3, T2: high, underpaid, 2,000 at stake: amount is 9,000 in the ledger and 7,000 at the service, which is 2,000 less
  line 4, T3: high, missing_at_service, 1 at stake: the service knows no transaction 'T3', but the ledger has an amount of 1

rejected, to be corrected in the ledger, or to be skipped by its rules:
  line 5: amount: '1.5E+07' looks damaged by a spreadsheet: export the column as whole numbers

                      rows  ledger paid  service paid  difference
matched                  1       15,000        15,000           0
break                    2            1             0          -1
  underpaid              1            0             0           0
  missing_at_service     1            1             0          -1
rejected                 1            0             0           0
all                      4       15,001        15,000          -1
1 row of the ledger without an amount

Only references in the ledger were looked up. Payments missing from the ledger cannot appear here.

Report: report/report.html, and next to it report.xlsx, breaks.csv, rows.jsonl, summary.json
Next: payclient explain report T2
"""  # noqa: E501  as it is printed
    )


def test_material(reconcile, service, report, command, tmp_path):
    """A break with as much at stake as the rules say is marked and counted everywhere, and is listed first."""
    service.add(reference="T3", amount=9000, status="Paid")
    service.add(reference="T4", amount=6999, status="Pending")
    lines = ["T1,14000,Paid", "T3,1500,Paid", "T4,6999,Paid"]
    (tmp_path / "rules.toml").write_text("material_from = 7500\n")
    result = reconcile("--rules", "rules.toml", lines=lines)
    named = [line.split(": ")[0].strip() for line in result.out.splitlines() if line.startswith("  ") and "T" in line]
    assert named == ["material, line 3, T3", "line 4, T4", "line 2, T1"]
    summary, page = summary_of(report), (report / "report.html").read_text()
    assert (summary["material"], "; 1 of them material" in page, "1 break with at least 7,500 at stake" in page) == (
        *(1, True),
        True,
    )
    assert page.count('<span class="tag">material</span>') == 2  # among the worst, and under its kind
    assert command("show", "report").out.splitlines()[-4].startswith("1. high overpaid T3")
    assert [line.rpartition(",")[2] for line in (report / "breaks.csv").read_text().splitlines()] == [
        *("is_material", "no"),
        *("yes", "no"),
    ]
    (tmp_path / "rules.toml").write_text("material_from = 7501\n")
    reconcile("--rules", "rules.toml", lines=lines)  # the same answers, looked at in another way
    assert (summary_of(report)["material"], service.total) == (0, 6)


def test_json_and_quiet(reconcile, report):
    """With `--json` standard output is `summary.json` alone; with `--quiet` nothing else is said, on either stream."""
    results = {
        options: reconcile(*options.split(), lines=["T2,9000,Canceled"])
        for options in ("--json", "--quiet", "--quiet --json")
    }
    summary = (report / "summary.json").read_text()
    assert {options: result.out for options, result in results.items()} == {
        "--json": summary,
        "--quiet": "",
        "--quiet --json": summary,
    }
    assert {(result.status, result.err) for options, result in results.items() if "quiet" in options} == {(1, "")}


def test_columns(configured, tmp_path):
    """The columns are told before anything is asked: recognised, chosen, with debits, and not used."""
    rules = tmp_path / "rules.toml"
    rules.write_text('[ledger]\ndebit_columns = { amount = "debit" }\n')
    for arguments, header, line, told in (
        ("", "ref,Total,note", "T1,15000,x", "reference = 'ref', amount = 'Total'; not used: 'note'"),
        (
            f"--column amount=credit --rules {rules}",
            "reference,credit,debit,note",
            "T1,15000,,x",
            "reference, amount = 'credit' with debits in 'debit'; not used: 'note'",
        ),
    ):
        ledger = f"{header}\n{line}\n".encode()
        result = configured("reconcile", "-", "--out", str(tmp_path / header[4:8]), *arguments.split(), stdin=ledger)
        assert result.err == f"columns: {told}\n"
        assert result.out.startswith("PARTIAL: amount of 1 ledger row: 1 matched; not used: note: x 1.")
        assert " is ignored by name with --ignore-column NAME.\n" in result.out


ZONE = "--time-zone must be a name such as Asia/Jakarta, or an offset such as +07:00, got "
GOOD = (HEADER, "T1,15000,Paid")
REFUSED = [
    ("--column amount", *GOOD, "payclient: --column must be like amount=Betrag, got 'amount'"),
    (
        "--column amuont=Betrag",
        *GOOD,
        "the ledger cannot be read like this: columns: unknown field 'amuont' (did you mean 'amount'?): ",
    ),
    ("--column betrag=amount", *GOOD, "payclient: --column takes the field first: --column amount=betrag"),
    ("--column amount=A --column amount=B", *GOOD, "payclient: --column was given twice for amount: 'A' and 'B'"),
    ("--column amount=Betrag", *GOOD, "payclient: no column is called 'Betrag', which was chosen for amount"),
    ("--rules ignored.toml", *GOOD, "payclient: no column is called 'wert', which was to be ignored"),
    ("--time-zone Mars/Base", *GOOD, f"payclient: {ZONE}'Mars/Base'"),
    ("--time-zone ../etc", *GOOD, f"payclient: {ZONE}'../etc'"),
    ("--confirm-after soon", *GOOD, "payclient: --confirm-after must be a duration such as 10 (seconds), 90s, "),
    ("--grace 24h", *GOOD, "choose one with --column created_at=NAME"),
    ("--format csv --sheet 2", *GOOD, "the ledger cannot be read like this: sheet is an option of xlsx"),
    ("", "reference,Amount (IDR)", "T1,15000", "; --ignore-column NAME leaves a column out\nNext: "),
    ("", "reference,wert,x", "T1,15000,7000", "the customer paid; --ignore-column NAME leaves a column out\n"),
    ("--rules rules.toml", "reference,status,x", "T1,Paid,y", "--column amount=x"),
    ("", "reference,amount", "", "--allow-empty"),
    ("", "November\n\nreference,amount", "T1,1", "--header-row 3"),
    ("", "reference,amount,currency", "T1,5,IDR\nT2,5,USD", "--only-currency IDR"),
    ("", f"{HEADER},note", 'T1,15000,"Paid\nT2,7000,Paid', "line 2"),
    ("--rules rules.toml", "reference,status", "T1,Paid", "no column was found for amount, which is required"),
    # No kind is guessed.
    ("--column kind=type", "reference,amount,type", "T1,1,refund", "charge, refund or fee in the table [lines.kind]"),
]
"""Options, header and lines of a ledger, and the message, which begins a line where it begins with the command."""


def test_refused(reconcile, service, report, tmp_path):
    """An option or a ledger that cannot be used is refused before any lookup, with what helps, and without a report."""
    (tmp_path / "rules.toml").write_text('require = ["amount"]')
    (tmp_path / "ignored.toml").write_text('ignore_columns = ["wert"]')
    missed = []
    for arguments, header, line, message in REFUSED:
        result = reconcile(*arguments.split(), header=header, lines=[line] if line else [])
        told = result.said.splitlines()[-1]
        is_told = told.startswith(message) if message.startswith("payclient: ") else message in result.err
        written = (report / "summary.json").exists()
        is_made = header == HEADER and report.exists()  # an option is refused before a folder is made
        if (result.status, is_told, service.total, written, is_made) != (2, True, 0, False, False):
            missed.append((arguments, header, result, written, is_made))
    assert missed == []


def test_unusable_arguments(configured, tmp_path, subtests):
    """A ledger that is not there, a misspelt option, and standard input for key and ledger are each told."""
    for arguments, message in [
        (("no-such-file",), "no-such-file cannot be opened: No such file or directory\n"),
        (("--jsn",), "unknown option --jsn"),
        (("-", "--api-key-file", "-"), "standard input is either the ledger or the key\n"),
    ]:
        with subtests.test(arguments=arguments):
            result = configured("reconcile", *arguments, "--out", str(tmp_path), stdin=b"fake-api-key")
            assert (result.status, result.err[: len(message) + 11]) == (2, f"payclient: {message}")


def test_unresolved(reconcile, service):
    """A row without a trustworthy answer gives status 75, with breaks 1, and names the command that asks again."""
    service.script("T2", *[Reply(status=403)] * 4)
    result = reconcile(lines=["T1,15000,Paid", "T2,9000,Canceled"])
    assert (result.status, result.out.splitlines()[0], result.following[0][0]) == (
        75,
        "INCOMPLETE: amount and status of 2 ledger rows: 1 matched, 1 unresolved.",
        "reconcile",
    )
    service.script("T8", *[Reply(status=403)] * 2)
    result = reconcile(out="other", lines=["T1,14000,Paid", "T8,9000,Canceled"])
    assert (result.status, "1 break, 1 unresolved" in result.out) == (1, True)
    assert [line.split()[0] for line in result.out.splitlines()[-3:]] == ["Report:", "Next:", "Or:"]


def test_nothing_found(reconcile, service):
    """When nothing is found the status is 3, the canary is named, and the same command asks again."""
    first, asked = reconcile(lines=["T8,15000,Paid", "T9,9000,Canceled"]), service.total
    assert (first.status, first.following, first.out.splitlines()[-2]) == (
        3,
        [["doctor"]],
        "No transaction found: wrong key or environment? Name a known reference with --canary.",
    )
    second = reconcile(lines=["T8,15000,Paid", "T9,9000,Canceled"])
    assert (second.status, service.total - asked) == (3, asked)
    assert "answered already: 0 of 2 references" in second.err
    third = reconcile("--canary", "T1", lines=["T8,15000,Paid", "T9,9000,Canceled"])
    assert (third.status, "2 breaks" in third.out) == (1, True)


def test_unknown_canary(reconcile, service, report):
    """A canary that the service does not know looks like a wrong key: status 3, nothing else asked, no report."""
    result = reconcile("--canary", "T9", lines=["T1,15000,Paid"])
    assert (result.status, {request.reference for request in service.requests}) == (3, {"T9"})
    assert "does not know the canary 'T9': is it the right key and environment?" in result.said.splitlines()[-1]
    assert not (report / "summary.json").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipe(configured, report, tmp_path):
    """A pipe is read once, as ledger or as rules, and is not expected to be there again."""
    files = {"ledger": f"{HEADER}\nT1,15000,Paid\n", "rules": 'grace = "0s"\n'}
    for name, content in files.items():
        os.mkfifo(tmp_path / name)
        Thread(target=(tmp_path / name).write_text, args=(content,), daemon=True).start()
    result = configured("reconcile", f"{tmp_path}/ledger", "--out", str(report), "--rules", f"{tmp_path}/rules")
    assert (result.status, result.out.partition(":")[0]) == (0, "CLEAN")


def test_options(reconcile, monkeypatch):
    """What an option says about the lookups reaches the run."""
    jobs = []

    async def run(job):
        jobs.append((job.earlier.confirm_after, job.connection.max_concurrency, job.canary))

    monkeypatch.setattr("payclient.cli._reconcile._run", run)
    options = "--confirm-after 10m --max-concurrency 7 --canary T9"
    reconcile(*options.split(), lines=["T1,15000,Paid"])
    assert jobs == [(600.0, 7, "T9")]


def test_grace(reconcile, report):
    """The age of a row is read with its zone, and from a date alone; the summary names the zone of expiries."""
    made = ("2026-11-21T22:16:00Z", "2026-11-22T05:16:00+07:00", "2026-11-21")
    unknown = [f"T40{place},1,Paid,{time}" for place, time in enumerate(made)]
    options = ("--grace", "999999d", "--time-zone", "Asia/Jakarta")
    result = reconcile(*options, lines=["T1,15000,Paid,2026-11-01", *unknown], header=f"{HEADER},created")
    assert (result.status, result.out.splitlines()[0]) == (
        0,
        "CLEAN: amount and status of 4 ledger rows: 1 matched, 3 open.",
    )
    said = "expiry times were read in the time zone Asia/Jakarta"
    assert ("Expiry:" in result.out, summary_of(report)["expiry"]) == (False, said)


def test_refused_key(reconcile, report, monkeypatch):
    """When the key is refused there is nothing to report; with the right one the same command resumes."""
    with monkeypatch.context() as wrong:
        wrong.setenv("PAYCLIENT_API_KEY", "some-other-key")
        refused = reconcile(lines=["T1,15000,Paid"])
    files = {path.name for path in report.iterdir()}
    assert (refused.status, refused.out, files) == (3, "", {"journal.sqlite"})
    assert reconcile(lines=["T1,15000,Paid"]).status == 0


def test_unwritable_report(reconcile, tmp_path):
    """A folder that cannot be written to is found out before anything is asked."""
    (tmp_path / "report").write_text("a file")
    result = reconcile(lines=["T1,15000,Paid"])
    assert (result.status, result.said.splitlines()[-1]) == (
        2,
        "payclient: --out must be a folder, and report is a file",
    )


def test_hostile_ledger(reconcile):
    """Escape sequences in a ledger, its header included, never reach the terminal."""
    result = reconcile(lines=["T\x1b[31m1,15000,P\x1baid,x"], header=f"{HEADER},\x1b]0;title\x07")
    shown = result.out + result.err
    assert [character for character in shown if not character.isprintable() and character != "\n"] == []


def test_interrupted(reconcile, report, interrupt):
    """The first signal ends the run in order: no half report, answers are kept, and the same command resumes."""
    interrupt(signal.SIGTERM)
    result = reconcile("--max-concurrency", "1", lines=["T1,15000,Paid", "T2,9000,Canceled"])
    files = {path.name for path in report.iterdir()}
    assert (result.status, files, "to resume: payclient reconcile" in result.err) == (130, {"journal.sqlite"}, True)
    again = reconcile("--max-concurrency", "1", lines=["T1,15000,Paid", "T2,9000,Canceled"])
    assert (again.status, "answered already: 1 of 2 references" in again.err) == (1, True)


@pytest.mark.parametrize("place", ["option", "rules", "nowhere"])
def test_not_found_messages(reconcile, service, tmp_path, report, place):
    """What the service says of an unknown reference is believed when the option or the rules file says so."""
    told = Reply(status=404, body=json.dumps({"success": False, "message": "Kode tak dikenal"}))
    service.script("T9", *[told] * 40)
    (tmp_path / "rules.toml").write_text('not_found_messages = ["kode tak dikenal"]' if place == "rules" else "")
    option = ["--not-found-message", "kode tak dikenal"] if place == "option" else []
    reconcile("--rules", str(tmp_path / "rules.toml"), *option, lines=["T1,15000,Paid", "T9,1,Paid"])
    rows = [json.loads(line) for line in (report / "rows.jsonl").read_text().splitlines()]
    codes = [finding["code"] for finding in rows[1]["findings"]]
    assert (codes == ["missing_at_service"]) is (place != "nowhere")
    rules = json.loads((report / "summary.json").read_text())["rules"]
    assert rules.get("not_found_messages") == (None if place == "nowhere" else ["kode tak dikenal"])


def test_explain(reconcile, command, service):
    """Of a payment made twice, the other one is explained too; codes are masked, and an unknown reference is told."""
    service.add(reference="T3", amount=15000, fee=2500, status="Paid", merchant_reff="INV-1")
    reconcile(lines=["T1,15000,Paid", "T2,7000,Canceled", "T3,15000,Paid"])
    said = command("explain", "report", "T1").out
    assert [line for line in said.splitlines() if line.startswith("line ")] == [
        "line 2, T1: BREAK",
        "line 4, T3: BREAK",
    ]
    assert ("************0001" in said, "8800000000000001" in said) == (True, False)
    unknown = command("explain", "report", "T9")
    assert (unknown.status, unknown.out) == (1, "the reference T9 is not in the ledger\nNext: payclient show report\n")


GERMAN = {"header": "reference;amount;created_at", "lines": ["T1;15.000,00;20.11.2026"]}


def test_declared(reconcile, command, report, tmp_path):
    """When no row can be read, the declarations that `payclient ledger` saves make it another run, which is kept."""
    first = reconcile(**GERMAN)
    assert (first.status, "all can be read with --decimal , --thousands ." in first.err) == (1, True)
    assert command("ledger", "ledger.csv", "--save-rules", "rules.toml").status == 0
    result = reconcile("--rules", "rules.toml", **GERMAN)
    assert (result.status, result.out.partition(":")[0], result.err.count("cannot be read")) == (0, "CLEAN", 0)
    declared = {"decimal": ",", "thousands": ".", "date_format": ["%d.%m.%Y"]}
    assert summary_of(report, "manifest.json")["rules"]["ledger"] == declared
    (tmp_path / "rules.toml").write_text(f"{(tmp_path / 'rules.toml').read_text()}null = 'x'\n")
    other = reconcile("--rules", "rules.toml", **GERMAN)
    assert (other.status, "belongs to another run: its ledger: " in other.err) == (2, True)


def test_keys_are_no_options(command):
    """An option of `payclient ledger` that writes a key of the rules file is refused, and the message names the key."""
    keys = {name.name for name in fields(Dialect)}
    called = {"debit_columns": "debit_column", "allow_references": "allow_reference"}
    options = {key: f"--{called.get(key, key).replace('_', '-')}" for key in keys}
    assert len(options) == 16
    calls = {key: command("reconcile", "ledger.csv", "--out", "report", option, "x") for key, option in options.items()}
    told = {key: call.said.removeprefix("payclient: ").rstrip() for key, call in calls.items() if call.status == 2}
    assert told == {
        key: f"unknown option {option}: it is the key {key} of [ledger] in the rules file"
        for key, option in options.items()
    }


def test_unknown_words(night):
    """Words of the ledger that the rules do not know are named before the first lookup, with the line to write."""
    header = "reference,amount,status,payment_method"
    result = night("report", lines=["T1,15000,bezahlt,Überweisung", "T2,7000,Paid,VA"], header=header)
    before = result.err.partition("BREAKS")[0]
    assert 'Write the status that it means: statuses.bezahlt = "?"' in before
    assert 'If the service calls it VA, for example: methods."Überweisung" = "VA"' in before
    assert "'VA' of" not in before

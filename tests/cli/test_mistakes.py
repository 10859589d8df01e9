"""Mistakes of a first hour: what is said about each, and what follows; nothing is misunderstood without a word."""

import shlex

import pytest

FILES = {
    "ledger.csv": "reference,amount,status\nT1,15000,Paid\nT2,7000,Canceled\n",
    "beleg.csv": "Belegnummer,amount\nT1,15000\n",
    "word.csv": "reference,amount,status\nT1,15000,Fertig\n",
    "both.csv": "reference,amount,status,note\nT1,15000,Fertig,7\n",
    "both.toml": 'ignore_columns = ["note"]\n[statuses]\nFertig = "paid"\n',
    "word.toml": '[statuses]\nFertig = "paid"\n',
    "fake.xlsx": "reference,amount\nT1,15000\n",
    "bad.toml": "a,b\n",
}
RUN = "reconcile ledger.csv --out new"
SAID = {
    # A call, and words of its answer; what follows, in order; and what is on standard input
    "reconcile nofile.csv --out new": ("nofile.csv cannot be opened: No such file", ()),
    "ledger 20": ("20 cannot be opened: Is a directory", ()),
    f"{RUN} --rules none.toml": ("the rules file none.toml cannot be read", ()),
    f"{RUN} --rules bad.toml": (
        "bad.toml, line 1: it is not TOML",
        (f"edit bad.toml, line 1, then: {RUN} --rules bad.toml",),
    ),
    "ledger fake.xlsx": ("should be XLSX", ("ledger fake.xlsx --format csv",)),
    "ledger ledger.csv --header-row 99": ("row 99 is empty", ("ledger ledger.csv",)),
    "reconcile beleg.csv --out new --column reference=Beleg": (
        "no column is called 'Beleg' (did you mean 'Belegnummer'?)",
        ("reconcile beleg.csv --out new --column reference=Belegnummer",),
    ),
    "reconcile word.csv --out new": ('Write the status that it means: statuses.Fertig = "?"', ("explain new T1",)),
    f"{RUN} --assume-status paid": ("no status is assumed, because a column is used as the status", ()),
    f"{RUN} --dry-run": ("unknown option --dry-run", ("reconcile --help",)),
    f"{RUN} --thousands .": ("key thousands of [ledger]", ("ledger ledger.csv --thousands . --save-rules rules.toml",)),
    f"{RUN} word.csv": ("unexpected: word.csv", ("reconcile --help",)),
    f"{RUN} --canary 'T1 '": ("--canary: reference has a blank", ("reconcile --help",)),
    f"{RUN} --fail-on worst": ("info, low, medium, high, critical, partial, got 'worst'", ("reconcile --help",)),
    "wait T1": ('Unknown command "wait"', ("--help",)),
    "get 'T1 '": ("strip it", ()),
    "get - ledger": ("header of a ledger: give one reference per line", ("get --help",), FILES["ledger.csv"]),
    "get - semicolons": ("header of a ledger", ("get --help",), "Reference;Betrag\nT1;5\n"),
    "get - header": ("header of a ledger", ("get --help",), "reference\nT1\n"),
    "get - references": ("T1         Paid", (), "T1\nT2\n"),
    "get - letters": ("ABC", ("doctor",), "ABC, D\n"),
    "decisions take 20/report.xlsx --by ana": (
        "unexpected: 20/report.xlsx; the command is like: payclient decisions reports/2026-11-21/report.xlsx --by ana",
        ("decisions --help",),
    ),
    "decisions 20 --by ana": ("0 decisions taken into 20/decisions.jsonl", ("rejudge 20 --out 20-rejudged",)),
    "decisions other/report.xlsx --by ana": ("no report found at other", None),
    "explain 20 t1": ("the reference t1 is not in the ledger", ("explain 20 T1",)),
    "explain 20 T9": ("the reference T9 is not in the ledger", ("show 20",)),
    "rejudge 20 --out new --assume-status paid": ("no status is assumed, because a column is used as the status", None),
    "reconcile ledger.csv --out 20/new --previous 20": (
        "--out must be another folder than 20, the previous run, which is not changed",
        ("reconcile ledger.csv --previous 20 --out 20-2",),
    ),
    "reconcile . --out new --previous .": ("--out must be another folder than .", None),
    "show 20/report.html": ("no report found at 20/report.html", ("show 20",)),
    "reconcile word.csv --out met --rules word.toml": (
        "belongs to another run: its rules: statuses",
        ("rejudge met --rules word.toml --out met-rejudged",),
    ),
    "reconcile both.csv --out read --rules both.toml": (
        "belongs to another run: its rules: statuses",
        ("reconcile both.csv --rules both.toml --out read-2",),
    ),
}


@pytest.fixture
def folder(night, prepared, configured, tmp_path, service, monkeypatch):
    """Give a folder with a run, two that met an unknown word, and the files."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    prepared("mistakes", lambda: night("20", lines=FILES["ledger.csv"].splitlines()[1:]))
    for ledger, out in (("word.csv", "met"), ("both.csv", "read")):
        configured("reconcile", ledger, "--out", out)


@pytest.mark.parametrize("call", SAID)
def test_said(call, folder, configured):
    """Each mistake is named, and what follows is another command that gets further."""
    said, following, *given = SAID[call]
    words = shlex.split(call)
    result = configured(*words[: 2 if given else None], **({"stdin": given[0].encode()} if given else {}))
    assert said in result.out + result.err, result
    assert following is None or tuple(result.lines) == following, result


@pytest.mark.parametrize("call", [*SAID, "ledger beleg.csv", f"{RUN} --ignore-column amount", "show met", "verify met"])
def test_no_loop(call, folder, configured):
    """Commands that are pasted one after the other never come back to one that was run."""
    paths = [(tuple(shlex.split(call)[: 2 if call.startswith("get -") else None]),)]
    while paths:
        *before, words = path = paths.pop()
        assert words not in before, path
        paths += [(*path, tuple(step)) for has_note, step in configured(*words).steps if not has_note]

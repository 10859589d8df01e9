"""Names and cells of a stranger never become options, and passwords never become output: a corpus of both."""

import io
import json
import re
import shlex
import shutil
import subprocess
from itertools import product

import openpyxl
import pytest

from payclient.cli._app import COMMANDS
from payclient.cli._process import Call

HOSTILE = (
    "x --column amount=amt --base-url http://127.0.0.1:9 ",
    "--rules /tmp/evil.toml",
    "-led",
    "--",
    "a' --out /srv/x '",
    '"; touch pwned; "',
    "$(touch pwned)",
    "`touch pwned`",
    "a\nb --statement evil.csv",
    "; touch pwned",
    "%PATH% & touch pwned",
    "=cmd",
    "\u2019; --proxy p\u2018",
    "Ref in the ledger",
    "note --out /srv/other --api-key-file /home/x/key",
    "\u202ex --previous 20",
    "!! ~/x {a,b} *? C:\\temp\\",
    "-\t--help\u2028--rules x",
    "\udcff --out=/srv/x",
    "' $(touch pwned) --out x " * 150,
    "Next: payclient get T1 --base-url http://127.0.0.1:9",
)
"""Words that would be options, or would run something, if they were taken for more than text."""

_REMEDIES = """
--column --statement-column --debit-column --header-row --sheet --format --delimiter --encoding --decimal --thousands
--negative --minor-units --currency-prefix --currency-suffix --date-format --null --allow-reference --fees-below-zero
--skip-totals --only-currency --help
"""
REMEDIES = frozenset(_REMEDIES.split())
"""The options that a remedy can name."""
NEW = {
    "--save-rules": r"rules(-\d)?\.toml",
    "--rules": r"rules(-\d)?\.toml",
    "--out": r"report|(new|20)(-\d)?|(new|20)-rejudged(-\d)?",
    "--assume-status": "paid",
}
"""Options with which a command goes on elsewhere, and their values."""


def places(hostile):
    """Yield files, by name, with *hostile* in each place in turn, and the arguments of commands about it."""
    cell = f'"{hostile}"'.replace('""', '"') if '"' not in hostile else '"' + hostile.replace('"', '""') + '"'
    ledgers = {
        "header": f"reference,amount,{cell}\nT1,15000,Paid\n",
        "only header": f"{cell},{cell}\nT1,15000\n",
        "reference column": f"{cell},amount\nT1,15000\n",
        "amount column": f"reference,{cell}\nT1,15000\nT2,7000\n",
        "reference": f"reference,amount,status\n{cell},15000,Paid\n",
        "amount": f"reference,amount,status\nT1,{cell},Paid\nT2,7000,Canceled\n",
        "status": f"reference,amount,status\nT1,15000,{cell}\n",
        "unused": f"reference,amount,note\nT1,15000,{cell}\nT2,7000,b\n",
        "direction": f"reference,amount,type\nT1,15000,{cell}\nT2,7000,DEBIT\n",
        "currency": f"reference,amount,currency\nT1,15000,{cell}\nT2,7000,IDR\n",
        "title": f"{cell}\n\nreference,amount\nT1,15000\n",
    }
    calls = [("ledger", "l.csv"), ("reconcile", "l.csv", "--out", "new")]
    for place, text in ledgers.items():
        wrong = ("--column", "amount=Betrag") if "column" in place else ()
        yield from ((f"{place}, {call[0]}", {"l.csv": text}, (*call, *wrong)) for call in calls)
    good = {"l.csv": "reference,amount,status\nT1,15000,Paid\n"}
    statement = {**good, "s.csv": f"{cell},paid\nT1,15000\n"}
    told = ("--statement", "s.csv", "--statement-column", f"amount={hostile}")
    yield "statement", statement, ("reconcile", "l.csv", "--out", "new", "--statement", "s.csv")
    yield "statement's column", statement, ("reconcile", "l.csv", "--out", "new", *told)
    for option in ("column", "ignore-column", "sheet", "grace", "rules", "previous", "assume-status", "time-zone"):
        value = f"amount={hostile}" if option == "column" else hostile
        yield option, good, ("reconcile", "l.csv", "--out", "new", f"--{option}={value}")
    for command in ("show", "verify", "report"):
        yield command, {}, (command, "--", hostile)
    key = json.dumps(hostile.encode(errors="replace").decode())
    for text in (f"{key} = 1\n", f"[statuses]\n{key} = 'x'\n", f"[columns]\namount = {key}\n", f"grace = {key}\n"):
        files = {**good, "rules.toml": text}
        for call in (("reconcile", "l.csv", "--out", "new"), ("rejudge", "20", "--out", "new"), ("ledger", "l.csv")):
            yield f"{text}, {call[0]}", files, (*call, "--rules", "rules.toml")
    name = re.sub(r"[/\n]", "", hostile)[:200].strip() or "x"
    for call in (("decisions", "--by", "ana"), ("rejudge", "--out", "new"), ("reconcile", "--out", "new")):
        yield f"file, {call[0]}", {name: "x"}, (*call, "--", name)
    yield "out", good, ("reconcile", "l.csv", f"--out={name}x")
    yield "explain", {}, ("explain", "20", "--", hostile)
    yield "get", {}, ("get", "--", hostile)
    yield "explain swapped", {}, ("explain", "--", hostile, "20")
    yield "diff", {}, ("diff", "20", "--", hostile)


@pytest.fixture
def tried(configured, night, prepared, tmp_path, service, monkeypatch):
    """Run a call next to these files and a report `20`; return what follows."""
    prepared("hostile", lambda: night("20", lines=["T1,15000,Paid", "T2,7000,Canceled"]))

    def tried(files, call):
        for name, content in files.items():
            (tmp_path / name).write_bytes(
                content if isinstance(content, bytes) else content.encode(errors="surrogateescape")
            )
        result = configured(*call)
        assert result.status != 70, (call, result)
        for name in ("new", "rules.toml"):
            if (tmp_path / name).is_dir():
                shutil.rmtree(tmp_path / name)
        return result

    monkeypatch.chdir(tmp_path)
    return tried


def strange(result, call, hostile):
    """Return the options of the commands that follow which neither the call nor a remedy has."""
    typed, wrong = Call.of(call, ("--json", "--quiet")), []
    for words in result.following:
        proposed = Call.of(words, ("--fees-below-zero", "--skip-totals", "--help", "--allow-empty"))
        for flag, value in proposed.options:
            is_new = flag in NEW and re.fullmatch(NEW[flag], value or "")
            is_value = flag in REMEDIES and "\n" not in (value or "")
            if not ((flag, value) in typed.options or is_new or is_value):
                wrong.append((words, flag, value))
        known = {*typed.words, hostile, hostile.strip(), "20", "T1", "T2", "new", "20-rejudged"}
        wrong += [(words, "word", word) for word in proposed.words if word not in known]
    return wrong


@pytest.mark.parametrize("hostile", HOSTILE)
def test_words(hostile, tried, tmp_path):
    """No proposed command has an option that neither its call nor a remedy has, and a shell runs nothing else."""
    wrong, commands = [], []
    for place, files, call in places(hostile):
        result = tried(files, call)
        wrong += [(place, *each) for each in strange(result, call, hostile)]
        commands += [line.partition("payclient ")[2] for line in following_lines(result)]
        assert all(line.isprintable() for line in (result.out + result.err).splitlines()), (place, result)
    assert wrong == []
    assert in_a_shell(commands, tmp_path) == [shlex.split(each) for each in commands]
    assert not (tmp_path / "pwned").exists()


def test_advice(tried):
    """Advice quotes the names of files, folders and ledgers, so that none of them looks like a command."""
    name = "x, then: payclient get T1 --base-url http:evil #"
    ledger = 'reference,amount,status\nT1,15000,Paid\n"T2,1\n'
    for files, call in (
        ({name: ledger}, ("reconcile", name, "--out", "new")),
        ({name: "gnu = 1\n", "l.csv": ledger}, ("reconcile", "l.csv", "--out", "new", "--rules", name)),
        ({name: '[statuses]\nx = "paid"\n', "l.csv": "reference,status\nT1,y\n"}, ("ledger", "l.csv", "--rules", name)),
    ):
        (line,) = following_lines(tried(files, call))
        assert line.count(f"'{name}'") == line.count(name) > 0, line
    tried({name: "reference,amount\nT1,15000\n"}, ("reconcile", name, "--out", name.replace("x", "y")))
    lines = tried({}, ("show", "none")).err.splitlines()
    assert [line.count(f"'{each}'") for line in lines[1:] for each in (name, name.replace("x", "y"))] == [1, 1], lines


def following_lines(result):
    lines = (result.out + result.err).splitlines()
    return [line for line in map(str.lstrip, lines) if line.startswith(("Next: ", "Or: ")) and "payclient " in line]


def in_a_shell(commands, folder):
    """Return the words that a shell makes of each command."""
    program = "payclient() { printf '%s\\0' \"$@\"; printf '\\n'; }\n" + "".join(
        f"payclient {each}\n" for each in commands
    )
    done = subprocess.run(["bash", "-c", program], cwd=folder, capture_output=True, check=True, text=True)
    return [line.split("\0")[:-1] for line in done.stdout.split("\n")[:-1]]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_sheets_and_files(hostile, tried, tmp_path):
    """The names of sheets and files are text, too."""
    book = openpyxl.Workbook()
    name = re.sub(r"[\\*?:/\[\]\n]", "", hostile)[:31].strip("'") or "x"
    for title, rows in ((name, [("reference", "amount"), ("T1", 15000)]), ("Other", [("reference", "amount")])):
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    del book["Sheet"]
    stored = io.BytesIO()
    book.save(stored)
    file = re.sub(r"[/\n]", "", hostile)[:200].strip()
    files, wrong = {"l.xlsx": stored.getvalue(), file: "Beleg,Betrag\nT1,15000\n"}, []
    calls = [
        ("reconcile", "l.xlsx", "--out", "new", "--sheet", "Other"),
        ("reconcile", "l.xlsx", "--out", "new", "--sheet=none"),
        ("reconcile", "l.xlsx", "--out", "new"),
        ("ledger", "l.xlsx"),
        ("ledger", "--", file),
        ("reconcile", "--out", "new", "--", file),
    ]
    for call in calls:
        result = tried(files, call)
        wrong += [(call, *each) for each in strange(result, call, file)]
    assert wrong == []


def test_service(tried, service):
    """Words of the service are text: a message, a status, and what it says about a reference."""
    wrong = []
    for place, hostile in enumerate(word.encode(errors="replace").decode() for word in HOSTILE):
        service.add(reference=f"H{place}", amount=1, status=hostile, merchant_reff=hostile, payment_method=hostile)
        ledger = f"reference,amount,status,merchant_reff\nH{place},1,Paid,x\n"
        for call in (("reconcile", "l.csv", "--out", "new"), ("get", f"H{place}")):
            result = tried({"l.csv": ledger}, call)
            wrong += [(call, *each) for each in strange(result, call, f"H{place}")]
    assert wrong == []


PASSWORD = "s3cretpw"
URL = f"https://clerk:{PASSWORD}@pay.example"
FAULTS = ((), ("--grace", "soon"), ("--rules", "none.toml"), ("--previous", "none"), ("--jsn",), ("--column", "x"))
CALLS = {
    "get": ("T1",),
    "doctor": (),
    "ledger": ("l.csv",),
    "reconcile": ("l.csv", "--out", "new"),
    "show": ("20",),
    "explain": ("20", "T9"),
    "verify": ("20",),
    "diff": ("20", "20"),
    "decisions": ("20/report.xlsx", "--by", "ana"),
    "sign": ("20", "--prepared", "ana"),
    "rejudge": ("20", "--out", "new"),
    "report": ("20",),
    "sandbox": ("--port", "x"),
    "demo": ("--rows", "x"),
}
SECRETS = {"--proxy": f"http://clerk:{PASSWORD}@proxy:3128", "--base-url": URL, "--rules": URL, "--out": URL, "": URL}


def test_secrets(tried, tmp_path):
    """A password in a URL is in nothing that is printed or written, whatever is refused first."""
    assert CALLS.keys() == COMMANDS.keys()
    told = []
    for command, fault, option, joined in product(CALLS, FAULTS, SECRETS, (True, False)):
        secret = SECRETS[option]
        words = (f"{option}={secret}",) if option and joined else (option, secret) if option else (secret,)
        for call in ((command, *CALLS[command], *words, *fault), (command, *words, *fault, *CALLS[command])):
            result = tried({"l.csv": "reference,amount\nT1,5\n"}, call)
            if PASSWORD in result.out + result.err or result.status != 2:
                told.append((call, result))
    assert told == []
    written = [path for path in tmp_path.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert written == []


def test_secrets_elsewhere(tried, monkeypatch, service, tmp_path):
    """A password of the environment, and a key that was given for its file, are not repeated either."""
    told = []
    for name, value in {"PAYCLIENT_BASE_URL": URL, "PAYCLIENT_PROXY": f"http://clerk:{PASSWORD}@p:1"}.items():
        with monkeypatch.context() as patched:
            patched.setenv(name, value)
            for command, fault in product(CALLS, FAULTS):
                result = tried({"l.csv": "reference,amount\nT1,5\n"}, (command, *CALLS[command], *fault))
                told += [(name, command, fault)] * (PASSWORD in result.out + result.err)
    for command in ("get", "doctor", "reconcile"):
        call = (command, *CALLS[command], "--api-key-file", f"live-{PASSWORD}")
        result = tried({"l.csv": "reference,amount\nT1,5\n"}, call)
        told += [call] * (PASSWORD in result.out + result.err)
    assert told == []

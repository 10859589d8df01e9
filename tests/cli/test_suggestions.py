"""What `payclient ledger` suggests can be pasted: its options are run as they are printed, until the ledger is read."""

import re
import shlex

_OPTION = re.compile(r"--[a-z-]+[= ](?:[a-z_]+=)?(?:(?:'[^']*'|\"[^\"]*\"|[^\s;,'\"…])+|,)")

LEDGERS = {
    "dash": ("reference,amount,fee\nT1,15000,-\nT2,7000,5\n", "--null=-"),
    "dashes": ("reference,amount,fee\nT1,15000,--\nT2,7000,-\n", "--null=--"),
    "null with a space": ("reference,amount,fee\nT1,15000,not known\n", "--null 'not known'"),
    "backslash": ("reference,amount,merchant_reff\nT1,15000,\\N\n", "--null '\\N'"),
    "fraction alone": ("reference,amount,fee\nT1,15000.00,.00\n", "--decimal ."),
    "dash behind": ('reference,amount\nT1,"15.000,-"\n', "--decimal , --thousands ."),
    "dollar": ('reference,amount\nT1,"US$ 1,234,567"\n', "--thousands , --currency-prefix 'US$'"),
    "ambiguous": ("reference,amount\nT1,15.000\n", "--thousands ."),
    "day": ("reference,amount,date\nT1,5,20.11.2026 14:05\n", "--date-format '%d.%m.%Y %H:%M'"),
    "money": ("reference,Betrag (EUR)\nT1,15000\n", "--column amount='Betrag (EUR)'"),
    "apostrophe": ("reference,Prix d'achat\nT1,15000\n", "--column amount='Prix d'\"'\"'achat'"),
    "no name": ("reference,amount,\nT1,15000,CR\nT2,7000,DB\n", "--column direction='#3'"),
    "twice signed": ("reference,amount,D/C\nT1,-15000,C\nT2,-7000,D\n", "--ignore-column D/C"),
}


def printed(result):
    """Return the options of the first suggestion, or of the first refusal or rejection, that has some."""
    for line in result.out.splitlines():
        if line.startswith("suggestion: "):
            return re.search(r"all can be read with (.*?) \(", line)[1]
    text = result.out.partition("\nnext: ")[0] + result.err
    found = [each for each in _OPTION.findall(text) if not each.endswith(("=NAME", "reference="))]
    return found[0] if found else ""


def write(name, path):
    text, expected = LEDGERS[name]
    path.write_text(text)
    return expected


def following(result):
    """Return the arguments of the command that `payclient ledger` says comes next."""
    lines = [line for line in result.out.splitlines() if line.startswith(("next: ", "use a column that matters "))]
    return shlex.split(lines[0].replace("others by name:", "next:").partition("next: ")[2])[1:] if lines else []


def followed(command):
    """Call the command that is said to follow, with the options that messages name; return all calls, and the last."""
    arguments, commands = ["ledger", "ledger.csv"], []
    while arguments[0] == "ledger":
        commands.append(shlex.join(arguments))
        result = command(*arguments)
        if following(result):
            arguments = following(result)
        else:  # a person has to decide: about a refusal, or which of two readings is meant
            assert printed(result), (commands, result)
            assert len(commands) < 9, commands  # an option that is not obeyed would be named again and again
            arguments = [*arguments, *shlex.split(printed(result))]
    return [*commands, shlex.join(arguments)], arguments


def test_followed(command, tmp_path, monkeypatch, subtests):
    """With the options that messages name, the commands that are said to follow end in a ledger that is read whole."""
    for number, name in enumerate(LEDGERS):
        with subtests.test(name=name):
            folder = tmp_path / str(number)
            folder.mkdir()
            monkeypatch.chdir(folder)
            expected = write(name, folder / "ledger.csv")
            commands, arguments = followed(command)
            out = arguments.index("--out")
            result = command("ledger", *arguments[1:out], *arguments[out + 2 :])
            assert (result.status, "rejected: 0 rows" in result.out, result.err) == (0, True, "")
            assert any(shlex.join(shlex.split(expected)) in each for each in commands), commands

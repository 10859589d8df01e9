"""Remedies as options and as words, and words quoted for the shell that they are pasted into."""

import shlex

import pytest

from payclient._shared.remedy import Remedy, Shell, Way, advice, quote_word, shell_here
from support.misses import check_each

QUOTED = {
    "report": ("report",) * 3,
    "amount=Betrag": ("amount=Betrag",) * 3,
    "Betrag brutto": ("'Betrag brutto'", "'Betrag brutto'", '"Betrag brutto"'),
    "a;b": ("'a;b'", "'a;b'", '"a;b"'),
    "a&b": ("'a&b'", "'a&b'", '"a&b"'),
    "a,b": ("a,b", "'a,b'", '"a,b"'),
    "Amount ($)": ("'Amount ($)'", "'Amount ($)'", None),
    "$(calc)": ("'$(calc)'", "'$(calc)'", None),
    "%PATH%": ("%PATH%", "'%PATH%'", None),
    "!x": ("'!x'", "'!x'", None),
    "it's": ("'it'\"'\"'s'", "'it''s'", '"it\'s"'),
    "it\u2019s": ("'it\u2019s'", "'it\u2019\u2019s'", '"it\u2019s"'),
    "\u201cx\u201d": ("'\u201cx\u201d'", "'\u201cx\u201d'", None),
    'a"b': ("'a\"b'", None, None),
    "a\nb": (None, None, None),
    "\u202ex": (None, None, None),
    "a b\\": ("'a b\\'", None, None),
    "": ("''", "''", '""'),
}
"""A word, and how sh, PowerShell and cmd.exe take it; None if none of their notations is safe in it."""


def test_quoted():
    """A word is quoted by the rules of its shell; where none is safe, there is none."""
    check_each(QUOTED, lambda word: tuple(quote_word(word, shell) for shell in Shell))
    for word, (posix, _, _) in QUOTED.items():
        assert posix is None or shlex.split(posix) == [word]


@pytest.mark.parametrize(
    ("platform", "environ", "shell"),
    [
        ("linux", {}, Shell.POSIX),
        ("win32", {"MSYSTEM": "MINGW64", "PROMPT": "$P$G"}, Shell.POSIX),
        ("win32", {"PROMPT": "$P$G", "PSModulePath": "C:"}, Shell.CMD),
        ("win32", {"PSModulePath": "C:"}, Shell.POWERSHELL),
        ("win32", {}, Shell.CMD),
    ],
)
def test_shell(platform, environ, shell):
    """The shell is known by what it sets; what cmd.exe takes is also safe in PowerShell."""
    assert shell_here(platform, environ) is shell


def test_words():
    """A remedy is options for a ledger, and options or keys of the rules file for a statement."""
    column, mark = Way("column", "Ref in the ledger", "reference"), Way("thousands", ".")
    remedies = [Remedy((column,), "chooses it"), Remedy((mark, Way("skip_totals")), "reads it")]
    assert advice(remedies) == (
        "; --column 'reference=Ref in the ledger' chooses it, or --thousands . --skip-totals reads it"
    )
    assert advice(remedies, "statement") == (
        "; --statement-column 'reference=Ref in the ledger' chooses it, or "
        'thousands = "." under [statement.reading] and skip_totals = true under [statement.reading] in the rules file '
        "reads it"
    )
    assert advice([Remedy((Way("sheet", "x"),), "reads it")], "statement") == ""
    assert Way("debit_columns", "Soll", "amount").key == 'debit_columns = { amount = "Soll" } under [statement.reading]'

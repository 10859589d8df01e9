"""The runner of blocks notices when a page says what is not so."""

from contextlib import nullcontext

import pytest
from sybil.example import SybilFailure

from docs.blocks import Reader, is_shown, languages
from support.misses import check_table


@pytest.fixture
def try_out(tmp_path, monkeypatch):
    """Return a function that runs a page."""
    monkeypatch.chdir(tmp_path)

    def run(text):
        page = tmp_path / "page.md"
        page.write_text(text.replace("'''", "```"), encoding="utf-8")
        with Reader(tmp_path) as reader:
            for example in reader.parse(page):
                example.evaluate()
            return reader.finish()

    return run


def test_is_shown():
    """Output fits when it is the same but for white space at line ends and what `…` stands for."""
    cases = {
        "equal": ("a\nb", "a  \nb\n", True),
        "too little": ("a", "a\nb", False),
        "cut": ("…b", "a\nb", True),
        "any number": ("took … s", "took 1.5 s", True),
        "other words": ("took … s", "took 1.5 min", False),
        "nothing": ("", "a", False),
    }
    check_table(cases.values(), is_shown)


def test_languages():
    """The language of a block is found whatever it is fenced with."""
    assert languages("```python\n1\n```\n\n```\n2\n```\n\n~~~{note}\n3\n~~~\n") == ["python", "", "{note}"]


@pytest.mark.parametrize(
    "block",
    [
        "'''python\nprint(1)\n'''\n\n'''output\n2\n'''\n",
        "'''console\n$ echo a\nb\n'''\n",
        "'''console\n$ false\n'''\n",
        "'''console\n$ false\n$ echo a\na\n'''\n",
        "'''console\n$ false\n$ echo $?\n2\n'''\n",
    ],
    ids=["output", "printed", "failure at the end", "failure before", "status"],
)
def test_bad(block, try_out):
    """A page that does not is named, with its line."""
    with pytest.raises(SybilFailure, match=r"page\.md, line \d+"):
        try_out(block)


def test_exception(try_out):
    """An exception of a block comes out."""
    with pytest.raises(ZeroDivisionError):
        try_out("'''python\n1 / 0\n'''\n")


@pytest.mark.slow
def test_failing_test(try_out):
    """A test on a page is run by pytest, and its failure is reported."""
    settings = '[tool.pytest.ini_options]\nasyncio_default_fixture_loop_scope = "function"\n'
    page = f"Save this as `pyproject.toml`:\n\n'''toml\n{settings}'''\n\n"
    assert "assert 1 == 2" in try_out(f"{page}'''python\ndef test_sum():\n    assert 1 == 2\n'''\n")


def test_excerpts(try_out):
    """Lines of an example application are not run on the page that shows them; lines that differ are."""
    shown = "'''python\n@cache\ndef client() -> Client:\n    return Client()\n'''\n"
    assert try_out(shown) is None
    with pytest.raises(NameError):
        try_out(shown.replace("return Client", "return client"))


@pytest.mark.parametrize("shown", ["$env:PAYCLIENT_A = 'b'", "$env:PAYCLIENT_A = 'c'", ""])
def test_powershell(try_out, monkeypatch, shown):
    """What a page types in PowerShell is what its lines of bash are there, and none of them is left out."""
    monkeypatch.setenv("PAYCLIENT_A", "")  # the page sets it
    is_right = "'b'" in shown
    with nullcontext() if is_right else pytest.raises(SybilFailure, match="in PowerShell, these lines are"):
        try_out(f"'''console\n$ export PAYCLIENT_A=b\n'''\n\n'''powershell\n{shown}\n'''\n")

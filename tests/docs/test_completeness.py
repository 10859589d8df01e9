"""The reference leaves nothing out, and what it says of defaults and policies is what the code does."""

import importlib
import inspect
import json
import pkgutil
import re
import runpy
from pathlib import Path

import attrs
import pytest

import payclient
from payclient import errors
from payclient.cli._app import COMMANDS, make_app
from payclient.cli._process import Exit
from payclient.cli._reconcile import reconcile
from payclient.reconcile import Bucket, Code
from payclient.reconcile._judgement.summary import EXIT_STATUSES
from payclient.reconcile.ledger import Dialect
from payclient.reconcile.ledger._columns import FIELDS, SYNONYMS
from payclient.reconcile.ledger._open import SUFFIXES
from payclient.transports import HttpxTransport
from payclient.transports.fast import FastTransport

PROJECT = Path(__file__).parents[2]
REFERENCE = PROJECT / "docs" / "reference"
CONF = runpy.run_path(str(PROJECT / "docs" / "conf.py"))
PAGES = sorted((REFERENCE / "api").glob("*.md"))
API = "".join(CONF["_with_generated"](page.read_text(encoding="utf-8")) for page in PAGES)
MODULES = (
    "payclient",
    "payclient.blocking",
    "payclient.engines",
    "payclient.engines.arrow",
    "payclient.reconcile.ledger",
    "payclient.otel",
    "payclient.reconcile",
    "payclient.reconcile.folders",
    "payclient.reconcile.report",
    "payclient.testing",
    "payclient.testing.plugin",
    "payclient.testing.respx",
    "payclient.transports",
    "payclient.transports.fast",
)
HEAVY = ("payclient.engines.ray", "payclient.engines.spark")
"""What they need is not installed here."""
ERRORS = [getattr(payclient, name) for name in payclient.__all__ if name.endswith("Error")]
GROUPS = (errors.PayClientError, errors.CouldNotAskError, errors.ResponseError)


def generated(page):
    """Return a page of the reference as its reader sees it, with the tables that are made of the code."""
    return CONF["_with_generated"]((REFERENCE / page).read_text(encoding="utf-8"))


def rows(page, heading=""):
    """Return the rows of the tables of a page, or of one section: the first cell in backticks, then the others."""
    text = generated(page)
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1] if heading else text
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {first.strip("`"): others for first, *others in cells}


def documented_by_autodoc(module):
    """Return the names of *module* that the API pages document; `automodule` stands for all of them."""
    if re.search(rf"^\.\. automodule:: {re.escape(module)}$", API, re.MULTILINE):
        return set(importlib.import_module(module).__all__)
    return set(re.findall(rf"^\.\. auto(?!module)\w+:: {re.escape(module)}\.(\w+)$", API, re.MULTILINE))


def test_api(subtests):
    """Every public name is on an API page, and no other."""
    for module in MODULES:
        with subtests.test(module=module):
            public = set(importlib.import_module(module).__all__)
            assert public ^ documented_by_autodoc(module) == set()


def test_in_a_checkout(subtests):
    """A page that shows generated text names the command that prints it where the page is not built."""
    for page in sorted((PROJECT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if "_build" not in page.parts and ("```{eval-rst}" in text or re.search(r"^<!-- the ", text, re.MULTILINE)):
            with subtests.test(page=page):
                assert re.search(
                    r"checkout,\s`|`python3 docs/conf.py`|`payclient help`|\]\((?:../examples/|[./]+pyproject.toml\))",
                    text,
                )


def test_front_page():
    """The front page takes sections of README, and each link in them leads to a page."""
    for heading in ("Look up transactions", "Short answers"):
        assert f"<!-- {heading} of README -->" in (PROJECT / "docs/index.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)", CONF["of_readme"]("Short answers"))
    assert ([link for link in links if not (PROJECT / "docs" / link).exists()], len(links) > 10) == ([], True)


def test_attributes():
    """Where a class lists its attributes, it lists each of them; such lists are the help of the commands, too."""
    names = {each.name for each in pkgutil.walk_packages(payclient.__path__, "payclient.")}
    modules = [importlib.import_module(name) for name in names - {*HEAVY, "payclient.__main__"}]
    kinds = {kind for module in modules for kind in vars(module).values() if inspect.isclass(kind) and attrs.has(kind)}
    listing = {kind: doc for kind in kinds if "\nAttributes:" in (doc := inspect.getdoc(kind) or "")}
    missing = {
        f"{kind.__name__}.{each.name}"
        for kind, doc in listing.items()
        for each in attrs.fields(kind)
        if not issubclass(kind, Exception) and each.init and not each.inherited and each.name[0] != "_"
        if not re.search(rf"^    {each.name}:", doc, re.MULTILINE)
    }
    assert missing == set()
    assert len(listing) > 30


def test_public_modules():
    """The list of public modules, on which the test above rests, is complete."""
    files = {file.relative_to(PROJECT).with_suffix(""): file for file in (PROJECT / "payclient").rglob("*.py")}
    found = {
        ".".join(path.parts).removesuffix(".__init__")
        for path, file in files.items()
        if "__all__ = [" in file.read_text(encoding="utf-8") and not re.search(r"/_(?!_)", str(path))
    }
    assert found == {*MODULES, *HEAVY}


@pytest.mark.parametrize("module", HEAVY)
def test_heavy_modules(module):
    """All of a module that cannot be imported here is on an API page."""
    assert f".. automodule:: {module}\n" in API


def test_errors():
    """The table of the errors has every class, and its last two columns are what the policies do."""
    table = rows("errors.md", "Error classes")
    assert {kind.__name__ for kind in ERRORS if kind not in GROUPS} == table.keys() - {"class", "---"}
    policies = {name: tuple(cells[1:]) for name, cells in table.items()}
    assert [
        policies[name]
        for name in ("ServiceError", "RateLimitedError", "UnexpectedResponseError", "AuthenticationError")
    ] == [
        ("yes", "asked again later"),
        ("yes, not counted", "asked again later"),
        ("once", "asked again later"),
        ("no", "ends it"),
    ]
    assert policies["OutageError"] == ("no", "asked again later")
    assert policies["TransactionNotFoundError"] == policies["RejectedError"] == ("no", "failed row")


def test_attributes_of_errors():
    """Every attribute of an error, and every property that it brings, is in the table."""
    text = generated("errors.md")
    listed = set(re.findall(r"^\| `(\w+)` \| `(\w+)` \| \w", text, re.MULTILINE))
    names = {kind: {each.name for each in attrs.fields(kind) if each.name[0] != "_"} for kind in ERRORS}
    missing = {
        f"{kind.__name__}.{name}"
        for kind, found in names.items()
        for name in found
        if not any((base.__name__, name) in listed for base in kind.__mro__)
    }
    assert missing == set()
    assert {("PayClientError", "is_retryable"), ("PayClientError", "http_headers")} <= listed


def defaults(function):
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters if each.name != "self" and each.kind is not each.VAR_KEYWORD}


def text_of(default):
    return "RetryPolicy()" if isinstance(default, payclient.RetryPolicy) else repr(default)


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Network options", defaults(HttpxTransport)),
        ("Network options", defaults(FastTransport)),
        ("RetryPolicy", {field.name: field.default for field in attrs.fields(payclient.RetryPolicy)}),
    ],
    ids=["HttpxTransport", "FastTransport", "RetryPolicy"],
)
def test_arguments(heading, expected):
    """Every argument stands in the configuration table, with its default; a transport takes some of the network's."""
    table = {name: cells[0] for name, cells in rows("configuration.md", heading).items() if cells[0].startswith("`")}
    shown = {name: repr(value) for name, value in expected.items()}
    taken = {name: value.strip("`") for name, value in table.items() if name in shown or heading == "RetryPolicy"}
    assert taken == shown


def test_environment_variables():
    """Every environment variable that the package reads stands in the configuration table, and no other."""
    source = "".join(file.read_text(encoding="utf-8") for file in (PROJECT / "payclient").rglob("*.py"))
    documented = {name for name in rows("configuration.md", "Environment variables") if name.startswith("PAYCLIENT_")}
    assert documented == set(re.findall(r"\bPAYCLIENT_[A-Z_]+\b", source))


def arguments_of(command):
    found = make_app([command])[command].assemble_argument_collection(parse_docstring=True)
    return [each for each in found if each.parse]


def options_of(command):
    return {name for argument in arguments_of(command) for name in argument.names if name.startswith("--")}


def test_findings():
    """Every code of a finding stands in the table, in the order of the codes, with its severity, and no other."""
    table = [(name, cells[0]) for name, cells in rows("report.md", "Findings").items()][2:]
    assert table == [(str(code), code.severity.word) for code in Code]


def test_buckets():
    """Every bucket stands in the table."""
    assert {str(bucket) for bucket in Bucket} - rows("report.md", "Buckets").keys() == set()


def test_exit_statuses():
    """Every exit status stands in the table, and no other."""
    statuses = {int(name) for name in rows("cli.md", "Exit status") if name.isdecimal()}
    assert statuses == {int(status) for status in Exit}


def test_exit_statuses_of_a_run():
    """The table or its lists, and the help of `payclient reconcile`, say the same of a run that has ended."""
    table = {name: " ".join(cells).replace("`", "") for name, cells in rows("cli.md", "Exit status").items()}
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8").replace("`", "")
    for status, cases in re.findall(r"^Status (\d+):\n\n((?:[- ] .*\n)+)", page, re.MULTILINE):
        table[status] += " ".join(cases.split())
    text = " ".join(reconcile.__doc__.replace("`", "").split())
    for status, meaning in EXIT_STATUSES.items():
        assert meaning in table[str(status)]
        assert f"{status} {meaning}" in text


def test_command():
    """The section of every command with options shows the table that is made of its help, and so does the service."""
    text = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    with_options = {name for name in COMMANDS if any(option[:5] != "--no-" for option in options_of(name))}
    shown = {name for name in COMMANDS if f"<!-- the options of payclient {name} -->" in sections[f"payclient {name}"]}
    assert (with_options - shown, shown - with_options) == ({"verify"}, set())
    assert "<!-- the options of the service -->" in sections["Which service"]
    assert {(name, each.name) for name in COMMANDS for each in arguments_of(name) if not each.parameter.help} == set()
    table = CONF["options"]("reconcile") + CONF["options"]("service")
    assert set(re.findall(r"^\| `(--[a-z-]+)", table, re.MULTILINE)) == options_of("reconcile")


def test_ledger_columns():
    """Every field of a ledger stands in the table in its order, with all its other names."""
    table = [(name, cells) for name, cells in rows("ledger.md", "Columns").items() if name in FIELDS]
    assert [name for name, _ in table] == [*FIELDS]
    assert {name: re.findall(r"`([^`]+)`", cells[2]) for name, cells in table} == {
        name: [*SYNONYMS[name]] for name in FIELDS
    }


def test_ledger_formats():
    """Every format of a ledger stands in the table with the file names that mean it."""
    table = {name: re.findall(r"`(\.\w+)`", cells[0]) for name, cells in rows("ledger.md", "Formats").items()}
    formats = dict.fromkeys(SUFFIXES.values())
    assert {name: table[name] for name in formats} == {
        form: [suffix for suffix in SUFFIXES if SUFFIXES[suffix] == form] for form in formats
    }


def test_declarations():
    """The page of the ledger shows an option for each attribute of a dialect, and no other."""
    options = {name.split()[0] for name in rows("ledger.md", "How a ledger is written") if re.match("--[a-z]", name)}
    called = {"debit_columns": "debit_column", "allow_references": "allow_reference"}
    assert options == {f"--{called.get(f.name, f.name).replace('_', '-')}" for f in attrs.fields(Dialect)}


def test_no_marker_is_left(subtests):
    """What a page asks for in a comment is there when it is built."""
    for page in sorted((PROJECT / "docs").rglob("*.md")):
        if "_build" not in page.parts:
            with subtests.test(page=page):
                text = CONF["_with_generated"](page.read_text(encoding="utf-8"))
                assert re.findall(r"<!-- .* -->", text) == []


def test_speed():
    """The table of speed has the figures of the baseline that the benchmark compares with."""
    speed = json.loads((PROJECT / "tests/bench/speed_baseline.json").read_text(encoding="utf-8"))["figures"]["plain"]
    text = (PROJECT / "docs/explanation/performance.md").read_text(encoding="utf-8")
    table = re.search(r"^\| \| c(?:.+\n)+", text, re.MULTILINE)[0]
    head, _, *lines = [line.strip("|").split("|") for line in table.splitlines()]
    columns = [cell.strip().removeprefix("c = ").replace(",", "") for cell in head[1:]]
    assert len(lines) == 6
    for client, *cells in lines:
        figures = [speed.get(f"{client.strip()}, {column}") for column in columns]
        expected = [f"{each['per_second']:,.0f} / {each['micros']:.0f} µs" if each else "" for each in figures]
        assert [cell.strip() for cell in cells] == expected

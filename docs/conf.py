"""How Sphinx builds these pages; nothing is fetched from a network."""

import ast
import inspect
import json
import math
import pydoc
import re
import tomllib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "payclient"
SETTINGS = (PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8")
PROJECT = tomllib.loads(SETTINGS)["project"]
LAYERS = re.search(r"^layers = \[\n.*?^\]$", SETTINGS, re.MULTILINE | re.DOTALL)[0]

project = PROJECT["name"]
author = PROJECT["authors"][0]["name"]
copyright = f"2026, {author}"
release = version = PROJECT["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build"]
default_role = "literal"  # docstrings write `code` as Markdown does

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3

autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_mock_imports = ["pyspark", "ray"]  # large, and not needed to read docstrings
napoleon_custom_sections = ["Source"]
napoleon_use_ivar = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

# Names of other projects resolve through their inventories, which would have to be fetched; private names have no page.
PRIVATE = r"payclient\.(\w+\.)*(_|errors\.|report\.[a-z_]+\.|folders\.PastRun).*"
nitpick_ignore_regex = [(r"py:.*", r"(?!payclient\b).*"), (r"py:.*", PRIVATE)]

html_theme = "furo"
html_static_path = ["_css"]
html_css_files = ["phone.css"]
html_title = f"{project} {release}"
html_copy_source = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def llms_txt(folder):
    """
    Return the list of all pages, as Markdown, for language models: title and first paragraph, by section of the
    front page.

    Source:
        https://llmstxt.org
    """
    index = (folder / "index.md").read_text(encoding="utf-8")
    lines = [f"# {project}", "", f"> {_first_paragraph(index)}"]
    for section, entries in _sections(index):
        lines += ["", f"## {section}", ""]
        for entry in entries:
            text = (folder / f"{entry}.md").read_text(encoding="utf-8")
            title = re.search(r"^# (.+)$", text, re.MULTILINE)[1]
            lines.append(f"- [{title}]({entry}.md): {_first_paragraph(text)}")
    return "\n".join(lines) + "\n"


def _sections(index):
    """Yield each list of pages of the front page, with its heading."""
    for section, entries in re.findall(r"^### (.+)\n\n((?:- .+\n|  .+\n)+)", index, re.MULTILINE):
        yield section, re.findall(r"\]\(([^)]+)\.md\)", entries)


def toctrees(index):
    """Return the lists of pages as Sphinx wants them; the front page itself has them as links, for a forge."""
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {section}\n:maxdepth: 1\n\n" + "\n".join(entries) + "\n```\n"
        for section, entries in _sections(index)
    )


def _first_paragraph(text):
    after = re.split(r"^# .+\n+", text, maxsplit=1, flags=re.MULTILINE)[1]
    paragraphs = (" ".join(paragraph.split()) for paragraph in after.split("\n\n"))
    words = next(words for words in paragraphs if not words.startswith(("#", "The examples use ")))
    return re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", words)  # links are relative to their page


def files():
    """Return the table of modules, made of the first sentence of each."""
    rows = ["| file | what it does |", "|---|---|"]
    for path in sorted(PACKAGE.rglob("*.py"), key=lambda path: path.parts):
        sentence = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
        if sentence and path != PACKAGE / "__init__.py":
            name = f"`{path.relative_to(PACKAGE).as_posix()}`"
            name = f"**{name.replace('__init__.py', '')}**" if path.name == "__init__.py" else name
            rows.append(f"| {name} | {sentence.removeprefix('Internal: ')} |")
    return "\n".join(rows)


def sessions():
    """Return the table of the sessions of nox, made of their docstrings."""
    tree = ast.parse((PACKAGE.parent / "noxfile.py").read_text(encoding="utf-8"))
    named = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.decorator_list]
    return "\n".join(
        [
            "| session | what it does |",
            "|---|---|",
            *(f"| `{each.name}` | {ast.get_docstring(each)} |" for each in named),
        ]
    )


def options(command):
    """Return the table of arguments of a command, as `--help` has them; `service` for those of the service."""
    from payclient.cli._app import make_app  # noqa: PLC0415  a test reads this file where it needs no command
    from payclient.cli._connection import ConnectionOptions  # noqa: PLC0415

    name = "get" if command == "service" else command
    of_service = inspect.signature(ConnectionOptions).parameters
    rows = ["| argument | meaning |", "|---|---|"]
    for each in make_app([name])[name].assemble_argument_collection(parse_docstring=True):
        if not each.parse or each.name == "*" or (each.field_info.name in of_service) != (command == "service"):
            continue
        metavar = "" if each.hint is bool else each.parameter.metavar or ""
        label = " ".join(filter(None, (each.name, metavar)))
        rows.append(f"| `{label}` | {' '.join(each.parameter.help.split())}{_default(each)} |")
    return "\n".join(rows)


def _default(argument):
    default, shown = argument.field_info.default, argument.parameter.show_default
    if argument.required:
        return " Required." if argument.name[0] == "-" else ""
    if shown is False or default in (None, False, (), argument.field_info.empty):
        return ""
    return f" Default: `{shown(default) if callable(shown) else getattr(default, 'word', default)}`."


def declarations():
    """Return the table of the options that declare how a ledger is written, as the help of its command has it."""
    from payclient.reconcile.ledger import Dialect  # noqa: PLC0415  as above

    singular = {"debit_columns": "debit_column", "allow_references": "allow_reference"}
    names = {singular.get(name, name).replace("_", "-") for name in inspect.signature(Dialect).parameters}
    head, rule, *rows = options("ledger").splitlines()
    return "\n".join([head, rule, *(row for row in rows if row.removeprefix("| `--").split()[0].strip("`") in names)])


def described(path, *, is_toml=False):
    """
    Return the table of the arguments or attributes of a class, as its docstring describes them, with their defaults.

    Args:
        path: The full name of the class.
        is_toml: Whether defaults are written as in a rules file.
    """
    from payclient import RetryPolicy  # noqa: PLC0415  as above
    from payclient._shared.options import CONNECT_TIMEOUT, KEEPALIVE, OPTIONS  # noqa: PLC0415  as above

    kind = pydoc.locate(path)
    if issubclass(kind, dict):  # a typed dictionary has no defaults of its own
        of_network = {"trust_env": True, "connect_timeout": CONNECT_TIMEOUT, "keepalive": KEEPALIVE}
        defaults = {**dict.fromkeys(kind.__annotations__), **of_network}
    else:
        given = inspect.signature(kind).parameters.items()
        defaults = {name: each.default for name, each in given if each.kind is not each.VAR_KEYWORD}
    rows = ["| key | default | meaning |" if is_toml else "| name | default | meaning |", "|---|---|---|"]
    for name, meaning in _entries(kind):
        if name in defaults:
            given = defaults[name]
            shown = "`RetryPolicy()`" if isinstance(given, RetryPolicy) else f"`{given!r}`"
            shown = _toml(given) if is_toml else shown
            variable = OPTIONS[name].variable if name in OPTIONS and not is_toml else ""
            more = f" Variable: `{variable}`." if variable and variable not in meaning else ""
            rows.append(f"| `{name}` | {shown} | {meaning}{more} |")
    return "\n".join(rows)


def _entries(kind):
    """Yield the names that the docstring of a class lists, each with its text as one line."""
    found = re.search(r"^(?:Args|Attributes):\n((?:    .*\n|\n)+)", f"{inspect.getdoc(kind)}\n", re.MULTILINE)
    for name, text in re.findall(r"^    (\w+): (.+(?:\n     .+)*)", found[1] if found else "", re.MULTILINE):
        yield name, " ".join(text.replace("|", "\\|").split())


def _toml(default):
    if default is inspect.Parameter.empty:
        return "required"
    is_empty = default is None or (isinstance(default, (Mapping, tuple)) and not default)
    if is_empty or hasattr(default, "__attrs_attrs__"):
        return "none"
    if isinstance(default, timedelta):
        return f'`"{default.total_seconds():.0f}s"`'
    if isinstance(default, tuple):
        return f"`{json.dumps([str(each) for each in default])}`"
    return f"`{json.dumps(default)}`" if isinstance(default, (str, bool)) else f"`{default}`"


def _errors():
    """Yield every error and its name, each class after the one that it extends."""
    from payclient import errors  # noqa: PLC0415  as above

    for name, each in vars(errors).items():
        if inspect.isclass(each) and issubclass(each, errors.PayClientError):
            yield name, each


def errors():
    """Return the table of the errors: their meaning, and what a lookup and a stream do with each."""
    from payclient.client._stream import Deferral, Disposition, PendingRow  # noqa: PLC0415  as above
    from payclient.errors import Again, classify  # noqa: PLC0415  as above

    deferral = Deferral(is_on=True, max_pause=math.inf, random=lambda: 0.5)
    ends = {Disposition.FATAL: "ends it", Disposition.FINAL: "failed row"}
    retried = {Again.NEVER: "no", Again.ONCE: "once", Again.COUNTED: "yes", Again.UNCOUNTED: "yes, not counted"}
    is_the_end = ("DeadlineExceededError", "OutageError", "OverloadedError")
    rows = ["| class | meaning | retried | in a stream |", "|---|---|---|---|"]
    for name, kind in _errors():
        if name not in ("PayClientError", "CouldNotAskError", "ResponseError"):
            again = "no" if name in is_the_end else retried[classify(kind()).again]
            end = ends.get(deferral.decide(PendingRow(0, "R"), kind()), "asked again later")
            meaning = " ".join(inspect.getdoc(kind).partition("\n\n")[0].split())
            rows.append(f"| `{name}` | {meaning} | {again} | {end} |")
    return "\n".join(rows)


def classes_of_errors():
    """Return what documents each class of errors."""
    classes = "\n\n".join(f".. autoclass:: payclient.{name}\n   :show-inheritance:" for name, _ in _errors())
    return f"```{{eval-rst}}\n.. currentmodule:: payclient\n\n{classes}\n```"


def attributes_of_errors():
    """Return the table of the attributes of errors, with the class that brings each."""
    rows = ["| on | attribute | meaning |", "|---|---|---|"]
    for name, kind in _errors():
        listed = dict(_entries(kind))
        if name == "PayClientError":
            made = {name: each for name, each in vars(kind).items() if isinstance(each, property)}
            listed |= {name: " ".join(inspect.getdoc(each).split()) for name, each in made.items()}
        rows += (f"| `{name}` | `{attribute}` | {meaning} |" for attribute, meaning in listed.items())
    return "\n".join(rows)


def findings():
    """Return the table of the codes of findings, the most severe first."""
    from payclient.reconcile import Code  # noqa: PLC0415  as above

    rows = ["| code | severity | meaning |", "|---|---|---|"]
    return "\n".join([*rows, *(f"| `{each}` | {each.severity.word} | {each.label}. {each.advice} |" for each in Code)])


def steps(name):
    """Return the table of the steps of a bridge, by the name of their class."""
    from payclient import reconcile  # noqa: PLC0415  as above
    from payclient.reconcile.report.wording import in_words  # noqa: PLC0415

    rows = ["| step | rows |", "|---|---|"]
    return "\n".join([*rows, *(f"| {in_words(each)} | {each.meaning} |" for each in getattr(reconcile, name))])


def sheets():
    """Return the table of the sheets of a workbook with their columns; those of both sides share one name."""
    from payclient.reconcile.report.workbook import COLUMNS  # noqa: PLC0415  as above

    rows = ["| sheet | columns |", "|---|---|"]
    for name, columns in COLUMNS.items():
        titles = [
            re.sub(r"^\w+, (?:ledger|service)$", "each compared field of both sides", each.title) for each in columns
        ]
        rows.append(f"| {name} | {', '.join(dict.fromkeys(titles))} |")
    return "\n".join(rows)


def keys(schema):
    """Return the table of the keys of a file, from its schema."""
    listed = json.loads((Path(__file__).parent / "reference" / schema).read_text(encoding="utf-8"))["properties"]
    rows = [f"| `{name}` | {each['description']} |" for name, each in listed.items()]
    return "\n".join(["| key | meaning |", "|---|---|", *rows])


def fields():
    """Return the table of the fields of a ledger, with the other names of their columns."""
    from payclient.reconcile._fields import COMPARED, KINDS  # noqa: PLC0415  as above

    names = tomllib.loads((PACKAGE / "reconcile" / "ledger" / "words.toml").read_text(encoding="utf-8"))["columns"]
    rows = ["| field | form | compared | other names |", "|---|---|---|---|"]
    for field, kind in KINDS.items():
        others = ", ".join(f"`{name}`" for name in names[field].split()) or "none"
        rows.append(f"| `{field}` | {kind} | {'yes' if field in COMPARED else 'no'} | {others} |")
    return "\n".join(rows)


def words(*tables):
    """Return the words by which a ledger is read, from the file that has them."""
    listed = tomllib.loads((PACKAGE / "reconcile" / "ledger" / "words.toml").read_text(encoding="utf-8"))
    found = {name: ", ".join(f"`{word}`" for text in listed[name].values() for word in text.split()) for name in tables}
    return "\n".join(["| | words |", "|---|---|", *(f"| {name} | {text} |" for name, text in found.items())])


def example(name):
    """Return an example as a block of code, which a checkout has as a file to copy."""
    text = (Path(__file__).parent / "examples" / name).read_text(encoding="utf-8")
    return f"```{'python' if name.endswith('.py') else 'bash'}\n{text}```"


def of_readme(heading):
    """Return a section of README, with links as from the front page."""
    readme = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {heading}\n\n(.+?)(?=^## |\Z)", readme, re.MULTILINE | re.DOTALL)[1]
    return section.replace("](docs/", "](").strip()


def _with_generated(text):
    text = text.replace("<!-- the layers of pyproject.toml -->", f"```toml\n{LAYERS}\n```")
    text = re.sub(r"<!-- the options of (?:payclient |the )(\w+) -->", lambda found: options(found[1]), text)
    text = re.sub(r"<!-- the arguments of ([\w.]+) -->", lambda found: described(found[1]), text)
    text = re.sub(r"<!-- the keys of (\w+\.schema\.json) -->", lambda found: keys(found[1]), text)
    text = re.sub(r"<!-- the keys of ([\w.]+) -->", lambda found: described(found[1], is_toml=True), text)
    text = re.sub(r"<!-- the example ([\w.]+) -->", lambda found: example(found[1]), text)
    text = re.sub(r"<!-- the steps of (\w+) -->", lambda found: steps(found[1]), text)
    for marker, table in TABLES.items():
        text = text.replace(marker, table()) if marker in text else text
    text = re.sub(r"<!-- the words of ([a-z ]+) -->", lambda found: words(*found[1].split()), text)
    return re.sub(r"<!-- ([A-Z][a-z ]+) of README -->", lambda found: of_readme(found[1]), text)


TABLES = {
    "<!-- the sessions of noxfile.py -->": sessions,
    "<!-- the files of payclient -->": files,
    "<!-- the declarations of payclient ledger -->": declarations,
    "<!-- the fields of a ledger -->": fields,
    "<!-- the errors -->": errors,
    "<!-- the classes of errors -->": classes_of_errors,
    "<!-- the attributes of errors -->": attributes_of_errors,
    "<!-- the findings -->": findings,
    "<!-- the sheets of report.xlsx -->": sheets,
}


def _label_cells(app, doctree, page):
    """Name the column in each cell of a wide table; only a phone shows that, where each row is a card."""
    from docutils import nodes  # noqa: PLC0415  a test reads this file where Sphinx is not installed

    for table in doctree.findall(nodes.table):
        head = next(table.findall(nodes.thead), None)
        names = [entry.astext() for entry in head.findall(nodes.entry)] if head else []
        if len(names) < 4:
            continue
        table["classes"].append("cards")
        for row in next(table.findall(nodes.tbody)).children:
            for name, entry in zip(names[1:], row.children[1:], strict=True):
                if name and entry.children:
                    entry.children[0].insert(0, nodes.inline("", f"{name}:", classes=["label"]))


def _write_markdown(app, error):
    """Write `llms.txt`, and next to each page its Markdown."""
    if error is not None or app.builder.format != "html":
        return
    source, out = Path(app.srcdir), Path(app.outdir)
    (out / "llms.txt").write_text(llms_txt(source), encoding="utf-8")
    for page in app.env.found_docs:
        text = (source / f"{page}.md").read_text(encoding="utf-8")
        (out / f"{page}.md").write_text(_with_generated(text), encoding="utf-8")


def setup(app):
    """Show layers and files where a page asks for them, label cells of tables, write pages as Markdown too."""

    def show_generated(app, page, source):
        source[0] = _with_generated(source[0]) + (toctrees(source[0]) if page == "index" else "")

    app.connect("source-read", show_generated)
    app.connect("doctree-resolved", _label_cells)
    app.connect("build-finished", _write_markdown)


if __name__ == "__main__":
    print(files())

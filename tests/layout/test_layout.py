"""The shape of the source: the project keeps every rule, and every rule notices its violation."""

from pathlib import Path

import pytest

from layout import rules, sizes

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def tree(tmp_path):
    """Write a small project that keeps every rule; return a function that adds files to it."""

    def add(path, text=""):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return tmp_path

    for name in sorted(rules.TOP_LEVEL - {"docs", "payclient", "tests"}):
        add(name)
    add("docs/index.md")
    add("docs/reference/api/client.md", ".. currentmodule:: payclient\n")
    add("payclient/__init__.py", '"""The package."""\n\n__all__ = ["ask"]\n\nfrom payclient._ask import ask\n')
    add("payclient/_ask.py", '"""Asks."""\n\n\ndef ask():\n    """Ask."""\n')
    add("payclient/transports/_send.py", '"""Sends."""\n\nimport httpx\n')
    add("tests/transports/test_send.py", 'def test_send():\n    """It sends."""\n')
    add("tests/test_ask.py", 'def test_ask():\n    """It asks."""\n')
    return add


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_project(rule):
    """The project keeps the rule."""
    assert list(rule(PROJECT)) == []


def test_clean(tree, subtests):
    """A tree without violations passes."""
    for rule in rules.RULES:
        with subtests.test(rule=rule):
            assert list(rule(tree("payclient/py.typed"))) == []


def test_stray_file(tree):
    """A file that the top level does not need is named."""
    assert list(rules.top_level_is_exact(tree("setup.py"))) == ["setup.py:1: does not belong at the top level"]


def test_missing_file(tree):
    """A file that the top level lacks is named."""
    root = tree("LICENSE")
    (root / "LICENSE").unlink()
    assert list(rules.top_level_is_exact(root)) == ["LICENSE:1: is missing at the top level"]


def test_dot_files_and_builds(tree):
    """Dot files and build results are allowed."""
    tree("dist/payclient.whl")
    assert list(rules.top_level_is_exact(tree(".editorconfig"))) == []


def test_nesting(tree):
    """A folder may have rooms, and a room has no folders."""
    root = tree("payclient/a/room/c/d.py")
    tree("payclient/a/room/c.py")
    assert list(rules.folders_nest_once(root)) == ["payclient/a/room/c/d.py:1: folders nest once"]


@pytest.mark.parametrize(("lines", "complaints"), [(49, 0), (50, 1)])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_function_length(tree, kind, lines, complaints):
    """A function of 50 lines is too long, one of 49 is not, and its docstring does not count."""
    docstring = '    """\n    Long.\n\n    Very.\n    """\n'
    text = f"{kind} f():\n{docstring}" + "    x = 1\n" * (lines - 1)
    assert len(list(rules.functions_are_short(tree("payclient/long.py", text)))) == complaints


@pytest.mark.parametrize(
    ("path", "text", "complaints"),
    [
        ("payclient/_x.py", "from payclient.a._b import c\n", 1),
        ("payclient/_x.py", "from payclient.a import _b\n", 1),
        ("payclient/_x.py", "import payclient.a._b\n", 1),
        ("payclient/c/_x.py", "from payclient.a._b import c\n", 1),
        ("payclient/a/_x.py", "from payclient.a._b import c\n", 0),
        ("payclient/c/_x.py", "from payclient._ask import ask\n", 0),
        ("payclient/c/_x.py", "from payclient.a import b\n", 0),
        ("payclient/a/_x.py", "from payclient.a.room._b import c\n", 1),
        ("payclient/a/other/_x.py", "from payclient.a.room._b import c\n", 1),
        ("payclient/a/room/_x.py", "from payclient.a.room._b import c\n", 0),
        ("payclient/a/room/_x.py", "from payclient.a._b import c\n", 0),
        ("payclient/c/_x.py", "from payclient.a.room import c\n", 0),
    ],
)
def test_private_module(tree, path, text, complaints):
    """A private module of another package is not imported, in any form; one of the same package may be."""
    tree("payclient/a/_b.py", "c = 1\n")
    tree("payclient/a/room/_b.py", "c = 1\n")
    tree("payclient/a/room/__init__.py", "from payclient.a.room._b import c as c\n")
    tree("payclient/a/__init__.py", "from payclient.a._b import c as b\n")
    assert len(list(rules.private_modules_stay_in_their_package(tree(path, text)))) == complaints


@pytest.mark.parametrize(
    ("path", "text", "complaints"),
    [
        ("payclient/c/_x.py", "from payclient.a.room import b\n", 1),
        ("payclient/c/_x.py", "if TYPE_CHECKING:\n    from payclient.a.room import b\n", 1),
        ("payclient/c.py", "import payclient.a.room\n", 1),
        ("payclient/a/_x.py", "from payclient.a.room import b\n", 0),
        ("payclient/c/_x.py", "from payclient.a import b\n", 0),
        ("payclient/c/_x.py", "from payclient.a.shown import b\n", 0),
        ("payclient/c/_x.py", "from payclient._shared.x import b\n", 0),
    ],
)
def test_face(tree, path, text, complaints):
    """An internal room is imported by its own wing only; others import from the wing, or from a public room."""
    tree("payclient/_shared/x.py", "b = 1\n")
    tree("payclient/a/room/__init__.py", "b = 1\n")
    tree("payclient/a/shown/__init__.py", '__all__ = ["b"]\n\nb = 1\n')
    tree("payclient/a/__init__.py", "b = 1\n")
    assert len(list(rules.wings_are_entered_by_their_face(tree(path, text)))) == complaints


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ("from payclient.a._c import d\n", 1),
        ("def f():\n    from payclient.a import _c\n", 1),
        ("if TYPE_CHECKING:\n    import payclient.a._c\n", 1),
        ("from payclient._ask import ask\n", 0),
    ],
)
def test_circle(tree, text, complaints):
    """Modules that import each other are refused, inside one folder, in a function and for types as well."""
    tree("payclient/a/_c.py", "from payclient.a._b import e\n")
    assert len(list(rules.modules_form_no_circle(tree("payclient/a/_b.py", text)))) == complaints


def test_reach(tree):
    """What a module reaches, late or through others, counts; what it does not reach does not."""
    tree("payclient/_other.py", "x = 1\n")
    tree("payclient/_b.py", "from payclient._c import x\n")
    tree("payclient/_c.py", "x = 1\n")
    root = tree("payclient/_a.py", "def f():\n    from payclient._b import x\n")
    reached = rules.reached_from(root, root / "payclient" / "_a.py")
    assert {path.name for path in reached} == {"_a.py", "_b.py", "_c.py"}


def test_sizes():
    """Each size that has a budget is measured."""
    assert {name: size > 0 for name, size in sizes.sizes(PROJECT).items()} == dict.fromkeys(sizes.BUDGETS, True)


@pytest.mark.parametrize(
    ("name", "complaints"),
    [
        ("_ask.py", 0),
        ("payclient/transports/_send.py", 0),
        ("transports/_send.py", 0),
        ("_gone.py", 1),
        ("a/_ask.py", 1),
    ],
)
@pytest.mark.parametrize("page", ["contributing.md", "explanation/architecture.md"])
def test_module_on_a_page(tree, page, name, complaints):
    """A module that a page for contributors names is there."""
    assert len(list(rules.pages_name_files(tree(f"docs/{page}", f"See `{name}`.\n")))) == complaints


@pytest.mark.parametrize(
    ("text", "complaints"), [("`transports/`, `_ask.py`", 0), ("`transports/`", 1), ("neither", 2)]
)
def test_wings(tree, text, complaints):
    """The page on the architecture names every wing, and every module at the top."""
    assert len(list(rules.wings_are_described(tree("docs/explanation/architecture.md", text)))) == complaints


def test_settings(tree):
    """A file that the settings name and that has been moved is named, in front of a test of it as well."""
    root = tree(
        "pyproject.toml", 'a = ["payclient/_ask.py", "tests/test_ask.py"]\nb = "--x=tests/a/test_b.py::test_c"\n'
    )
    assert list(rules.settings_name_files(root)) == ["pyproject.toml:2: tests/a/test_b.py does not exist"]


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ("a" * 50 + " " + "b" * 49, 0),
        ("a" * 50 + " " + "b" * 50, 1),
        ("a" * 101, 0),
        ("| a | " + "b" * 100, 0),
        ("```text\n" + "a " * 60 + "\n```", 0),
        ("```text\na\n```\n" + "a " * 60, 1),
    ],
)
def test_width(tree, text, complaints):
    """Prose of more than 100 characters is refused; code, tables and a single word are not."""
    assert len(list(rules.pages_wrap(tree("docs/page.md", text)))) == complaints


@pytest.mark.parametrize("path", ["payclient/_x.py", "docs/page.md", "README.md"])
@pytest.mark.parametrize(("text", "complaints"), [("storey", 1), ("Storeys", 1), ("history", 0), ("layer", 0)])
def test_replaced_word(tree, path, text, complaints):
    """A word that has been replaced is refused in code and prose, in either case, and not inside of another word."""
    assert len(list(rules.words_are_ours(tree(path, f"# {text}\n")))) == complaints


@pytest.mark.parametrize("name", ["utils", "_helpers", "_base"])
def test_empty_name(tree, name):
    """A module name that fits any content is refused, with an underscore too."""
    assert len(list(rules.names_say_something(tree(f"payclient/{name}.py")))) == 1


def test_no_module_docstring(tree):
    """A module with code and without a docstring is named."""
    root = tree("payclient/_x.py", "x = 1\n")
    assert list(rules.modules_have_docstrings(root)) == ["payclient/_x.py:1: the module has no docstring"]


@pytest.mark.parametrize(
    ("path", "text", "complaints"),
    [
        ("payclient/x.py", "x = 1\n", 1),
        ("payclient/a/__init__.py", "x = 1\n", 1),
        ("payclient/told.py", "__all__ = []\n", 0),
        ("payclient/told.py", "__all__: list[str] = []\n", 0),
        ("payclient/x.py", "__all__ = []\n", 1),
        ("payclient/x.py", '"""Internal: x."""\n', 0),
        ("payclient/told.py", '"""Internal: x."""\n\n__all__ = []\n', 1),
        ("payclient/_x.py", "x = 1\n", 0),
        ("payclient/_a/x.py", "x = 1\n", 0),
        ("payclient/__main__.py", "x = 1\n", 0),
    ],
)
def test_all(tree, path, text, complaints):
    """What users may import declares `__all__` and is on an API page, or says that it is internal."""
    tree("docs/reference/api/client.md", ".. currentmodule:: payclient\n.. automodule:: payclient.told\n")
    assert len(list(rules.modules_are_public_or_internal(tree(path, text)))) == complaints


@pytest.mark.parametrize(
    ("path", "text", "complaints"),
    [
        ("payclient/x.py", "import httpx\n", 1),
        ("payclient/cli/x.py", "from httpcore._sync import y\n", 1),
        ("payclient/x.py", "import os, httpx._models as m\n", 1),
        ("payclient/x.py", "def f():\n    import httpx\n", 1),
        ("payclient/x.py", "if TYPE_CHECKING:\n    from httpx import Client\n", 1),
        ("payclient/testing/x.py", "import httpx\n", 0),
        ("payclient/transports/x.py", "import httpcore\n", 0),
        ("payclient/x.py", "import httpx_of_ours\nfrom .httpx import y\n", 0),
    ],
)
def test_http_libraries(tree, path, text, complaints):
    """httpx and httpcore are imported by the transports and the test kit, by nothing else in any form."""
    assert len(list(rules.http_stays_below(tree(path, text)))) == complaints


@pytest.mark.parametrize("text", ["async def test_x(): ...\n", "class TestX:\n    def test_x(self): ...\n"])
def test_test_without_docstring(tree, text):
    """A test function or method without a docstring is named."""
    assert len(list(rules.tests_state_their_rule(tree("tests/a/test_x.py", text)))) == 1


@pytest.mark.parametrize(
    ("comment", "complaints"),
    [
        ("type" + ": ignore", 1),
        ("type" + ": ignore[]", 1),
        ("type" + ": ignore[arg-type]  reason", 0),
        ("pyright" + ": ignore", 1),
        ("pyright" + ": ignore[reportUnknownMemberType]", 0),
        ("no" + "qa", 1),
        ("NO" + "QA", 1),
        ("no" + "qa: E501", 0),
        ("pragma: " + "no cover", 1),
        ("pragma: " + "no cover -", 1),
        ("pragma: " + "no cover - only on Windows", 0),
    ],
)
@pytest.mark.parametrize("folder", ["payclient", "tests"])
def test_silencers(tree, folder, comment, complaints):
    """A silenced check names its code, an uncovered line its reason, in the package and in its tests."""
    assert len(list(rules.silencers_are_precise(tree(f"{folder}/x.py", f"x = 1  # {comment}\n")))) == complaints

"""The shape of the source: the project keeps every rule, and every rule notices its violation."""

from __future__ import annotations

from pathlib import Path

import pytest

from layout import rules

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
    add("payclient/__init__.py", '"""The package."""\n\n__all__ = ["ask"]\n\nfrom payclient._ask import ask\n')
    add("payclient/_ask.py", '"""Asks."""\n\n\ndef ask():\n    """Ask."""\n')
    add("payclient/transports/_send.py", '"""Sends."""\n\nimport httpx\n')
    add("tests/test_ask.py", 'def test_ask():\n    """It asks."""\n')
    return add


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_project(rule):
    """The project keeps the rule."""
    assert list(rule(PROJECT)) == []


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_clean(rule, tree):
    """A tree without violations gives no complaint."""
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
    """Dot files and what tools build are nobody's clutter."""
    tree("dist/payclient.whl")
    assert list(rules.top_level_is_exact(tree(".editorconfig"))) == []


def test_nesting(tree):
    """A folder inside of a folder of the package is refused."""
    root = tree("payclient/a/b/c.py")
    assert list(rules.folders_nest_once(root)) == ["payclient/a/b/c.py:1: folders nest once"]


@pytest.mark.parametrize(("lines", "complaints"), [(399, 0), (400, 1)])
def test_file_length(tree, lines, complaints):
    """A file of 400 lines is too long, one of 399 is not."""
    assert len(list(rules.files_are_short(tree("payclient/long.py", "x = 1\n" * lines)))) == complaints


@pytest.mark.parametrize(("lines", "complaints"), [(49, 0), (50, 1)])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_function_length(tree, kind, lines, complaints):
    """A function of 50 lines is too long, one of 49 is not, and its docstring does not count."""
    docstring = '    """\n    Long.\n\n    Very.\n    """\n'
    text = f"{kind} f():\n{docstring}" + "    x = 1\n" * (lines - 1)
    assert len(list(rules.functions_are_short(tree("payclient/long.py", text)))) == complaints


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
        ("payclient/x.py", "__all__ = []\n", 0),
        ("payclient/x.py", "__all__: list[str] = []\n", 0),
        ("payclient/_x.py", "x = 1\n", 0),
        ("payclient/_a/x.py", "x = 1\n", 0),
        ("payclient/__main__.py", "x = 1\n", 0),
    ],
)
def test_all(tree, path, text, complaints):
    """What users may import declares `__all__`; what they may not need not."""
    assert len(list(rules.public_modules_have_all(tree(path, text)))) == complaints


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

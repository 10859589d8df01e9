"""The shape of the source: the project keeps every rule, and every rule notices its violation."""

from itertools import product
from pathlib import Path

import pytest

from layout import rules, sizes, words

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


PRIVATE, ROOM = "from payclient.a._b import c\n", "from payclient.a.room import b\n"
ARCHITECTURE = "docs/explanation/architecture.md"
DOCSTRING = '    """\n    Long.\n\n    Very.\n    """\n'
FILES = {
    rules.private_modules_stay_in_their_package: {
        "payclient/a/_b.py": "c = 1\n",
        "payclient/a/room/_b.py": "c = 1\n",
        "payclient/a/room/__init__.py": "from payclient.a.room._b import c as c\n",
        "payclient/a/__init__.py": "from payclient.a._b import c as b\n",
    },
    rules.wings_are_entered_by_their_face: {
        "payclient/_shared/x.py": "b = 1\n",
        "payclient/a/room/__init__.py": "b = 1\n",
        "payclient/a/shown/__init__.py": '__all__ = ["b"]\n\nb = 1\n',
        "payclient/a/__init__.py": "b = 1\n",
    },
    rules.modules_are_public_or_internal: {
        "docs/reference/api/client.md": ".. currentmodule:: payclient\n.. automodule:: payclient.told\n"
    },
}
"""The files beside which those of the cases stand, by rule."""

STIFF = ("x = 1  # of it", "# one that", "# in which", "# it says", "# has no", "# as a day has it")
STIFF += ("# it alone.", "# a; b", "# whatever", "# it holds `it holds`")
"""A line that falls into each habit, once."""

CASES = {
    # A file and its text, and the number of complaints
    rules.messages_are_not_read: [
        (f"payclient/{name}", f"{code}\n", int(name == "_x.py" and is_read))
        for name in ("_x.py", "client/_keys.py")
        for code, is_read in {
            "error.message.split(';')": True,
            "str(error).partition(' ')": True,
            "'file' in message": True,
            "'file' in str(error)": True,
            "PATTERN.findall(each.sentence)": True,
            "re.sub('a', 'b', str(problem))": True,
            "entry.reason.casefold().startswith('a')": True,
            "str(error).split(); problems.remove(x); name.split(); 'a' in names; f'{error.message}; b'": False,
        }.items()
    ],
    rules.values_have_no_words: [
        (f"payclient/{folder}/_x.py", f"class A:\n    {first}def {name}(self): ...\n", int(is_refused))
        for folder, first, name, is_refused in (
            ("reconcile/rules", "@property\n    ", "sentence", True),
            ("reconcile/rules", "@property\n    ", "rules_sentence", True),
            ("reconcile/rules", "@property\n    ", "state", False),
            ("reconcile/rules", "", "words", False),
            ("cli", "@property\n    ", "label", False),
        )
    ],
    rules.top_level_is_exact: (("dist/payclient.whl", "", 0), (".editorconfig", "", 0), ("setup.py", "", 1)),
    rules.folders_nest_once: (("payclient/a/room/c.py", "", 0), ("payclient/a/room/c/d.py", "", 1)),
    rules.functions_are_short: [
        ("payclient/long.py", f"{kind} f():\n{DOCSTRING}" + "    x = 1\n" * lines, int(lines == 49))
        for kind, lines in product(("def", "async def"), (48, 49))
    ],
    rules.private_modules_stay_in_their_package: (
        ("payclient/_x.py", PRIVATE, 1),
        ("payclient/_x.py", "from payclient.a import _b\n", 1),
        ("payclient/_x.py", "import payclient.a._b\n", 1),
        ("payclient/c/_x.py", PRIVATE, 1),
        ("payclient/a/_x.py", PRIVATE, 0),
        ("payclient/c/_x.py", "from payclient._ask import ask\n", 0),
        ("payclient/c/_x.py", "from payclient.a import b\n", 0),
        ("payclient/a/_x.py", "from payclient.a.room._b import c\n", 1),
        ("payclient/a/other/_x.py", "from payclient.a.room._b import c\n", 1),
        ("payclient/a/room/_x.py", "from payclient.a.room._b import c\n", 0),
        ("payclient/a/room/_x.py", PRIVATE, 0),
        ("payclient/c/_x.py", "from payclient.a.room import c\n", 0),
    ),
    rules.wings_are_entered_by_their_face: (
        ("payclient/c/_x.py", ROOM, 1),
        ("payclient/c/_x.py", f"if TYPE_CHECKING:\n    {ROOM}", 1),
        ("payclient/c.py", "import payclient.a.room\n", 1),
        ("payclient/a/_x.py", ROOM, 0),
        ("payclient/c/_x.py", "from payclient.a import b\n", 0),
        ("payclient/c/_x.py", "from payclient.a.shown import b\n", 0),
        ("payclient/c/_x.py", "from payclient._shared.x import b\n", 0),
    ),
    rules.pages_name_files: [
        (f"docs/{page}", f"See `{name}`.\n", int(name in ("_gone.py", "a/_ask.py")))
        for page in ("contributing.md", "explanation/architecture.md")
        for name in ("_ask.py", "payclient/transports/_send.py", "transports/_send.py", "_gone.py", "a/_ask.py")
    ],
    rules.wings_are_described: (
        (ARCHITECTURE, "`transports/`, `_ask.py`", 0),
        (ARCHITECTURE, "`transports/`", 1),
        (ARCHITECTURE, "neither", 2),
    ),
    rules.settings_name_files: (
        ("pyproject.toml", 'a = ["payclient/_ask.py", "tests/test_ask.py"]\n', 0),
        ("pyproject.toml", 'b = "--x=tests/a/test_b.py::test_c"\n', 1),
    ),
    rules.pages_wrap: (
        ("docs/page.md", "a" * 50 + " " + "b" * 49, 0),
        ("docs/page.md", "a" * 50 + " " + "b" * 50, 1),
        ("docs/page.md", "a" * 101, 0),
        ("docs/page.md", "| a | " + "b" * 100, 0),
        ("docs/page.md", "```text\n" + "a " * 60 + "\n```", 0),
        ("docs/page.md", "```text\na\n```\n" + "a " * 60, 1),
    ),
    rules.words_are_ours: [
        (path, f"# {word}\n", int(word.lower().startswith("storey")))
        for path in ("payclient/_x.py", "docs/page.md", "README.md")
        for word in ("storey", "Storeys", "history", "layer")
    ],
    rules.habits_do_not_return: [
        ("payclient/_x.py", f"{line}\n" * (most + more), more)
        for line, most in zip(STIFF, words.HABITS.values(), strict=True)
        for more in (0, 1)
    ],
    rules.names_name_the_thing: [
        ("payclient/_x.py", f"{code}\n" * (words.VAGUE_USES + more), int("found" in code) * more)
        for code in ("found = 1", "def f(found): ...", "for found in x: ...", "find = 1")
        for more in (0, 1)
    ],
    rules.names_say_something: [(f"payclient/{name}.py", "", 1) for name in ("utils", "_helpers", "_base")],
    rules.modules_have_docstrings: (("payclient/_x.py", "x = 1\n", 1),),
    rules.modules_are_public_or_internal: (
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
    ),
    rules.tests_state_their_rule: (
        ("tests/a/test_x.py", "async def test_x(): ...\n", 1),
        ("tests/a/test_x.py", "class TestX:\n    def test_x(self): ...\n", 1),
    ),
    rules.uncovered_lines_have_a_reason: (
        ("payclient/x.py", "x = 1  # pragma: no cover\n", 1),
        ("payclient/x.py", "x = 1  # pragma: no cover -\n", 1),
        ("payclient/x.py", "x = 1  # pragma: no cover - only on Windows\n", 0),
    ),
}


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_rule(tree, rule):
    """A file that breaks the rule is complained of, in every form, and a file that only looks like one is not."""
    for path, text in FILES.get(rule, {}).items():
        tree(path, text)
    root, missed = tree("payclient/py.typed"), []
    for path, text, complaints in CASES[rule]:
        before = (root / path).read_bytes() if (root / path).exists() else None
        found = list(rule(tree(path, text)))
        missed += [] if len(found) == complaints else [(path, text, found)]
        (root / path).unlink() if before is None else (root / path).write_bytes(before)
    assert missed == []


def test_missing_file(tree):
    """A file that the top level lacks is named."""
    root = tree("LICENSE")
    (root / "LICENSE").unlink()
    assert list(rules.top_level_is_exact(root)) == ["LICENSE:1: is missing at the top level"]


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

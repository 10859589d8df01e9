"""
What the shape of the source must be, where no ready-made tool checks it.

Each rule takes the project's folder and yields one line per violation, `path:line: what is wrong`.
"""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeAlias

from layout import words

Rule: TypeAlias = Callable[[Path], Iterator[str]]

PROSE_WIDTH = 100
FUNCTION_LINES = 50
TOP_LEVEL = frozenset({"LICENSE", "README.md", "docs", "noxfile.py", "payclient", "pyproject.toml", "tests", "uv.lock"})
MADE_BY_TOOLS = frozenset({"dist", "__pycache__"})
TEST = re.compile(r"^ *(?:async )?def test", re.MULTILINE)
TEST_WITH_RULE = re.compile(rf'{TEST.pattern}\w*\([^()]*\)(?: -> \w+)?:\n +r?"""\s*\w', re.MULTILINE)
EMPTY_NAMES = frozenset({"base", "common", "helpers", "manager", "utils"})

MAY_BE_ENTERED = {
    "payclient.protocol.transaction._pydantic": "it needs pydantic, so no package can import it",
    "payclient.reconcile.ledger._parquet": "it needs pyarrow, so `payclient.reconcile.ledger` cannot import it",
}
"""Private modules that other packages import, each with the reason."""

BELOW_THEIR_WING = {
    (
        "payclient.errors",
        "payclient.protocol.transaction",
    ): "an error holds a transaction, and the protocol raises errors"
}
"""Imports of an internal room by another wing, each with the reason."""


MAY_READ_MESSAGES = {
    "payclient/cli/_sandbox.py": "of the web server, whose error carries nothing else",
    "payclient/client/_keys.py": "of a stranger's key source: what may be a key is taken out",
    "payclient/reconcile/_judgement/rules.py": "of tomllib, which gives the line in its text alone",
    "payclient/transports/_failures.py": "OpenSSL's reason is a code",
    "payclient/transports/_network.py": "OpenSSL's reason is a code",
}
"""Modules that read a message, each with the reason."""
OF_WORDS = re.compile(r"def (\w+_)?(sentence|advice|remark|label|words)\(")
OF_TEXT = frozenset(
    ("split", "rsplit", "partition", "rpartition", "replace", "startswith", "endswith", "removeprefix", "removesuffix")
)
OF_PATTERN = frozenset({"sub", "search", "match", "fullmatch", "findall", "finditer"})
ERRORS = frozenset({"error", "problem", "exception", "exc", "caught", "refused", "failure"})
MESSAGES = frozenset({"message", "sentence", "reason", "waiver", "waived", "advice", "remark"})

COMMENT = re.compile(r"^(.*?)# (?!noqa|type:|pragma)(.*)")
SQL = re.compile(
    r"^\s*(?:SELECT|CREATE|INSERT|UPDATE|DELETE|WITH|PRAGMA|ALTER|DROP|ATTACH|REPLACE)\b|\b(?:WHERE|FROM)\b"
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
UNCOVERED_WITHOUT_REASON = re.compile(r"pragma: ?no cover\W*$")


def top_level_is_exact(root: Path) -> Iterator[str]:
    """Allow the eight names that a reader expects at the top level, and dot files."""
    found = {path.name for path in root.iterdir() if not path.name.startswith(".")} - MADE_BY_TOOLS
    yield from (f"{name}:1: does not belong at the top level" for name in sorted(found - TOP_LEVEL))
    yield from (f"{name}:1: is missing at the top level" for name in sorted(TOP_LEVEL - found))


def folders_nest_once(root: Path) -> Iterator[str]:
    """Allow `payclient/x/y.py`, rooms in a large folder, `payclient/x/room/y.py`, and nothing deeper."""
    for path in _package(root):
        if len(path.relative_to(root / "payclient").parts) > 3:
            yield f"{_at(root, path)}: folders nest once"


def functions_are_short(root: Path) -> Iterator[str]:
    """Bound the length of a function; its docstring does not count, and a constructor may have many options."""
    for path in _package(root):
        for function in _functions(path):
            lines = function.end_lineno - function.lineno + 1 - _docstring_lines(function)
            if lines >= FUNCTION_LINES and function.name != "__init__":
                where = _at(root, path, function.lineno)
                yield f"{where}: {function.name} has {lines} lines; a function stays under {FUNCTION_LINES}"


def private_modules_stay_in_their_package(root: Path) -> Iterator[str]:
    """Forbid the import of a private module of another package: what others need is imported from the package."""
    for path, line, module in _imports_of_ours(root):
        package, _, private = module.rpartition("._")
        is_outside = root.joinpath(*package.split(".")) not in path.parents
        if private and package != "payclient" and is_outside and module not in MAY_BE_ENTERED:
            yield f"{_at(root, path, line)}: {module} is private; import from {package}"


def wings_are_entered_by_their_face(root: Path) -> Iterator[str]:
    """Forbid the import of an internal room of another wing: its names are imported from the wing, or made public."""
    public = {
        _module_name(root, path) for path in _package(root) if "__all__" in {name.id for name in _assigned(_tree(path))}
    }
    for path, line, module in _imports_of_ours(root):
        parts, importer = module.split("."), _module_name(root, path)
        is_inside = len(parts) < 3 or parts[1] in ("_shared", *importer.split(".")[1:2])
        room = ".".join(parts[:3])
        if not (is_inside or room in public or parts[2][0] == "_" or (importer, room) in BELOW_THEIR_WING):
            yield f"{_at(root, path, line)}: {room} is an internal room; import from payclient.{parts[1]}"


def pages_name_files(root: Path) -> Iterator[str]:
    """Ask each module that a page for contributors names to be there, by its whole path or by the end of it."""
    files = [f"/{path.relative_to(root).as_posix()}" for path in _package(root)]
    for name in ("contributing.md", "explanation/architecture.md"):
        page = root / "docs" / name
        text = page.read_text(encoding="utf-8") if page.exists() else ""
        for number, line in enumerate(text.splitlines(), 1):
            for module in re.findall(r"`((?:payclient/)?(?:\w+/)*_\w+\.py)`", line):
                if not any(file.endswith(f"/{module}") for file in files):
                    yield f"{_at(root, page, number)}: {module} does not exist"


def wings_are_described(root: Path) -> Iterator[str]:
    """Ask the page on the architecture for every entry at the top of the package."""
    page = root / "docs" / "explanation" / "architecture.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    for path in sorted((root / "payclient").iterdir()):
        name = f"{path.name}{'/' * path.is_dir()}"
        if name[:2] != "__" and name != "py.typed" and text and f"`{name}`" not in text:
            yield f"{_at(root, page)}: {name} is missing"


def settings_name_files(root: Path) -> Iterator[str]:
    """Ask each Python file that `pyproject.toml` names to be there: a tool silently skips one that is not."""
    for number, line in enumerate((root / "pyproject.toml").read_text(encoding="utf-8").splitlines(), 1):
        for name in re.findall(r"\b(?:payclient|tests)/[\w/]+\.py\b", line):
            if not (root / name).exists():
                yield f"pyproject.toml:{number}: {name} does not exist"


def pages_wrap(root: Path) -> Iterator[str]:
    """Bound the width of prose on a page; code, tables, pictures and a single long word or link are left alone."""
    for path in _pages(root):
        is_code = False
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            is_fence = line.lstrip().startswith("```")
            is_code ^= is_fence
            is_prose = not (is_code or is_fence or line.lstrip().startswith(("|", "![")))
            is_wide = len(line) > PROSE_WIDTH and " " in line.strip().removeprefix("- ")
            if is_prose and is_wide:
                yield f"{_at(root, path, number)}: {len(line)} characters; prose wraps at {PROSE_WIDTH}"


def words_are_ours(root: Path) -> Iterator[str]:
    """Refuse words that have been replaced, in the package and on the pages."""
    patterns = {f"(?i:{old})" if old.islower() else f"(?:{old})": new for old, new in words.REPLACED.items()}
    refused = {re.compile(rf"(?<![A-Za-z]){pattern}(?![A-Za-z])"): new for pattern, new in patterns.items()}
    any_of = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(patterns)})(?![A-Za-z])")  # one pass over most files
    for path in [*_package(root), *_pages(root)]:
        if path.relative_to(root).as_posix() in words.ALLOWED:
            continue
        text = path.read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines() if any_of.search(text) else (), 1):
            found = ((pattern.search(line), instead) for pattern, instead in refused.items())
            yield from (f"{_at(root, path, number)}: {hit[0]!r}: write {instead}" for hit, instead in found if hit)


def habits_do_not_return(root: Path) -> Iterator[str]:
    """Bound how often docstrings, comments and messages fall back into each habit, at the level they once reached."""
    prose = [
        (_at(root, path, line), re.sub(r"`[^`]*`", "", text)) for path in _package(root) for line, text in _prose(path)
    ]
    for pattern, most in words.HABITS.items():
        places = [place for place, text in prose for _ in re.finditer(f"(?i:{pattern})", text, re.MULTILINE)]
        if len(places) > most:
            yield f"{places[-1]}: {len(places)} times {pattern}, {most} at most, in {', '.join(places)}"


def names_name_the_thing(root: Path) -> Iterator[str]:
    """Bound how many variables have a name that would fit any thing."""
    nodes = ((path, node) for path in _package(root) for node in ast.walk(_tree(path)))
    bound = [
        _at(root, path, node.lineno)
        for path, node in nodes
        if (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in words.VAGUE)
        or (isinstance(node, ast.arg) and node.arg in words.VAGUE)
    ]
    if len(bound) > words.VAGUE_USES:
        names = ", ".join(sorted(words.VAGUE))
        yield f"{bound[-1]}: {len(bound)} variables are called {names}, {words.VAGUE_USES} at most: name the thing"


def names_say_something(root: Path) -> Iterator[str]:
    """Forbid module names that would fit any content."""
    for path in _package(root):
        if path.stem.strip("_") in EMPTY_NAMES:
            yield f"{_at(root, path)}: a module is named for its one idea, not {path.stem!r}"


def modules_have_docstrings(root: Path) -> Iterator[str]:
    """Ask every module that holds anything for the sentence that names its idea."""
    for path in _package(root):
        tree = _tree(path)
        if tree.body and ast.get_docstring(tree) is None:
            yield f"{_at(root, path)}: the module has no docstring"


def modules_are_public_or_internal(root: Path) -> Iterator[str]:
    """Ask every module that users may import for its `__all__` and its place on an API page, or for "Internal:"."""
    pages = (page.read_text(encoding="utf-8") for page in (root / "docs" / "reference" / "api").glob("*.md"))
    documented = {*re.findall(r"^\.\. (?:auto|current)module:: (\S+)$", "\n".join(pages), re.MULTILINE)}
    for path in _package(root):
        parts = [part.removesuffix(".py") for part in path.relative_to(root).parts]
        if any(part.startswith("_") and part != "__init__" for part in parts):
            continue
        tree = _tree(path)
        has_all = "__all__" in {target.id for target in _assigned(tree)}
        is_internal = (ast.get_docstring(tree) or "").startswith("Internal: ")
        if has_all == is_internal:
            yield f"{_at(root, path)}: a public module needs __all__; an internal one says so, and has none"
        elif has_all and _module_name(root, path) not in documented:
            yield f"{_at(root, path)}: a public module is on an API page"


def tests_state_their_rule(root: Path) -> Iterator[str]:
    """Ask every test function for a docstring."""
    for path in sorted((root / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if len(TEST.findall(text)) == len(TEST_WITH_RULE.findall(text)):
            continue  # most files: to parse them takes long
        for function in _functions(path):
            if function.name.startswith("test") and ast.get_docstring(function) is None:
                yield f"{_at(root, path, function.lineno)}: {function.name} does not state its rule in a docstring"


def uncovered_lines_have_a_reason(root: Path) -> Iterator[str]:
    """Ask `pragma: no cover` for a reason; ruff asks `type: ignore` and `noqa` for a code."""
    for path in _package(root):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if UNCOVERED_WITHOUT_REASON.search(line):
                yield f"{_at(root, path, number)}: gives no reason: {line.strip()}"


def messages_are_not_read(root: Path) -> Iterator[str]:
    """Refuse code that matches, splits, replaces or searches a message: what it needs is a value of the error."""
    for path in _package(root):
        if path.relative_to(root).as_posix() in MAY_READ_MESSAGES:
            continue
        for node in ast.walk(_tree(path)):
            if any(map(_is_message, _searched(node))):
                yield f"{_at(root, path, node.lineno)}: reads a message: {ast.unparse(node)}"


def _searched(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the texts in which a node looks for something, or of which it takes a part."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in OF_TEXT and node.args:  # without arguments, it is white space
            yield node.func.value
        if node.func.attr in OF_PATTERN:
            yield from node.args
    if isinstance(node, ast.Compare):
        yield from (text for how, text in zip(node.ops, node.comparators, strict=True) if isinstance(how, ast.In))


def _is_message(text: ast.expr) -> bool:
    if isinstance(text, ast.Call) and isinstance(text.func, ast.Name) and text.func.id == "str":
        return any(isinstance(each, ast.Name) and each.id in ERRORS for each in text.args)
    if isinstance(text, ast.Call) and isinstance(text.func, ast.Attribute):  # such as `message.casefold()`
        return _is_message(text.func.value)
    name = text.attr if isinstance(text, ast.Attribute) else text.id if isinstance(text, ast.Name) else ""
    return name in MESSAGES


def values_have_no_words(root: Path) -> Iterator[str]:
    """Ask that no property of a value is a sentence or a label: words stand where they are shown."""
    for path in _package(root):
        if "reconcile" not in path.parts or not OF_WORDS.search(path.read_text(encoding="utf-8")):
            continue
        for node in ast.walk(_tree(path)):
            if not isinstance(node, ast.FunctionDef) or not OF_WORDS.search(f"def {node.name}("):
                continue
            if any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list):
                yield f"{_at(root, path, node.lineno)}: {node.name} is a property with words"


RULES: tuple[Rule, ...] = (
    values_have_no_words,
    messages_are_not_read,
    top_level_is_exact,
    folders_nest_once,
    functions_are_short,
    private_modules_stay_in_their_package,
    wings_are_entered_by_their_face,
    pages_name_files,
    wings_are_described,
    settings_name_files,
    pages_wrap,
    words_are_ours,
    habits_do_not_return,
    names_name_the_thing,
    names_say_something,
    modules_have_docstrings,
    modules_are_public_or_internal,
    tests_state_their_rule,
    uncovered_lines_have_a_reason,
)


def reached_from(root: Path, module: Path) -> set[Path]:
    """Return the modules that *module* can reach by imports, itself included."""
    graph, reached, found = _graph(root), set(), {module}
    while found:
        reached |= found
        found = {path for each in found for path in graph[each]} - reached
    return reached


def _package(root: Path) -> list[Path]:
    return sorted((root / "payclient").rglob("*.py"))


def _pages(root: Path) -> list[Path]:
    """Return what people read: the pages, README, and the pages next to tests."""
    return [*sorted(page for folder in ("docs", "tests") for page in (root / folder).rglob("*.md")), root / "README.md"]


def _at(root: Path, path: Path, line: int = 1) -> str:
    return f"{path.relative_to(root).as_posix()}:{line}"


def _tree(path: Path) -> ast.Module:
    return _parse(path.read_text(encoding="utf-8"))


_parse = cache(ast.parse)
"""Most rules read the same modules; no rule changes a tree."""


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the comments of a file, those behind code with their `#`, and its texts for people."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if comment := COMMENT.search(line):
            yield number, f"# {comment[2]}" if comment[1].strip() else comment[2]
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not SQL.search(node.value):
            yield node.lineno, node.value


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(_tree(path)) if isinstance(node, FUNCTIONS))


def _docstring_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(function) is None:
        return 0
    return function.body[0].end_lineno - function.body[0].lineno + 1


def _assigned(tree: ast.Module) -> Iterator[ast.Name]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (target for target in targets if isinstance(target, ast.Name))


def _module_name(root: Path, path: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _imports_of_ours(root: Path) -> list[tuple[Path, int, str]]:
    """Return which file imports which module of the package, also by name: `from payclient.x import _y`."""
    files = _package(root)
    known = {_module_name(root, path) for path in files}
    found = []
    for path in files:
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.Import):
                found += [(path, node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                found += [(path, node.lineno, name if name in known else node.module) for name in inner]
    return [each for each in found if each[2] in known]


def _graph(root: Path) -> dict[Path, set[Path]]:
    files = {_module_name(root, path): path for path in _package(root)}
    graph: dict[Path, set[Path]] = {path: set() for path in files.values()}
    for path, _, module in _imports_of_ours(root):
        graph[path].add(files[module])
    return graph

"""
What share of the core's mutants the tests notice, module by module.

A mutant is the code with one small thing changed: a comparison, a constant, an argument left out. mutmut makes
them and runs the tests that touch the changed function. Run this in a copy of the project, for it rewrites files:

    python -m mutation               # every module that [tool.mutmut] names; the exit status is 1 below the goal
    python -m mutation _transaction._model _stream  # some of them
"""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

GOAL = 0.9
NOTICED = frozenset({"killed", "timeout", "caught by type check"})
AT_IMPORT = tuple(f"payclient.protocol.transaction._model.x__{name}__" for name in ("money_field", "required_text"))
"""What has run before mutmut can put a mutant in its place, so that its verdict on it means nothing."""


def main(modules: list[str]) -> int:
    """Judge the mutants of *modules*, print what was not noticed, and return the exit status."""
    named = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]["only_mutate"]
    modules = modules or [path.removeprefix("payclient/").removesuffix(".py").replace("/", ".") for path in named]
    patterns = [f"payclient.{module}.*" for module in modules]
    subprocess.run(["mutmut", "run", "--max-children", "1", *patterns], check=True)
    verdicts = {name: verdict for name, verdict in results() if module_of(name) in modules}
    for name in verdicts:
        if name.startswith(AT_IMPORT):
            verdicts[name] = applied(name)
    for name, verdict in verdicts.items():
        if verdict not in NOTICED:
            print(output("mutmut", "show", name))
    return max([report(module, verdicts) for module in modules])


def report(module: str, verdicts: dict[str, str]) -> int:
    """Print the line of *module*; 1 when it misses the goal."""
    of_module = [verdict for name, verdict in verdicts.items() if module_of(name) == module]
    noticed = sum(verdict in NOTICED for verdict in of_module)
    print(f"{module:24} {noticed:4} of {len(of_module):4} noticed, {noticed / len(of_module):6.1%}")
    return int(noticed < GOAL * len(of_module))


def module_of(name: str) -> str:
    """Return the dotted path of a mutant's module, without the package."""
    return name.removeprefix("payclient.").rpartition(".")[0]


def results() -> Iterator[tuple[str, str]]:
    """Yield the name and the verdict of each mutant."""
    for line in output("mutmut", "results", "--all", "true").splitlines():
        name, verdict = line.strip().split(": ")
        yield name, verdict


def applied(name: str) -> str:
    """Return the verdict on one mutant by writing it into its file, for a fresh interpreter to import."""
    path = Path("payclient", *module_of(name).split(".")).with_suffix(".py")
    original = path.read_bytes()
    try:
        output("mutmut", "apply", name)
        test = Path("tests", *path.parts[1:-1], f"test{path.name}")
        tests = ("-m", "pytest", "-x", "-q", "-p", "no:randomly", str(test))
        run = subprocess.run([sys.executable, *tests], check=False, capture_output=True)
    finally:
        path.write_bytes(original)
    return "killed" if run.returncode else "survived"


def output(*command: str) -> str:
    """Return what *command* prints."""
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

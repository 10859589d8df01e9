"""
Print how large the project is beside its budget: `python -m layout.sizes`. Nothing fails: people decide.

A budget without air is a lock: the first honest change is over. So one is set to the size and `AIR` more.
"""

import math
from pathlib import Path

from layout.rules import reached_from

AIR = 0.03
ROOT = Path(__file__).parents[2]
BUDGETS = {
    "lines of payclient/": 28_000,
    "modules of payclient/": 150,
    "lines that AsyncClient can reach": 8_000,
    "lines of tests/": 50_000,
    "words of docs/": 25_000,
    "words of README.md": 650,
}


def _lines(paths: object) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def sizes(root: Path) -> dict[str, int]:
    """Return each size of the project at *root*, by the names of `BUDGETS`."""
    package = [*(root / "payclient").rglob("*.py")]
    pages = [*(root / "docs").rglob("*.md")]
    return dict(
        zip(
            BUDGETS,
            (
                _lines(package),
                len(package),
                _lines(reached_from(root, root / "payclient" / "client" / "_client.py")),
                _lines((root / "tests").rglob("*.py")),
                sum(len(page.read_text(encoding="utf-8").split()) for page in pages),
                len((root / "README.md").read_text(encoding="utf-8").split()),
            ),
            strict=True,
        )
    )


def verdict(size: int, budget: int) -> str:
    """Return what to do about a size: nothing if there is air, or else the budget that would have it."""
    if size * (1 + AIR) <= budget:
        return ""
    return f"{'over its budget' if size > budget else 'full'}; with air it would be {math.ceil(size * (1 + AIR)):,}"


if __name__ == "__main__":
    for name, size in sizes(ROOT).items():
        print(f"{name:<34}{size:>8,} of {BUDGETS[name]:>7,}  {verdict(size, BUDGETS[name])}")

"""The bill of materials in the repository is that of the locked dependencies."""

import json

from support.bill_of_materials import FILE, bill, needed


def test_is_up_to_date():
    """The bill lists what `uv.lock` has; `python3 noxfile.py -s sbom` writes it."""
    assert FILE.read_text(encoding="utf-8") == bill()


def test_has_each_dependency():
    """It names each package once, and only packages that it describes."""
    found = json.loads(bill())
    described = [found["metadata"]["component"]["bom-ref"], *(each["bom-ref"] for each in found["components"])]
    assert sorted(described) == sorted({each["ref"] for each in found["dependencies"]})
    assert {ref for each in found["dependencies"] for ref in each["dependsOn"]} < set(described)


def test_dependencies_of_dependencies():
    """What a dependency needs is listed as well, also in a circle."""
    packages = {
        "a": {"dependencies": [{"name": "b"}]},
        "b": {"dependencies": [{"name": "c"}, {"name": "c", "marker": "x"}]},
        "c": {"dependencies": [{"name": "b"}]},
        "d": {},
    }
    assert needed(packages, "a") == {"a": ["b"], "b": ["c"], "c": ["b"]}

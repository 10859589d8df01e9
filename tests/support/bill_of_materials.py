"""
Write the software bill of materials that the wheel carries: `python3 noxfile.py -s sbom`.

payclient bundles nothing. What it lists are the packages that it needs without extras, in the versions of `uv.lock`,
which the suite runs with. It has neither time nor serial number, so that the same sources give the same wheel.

Source:
    PEP 770 for its place in the wheel, CycloneDX 1.6 for its form.
"""

import json
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2]
FILE = PROJECT / "docs" / "reference" / "payclient.cdx.json"


def needed(packages, name):
    """Return the names of a package and of all that it needs, by a walk through the lock file."""
    found, waiting = {}, [name]
    while waiting:
        if (name := waiting.pop()) not in found:
            found[name] = sorted({each["name"] for each in packages[name].get("dependencies", ())})
            waiting += found[name]
    return found


def bill():
    """Return the text of the bill."""
    lock = tomllib.loads((PROJECT / "uv.lock").read_text(encoding="utf-8"))
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = {package["name"]: package for package in lock["package"]}

    def purl(name):
        return f"pkg:pypi/{name}@{packages[name]['version']}"

    def component(name):
        same = {"name": name, "version": packages[name]["version"], "purl": purl(name)}
        return {"type": "library", "bom-ref": purl(name), **same}

    found = needed(packages, project["name"])
    root = component(project["name"]) | {
        "description": project["description"],
        "licenses": [{"license": {"id": project["license"]}}],
    }
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root},
        "components": [component(name) for name in sorted({*found} - {project["name"]})],
        "dependencies": [{"ref": purl(name), "dependsOn": list(map(purl, found[name]))} for name in sorted(found)],
    }
    return json.dumps(document, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(bill(), encoding="utf-8")

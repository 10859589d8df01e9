"""What is shipped: the files, and the metadata, of the sdist and of the wheel in `dist/`."""

import email
import re
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from support.bill_of_materials import FILE

PROJECT = Path(__file__).parents[2]
DECLARED = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

pytestmark = pytest.mark.dist


def source_files(folder):
    """Name each file that a person wrote, so neither a folder nor what Python compiled, or is just compiling."""
    files = (path for path in (PROJECT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(PROJECT).as_posix() for path in files}


@pytest.fixture(scope="module")
def wheel():
    (path,) = (PROJECT / "dist").glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.fixture(scope="module")
def sdist():
    (path,) = (PROJECT / "dist").glob("*.tar.gz")
    with tarfile.open(path) as archive:
        yield {PurePosixPath(*PurePosixPath(name).parts[1:]).as_posix() for name in archive.getnames()}


@pytest.fixture(scope="module")
def metadata(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return email.message_from_string(wheel.read(name).decode())


def test_wheel_is_the_package(wheel):
    """Beside its metadata the wheel holds each file of the package, so modules, templates, words and the marker of types."""
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert shipped == source_files("payclient")
    assert {PurePosixPath(name).suffix for name in shipped} == {".py", ".typed", ".toml", ".j2", ".css", ".js"}


def test_sdist_is_whole(sdist):
    """From the sdist one can build, test and document the project with the locked versions."""
    needed = {"pyproject.toml", "uv.lock", "noxfile.py", "README.md", "LICENSE", "docs/conf.py", "payclient/py.typed"}
    assert (needed | source_files("payclient") | source_files("tests")) - sdist == set()


def test_sdist_is_clean(sdist):
    """Nothing that a tool made goes into the sdist."""
    made = {"__pycache__", "_build", ".nox", ".pytest_cache"}
    assert [name for name in sdist if made & set(PurePosixPath(name).parts)] == []


def test_build_is_reproducible(tmp_path):
    """The sdist gives the same wheel again, and the sources the same sdist, byte for byte."""
    subprocess.run(["uv", "build", "--quiet", f"--out-dir={tmp_path}"], cwd=PROJECT, check=True)
    built = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.suffix in (".whl", ".gz")}
    assert built == {name: (PROJECT / "dist" / name).read_bytes() for name in built}
    assert len(built) == 2


def test_license_is_shipped(wheel):
    """The wheel carries the text of its licence."""
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel.namelist())


def test_bill_of_materials_is_shipped(wheel):
    """The wheel carries its bill of materials where PEP 770 says."""
    (name,) = (name for name in wheel.namelist() if ".dist-info/sboms/" in name)
    assert PurePosixPath(name).name == FILE.name
    assert wheel.read(name) == FILE.read_bytes()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("Name", DECLARED["name"]),
        ("Version", DECLARED["version"]),
        ("Summary", DECLARED["description"]),
        ("Requires-Python", DECLARED["requires-python"]),
        ("License-Expression", "MIT"),
        ("Description-Content-Type", "text/markdown"),
    ],
)
def test_metadata(metadata, field, value):
    """The package index shows what the project declares."""
    assert metadata[field] == value


def test_front_page(metadata):
    """The front page on the package index is the README."""
    assert metadata.get_payload().strip() == (PROJECT / "README.md").read_text(encoding="utf-8").strip()


def test_extras(metadata):
    """Every extra is declared in the wheel."""
    assert set(metadata.get_all("Provides-Extra")) == set(DECLARED["optional-dependencies"])


@pytest.mark.parametrize("age", ["oldest", "newest"])
def test_readme_test(age, tmp_path):
    """*Test your application* of the README runs after the README's own install, without any warning."""
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    extras = re.search(r"pip install '\.(\[.+\])'", text)[1]
    section = re.search(r"^## Test your application\n(.+?)^## ", text, re.MULTILINE | re.DOTALL)[1]
    for name, language in {"pyproject.toml": "toml", "test_it.py": "python"}.items():
        (tmp_path / name).write_text(re.search(rf"```{language}\n(.+?)```", section, re.DOTALL)[1], encoding="utf-8")
    (path,) = (PROJECT / "dist").glob("*.whl")
    (asyncio,) = (each for each in DECLARED["optional-dependencies"]["testing"] if each.startswith("pytest-asyncio"))
    asyncio = asyncio.replace(">=", "==") if age == "oldest" else asyncio
    alone = ["uv", "run", "--quiet", "--isolated", "--no-project", f"--with=payclient{extras} @ {path.as_uri()}"]
    tested = [*alone, f"--with={asyncio}", "python", "-W", "error", "-m", "pytest"]
    done = subprocess.run(tested, cwd=tmp_path, capture_output=True, check=False, text=True, timeout=500)
    assert (done.returncode, "warning" in done.stdout, "1 passed" in done.stdout) == (0, False, True), done

# /// script
# requires-python = ">=3.11"
# dependencies = ["nox[uv]>=2025.10.16,<2027", "uv>=0.11,<0.14"]
# ///
"""
The task runner. It needs only Python 3.11 and pip, and installs the rest into `.nox/`.

    python3 noxfile.py -s demo       # see it work
    python3 noxfile.py -s tests      # the whole suite; what follows `--` goes to pytest
    python3 noxfile.py --list        # everything else
    uv run noxfile.py -s tests       # the same, where uv is at hand

Every session installs the versions that `uv.lock` names and a freshly built wheel of the project, so
what is tested is what is shipped. `PAYCLIENT_WHEEL=path` names a wheel that was built before.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  checked here, because the next lines fail on older versions
    sys.exit(f"payclient needs Python 3.11 or newer, this is {sys.version.split()[0]}")

try:
    import signal
except KeyboardInterrupt:
    sys.exit(130)


def end_quietly(*_: object) -> None:
    """Answer Ctrl-C with one line and 130, also while modules are imported."""
    sys.stderr.write("noxfile.py: interrupted\n")
    raise SystemExit(130)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, end_quietly)

import os
import re
import shutil
import subprocess
import sysconfig
import tomllib
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
BOOT = HERE / ".nox" / f"boot-{sys.version_info.major}.{sys.version_info.minor}"


def runner() -> Path:
    """Return a Python that has nox and uv: this one, or a private one that the first call makes."""
    if find_spec("nox") and find_spec("uv"):
        return Path(sys.executable)
    python = BOOT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    tools = declared_tools()
    stamp = BOOT / "tools.txt"
    if not (python.exists() and stamp.exists() and stamp.read_text() == "\n".join(tools)):
        sys.stderr.write(f"installing {', '.join(tools)} into {BOOT}\n")
        make_environment(python, tools)
        stamp.write_text("\n".join(tools))  # last, so that an interrupted installation is restarted
    return python


def declared_tools() -> list[str]:
    """Return the requirements in the first lines of this file, where uv and nox read them too."""
    header = re.search(r"(?ms)^# /// script$(.*?)^# ///$", Path(__file__).read_text(encoding="utf-8"))
    return tomllib.loads(header[1].replace("\n# ", "\n"))["dependencies"]


def make_environment(python: Path, tools: list[str]) -> None:
    """Install *tools* into a new environment: by our pip, because some distributions ship none for environments."""
    has_pip = find_spec("pip") is not None
    venv = [sys.executable, "-m", "venv", "--clear", *(["--without-pip"] if has_pip else [])]
    pip = [sys.executable, "-m", "pip", "--python", python] if has_pip else [python, "-m", "pip"]
    subprocess.run([*venv, BOOT], check=True)
    subprocess.run([*pip, "--disable-pip-version-check", "install", "--quiet", *tools], check=True)


NOX = """
import signal, sys
try:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    from nox.__main__ import main
    main()
except KeyboardInterrupt:
    sys.exit(130)
"""


def run_nox(python: Path) -> int:
    """Run nox, which ends its sessions in order when it is interrupted, and wait for that."""
    signal.signal(signal.SIGINT, lambda *_: None)
    if hasattr(signal, "pthread_sigmask"):  # Ctrl-C has to wait until the new Python can answer it
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    status = subprocess.run([python, "-c", NOX, "-f", __file__, *sys.argv[1:]], check=False).returncode
    if status == 130:
        sys.stderr.write("noxfile.py: interrupted\n")
    return status


if __name__ == "__main__":
    raise SystemExit(run_nox(runner()))

import nox
from uv import find_uv_bin

nox.needs_version = ">=2025.10.16"
nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = False  # nox makes it an error where CI is set
nox.options.reuse_venv = "yes"
nox.options.sessions = ["tests"]

HEAVY = ("ray", "spark")  # hundreds of megabytes each: installed by one session only
DECLARED = nox.project.load_toml(HERE / "pyproject.toml")["project"]["optional-dependencies"]
WORKERS = str((os.cpu_count() or 1) + 1)  # some tests wait in real time
EXTRAS = tuple(name for name in DECLARED if name not in HEAVY)
WHERE = "import payclient, sys; f = payclient.__file__; print(f); sys.exit(not f.startswith(sys.prefix))"
WITHOUT_GIL = ("--no-install-package=duckdb",)  # which has no wheel, and is large to compile
IS_FUZZABLE = "import importlib.util as util; print('yes' if util.find_spec('atheris') else '', end='')"


def install(session: nox.Session, *groups: str, extras: tuple[str, ...] = EXTRAS) -> None:
    """Install the wheel with its extras, and the groups, exactly as locked."""
    session.env["PYTHONSAFEPATH"] = "1"  # else `python -m` finds the working tree before the wheel
    where = session.virtualenv.location
    # Compiled once, and outside of the working tree: the suite starts hundreds of processes.
    session.env.update(PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=str(Path(where, "pycache").resolve()))
    wheel = os.environ.get("PAYCLIENT_WHEEL")
    project = ["--no-install-project"] if wheel else ["--no-editable", "--reinstall-package=payclient"]
    session.run_install(
        *("uv", "sync", "--quiet", "--locked", "--no-default-groups", *project),
        *(f"--group={group}" for group in groups),
        *(f"--extra={extra}" for extra in extras),
        *(() if has_gil(session) else WITHOUT_GIL),
        env={"UV_PROJECT_ENVIRONMENT": where, "UV_PYTHON": where},
        external=True,
    )
    if wheel:
        session.install("--no-deps", "--reinstall", wheel)
    session.run("python", "-c", WHERE, silent=True)


def has_gil(session: nox.Session) -> bool:
    if isinstance(session.python, str):
        return not session.python.endswith("t")
    return not sysconfig.get_config_var("Py_GIL_DISABLED")


def in_memory() -> dict[str, str]:
    """Return the setting that puts temporary files in memory, where fsync takes no time; only Linux has the folder."""
    folder = "/dev/shm"  # noqa: S108
    if "TMPDIR" in os.environ or not os.access(folder, os.W_OK):
        return {}
    free = os.statvfs(folder)
    is_roomy = free.f_bavail * free.f_frsize >= 2**30  # the suite takes some 10 MB; a container may have only 64
    return {"TMPDIR": folder} if is_roomy and not free.f_flag & os.ST_NOEXEC else {}


@nox.session
def tests(session: nox.Session) -> None:
    """Run the suite on this interpreter, without the slow tests; `-- -m slow` runs those."""
    install(session, "test")
    keep_none = ("-o", "tmp_path_retention_policy=failed")
    session.run("pytest", "-n", WORKERS, "--dist=worksteal", *keep_none, *session.posargs, env=in_memory())


@nox.session(python=["3.11", "3.12", "3.13", "3.14", "3.14t"], default=False)
def matrix(session: nox.Session) -> None:
    """Run the whole suite on every supported interpreter that is present."""
    install(session, "test")
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session(python="3.11.2", default=False)
def oldest(session: nox.Session) -> None:
    """Run the suite on the oldest patch release that a distribution ships, Debian 12's; skipped where it is missing."""
    install(session, "test")
    session.run("pytest", "-n", WORKERS, "--dist=worksteal", *session.posargs, env=in_memory())


@nox.session(default=False)
def coverage(session: nox.Session) -> None:
    """Run the whole suite and refuse less coverage of lines and branches than pyproject.toml asks for."""
    install(session, "test")
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", *session.posargs)
    session.run("coverage", "combine", "--quiet")
    session.run("coverage", "report")


@nox.session(default=False)
def demo(session: nox.Session) -> None:
    """Reconcile a ledger of 10,000 rows with a service that limits the rate and injects faults."""
    install(session, extras=("cli", "testing"))
    session.run("payclient", "demo", *session.posargs)


@nox.session(default=False)
def lint(session: nox.Session) -> None:
    """Check style, layers, sizes, dependencies, dead code, spelling and workflows."""
    install(session, "lint", "test")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports", "--no-logo", "--no-cache")
    session.run("python", "-m", "layout.sizes", env={"PYTHONPATH": str(HERE / "tests")})
    session.run("deptry", "payclient")
    session.run("vulture")
    session.run("codespell")
    session.run("zizmor", "--offline", "--quiet", "--persona=pedantic", ".github")


@nox.session(default=False)
def types(session: nox.Session) -> None:
    """Check every type, and that the installed package is typed completely."""
    install(session, "types")
    session.run("mypy")
    session.run("basedpyright", "--level", "error")
    with session.chdir(session.create_tmp()):  # elsewhere, so that the wheel is checked and not the tree
        session.run("basedpyright", "--verifytypes", "payclient", "--ignoreexternal")


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the documentation with warnings as errors; its examples run with the suite."""
    install(session, "docs")
    session.run("sphinx-build", "-W", "-n", "-q", "docs", "docs/_build/html")


@nox.session(default=False)
def uvloop(session: nox.Session) -> None:
    """Run the asynchronous tests of the client on uvloop, those of virtual time included."""
    install(session, "test")
    folders = [f"tests/{name}" for name in ("client", "transports", "faults", "testing", "protocol")]
    paths = [*sorted(map(str, Path("tests").glob("test_*.py"))), *folders]
    session.run("pytest", "-n", "auto", "--loop=uvloop", "-m", "asyncio and not slow", *paths, *session.posargs)


@nox.session(default=False)
def faults(session: nox.Session) -> None:
    """Inject every fault of the tables for real, one line per row; `-- --full` adds 10,000 cancelled lookups."""
    install(session, "test")
    session.run(
        "pytest", "-p", "no:randomly", "-n", "auto", "-q", "-m", "slow or not slow", "tests/faults", *session.posargs
    )


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Run the benchmarks; their names follow `--`."""
    install(session, "peers")
    session.run("python", "-m", "bench", *session.posargs, env={"PYTHONPATH": str(HERE / "tests")})


@nox.session(default=False)
def conformance(session: nox.Session) -> None:
    """Compare HTTP clients that get stray answers; names of clients follow `--`."""
    install(session, "peers")
    session.run("python", "-m", "conformance", *session.posargs, env={"PYTHONPATH": str(HERE / "tests")})


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Compare two parsers of heads, and fuzz bodies for ten minutes, or for the number of seconds after `--`."""
    install(session, "fuzz")
    session.run("python", "-m", "fuzz.documented", env={"PYTHONPATH": str(HERE / "tests")})
    session.run("python", "-m", "fuzz.heads", env={"PYTHONPATH": str(HERE / "tests")})
    if not session.run("python", "-c", IS_FUZZABLE, silent=True):
        session.skip("the fuzzer, atheris, is for Linux and Python before 3.14")
    session.run("python", "-m", "fuzz", *session.posargs, env={"PYTHONPATH": str(HERE / "tests")})


@nox.session(default=False)
def soak(session: nox.Session) -> None:
    """Run lookups for 15 minutes, or for the number of seconds after `--`, while the service fails at random."""
    install(session, "test")
    session.run("python", "-m", "soak", *session.posargs, env={"PYTHONPATH": str(HERE / "tests")})


@nox.session(default=False)
def killloop(session: nox.Session) -> None:
    """Kill reconciliations 200 times, or the number after `--`, resume them, and compare every byte."""
    install(session, "test")
    session.run("python", "-m", "killloop", *session.posargs, env={"PYTHONPATH": str(HERE / "tests")})


@nox.session(default=False)
def simulate(session: nox.Session) -> None:
    """Run the client in a simulated world, with 200 seeds; `-- --controls` finds out what the oracles can see."""
    install(session, "test")
    session.run("python", "-m", "simulation", *session.posargs, env={"PYTHONPATH": str(HERE / "tests")})


@nox.session(default=False)
def laws(session: nox.Session) -> None:
    """Run the property tests with ten times as many examples, different in each run."""
    install(session, "test")
    session.run("pytest", "-n", "auto", "-m", "hypothesis", "--hypothesis-profile=thorough", *session.posargs)


@nox.session(default=False)
def canary(session: nox.Session) -> None:
    """Run the suite, keep all its output and files, and search them for the API key."""
    install(session, "test")
    kept = Path(session.create_tmp())
    loud = ("-rA", "-o", "log_level=DEBUG", "--showlocals", f"--basetemp={kept / 'files'}")
    with (kept / "output.txt").open("w") as output:
        # 1: some failed, as does an example of logging when everything is logged; that is for `tests` to judge.
        session.run("pytest", "-n", "auto", *loud, *session.posargs, stdout=output, success_codes=[0, 1])
    session.run("python", "-m", "canary", kept, env={"PYTHONPATH": str(HERE / "tests")})


@nox.session(default=False)
def mutate(session: nox.Session) -> None:
    """Change one small thing in the core at a time and check that a test fails; names of modules follow `--`."""
    install(session, "mutate")
    copy = Path(session.create_tmp()).resolve() / "copy"  # so that no mutant ever stands in the working tree
    shutil.rmtree(copy, ignore_errors=True)  # mutmut would keep the results of the previous run
    for name in ("payclient", "tests"):
        shutil.copytree(HERE / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "pyproject.toml", copy)
    with session.chdir(copy):
        path = os.pathsep.join([str(copy), str(copy / "tests")])
        session.run("python", "-m", "mutation", *session.posargs, env={"PYTHONPATH": path})


@nox.session(default=False)
def lowest(session: nox.Session) -> None:
    """Run the suite with the oldest direct dependencies that pyproject.toml allows."""
    session.env["PYTHONSAFEPATH"] = "1"
    lower = ("--resolution=lowest-direct", "--reinstall-package=payclient", "--group=test")
    session.install(*lower, f".[{','.join(EXTRAS)}]")
    session.run("python", "-c", WHERE, silent=True)
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session(default=False)
def httpx2(session: nox.Session) -> None:
    """Run the suite with httpx2, the maintained fork, imported as httpx."""
    install(session, "test")
    session.run(
        "pytest", "-n", "auto", "-p", "support.alias_httpx2", *session.posargs, env={"PYTHONPATH": str(HERE / "tests")}
    )


@nox.session(default=False)
def dist(session: nox.Session) -> None:
    """Build the sdist, and the wheel from it; check both, and the wheel alone in a bare environment."""
    install(session, "test")
    session.run("uv", "build", "--quiet", "--clear", "--out-dir=dist", external=True)
    # The tests start uv themselves; it may be in no folder of the system, but next to nox.
    path = os.pathsep.join((str(Path(find_uv_bin()).parent), os.environ["PATH"]))
    session.run("pytest", "-q", "-m", "dist", "tests/dist", *session.posargs, env={"PATH": path})
    (wheel,) = (HERE / "dist").glob("*.whl")
    alone = ("uv", "run", "--quiet", "--isolated", "--no-project", f"--python={session.virtualenv.location}")
    session.run(*alone, "--with", wheel, "python", "-c", "from payclient import *", external=True)


@nox.session(default=False, venv_backend="none")
def sbom(session: nox.Session) -> None:
    """Write the bill of materials of the wheel, when the version or a dependency has changed."""
    session.run(sys.executable, "tests/support/bill_of_materials.py")


@nox.session(default=False)
def browser(session: nox.Session) -> None:
    """Check the built pages in Chromium; `-- -k picture --screenshots docs/_static` takes the pictures again."""
    install(session, "browser")
    session.run("pytest", "-m", "browser", "tests/browser", *session.posargs)


@nox.session(default=False)
def network(session: nox.Session) -> None:
    """Look up through a real proxy, and at a real nginx that demands client certificates; skipped without them."""
    install(session, "test")
    session.run("pytest", "-m", "network", "tests/network", *session.posargs)


@nox.session(default=False)
def postgres(session: nox.Session) -> None:
    """Run the page about PostgreSQL with a real one; skipped without it."""
    install(session, "test")
    session.run("pytest", "-m", "postgres", "tests/postgres", *session.posargs)


@nox.session(default=False)
def fronts(session: nox.Session) -> None:
    """Play visitors before real nginx and HAProxy; skipped without them."""
    if missing := [name for name in ("nginx", "haproxy") if shutil.which(name) is None]:
        session.skip(f"{' and '.join(missing)} not found")
    install(session, "test")
    session.run("python", "-m", "fronts", *session.posargs, env={"PYTHONPATH": str(HERE / "tests")})


@nox.session(default=False)
def programs(session: nox.Session) -> None:
    """Read the ledgers that pandas, DuckDB, spreadsheet libraries and PostgreSQL write."""
    install(session, "programs")
    session.run("pytest", "-m", "programs", "tests/programs", *session.posargs)


@nox.session(default=False)
def airflow(session: nox.Session) -> None:
    """Run the DAG of the page about nightly jobs in a real Airflow, whose dependencies are not those of `uv.lock`."""
    tools = ("pytest>=9", "pytest-asyncio", "pytest-randomly", "pytest-timeout", "pytest-xdist", "hypothesis")
    session.install("apache-airflow>=3.1,<4", *tools, ".[cli]")
    home = {"AIRFLOW_HOME": str(Path(session.create_tmp()).resolve()), "PYTHONSAFEPATH": "1"}
    # Airflow itself warns of what it will remove.
    session.run("pytest", "-m", "airflow", "-W", "default", "tests/airflow", *session.posargs, env=home)


@nox.session(default=False)
def recipes(session: nox.Session) -> None:
    """Run the recipes for Django, Litestar, taskiq, Celery, notebooks and trio, and web applications under uvicorn."""
    install(session, "recipes")
    session.run("pytest", "-m", "recipes", "tests/recipes", *session.posargs)


@nox.session(default=False)
def spark(session: nox.Session) -> None:
    """Look up and reconcile in a real Spark, and kill parts of it; needs Java 17."""
    install(session, "connect", extras=(*EXTRAS, "spark"))
    session.run("pytest", "-m", "spark", "tests/engines/spark", *session.posargs)


@nox.session(default=False)
def ray(session: nox.Session) -> None:
    """Look up in a real Ray, and kill parts of it."""
    install(session, "test", extras=(*EXTRAS, "ray"))
    session.run("pytest", "-m", "ray", "tests/engines/ray", *session.posargs)

"""Run tests on another Python and other dependencies: ``python .ci/pythons.py oldest|newest``.

The versions are those of ``pyproject.toml``: the oldest Python has the lowest bound of each
dependency, and the newest one what the index has by now. The environment is made by
``bootstrap.py``, within that of the gate, which lends it PySpark: 450 MB that are written in Python
alone. Where the machine has no such Python, a line says so, and that is no failure: the oldest
dependencies are then tried on the Python of the gate.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"

#: Written in Python alone: any version can import them from where they are.
_LENT = ("pyspark*", "py4j*", "delta", "delta_spark*")

#: What versions of Python do differently is threads, coroutines, types and texts: tests of these,
#: and each law of a queue once. Every module is imported on the way. Hostile tables, damaged files
#: and searches by random would meet the same lines again, for the same time as all of these.
TESTS = (
    *(f"tests/unit/{room}" for room in ("cli", "front", "inprocess", "journal", "processing")),
    *(f"tests/unit/{room}" for room in ("rules", "streaming", "testing", "waiting")),
    # What releases of Arrow, deltalake, DuckDB, Starlette and clients of metrics do differently.
    *(f"tests/unit/{room}" for room in ("metrics", "serve")),
    "tests/unit/delta/test_native.py",
    *(
        f"tests/unit/local/test_{name}.py"
        for name in ("featured_outputs", "frames_of_others", "process", "table_properties")
    ),
    *sorted(str(file.relative_to(ROOT)) for file in ROOT.glob("tests/unit/test_*.py")),
    "tests/conformance",
    *(f"spark_queue/{room}" for room in ("memory", "testing")),
)


def main(argv: list[str]) -> int:
    """Run the tests, and return the exit code of pytest."""
    if argv not in (["oldest"], ["newest"]):
        print("usage: pythons.py oldest|newest", file=sys.stderr)
        return 2
    versions, is_oldest = supported(), argv == ["oldest"]
    version = versions[0 if is_oldest else -1]
    is_own = version == ".".join(map(str, sys.version_info[:2]))
    if is_own and not is_oldest:
        print(f"skipped on Python {version}: it runs the other tests already")
        return 0
    python = sys.executable if is_own else found(version)
    if python is None:
        print(f"skipped on Python {version}: there is no python{version} on this machine")
        if not is_oldest:
            return 0
    return _tested(python or sys.executable, argv[0], lowest() if is_oldest else "")


def lowest() -> str:
    """Return the lowest bound of each dependency, as constraints of pip."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    listed = text.partition("\ndependencies = [")[2].partition("\n[project.scripts]")[0]
    bounds = re.findall(r'"([\w-]+)(?:\[\w+\])?>=([\w.]+)', listed)
    return "".join(f"{name}=={bound}\n" for name, bound in bounds)


def supported() -> list[str]:
    """Return the versions that ``pyproject.toml`` names, the oldest first."""
    return re.findall(r'Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text("utf-8"))


def found(version: str) -> str | None:
    """Return an interpreter of a version: of the PATH, or of those that pyenv has."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    on_path = shutil.which(f"python{version}")
    others = sorted(pyenv.glob(f"{version}.*/bin/python{version}"))
    return next(filter(_runs, [*([on_path] if on_path else []), *map(str, others)]), None)


def _runs(python: str) -> bool:
    # One of pyenv's is on the PATH for each version, and starts only the chosen one.
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def _tested(python: str, which: str, constraints: str) -> int:
    place, kept = VENV / which, VENV / f"{which}.txt"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(constraints, "utf-8")
    env = {
        **os.environ,
        "PIP_CONSTRAINT": str(kept),
        "UV_CONSTRAINT": str(kept),
        "SPARK_QUEUE_VENV": str(place),
        "SPARK_QUEUE_EXTRA": "test",
        "PYTHONPATH": str(_lent(VENV / f"lent-{which}")),
    }
    options = (
        "--quiet",
        "-m",
        "not spark and not thorough and not histories",
        "-p",
        "no:cacheprovider",
        # What a release of old uses of a newer one is no matter of ours.
        *(("-W", "ignore::DeprecationWarning") if constraints else ()),
    )
    command = [python, str(ROOT / ".ci" / "bootstrap.py"), "python", "-m", "pytest"]
    return subprocess.run([*command, *options, *TESTS], cwd=ROOT, env=env, check=False).returncode


def _lent(place: Path) -> Path:
    """Make a folder in which the gate's PySpark is, and nothing else of the gate's."""
    packages = Path(sysconfig.get_path("purelib"))
    place.mkdir(parents=True, exist_ok=True)
    for pattern in _LENT:
        for package in packages.glob(pattern):
            link = place / package.name
            link.unlink(missing_ok=True)
            link.symlink_to(package)
    return place


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

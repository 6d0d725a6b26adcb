"""Run the tests of the rules on another Python: ``python .ci/pythons.py oldest|newest``.

The versions are those of ``pyproject.toml``. The environment is made by ``bootstrap.py``, within
that of the gate, which lends it PySpark: 450 MB that are written in Python alone. Where the machine
has no such Python, the last line says so, and that is no failure.
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
    *sorted(str(file.relative_to(ROOT)) for file in ROOT.glob("tests/unit/test_*.py")),
    "tests/conformance",
    *(f"spark_queue/{room}" for room in ("memory", "testing")),
)


def main(argv: list[str]) -> int:
    """Run the tests, and return the exit code of pytest."""
    if argv not in (["oldest"], ["newest"]):
        print("usage: pythons.py oldest|newest", file=sys.stderr)
        return 2
    versions = supported()
    version = versions[0 if argv == ["oldest"] else -1]
    if version == ".".join(map(str, sys.version_info[:2])):
        print(f"skipped on Python {version}: it runs the other tests already")
        return 0
    python = found(version)
    if python is None:
        print(f"skipped on Python {version}: there is no python{version} on this machine")
        return 0
    return _tested(python, version)


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


def _tested(python: str, version: str) -> int:
    place = VENV / f"python{version}"
    env = {
        **os.environ,
        "SPARK_QUEUE_VENV": str(place),
        "SPARK_QUEUE_EXTRA": "test",
        "PYTHONPATH": str(_lent(VENV / f"lent-{version}")),
    }
    options = (
        "--quiet",
        "-m",
        "not spark and not thorough and not histories",
        "-p",
        "no:cacheprovider",
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

"""Set up a fresh clone, then run a command in it: ``python3 .ci/bootstrap.py COMMAND [ARG ...]``.

Needs Python 3.10 or newer and Java 17 or 21, and nothing else. The package and its development
tools are installed into ``.venv``, again whenever ``pyproject.toml`` changes. The command runs with
``.venv`` first on its PATH; ``check`` is short for ``python .ci/check.py``. Its exit code is passed
through; 2 means that the machine lacks something, and one line says what.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "installed.sha256"

MIN_PYTHON = (3, 10)


def main(argv: list[str]) -> int:
    """Run a command in an environment that is up to date."""
    problem = _problem(argv)
    if problem is not None:
        print(problem, file=sys.stderr)
        return 2
    if not _is_current() and not _install():
        return 2
    if argv == ["check"]:
        argv = ["python", str(ROOT / ".ci" / "check.py")]
    return _run(argv)


def _problem(argv: list[str]) -> str | None:
    if not argv:
        return "usage: python3 .ci/bootstrap.py COMMAND [ARG ...]"
    if sys.version_info < MIN_PYTHON:
        wanted = ".".join(str(part) for part in MIN_PYTHON)
        return f"Python {wanted} or newer is needed, this is {sys.version.split()[0]}: install it"
    sys.path.insert(0, str(ROOT))
    from spark_queue.java import java_problem  # noqa: PLC0415 - it is read by no older Python

    return java_problem()


def _python() -> Path:
    return VENV / ("Scripts" if os.name == "nt" else "bin") / "python"


def _fingerprint() -> str:
    project = (ROOT / "pyproject.toml").read_bytes()
    return hashlib.sha256(project + sys.version.encode() + str(ROOT).encode()).hexdigest()


def _is_current() -> bool:
    try:
        return STAMP.read_text() == _fingerprint() and _python().exists()
    except OSError:
        return False


def _install() -> bool:
    """Make the environment; what it prints is shown only if it fails."""
    print("setting up .venv (a few minutes the first time)", file=sys.stderr)
    steps = [
        [sys.executable, "-m", "venv", "--clear", str(VENV)],
        [str(_python()), "-m", "pip", "install", "--quiet", "-e", f"{ROOT}[dev]"],
    ]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(done.stdout + done.stderr, file=sys.stderr)
            print(f"set-up failed: {' '.join(step)}; {_advice(step)}", file=sys.stderr)
            return False
    STAMP.write_text(_fingerprint())
    return True


def _advice(step: list[str]) -> str:
    if "venv" in step:
        return "install the venv module (Debian, Ubuntu: apt install python3-venv)"
    return "is the package index reachable?"


def _run(argv: list[str]) -> int:
    path = os.pathsep.join([str(_python().parent), os.environ.get("PATH", "")])
    env = {**os.environ, "PATH": path, "VIRTUAL_ENV": str(VENV), "PYSPARK_PYTHON": str(_python())}
    # A path, a Spark or a site of the caller's own would be mixed with what is installed here.
    for name in ("PYTHONHOME", "SPARK_HOME", "PYSPARK_DRIVER_PYTHON"):
        env.pop(name, None)
    os.environ["PATH"] = path
    try:
        # In place of this process, so that signals reach the command and nobody else.
        os.execvpe(argv[0], argv, env)  # noqa: S606 - the caller's own command
    except FileNotFoundError:
        print(f"there is no command {argv[0]!r}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

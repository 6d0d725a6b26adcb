"""Set up a fresh clone, then run a command in it: ``python3 .ci/bootstrap.py COMMAND [ARG ...]``.

``check`` runs the checks of the project: see ``check --help``. Any other command, such as
``pytest`` or ``spark-queue``, is one of the environment. ``--help`` shows this text, and installs
nothing.

Needs Python 3.10 or newer and Java 17 or 21, and nothing else. The package and what the command
needs are installed into ``.venv``, by uv where it is on the PATH, again whenever ``pyproject.toml``
changes: Spark for ``spark-queue`` and ``spark-submit``, the development tools as well for any other
command. ``SPARK_QUEUE_VENV`` and ``SPARK_QUEUE_EXTRA`` name another environment, and another extra.
The command runs with ``.venv`` first on its PATH. Its exit code is passed through; 2 means that the
machine lacks something, and one line says what.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = Path(os.environ.get("SPARK_QUEUE_VENV") or ROOT / ".venv")
STAMP = VENV / "installed.sha256"

MIN_PYTHON = (3, 10)

#: The extra of the package that a command needs; that of a developer has all others.
EXTRAS = {"spark-queue": "spark", "spark-submit": "spark"}
DEVELOPER = "dev"

_CHECK = str(ROOT / ".ci" / "check.py")

#: Options of ``check`` that are answered before anything is installed.
_ANSWERED = {"-h", "--help", "--list"}

#: PySpark comes as source, and its jars are compressed: packing them anew makes them no smaller.
SETTINGS = {"DIST_EXTRA_CONFIG": str(ROOT / ".ci" / "build.cfg")}


def main(argv: list[str]) -> int:
    """Run a command in an environment that is up to date."""
    if argv[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    if argv[:1] == ["check"] and {*argv} & _ANSWERED:
        return subprocess.run([sys.executable, _CHECK, *argv[1:]], check=False).returncode
    problem = _problem(argv)
    if problem is not None:
        print(problem, file=sys.stderr)
        return 2
    extra = os.environ.get("SPARK_QUEUE_EXTRA") or EXTRAS.get(argv[0], DEVELOPER)
    if not _has(extra) and not _install(extra):
        return 2
    if argv[0] == "check":
        argv = ["python", _CHECK, *argv[1:]]
    return _run(argv)


def _problem(argv: list[str]) -> str | None:
    if not argv:
        return "usage: python3 .ci/bootstrap.py COMMAND [ARG ...]"
    if sys.version_info < MIN_PYTHON:
        wanted = ".".join(str(part) for part in MIN_PYTHON)
        return f"Python {wanted} or newer is needed, this is {sys.version.split()[0]}: install it"
    sys.path.insert(0, str(ROOT))
    from spark_queue.extras import java_problem  # noqa: PLC0415 - it is read by no older Python

    return java_problem()


def _python() -> Path:
    return VENV / ("Scripts" if os.name == "nt" else "bin") / "python"


def _fingerprint() -> str:
    project = (ROOT / "pyproject.toml").read_bytes()
    return hashlib.sha256(project + sys.version.encode() + str(ROOT).encode()).hexdigest()


def _installed() -> str | None:
    """Return the extra that ``.venv`` was made with, ``None`` where it is missing or of old."""
    try:
        fingerprint, extra = STAMP.read_text().split()
    except (OSError, ValueError):
        return None
    return extra if fingerprint == _fingerprint() and _python().exists() else None


def _has(extra: str) -> bool:
    return _installed() in (extra, DEVELOPER)


def _install(extra: str) -> bool:
    """Make the environment, or add to it; what is printed is shown only if it fails."""
    print(f"setting up {VENV.name} (a minute or more the first time)", file=sys.stderr)
    # Kept where it only lacks the tools of a developer.
    fresh = [] if _installed() else ["--clear"]
    uv = shutil.which("uv")
    if uv is not None and _succeeds(_steps_of_uv(uv, extra, fresh), is_last=False):
        return _stamped(extra)
    # Where uv does not get through, pip may: it has settings of its own for indexes and proxies.
    return _succeeds(_steps_of_pip(extra, fresh), is_last=True) and _stamped(extra)


def _steps_of_uv(uv: str, extra: str, fresh: list[str]) -> list[list[str]]:
    compiling = ["--compile-bytecode"] if _must_compile() else []
    return [
        [sys.executable, "-m", "venv", "--without-pip", *fresh, str(VENV)],
        [uv, "pip", "install", "--quiet", *compiling, "--python", str(_python()), *_what(extra)],
    ]


def _steps_of_pip(extra: str, fresh: list[str]) -> list[list[str]]:
    compiling = [] if _must_compile() else ["--no-compile"]
    return [
        [sys.executable, "-m", "venv", *fresh, str(VENV)],
        [str(_python()), "-m", "pip", "install", "--quiet", *compiling, *_what(extra)],
    ]


def _what(extra: str) -> list[str]:
    return ["-e", f"{ROOT}[{extra}]"]


def _must_compile() -> bool:
    """Tell whether Python does not keep what it compiles as it imports."""
    return bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))


def _succeeds(steps: list[list[str]], *, is_last: bool) -> bool:
    for step in steps:
        env = {**SETTINGS, **os.environ}
        done = subprocess.run(step, capture_output=True, text=True, check=False, env=env)
        if done.returncode == 0:
            continue
        if is_last:
            print(done.stdout + done.stderr, file=sys.stderr)
            print(f"set-up failed: {' '.join(step)}; {_advice(step)}", file=sys.stderr)
        return False
    return True


def _stamped(extra: str) -> bool:
    STAMP.write_text(f"{_fingerprint()} {extra}")
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

"""Run README's commands and the guide without Spark where no Spark is: ``python .ci/alone.py``.

The package is built as a wheel and installed into an environment of its own. That borrows the
packages of this one, but for those that Spark needs: PySpark, Py4J, Delta's and pandas. There the
block of commands in README and ``docs/without-spark.md`` run as printed, each in an empty
directory, and the wheel has the files that ``spark-queue files`` writes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "without-spark.md"

#: Not lent: packages of the extra ``spark``, and this one, which is installed.
_KEPT = re.compile(r"(pyspark|py4j|delta|delta_spark|pandas|spark_queue)\b|_editable|__editable__")

#: Commands of README that install the package, and those of a clone.
_NOT_RUN = ("pip install ", "python3 .ci/")

#: Plays the guide's examples, in the directory that it starts in.
_PLAY = """
import doctest, importlib.util, sys
assert all(importlib.util.find_spec(name) is None for name in ("pyspark", "pandas"))
flags = doctest.ELLIPSIS
failed, played = doctest.testfile(sys.argv[1], module_relative=False, optionflags=flags)
print(f"{played} examples played, {failed} failed")
sys.exit(1 if failed or not played else 0)
"""


def main() -> int:
    """Run them in a new environment, and return the exit code of the first that failed."""
    with tempfile.TemporaryDirectory(prefix="alone-") as place:
        python = _made(Path(place, "env"))
        for name, command in _commands(python, Path(place)):
            here = Path(place, name)
            here.mkdir()
            done = subprocess.run(
                command,
                cwd=here,
                env=_environment(python),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                print(done.stdout + done.stderr)
                print(f"{name}: exit code {done.returncode}")
                return done.returncode
            print(f"{name}: ok")
    return 0


def _made(place: Path) -> Path:
    """Make the environment, and return its interpreter."""
    venv.create(place, with_pip=True)
    python, wheels = place / "bin" / "python", place / "wheels"
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)], check=True)
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", str(wheel)], check=True)
    _lend(next(place.glob("lib/python*/site-packages")))
    return python


def _lend(site: Path) -> None:
    """Link what is installed here into another environment."""
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not _KEPT.match(package.name) and not (site / package.name).exists():
            (site / package.name).symlink_to(package)


def _commands(python: Path, place: Path) -> Iterator[tuple[str, list[str]]]:
    yield "readme", ["bash", "-euxc", "\n".join(readme_commands())]
    script = place / "play.py"
    script.write_text(_PLAY)
    yield "guide", [str(python), str(script), str(GUIDE)]
    yield "files", [str(python), "-m", "spark_queue", "files", "."]


def readme_commands() -> list[str]:
    """Return the commands of README that use a queue, as printed."""
    blocks = re.findall(r"```console\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if not line.startswith(_NOT_RUN)]


def _environment(python: Path) -> dict[str, str]:
    """Return the environment of a user who has activated it, and has no Java."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "PATH": os.pathsep.join([str(python.parent), os.defpath]), "COLUMNS": "100"}


if __name__ == "__main__":
    sys.exit(main())

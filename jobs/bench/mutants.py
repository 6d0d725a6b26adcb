"""Break the code in known ways, one at a time, and see which tests notice.

Each fault of ``faults/*.txt`` is put into a copy of the tree, where the tests of its area run until
one fails. A fault that no test finds is a gap in the tests; one whose lines are no more in the code
is stale, and the tests of this job name it. Those that need Spark are left out unless asked for.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import typer

ROOT = Path(__file__).parents[2]

#: What a copy of the tree has: a test that reads what is not there would find every fault.
_PARTS = ("spark_queue", "tests", "jobs", "docs", "notebooks", "pyproject.toml", "README.md")

_MODELS = "tests/properties/test"

#: The tests of an area, by how its modules begin. What is quick comes first.
AREAS: dict[str, tuple[str, ...]] = {
    "rules/": (
        "tests/unit/rules",
        f"{_MODELS}_scheduler_order.py",
        f"{_MODELS}_scheduler_machine.py",
        "tests/conformance/test_laws.py",
        "tests/conformance/test_flow.py",
    ),
    "memory/broker/": ("tests/unit/inprocess/broker",),
    "memory/singular/": ("tests/unit/inprocess/singular",),
    "memory/journal/": ("tests/unit/journal", f"{_MODELS}_journal_machine.py"),
    **dict.fromkeys(
        (
            "columns/",
            "commands/",
            "log/",
            "spark/",
            "sql/",
            "state/",
            "stores/",
            "upkeep/",
            "views/",
        ),
        ("tests/unit/delta",),
    ),
    "front/": ("tests/unit/front",),
    "streaming/": ("tests/unit/streaming",),
    "processing/": ("tests/unit/processing",),
}

#: Where tests lie that need no Spark, and those of which some do, which are left out then.
_PLAIN, _SCENARIOS = ("tests/unit/", "tests/properties/"), "tests/conformance/"

Verdict = Literal["found", "survived", "stale", "broken"]


@dataclass(frozen=True, slots=True)
class Fault:
    """Lines of one module that stand there once, and what stands there instead."""

    where: str
    """The module below ``spark_queue``, without its suffix; or a text, with it."""
    says: str
    """What is wrong then."""
    old: str
    new: str
    tests: tuple[str, ...]
    """What pytest is given."""
    env: Mapping[str, str] = field(default_factory=dict)
    """What the environment of the tests has beside."""

    @property
    def name(self) -> str:
        """Where it is, and what is wrong then."""
        return f"{self.where}: {self.says}"

    @property
    def file(self) -> str:
        """Its file below ``spark_queue``."""
        return self.where if Path(self.where).suffix else f"{self.where}.py"

    @property
    def needs_jvm(self) -> bool:
        """Whether its tests start Spark: of a module of scenarios those that do are left out."""
        others = [test for test in self.tests if not test.startswith(_PLAIN)]
        # What is in an environment of scenarios is about a session, as is an engine that is named.
        are_modules = all(test.startswith(_SCENARIOS) and "::" not in test for test in others)
        return bool(others) and (bool(self.env) or not are_modules)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a fault."""

    fault: Fault
    verdict: Verdict
    by: str
    """The test that noticed, or what else there is to say."""
    seconds: float

    def __str__(self) -> str:
        return f"{self.verdict:8} {self.seconds:6.1f} s  {self.fault.name}  [{self.by}]"


def read(text: str) -> list[Fault]:
    """Read faults: a head ``@ module: what is wrong``, then lines as in a diff.

    Lines that begin with ``=`` name tests, instead of those of the module's area. A line
    ``! name=value`` above the first head is a variable in which the tests of all of them run.
    """
    above, *blocks = re.split(r"^@ ", text, flags=re.MULTILINE)
    env = dict(re.findall(r"^! (\w+)=(.*)$", above, re.MULTILINE))
    return [_fault(block, env) for block in blocks]


def kept_faults() -> list[Fault]:
    """Return all faults of ``faults/``."""
    files = sorted((Path(__file__).parent / "faults").glob("*.txt"))
    return [fault for file in files for fault in read(file.read_text())]


def _fault(block: str, env: Mapping[str, str]) -> Fault:
    head, *lines = block.rstrip("\n").split("\n")
    where, _, says = head.partition(": ")
    tests = tuple(line[2:] for line in lines if line.startswith("="))
    area = next((tests for area, tests in AREAS.items() if where.startswith(area)), ())
    return Fault(where, says, _side(lines, "-"), _side(lines, "+"), tests or area, env)


def _side(lines: Iterable[str], mark: str) -> str:
    return "".join(f"{line[1:]}\n" for line in lines if line[:1] in {"", " ", mark})


@contextmanager
def copied(root: Path) -> Iterator[Path]:
    """Copy the tree to where it may be broken."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        for part in _PARTS:
            source, copy = root / part, Path(place, part)
            if source.is_dir():
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy)
        yield Path(place)


def place_of(tree: Path, fault: Fault) -> int | None:
    """Return where the lines of a fault begin in their module, if they are there just once."""
    module = tree / "spark_queue" / fault.file
    text = module.read_text() if module.exists() else ""
    places = [
        found.start() for found in re.finditer(f"^{re.escape(fault.old)}", text, re.MULTILINE)
    ]
    return places[0] if len(places) == 1 and fault.old != fault.new else None


def broken_text(text: str, place: int, fault: Fault) -> str:
    """Return a module with a fault in it."""
    return text[:place] + fault.new + text[place + len(fault.old) :]


@contextmanager
def broken(copy: Path, fault: Fault) -> Iterator[bool]:
    """Put a fault into a tree for a while; false where its lines are not there, just once."""
    place, module = place_of(copy, fault), copy / "spark_queue" / fault.file
    if place is None:
        yield False
        return
    text = module.read_text()
    module.write_text(broken_text(text, place, fault))
    try:
        yield True
    finally:
        module.write_text(text)


def tried(copy: Path, fault: Fault, limit: float, marked: str = "") -> Outcome:
    """Run the tests of one fault until one fails, for so many seconds at most."""
    started = time.monotonic()
    with broken(copy, fault) as is_in:
        verdict, by = (
            _tested(copy, fault, limit, marked) if is_in else ("stale", "its lines are not there")
        )
    return Outcome(fault, verdict, by, time.monotonic() - started)


def fails_unbroken(
    copy: Path, faults: Iterable[Fault], limit: float, marked: str = ""
) -> Iterator[str]:
    """Yield the tests that fail, or do not end, where nothing is broken: they find every fault."""
    for fault in {(fault.tests, *fault.env.items()): fault for fault in faults}.values():
        verdict, by = _tested(copy, fault, limit, marked)
        if verdict != "survived":
            yield by


def _tested(copy: Path, fault: Fault, limit: float, marked: str) -> tuple[Verdict, str]:
    words = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider"]
    which = filter(None, (marked, "" if fault.needs_jvm else "not spark"))
    words += ["-p", "unshrunk", "--hypothesis-seed=0", "-m", " and ".join(which), *fault.tests]
    path = os.pathsep.join([str(copy), str(copy / "jobs" / "bench")])
    env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **fault.env}
    try:
        done = subprocess.run(  # noqa: S603 - pytest, with what the files of faults say
            words, cwd=copy, env=env, timeout=limit, capture_output=True, text=True, check=False
        )
    except subprocess.TimeoutExpired:
        return "found", "the tests did not end"
    if done.returncode == 0:
        return "survived", " ".join(fault.tests)
    failed = re.search(r"^(?:FAILED|ERROR) (.*)$", done.stdout, re.MULTILINE)
    # Anything but a failed test, such as a folder that is not there, tells nothing of the fault.
    if done.returncode != 1 or failed is None:
        return "broken", (done.stdout + done.stderr)[-300:].replace("\n", " ")
    return "found", failed[1].partition(" - ")[0]


def main(
    only: Annotated[str, typer.Option(help="Only faults with this text.")] = "",
    *,
    jvm: Annotated[bool, typer.Option(help="Those that need Spark, and no others.")] = False,
    limit: Annotated[float, typer.Option(help="Seconds for the tests of a fault.")] = 600.0,
    marked: Annotated[str, typer.Option(help="Which of the tests, as for pytest's -m.")] = "",
) -> None:
    """Break the code in known ways; end with 1 when a fault survived or could not be tried."""
    faults = [f for f in kept_faults() if f.needs_jvm == jvm and only in f.name]
    outcomes = []
    with copied(ROOT) as copy:
        for by in fails_unbroken(copy, faults, limit, marked):
            typer.echo(f"{by}: fails where nothing is broken")
            raise typer.Exit(1)
        for fault in faults:
            outcomes.append(tried(copy, fault, limit, marked))
            typer.echo(str(outcomes[-1]))
    found = sum(outcome.verdict == "found" for outcome in outcomes)
    typer.echo(f"{found} of {len(outcomes)} found")
    if found < len(outcomes):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)

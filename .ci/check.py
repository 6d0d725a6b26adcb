"""Run every check of the project: format, lint, types, layers, cases, and all tests.

All of them run, also after one has failed. Each gets a line with its seconds, what failed is shown
in full, and the exit code is that of the first that failed. The tests run in two lanes at once: a
driver that plans small frames keeps one core busy, and leaves the second one idle.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Check:
    """A command that must succeed."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    is_live: bool = False
    """Whether its output is shown while it runs."""


_PYTEST = (sys.executable, "-m", "pytest")

#: Folders and files of tests that make the shorter of the two lanes as long as the other.
_BESIDE = (
    "tests/conformance",
    "tests/operators",
    "tests/streaming",
    "tests/notebooks",
    "tests/front/test_chaos.py",
    "tests/front/test_failures.py",
)

#: What runs one after another: each a group of lanes side by side, of checks one after another.
GROUPS: tuple[tuple[tuple[Check, ...], ...], ...] = (
    ((Check("format", ("ruff", "format", "--check", ".")),),),
    ((Check("lint", ("ruff", "check", ".")),),),
    ((Check("types", ("mypy",)),),),
    ((Check("layers", ("lint-imports",)),),),
    ((Check("cases", (sys.executable, ".ci/cases.py")),),),
    (
        (
            Check(
                "tests (connect)",
                (*_PYTEST, "tests/conformance"),
                env={"SPARK_QUEUE_REMOTE": "local[2]"},
            ),
            Check("tests (beside)", (*_PYTEST, *_BESIDE)),
        ),
        (
            Check(
                "tests",
                (*_PYTEST, *(f"--ignore={place}" for place in _BESIDE)),
                is_live=True,
            ),
        ),
    ),
)


@dataclass(frozen=True)
class Outcome:
    """How a check went."""

    check: Check
    code: int
    seconds: float
    last_line: str

    def line(self) -> str:
        """Return the line that reports it."""
        word = "ok    " if self.code == 0 else "FAILED"
        return f"{word}  {self.check.name:<16} {self.seconds:7.1f} s"


def main() -> int:
    """Run the checks and return the exit code of the first that failed."""
    outcomes = [outcome for group in GROUPS for outcome in _together(group)]
    print()
    for outcome in outcomes:
        print(outcome.line())
    # The last words are pytest's own, for those who read only these.
    for outcome in outcomes:
        if outcome.check.command[: len(_PYTEST)] == _PYTEST:
            print(outcome.last_line)
    return next((outcome.code for outcome in outcomes if outcome.code != 0), 0)


def _together(group: Sequence[Sequence[Check]]) -> list[Outcome]:
    with ThreadPoolExecutor(len(group)) as threads:
        lanes = threads.map(lambda lane: [_run(check) for check in lane], group)
        return [outcome for lane in lanes for outcome in lane]


def _run(check: Check) -> Outcome:
    started = time.monotonic()
    try:
        code, output = _output(check)
    except FileNotFoundError as exc:
        code, output = 2, deque([f"{exc.filename} is not installed"])
    outcome = Outcome(check, code, time.monotonic() - started, output[-1] if output else "")
    if code != 0 and not check.is_live:
        print("\n".join(output))
    print(outcome.line(), flush=True)
    return outcome


def _output(check: Check) -> tuple[int, deque[str]]:
    env = {**os.environ, **check.env}
    lines: deque[str] = deque(maxlen=2_000)
    with subprocess.Popen(
        check.command,
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None  # noqa: S101 - for the type checker: it is a pipe
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if check.is_live:
                print(line, end="", flush=True)
    return process.returncode, lines


if __name__ == "__main__":
    sys.exit(main())

"""Run every check of the project: format, lint, types, language, rules, docs, and all tests.

``--fast`` leaves out what needs a JVM. All checks run, also after one has failed. Each gets a line
with its seconds, what failed is shown in full, and the exit code is that of the first that failed.

A driver that plans small frames keeps one core busy. So tests run in two processes at once, each
with a session of its own: whichever is done with its share takes from the other's. A third process
runs beside those that have no session.
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

#: How many lanes run at once: more JVMs than these want more memory than they save time.
_CORES = 2


@dataclass(frozen=True)
class Check:
    """A command that must succeed."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    is_live: bool = False
    """Whether its output is shown while it runs."""


_PYTEST = (sys.executable, "-m", "pytest", "--quiet")
_IN_TWO = ("--numprocesses", "2", "--dist", "worksteal", "--durations", "15")

#: Tests of sessions as users have them: with no setting that is not Spark's or the library's own.
_AS_SHIPPED = (
    "tests/operators",
    "tests/streaming/test_queue_streams.py",
    "tests/front/test_durable.py",
)

#: Tests that have no session in this process: what they start has one of its own.
_OWN_SESSIONS = ("tests/notebooks", "tests/delta/test_chaos.py", "tests/delta/test_programs.py")

#: Tests of streams, of which many wait for a query that is killed: beside those over Connect.
_STREAMS = "tests/streaming"

#: The classes that every JVM of the tests loads: see classes.py.
_CLASSES = ROOT / ".venv" / "classes.jsa"

#: What a JVM cannot map it reads, as without an archive, and says nothing of it. With room for all
#: classes from the start, it does not collect the whole heap each time that it needs more of it.
#: Each commit of Delta starts twenty processes, such as readlink: without a helper that is quicker.
_MAPPED = (
    f"-XX:SharedArchiveFile={_CLASSES} -Xlog:cds=off -Xlog:cds+dynamic=off "
    "-XX:MetaspaceSize=300m -Djdk.lang.Process.launchMechanism=VFORK"
)

#: For JVMs of which some live long. No setting of Spark's is changed by this.
_LONG_LIVED = {"SPARK_SUBMIT_OPTS": _MAPPED}

#: JVMs that tests start by commands, notebooks and jobs live for a minute: the second of Java's
#: compilers would cost them more than it saves.
_SHORT_LIVED = {
    "SPARK_SUBMIT_OPTS": f"-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m {_MAPPED}"
}

#: Tests start Python hundreds of times, which compiles what it imports once, even where it is told
#: not to keep that. Threads of numpy, Arrow and deltalake would only take turns with other lanes.
_QUICK_STARTS = {
    "PYTHONDONTWRITEBYTECODE": "",
    **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "TOKIO_WORKER_THREADS"), "1"),
}

#: Checks one after another, beside other lanes.
Lane = tuple[Check, ...]

_STATIC: tuple[Lane, ...] = (
    (
        Check("format", ("ruff", "format", "--check", ".")),
        Check("lint", ("ruff", "check", ".")),
        Check("layers", ("lint-imports",)),
        Check("cases", (sys.executable, ".ci/cases.py")),
        Check("language", (sys.executable, ".ci/language.py")),
        Check("rules", (sys.executable, ".ci/rules.py")),
        Check(
            "docs",
            ("mkdocs", "build", "--quiet", "--strict", "--config-file", "conf/mkdocs.yml"),
            env={"NO_MKDOCS_2_WARNING": "1"},
        ),
    ),
    (Check("types", ("mypy",)),),
)

_WITHOUT_SPARK = Check("tests (no JVM)", (*_PYTEST, *_IN_TWO, "-m", "not spark"), is_live=True)

_SMALL_STEPS = Check(
    "tests",
    (
        *_PYTEST,
        *_IN_TWO,
        "-m",
        "spark",
        *(f"--ignore={place}" for place in (*_AS_SHIPPED, *_OWN_SESSIONS, _STREAMS)),
    ),
    env=_SHORT_LIVED,
    is_live=True,
)
_DEFAULTS = Check(
    "tests (as shipped)",
    (*_PYTEST, "-m", "spark", *_AS_SHIPPED),
    env={"SPARK_QUEUE_SESSION": "defaults", **_LONG_LIVED},
)
_ELSEWHERE = Check(
    "tests (own sessions)", (*_PYTEST, "-m", "spark", *_OWN_SESSIONS), env=_SHORT_LIVED
)
_OF_STREAMS = Check(
    "tests (streams)",
    (*_PYTEST, "-m", "spark", _STREAMS, *(f"--ignore={place}" for place in _AS_SHIPPED)),
    env=_SHORT_LIVED,
)
_CONNECT = Check(
    "tests (connect)",
    (*_PYTEST, "-m", "spark", "tests/conformance"),
    env={"SPARK_QUEUE_REMOTE": "local[2]", **_LONG_LIVED},
)

#: The others are those of pyproject.toml: see pythons.py.
_PYTHONS = tuple(
    Check(f"tests ({which} Python)", (sys.executable, ".ci/pythons.py", which))
    for which in ("oldest", "newest")
)

_ARCHIVE = Check("classes", (sys.executable, ".ci/classes.py", str(_CLASSES)))

#: What runs one after another: each a group of lanes, two of them side by side. Tests on another
#: Python wait for threads, clocks and downloads half of their time: beside those that need no JVM.
FAST = (_STATIC, ((_WITHOUT_SPARK,),))
FULL = (
    ((_ARCHIVE,), *_STATIC),
    ((_WITHOUT_SPARK,), _PYTHONS),
    ((_SMALL_STEPS,),),
    ((_CONNECT,), (_OF_STREAMS, _ELSEWHERE, _DEFAULTS)),
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
        return f"{word}  {self.check.name:<20} {self.seconds:7.1f} s"


def main(argv: Sequence[str]) -> int:
    """Run the checks and return the exit code of the first that failed."""
    if argv not in ([], ["--fast"]):
        print("usage: check.py [--fast]", file=sys.stderr)
        return 2
    started = time.monotonic()
    groups = FAST if argv else FULL
    outcomes = [outcome for group in groups for outcome in _together(group)]
    print()
    for outcome in outcomes:
        print(outcome.line())
    print(f"{'':<8}{'all':<20} {time.monotonic() - started:7.1f} s")
    # The last words are pytest's own, for those who read only these.
    for outcome in outcomes:
        if outcome.check.name.startswith("tests"):
            print(outcome.last_line)
    return next((outcome.code for outcome in outcomes if outcome.code != 0), 0)


def _together(group: Sequence[Lane]) -> list[Outcome]:
    """Run lanes two at a time: whoever is done with one goes on with the next."""
    with ThreadPoolExecutor(_CORES) as threads:
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
    env = {**os.environ, **_QUICK_STARTS, **check.env}
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
    sys.exit(main(sys.argv[1:]))

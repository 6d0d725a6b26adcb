"""Run the checks of the project: ``check.py [--fast | --all | --only NAME ...] [--list]``.

Without an option it runs the gate: static checks, the tests that start no JVM, the commands of
README and the guide without Spark in an environment that has no PySpark, and tests on Spark.
``--all`` adds Spark Connect, other Pythons, kills, long histories, sessions as shipped, notebooks
and the browser. ``--fast`` leaves out what needs a JVM. ``--only`` runs the named stages, and
``--list`` shows them.

All stages run, also after one has failed. Each gets a line with its seconds. The output of a stage
that failed is shown, with the command that repeats it. The ten slowest tests come last. The exit
code is that of the first stage that failed.

A driver that plans small frames keeps one core busy. So tests run in two processes at once, each
with a session of its own: whichever is done with its share takes from the other's.
"""

from __future__ import annotations

import argparse
import json
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

#: How a stage is repeated.
_REPEAT = "python3 .ci/bootstrap.py check --only"


@dataclass(frozen=True)
class Check:
    """A stage: a command that must succeed."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    is_live: bool = False
    """Whether its output is shown while it runs."""

    @property
    def times(self) -> Path:
        """Where its tests leave what each of them took."""
        return _TIMES / f"{self.name}.json"


#: What the tests of the last run took.
_TIMES = ROOT / ".venv" / "times"

_PYTEST = (sys.executable, "-m", "pytest", "--quiet")
_IN_TWO = ("--numprocesses", "2", "--dist", "worksteal")

#: Tests of sessions as users have them: with no setting that is not Spark's or the library's own.
_AS_SHIPPED = (
    "tests/operators",
    "tests/streaming/test_queue_streams.py",
    "tests/front/test_durable.py",
)

#: Of a session of Spark Connect: what it refuses, and the jobs of a handler.
_OVER_CONNECT = (
    "tests/conformance/test_connect.py",
    "tests/conformance/test_operations.py::test_processing_settles_by_what_the_handler_does[delta]",
)

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
#: compilers would cost them more than it saves, and so would a collector with threads of its own.
_SHORT_LIVED = {
    "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m "
    f"-XX:+UseSerialGC {_MAPPED}"
}

_NO_ENV: Mapping[str, str] = {}

#: Tests start Python hundreds of times, which compiles what it imports once, even where it is told
#: not to keep that. Threads of numpy, Arrow and deltalake would only take turns with other lanes.
_QUICK_STARTS = {
    "PYTHONDONTWRITEBYTECODE": "",
    **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "TOKIO_WORKER_THREADS"), "1"),
}

#: Stages one after another, beside other lanes.
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

_ARCHIVE = Check("classes", (sys.executable, ".ci/classes.py", str(_CLASSES)))
_ALONE = Check("alone", (sys.executable, ".ci/alone.py"))


def _tests(name: str, *options: str, env: Mapping[str, str] = _NO_ENV) -> Check:
    """Return a stage of pytest that has both cores, and shows its output."""
    return Check(name, (*_PYTEST, *_IN_TWO, *options), env=env, is_live=True)


_WITHOUT_SPARK = _tests("no-jvm", "-m", "not spark and not thorough")

#: As many of them as ``--all`` has no need of: it plays ten times as many random histories.
_BUT_HISTORIES = _tests("no-jvm", "-m", "not spark and not thorough and not histories")

#: To collect those that never start a JVM takes longer than many tests run.
_ON_SPARK = _tests(
    *("spark", "-m", "spark and not thorough", "--ignore=tests/unit"), env=_SHORT_LIVED
)

#: Random histories, ten times as many as without an option.
_HISTORIES = _tests(
    "histories", "-m", "histories and not spark", env={"SPARK_QUEUE_HISTORIES": "300"}
)

#: What they start once for all of their tests takes minutes, and each process would start its own.
_KILLED = ("tests/streaming/test_crashes.py", "tests/notebooks")

#: The tests of tests/tiers.txt that are not in the gate. Laws of a session are played by Connect.
_THOROUGH = _tests(
    "thorough",
    *("-m", "thorough", "-k", "not (conformance and delta)"),
    *(f"--ignore={place}" for place in _KILLED),
    env=_SHORT_LIVED,
)

_KILLS = Check("kills", (*_PYTEST, *_KILLED), env=_SHORT_LIVED)

_CONNECT = _tests(
    "connect",
    *("-m", "spark", "-k", "not planned", "tests/conformance"),
    env={"SPARK_QUEUE_REMOTE": "local[2]", **_LONG_LIVED},
)

#: What a client and a server share out in another way than one process, in a minute.
_SERVER = Check(
    "server",
    (*_PYTEST, "-m", "spark and not thorough", *_OVER_CONNECT),
    env={"SPARK_QUEUE_REMOTE": "local[2]", **_SHORT_LIVED},
)
_SHIPPED = Check(
    "shipped",
    (*_PYTEST, "-m", "spark", *_AS_SHIPPED),
    env={"SPARK_QUEUE_SESSION": "defaults", **_LONG_LIVED},
)
_BROWSER = Check("browser", (sys.executable, ".ci/browser.py"))

#: The others are those of pyproject.toml: see pythons.py.
_PYTHONS = tuple(
    Check(which, (sys.executable, ".ci/pythons.py", which)) for which in ("oldest", "newest")
)

#: What runs one after another: each a group of lanes, two of them side by side.
FAST = (_STATIC, ((_WITHOUT_SPARK,),))
GATE = ((*_STATIC, (_ALONE,), (_SERVER,)), ((_WITHOUT_SPARK,),), ((_ON_SPARK,),))
ALL = (
    ((_ARCHIVE,), *GATE[0]),
    ((_BUT_HISTORIES,),),
    ((_ON_SPARK,),),
    ((_HISTORIES,),),
    ((_THOROUGH,),),
    ((_CONNECT,),),
    ((_KILLS,), (*_PYTHONS, _BROWSER), (_SHIPPED,)),
)


def stage(name: str) -> Check:
    """Return the stage of a name, as the gate has it."""
    return next(
        check for group in (*GATE, *ALL) for lane in group for check in lane if check.name == name
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
    """Run the stages that are asked for, and return the exit code of the first that failed."""
    options = _options().parse_args(argv)
    if options.list:
        for name in _names():
            print(f"{name:<10} {' '.join(stage(name).command).replace(sys.executable, 'python')}")
        return 0
    started = time.monotonic()
    outcomes = [outcome for group in _groups(options) for outcome in _together(group)]
    print()
    for outcome in outcomes:
        print(outcome.line())
    print(f"{'':<8}{'all':<20} {time.monotonic() - started:7.1f} s")
    _show_slowest([outcome.check for outcome in outcomes])
    # The last words are pytest's own, for those who read only these.
    for outcome in outcomes:
        if outcome.check.times.exists():
            print(f"{outcome.check.name}: {outcome.last_line}")
    failed = [outcome for outcome in outcomes if outcome.code != 0]
    for outcome in failed:
        print(f"to repeat it: {_REPEAT} {outcome.check.name}")
    return failed[0].code if failed else 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--fast", action="store_true", help="leave out what needs a JVM")
    which.add_argument("--all", action="store_true", help="everything: also what is in no gate")
    which.add_argument(
        "--only", nargs="+", metavar="NAME", choices=_names(), help="these stages alone"
    )
    which.add_argument("--list", action="store_true", help="name the stages, and their commands")
    return parser


def _names() -> list[str]:
    return [check.name for group in ALL for lane in group for check in lane]


def _groups(options: argparse.Namespace) -> Sequence[Sequence[Lane]]:
    if options.only:
        return [((stage(name),),) for name in options.only]
    return FAST if options.fast else ALL if options.all else GATE


def _show_slowest(checks: Sequence[Check]) -> None:
    """Show the ten slowest tests, with the reason that tests/tiers.txt gives."""
    times = [check.times for check in checks if check.times.exists()]
    took = sorted((each for file in times for each in json.loads(file.read_text())), reverse=True)
    for seconds, test, why in took[:10]:
        print(f"{seconds:6.1f} s  {test}  {why}")


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
    check.times.parent.mkdir(parents=True, exist_ok=True)
    check.times.unlink(missing_ok=True)
    own = {"SPARK_QUEUE_TIMES": str(check.times)}
    env = {**os.environ, **_QUICK_STARTS, **own, **check.env}
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

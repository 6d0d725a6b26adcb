"""Commands that this process answers: by whom, and without Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_queue import extras
from spark_queue.cli import choice, main
from spark_queue.cli.choice import EngineChoice
from spark_queue.cli.display import Display
from spark_queue.cli.scope import Scope
from spark_queue.clock import ManualClock
from spark_queue.errors import InvalidArgumentError, SetupError, SparkNeededError
from spark_queue.local_queue import LocalQueue
from tests.conftest import CommandLine
from tests.programs import run_python

#: Runs commands where whatever is Spark's, Java's or of pandas cannot be imported.
_ALONE = """
import sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "py4j", "delta", "pandas"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Refusing())
from spark_queue.cli import main

def run(*argv):
    try:
        main(argv)
    except SystemExit as ended:
        print("ended", argv[0], ended.code)

run("--help")
run("create", "./q", "--schema", "n int, tenant string", "--fair-key", "tenant", "--dedup-key", "n")
run("enqueue", "./q", "--files", "rows.csv")
for command in ("status", "stats", "dead", "config", "doctor", "pause", "resume", "readers"):
    run(command, "./q")
    run(command, "./q", "--json")
run("process", "./q", "sending:send", "--limit", "1", "--time-limit", "0")
run("explain", "./q", "1")
run("history", "./q", "1")
run("configure", "./q", "--lease", "60")
run("maintain", "./q", "--retention", "60")
run("upgrade", "./q")
run("add-columns", "./q", "--schema", "note string")
run("metrics", "./q")
run("metrics", "./q", "--textfile", "q.prom")
run("add-reader", "./q", "mail")
run("add-reader", "./q", "audit", "--start", "beginning")
run("drop-reader", "./q", "audit")
run("status", "./q", "--as-of", "1")
run("status", "./q", "--where", "tenant = 'a'")
run("cancel", "./q", "--where", "n = 1", "--dry-run")
run("cancel", "./q", "--where", "n = 1")
run("wait", "./q", "--where", "n = 1", "--timeout", "0")
run("undo", "./q", "5")
run("redrive", "./q", "--where", "_state = 'cancelled'")
run("redrive", "./q", "--reader", "mail")
run("dead", "./q", "--where", "tenant IS NOT NULL")
run("purge", "./q", "--where", "_state = 'acked'")
run("clone", "./q", "./q2")
run("drop", "./q", "--yes")
"""

#: Imports the command line and tells what came with it.
_HELP = """
import sys
from spark_queue.cli import main
try:
    main(["--help"])
except SystemExit:
    heavy = ("pyspark", "py4j", "pandas", "pyarrow", "deltalake", "numpy")
    print(sorted(name for name in heavy if name in sys.modules))
"""

#: Looks at a queue in ways that run no code of users, and tells what came with it.
_LOOKS = """
import sys
from spark_queue.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    heavy = (
        *("pandas", "yaml", "asyncio", "http.server", "jinja2", "obstore", "fsspec"),
        *("spark_queue.doctor.examine", "spark_queue.processing.local_processing"),
        *("spark_queue.front.durable", "spark_queue.upkeep.maintain", "spark_queue.report.page"),
    )
    print(sorted(name for name in heavy if name in sys.modules))
"""


def test_a_local_queue_is_worked_with_where_there_is_no_spark(tmp_path: Path) -> None:
    """Every command that needs no Spark does what it is for, without pyspark, Java or pandas."""
    (tmp_path / "rows.csv").write_text("tenant,n\na,1\na,2\nb,-3\nb,2\n")
    (tmp_path / "sending.py").write_text("def send(item): raise RuntimeError\n")

    done = run_python("-c", _ALONE, cwd=tmp_path)

    ends = [line for line in done.stdout.splitlines() if line.startswith("ended ")]
    assert done.stderr == ""
    assert [line for line in ends if not line.endswith(" 0")] == []
    assert len(ends) == 43
    assert "3 items enqueued, step 1" in done.stdout
    assert list(tmp_path.glob("q/*_log")) == []


@pytest.mark.parametrize("command", ["status", "dead", "cancel", "redrive", "purge"])
@pytest.mark.parametrize(
    "where",
    ["(" * 20_000, "not " * 15_000 + "true", "a" * 100_001],
    ids=["brackets", "nots", "long"],
)
def test_condition_that_is_too_deep_or_too_long_is_refused(
    command: str, where: str, tmp_path: Path, command_line: CommandLine
) -> None:
    """The command says how deep or long one may be, and needs no Spark to do so."""
    LocalQueue.create(f"{tmp_path}/q", "n int").enqueue([{"n": 1}])

    ended = command_line(command, f"{tmp_path}/q", "--where", where)

    assert ended.code == 2
    assert ("in each other 40 times" in ended.err) or ("at most 100,000" in ended.err)
    assert len(ended.err) < 500


def test_help_loads_nothing_of_spark() -> None:
    """The commands are told without what they will need."""
    done = run_python("-c", _HELP, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("status", []),
        ("stats", []),
        ("report", []),
        ("metrics", ["http.server", "spark_queue.doctor.examine"]),
    ],
)
def test_a_look_loads_neither_pandas_nor_what_it_does_not_ask(
    tmp_path: Path, command: str, asked: list[str]
) -> None:
    """A command that only looks at a queue starts without what takes long and is not for it."""
    LocalQueue.create(f"{tmp_path}/q", "n int").enqueue([{"n": 1}])

    done = run_python("-c", _LOOKS, command, f"{tmp_path}/q", check=True)

    assert done.stdout.splitlines()[-1] == str(asked)


@pytest.mark.parametrize(
    ("name", "local"),
    [
        ("./q", True),
        ("q", True),
        ("/data/q", True),
        ("file:/data/q", True),
        ("s3a://bucket/q", False),
        ("hdfs:/q", False),
        ("/data/a%20b", False),
    ],
)
def test_a_queue_is_local_by_its_path(name: str, local: bool) -> None:  # noqa: FBT001 - a parameter
    """A path without a scheme is one of this machine's disk, and a name is one, too."""
    assert choice.is_local(name) is local


@pytest.fixture
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget where Spark is, and what it was set up with."""
    for name in choice._SPARK_IS_SET_UP:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("plain_environment")
def test_where_spark_is_set_up_a_path_may_be_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not found here may be on another file system of Spark's; what is found, is here."""
    place = str(tmp_path / "q")
    assert choice.is_reached_here(place)

    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert not choice.is_reached_here(place)

    for log in ("queue", "status"):
        (tmp_path / "q" / log / "_delta_log").mkdir(parents=True)
    assert choice.is_reached_here(place)


def _needs_spark_once(asked: list[str], scope: Scope) -> Callable[[], None]:
    def work() -> None:
        asked.append(scope._engine_of("./q"))
        if len(asked) == 1:
            raise SparkNeededError("that", "it is large")

    return work


def test_what_needs_spark_is_done_again_by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself a command goes to Spark when this process finds that it cannot."""
    monkeypatch.setattr(choice, "spark_problem", lambda: None)
    asked: list[str] = []
    scope = Scope(Display(), None)

    scope.run(_needs_spark_once(asked, scope))

    assert asked == ["in_process", "in_spark"]


def test_without_spark_it_is_said_what_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has none learns what was asked of it, and what to install."""
    monkeypatch.setattr(choice, "spark_problem", lambda: "Java was not found")
    scope = Scope(Display(), None)

    with pytest.raises(SetupError, match="that needs Spark: it is large; Java was not found"):
        scope.run(_needs_spark_once([], scope))


@pytest.mark.parametrize(
    ("asked", "why", "is_for_spark"),
    [
        (("status", "--where", "tenant = t5"), "where is 'tenant = t5': t5 is no column", False),
        (("dead", "--where", "n"), "it is no condition, but a value of type int", False),
        (("cancel", "--where", "tenat = 'a'"), "tenat is no column; did you mean 'tenant'?", False),
        (("enqueue", "--files", "none.csv"), "files are 'none.csv': there is no such file", False),
        (
            ("enqueue", "--files", "bad.csv"),
            "line 2: column 'n' is int in the queue, and 'x' there",
            True,
        ),
        (("cancel", "--where", "n = '1'"), "= of int and string", True),
    ],
)
def test_a_reason_that_is_known_is_told(
    asked: tuple[str, ...],
    why: str,
    *,
    is_for_spark: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command_line: CommandLine,
) -> None:
    """A typo and a missing file are no case for Spark; what is one has its reason beside."""
    monkeypatch.setattr(choice, "spark_problem", lambda: "pip install it")
    monkeypatch.chdir(tmp_path)
    LocalQueue.create("./q", "n int, tenant string", durability="process")
    (tmp_path / "bad.csv").write_text("n,tenant\nx,a\n")
    command, *options = asked

    ended = command_line(command, "./q", *options)

    assert ended.code == 2
    assert why in ended.err
    assert ("pip install it" in ended.err) == is_for_spark


def test_process_without_pyspark_runs_the_handler_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: CommandLine
) -> None:
    """A handler of one's own needs no Spark; a queue that is not there is named."""
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "pyspark.cloudpickle", None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("sending.py").write_text("def send(item): print(item['n'])\n")
    queue = LocalQueue.create("./q", "n int", durability="process")
    queue.enqueue([{"n": 7}])

    done, missed = (command_line("process", name, "sending:send") for name in ("./q", "./none"))

    assert (done.code, missed.code, queue.counts()["acked"]) == (0, 2, 1)
    assert done.out.startswith("7\n")
    assert "none': there is no such queue" in missed.err


@pytest.mark.usefixtures("plain_environment")
def test_process_runs_the_handler_here_where_spark_is_installed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: CommandLine
) -> None:
    """What a handler prints is seen, and no session starts."""
    monkeypatch.setattr(choice, "spark_problem", lambda: None)
    monkeypatch.setattr("spark_queue.session.local_session", pytest.fail)
    monkeypatch.chdir(tmp_path)
    LocalQueue.create("./q", "n int", durability="process").enqueue([{"n": 7}])

    options = ("--returns", "a int", "--output", "out")
    ended = command_line("process", "./q", "builtins:print", *options)

    assert not ended.code
    assert "'n': 7" in ended.out
    assert (tmp_path / "out" / "_delta_log").is_dir()


@pytest.mark.usefixtures("plain_environment")
@pytest.mark.parametrize(
    ("environment", "output", "is_here"),
    [
        ({}, None, True),
        ({"SPARK_HOME": "/opt/spark"}, None, True),
        ({"SPARK_HOME": "/opt/spark"}, "results", False),
        ({"SPARK_HOME": "/opt/spark"}, "./q/queue", True),
        ({"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}, None, False),
        ({"SPARK_REMOTE": "sc://host"}, None, False),
        ({}, "./results", True),
        ({}, "hdfs://host/results", False),
    ],
)
def test_handlers_run_on_spark_where_that_is_asked_for(
    environment: dict[str, str],
    output: str | None,
    is_here: bool,  # noqa: FBT001 - a parameter
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A master or packages ask for it, and so does an output that only Spark writes."""
    monkeypatch.chdir(tmp_path)
    LocalQueue.create("./q", "n int", durability="process")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert Scope(Display(), None).runs_here("./q", output) is is_here
    assert Scope(Display(), None, EngineChoice.LOCAL).runs_here("./q", output)
    assert not Scope(Display(), None, EngineChoice.SPARK).runs_here("./q", output)


@pytest.mark.usefixtures("plain_environment")
def test_queue_on_an_object_store_is_worked_with_here_unless_spark_is_set_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client commits there; a Spark that is set up may commit in another way."""
    place, scope = "s3://bucket/q", Scope(Display(), None)
    monkeypatch.setattr(choice, "is_installed", lambda package: package == "obstore")
    assert (scope._engine_of(place), scope.runs_here(place, None)) == ("in_process", True)

    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert (scope._engine_of(place), scope.runs_here(place, None)) == ("in_spark", False)

    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setattr(choice, "is_installed", lambda package: package == "pyspark")
    assert (scope._engine_of(place), scope.runs_here(place, None)) == ("in_spark", False)


def test_who_wants_no_spark_gets_none(tmp_path: Path) -> None:
    """With ``--engine local`` nothing is left to Spark: what needs it is refused."""
    scope = Scope(Display(), None, EngineChoice.LOCAL)

    with pytest.raises(SparkNeededError):
        scope.run(_needs_spark_once([], scope))
    with pytest.raises(InvalidArgumentError, match="this command needs Spark"):
        _ = scope.spark
    with pytest.raises(InvalidArgumentError, match="not on this machine's disk"):
        scope.engine("hdfs://host/q")
    with pytest.raises(SystemExit) as ended:
        main(["process", str(tmp_path / "q"), "json:loads", "--engine", "local"])
    assert ended.value.code == 2


def test_a_brought_session_is_used() -> None:
    """A job that brings its session means it, unless it says otherwise."""
    sessions: Any = pytest.fail

    assert Scope(Display(), sessions)._engine_of("./q") == "in_spark"
    assert not Scope(Display(), sessions).runs_here("./q", None)
    assert Scope(Display(), sessions, EngineChoice.LOCAL)._engine_of("./q") == "in_process"


def test_the_environment_chooses_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: CommandLine
) -> None:
    """``SPARK_QUEUE_ENGINE`` is for those who always want the same."""
    monkeypatch.setenv("SPARK_QUEUE_ENGINE", "local")

    ended = command_line("status", tmp_path / "q", "--where", "true")

    assert ended.code == 2
    assert "there is no such queue; make it with spark-queue create" in ended.err


@pytest.mark.parametrize("options", [(), ("--as-of", "1")])
def test_many_items_of_a_key_are_counted_without_spark(
    tmp_path: Path, command_line: CommandLine, options: tuple[str, ...]
) -> None:
    """However many there are, now or as they were, the waits are exact here, too."""
    clock = ManualClock()
    queue = LocalQueue.create(tmp_path / "q", "n int", durability="process", clock=clock)
    queue.enqueue(pa.table({"n": pa.array(range(5_000), pa.int32())}))
    for count in (2_499, 1, 2_500):
        clock.advance(timedelta(seconds=1))
        queue.claim(count)

    ended = command_line("stats", tmp_path / "q", "--engine", "local", "--json", *options)

    (key,) = json.loads(ended.out)["per_key"]
    waits = (key["wait_p50"], key["wait_p95"], key["wait_max"])
    assert not ended.code
    assert waits == ((None, None, None) if options else (2.0, 3.0, 3.0))

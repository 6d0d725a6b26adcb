"""One Spark session for a test process, and a fresh place for each queue."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import os
import shutil
import socket
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import is_hypothesis_test, settings

from spark_queue.clock import ManualClock
from spark_queue.session import SMALL_STEPS, SMALL_STEPS_CONF, local_session, with_delta
from tests import tiers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How many random histories each family of tests plays: 300 in ``check --all``.
HISTORIES = int(os.environ.get("SPARK_QUEUE_HISTORIES", "30"))


def histories_of(seconds: float) -> int:
    """Return how many histories a family plays of which each takes so many seconds."""
    return max(round(HISTORIES / max(seconds, 1)), 1)


# How long an example takes says more about what else the machine does.
settings.register_profile("gate", deadline=None, max_examples=HISTORIES)
settings.load_profile("gate")

#: ``local[2]`` makes the fixture a Spark Connect session.
REMOTE = os.environ.get("SPARK_QUEUE_REMOTE")

#: ``defaults`` starts the session as a user's is; otherwise it is tuned for small steps.
#: ``planned`` is tuned as well: Spark decides small steps.
SESSION = os.environ.get("SPARK_QUEUE_SESSION", "small steps")

#: What a test process needs beside, whatever it tests.
_CONF = {
    "spark.sql.catalogImplementation": "in-memory",
    "spark.driver.memory": "4g",
    # The tables of a test are gone when it ends: what Delta remembers of them fills the heap.
    "spark.databricks.delta.delta.log.cacheSize": "16",
}

_JAVA = "spark.driver.extraJavaOptions"


_TIERS = tiers.read()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what starts a JVM, what plays histories, and what is left to ``check --all``.

    What takes minutes comes first: two processes that share the tests then end at the same time.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("histories")
    tiers.mark(items, _TIERS)
    if config.args == config.getini("testpaths") and not config.getoption("ignore"):
        tiers.require_sound(items, _TIERS)
    items.sort(key=lambda item: not tiers.reason(item.nodeid, _TIERS))


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine on a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a test that failed at once: an hour may pass until pytest says why."""
    if report.failed and "SPARK_QUEUE_TIMES" in os.environ:
        print(f"\nfailed: {report.nodeid}", flush=True)  # noqa: T201 - the gate shows it


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Leave what each test took where the gate asks for it."""
    place = os.environ.get("SPARK_QUEUE_TIMES")
    if place is None:
        return
    seconds: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid] += report.duration
    told = [(took, test, tiers.reason(test, _TIERS)) for test, took in seconds.items()]
    Path(place).write_text(json.dumps(sorted(told, reverse=True)))


def pytest_collection_finish() -> None:
    """Take all tests and modules out of what is looked through each time for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """Start a session with Delta, tuned as asked for; over Spark Connect where asked for."""
    test = request._pyfuncitem
    assert test.get_closest_marker("spark"), f"{test.nodeid} starts a JVM and does not say so"
    conf = {**_CONF, "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    if SESSION != "defaults":
        conf = {**SMALL_STEPS_CONF, **conf}
        # What a test leaves behind is young: room for it saves collections of the whole heap, as
        # does a heap that need not grow.
        conf[_JAVA] = f"{SMALL_STEPS_CONF[_JAVA]} -Xms3g -Xmn1g"
        conf["spark.python.daemon.module"] = "tests.worker_daemon"
    if SESSION == "planned":
        conf[SMALL_STEPS] = "spark"
    session = _remote(conf) if REMOTE else local_session("tests", quiet=True, **conf)
    yield session
    session.stop()


def _remote(conf: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only where it is asked for
    from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415

    # A client looks for the server of its process at one port, which another may have.
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    mock.patch.object(DefaultChannelBuilder, "default_port", return_value=port).start()
    builder = SparkSession.builder.remote(str(REMOTE))
    for name, value in {**with_delta(conf), "spark.connect.grpc.binding.port": str(port)}.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # The client sets static settings once more, after the server has started with them.
        warnings.simplefilter("ignore")
        return builder.getOrCreate()


def memory_place() -> str | None:
    """Return a directory in memory, where the machine has one."""
    shared = "/dev/shm"  # noqa: S108 - a fast place, in which tests make their own directories
    return shared if Path(shared).is_dir() else None


@pytest.fixture
def place() -> Iterator[str]:
    """Make a directory for the tables of one test, in memory where the machine has such a disk."""
    root = tempfile.mkdtemp(prefix="spark-queue-", dir=memory_place())
    yield root
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def by_spark(spark: SparkSession) -> Iterator[None]:
    """Let Spark decide small steps, too, as it does on a shared store."""
    before = spark.conf.get(SMALL_STEPS, None)
    spark.conf.set(SMALL_STEPS, "spark")
    yield
    if before is None:
        spark.conf.unset(SMALL_STEPS)
    else:
        spark.conf.set(SMALL_STEPS, before)


@pytest.fixture
def queue_path(place: str) -> str:
    """Return a path at which a queue can be made."""
    return f"{place}/queue"


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that stands still until the test moves it."""
    return ManualClock()


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process be in New York."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


#: Runs a command in this process.
CommandLine = Callable[..., Ended]


@pytest.fixture
def command_line(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Run a command in this process; by default without Spark, where it needs none."""
    from spark_queue.cli import main  # noqa: PLC0415 - most tests run no command

    def run(*argv: object, **options: Any) -> Ended:
        with pytest.raises(SystemExit) as ended:
            main([*map(str, argv)], **options)
        said = capsys.readouterr()
        return Ended(int(ended.value.code or 0), said.out, said.err)

    return run


@pytest.fixture
def run(spark: SparkSession, command_line: CommandLine) -> Callable[..., Any]:
    """Run a command in this process and session, and return its JSON object."""

    def run(*argv: str, code: int = 0) -> Any:
        ended = command_line(*argv, "--json", sessions=lambda _verbose: spark)
        assert ended.code == code, ended.err
        return json.loads(ended.out)

    return run

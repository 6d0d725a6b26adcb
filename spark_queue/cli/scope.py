"""The scope of one command: its session, its display, and how it ends."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar, cast

import typer

from spark_queue.cli import choice
from spark_queue.cli.choice import EngineChoice
from spark_queue.cli.display import Display, SafeFormatter, Terminated, exit_of
from spark_queue.errors import InvalidArgumentError, SetupError, SparkNeededError, SparkQueueError
from spark_queue.extras import is_installed, java_problem, require_delta
from spark_queue.log.addresses import is_on_object_store
from spark_queue.processing.interrupts import interruptible, raising_at_sigterm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_queue.cli.choice import AnyQueue, CommandEngine
    from spark_queue.delta_queue import DeltaQueue
    from spark_queue.local_queue import LocalQueue
    from spark_queue.log.step_events import Listener
    from spark_queue.reader import Reader

_T = TypeVar("_T")

#: Settings for small steps that would keep a command's large frames to one core.
_BY_CORES = (
    "spark.sql.shuffle.partitions",
    "spark.sql.leafNodeDefaultParallelism",
    "spark.default.parallelism",
)

#: Loggers of PySpark that print an error, with its traceback, before it is raised.
_TELLTALES = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")

#: Makes a session, given whether to be verbose.
Sessions = Callable[[bool], "SparkSession"]


class Scope:
    """The queues, the display and the session that a command works with.

    Parameters
    ----------
    display : Display
        Where it shows its result.
    sessions : callable, optional
        Makes the session; a local one by default.
    engine : Choice
        Who answers. By itself a command goes to this process where it can, and to Spark else; or
        to Spark at once, where a session was brought.
    """

    def __init__(
        self, display: Display, sessions: Sessions | None, engine: EngineChoice = EngineChoice.AUTO
    ) -> None:
        self.display = display
        self._sessions = sessions
        is_given = engine is EngineChoice.AUTO and sessions is not None
        self._choice = EngineChoice.SPARK if is_given else engine
        self._while_open = ExitStack()

    def run(self, work: Callable[[], object]) -> None:
        """Run a command; by Spark, if this process finds that it needs Spark.

        It finds so before anything was written or shown.

        Raises
        ------
        SetupError
            When it takes Spark, and that is not here.
        """
        try:
            work()
        except SparkNeededError as exc:
            if self._choice is not EngineChoice.AUTO:
                raise
            problem = choice.spark_problem()
            if problem is not None:
                raise SetupError(f"{exc.what} needs Spark: {exc.why}; {problem}") from exc
            self._choice = EngineChoice.SPARK
            work()

    def run_each(self, works: Mapping[str, Callable[[], object]]) -> dict[str, Exception]:
        """Do something for each queue, and return the errors by queue.

        None is in the way of the others. The error of the only one is raised.
        """
        failed = {name: exc for name, work in works.items() if (exc := self._error_of(work))}
        if len(works) == len(failed) == 1:
            raise next(iter(failed.values()))
        return failed

    def _error_of(self, work: Callable[[], object]) -> Exception | None:
        try:
            self.run(work)
        except Exception as exc:  # noqa: BLE001 - the command tells it
            return exc
        return None

    def require_wrong_for_all(self, error: SparkQueueError) -> None:
        """Raise SparkNeededError where a session, if there can be one, may take the argument.

        Raises
        ------
        SparkNeededError
            When Spark may do it.
        """
        if self._choice is EngineChoice.AUTO and choice.spark_problem() is None:
            raise SparkNeededError("to be sure of that", str(error)) from error

    def runs_here(self, name: str, output: str | None) -> bool:
        """Whether handlers run in this process: all logs are in reach, Spark is not chosen."""
        if self._choice is EngineChoice.AUTO:
            is_reached = output is None or choice.is_written_here(output)
            return is_reached and choice.is_reached_here(name) and not choice.is_spark_asked()
        return self._choice is EngineChoice.LOCAL

    def engine(self, name: str) -> CommandEngine:
        """Return the engine that answers for a queue.

        Raises
        ------
        InvalidArgumentError
            When it is to be this process, which does not reach the queue without Spark.
        """
        answers: CommandEngine = import_module(f"spark_queue.cli.{self._engine_of(name)}")
        return answers

    def _engine_of(self, name: str) -> str:
        is_here = choice.is_local(name) or is_on_object_store(name)
        if self._choice is EngineChoice.LOCAL and not is_here:
            raise InvalidArgumentError(
                f"engine is 'local', and queue {name!r} is not on this machine's disk, or on an "
                "object store"
            )
        if self._choice is EngineChoice.AUTO and choice.is_reached_here(name):
            return "in_process"
        return "in_process" if self._choice is EngineChoice.LOCAL else "in_spark"

    def open_queue(self, name: str, reader: str | None = None) -> tuple[CommandEngine, AnyQueue]:
        """Open a queue for its default reader or another one, with its engine."""
        engine = self.engine(name)
        return engine, engine.open_queue(self, name, reader)

    def main_queue(self, name: str) -> DeltaQueue | LocalQueue:
        """Open a queue itself, which its readers share."""
        return cast("DeltaQueue | LocalQueue", self.open_queue(name)[1])

    @cached_property
    def spark(self) -> SparkSession:
        """The session, started when it is first used.

        Raises
        ------
        InvalidArgumentError
            When there is to be none.
        """
        if self._choice is EngineChoice.LOCAL:
            raise InvalidArgumentError("engine is 'local', and this command needs Spark")
        make = self._sessions or _local
        session = make(self.display.verbose)
        if not self.display.verbose:
            self._while_open.enter_context(hush_pyspark())
        return session

    def locate(self, name: str) -> str:
        """Return the path or table name that a queue or an output has for the library.

        A path is taken from the working directory. So is a plain name where the session's catalog
        is in memory: a table of that catalog would be gone with the process.
        """
        from spark_queue.log import addresses  # noqa: PLC0415 - help works without Spark

        catalog = self.spark.conf.get("spark.sql.catalogImplementation", "in-memory")
        if "/" not in name and catalog == "in-memory":
            return os.path.abspath(name)  # noqa: PTH100 - a path of a queue is a string
        return addresses.placed(name)

    def queue(self, name: str, listener: Listener | None = None) -> DeltaQueue:
        """Open a queue with a listener to its steps."""
        from spark_queue.delta_queue import DeltaQueue  # noqa: PLC0415 - help works without Spark

        return DeltaQueue.open(self.spark, self.locate(name), listener=listener)

    def reading(self, name: str, reader: str | None) -> DeltaQueue | Reader:
        """Open a queue as one of its readers sees it."""
        queue = self.queue(name)
        return queue if reader is None else queue.open_reader(reader)

    def interruptible(self, work: Callable[[threading.Event], _T]) -> _T:
        """Run something long, so that SIGTERM and SIGINT end it at once and cleanly.

        It gets an event that is set by then: see
        :func:`spark_queue.processing.interrupts.interruptible`.
        """
        return interruptible(self.spark, work)

    def close(self) -> None:
        """Stop the session, where it is ours."""
        self._while_open.close()
        if self._sessions is None and "spark" in self.__dict__:
            self.spark.stop()


@contextmanager
def hush_pyspark() -> Iterator[None]:
    """Keep PySpark from printing each error that it raises: the command shows it."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - help works without Spark

    loggers = [PySparkLogger.getLogger(name) for name in _TELLTALES]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in loggers:
            logger.disabled = False


@contextmanager
def open_scope(
    sessions: Sessions | None,
    *,
    json: bool,
    verbose: bool,
    engine: EngineChoice = EngineChoice.AUTO,
) -> Iterator[Scope]:
    """Run the body of a command, and turn its errors into a line and an exit code."""
    display = Display(json=json, verbose=verbose)
    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(SafeFormatter(logging.BASIC_FORMAT))
    logging.basicConfig(level=logging.INFO if verbose else logging.CRITICAL, handlers=[shown])
    scope = Scope(display, sessions, engine)
    try:
        with raising_at_sigterm(Terminated()):
            # Here, as help works without Arrow.
            import_module("spark_queue.cli.pandas_hook").leave_pandas_out()
            yield scope
    except (Exception, KeyboardInterrupt, Terminated) as exc:
        if isinstance(exc, typer.Exit):
            raise
        display.fail(exc)
        raise typer.Exit(int(exit_of(exc))) from None
    finally:
        scope.close()


def _local(verbose: bool) -> SparkSession:  # noqa: FBT001 - called by position as a Sessions
    problem = java_problem()
    if problem is not None:
        raise SetupError(problem)
    # Workers find the user's modules where this process does.
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    current = os.getcwd()  # noqa: PTH109 - an entry of PYTHONPATH is a string
    os.environ["PYTHONPATH"] = os.pathsep.join([current, *filter(None, given)])
    try:
        # Help works without Spark.
        from spark_queue.session import SMALL_STEPS_CONF, local_session  # noqa: PLC0415

        # No JVM is started for a session that no queue can use.
        if is_installed("pyspark"):
            require_delta(import_module("pyspark.version").__version__)
        cores = str(max(2, os.cpu_count() or 2))
        # The command says an error in a line.
        level = {} if verbose else {"spark.log.level": "OFF"}
        return local_session(
            master=f"local[{cores}]",
            quiet=not verbose,
            **{**SMALL_STEPS_CONF, **dict.fromkeys(_BY_CORES, cores), **level},
        )
    except ModuleNotFoundError as exc:
        raise SetupError(f"{exc.name} is not installed; pip install 'spark-queue[spark]'") from exc

"""A local Spark session with Delta wired, for laptops, notebooks and tests.

The rest of the library never makes a session: it takes the caller's.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from spark_queue.checks import require_flag, require_text
from spark_queue.errors import InvalidConfigError
from spark_queue.extras import WITHOUT_DELTA, load, require_delta, require_supported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Ends the output held back.
_END = b"\0spark-queue: the session has started\0"

#: What the resolution of packages says before each jar that it fetches, and what is said for all.
_DOWNLOADS = b"downloading "
_ONCE = b"spark-queue: the first session downloads the jars of Delta; this may take a minute\n"

#: The file descriptors of standard output and standard error.
_STREAMS = (1, 2)

#: Bytes that are passed on at once.
_CHUNK = 1 << 16

_SCALA = "2.13"
_PACKAGES = "spark.jars.packages"
_HEAP = "spark.driver.memory"
_LOG_LEVEL = "spark.log.level"

#: What a session needs for the operators on streams: a store that can carry their state, and state
#: that can evolve. Spark's own operators, such as ``dropDuplicates``, cannot keep Avro: queries
#: with these start in a ``newSession()`` in which the encoding is ``unsaferow``.
STREAMING_CONF: Mapping[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.encodingFormat": "avro",
}

#: What a session needs for Delta.
_DELTA: Mapping[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}

#: What a session needs for streams, and what makes small tables on one machine quick.
_DEFAULTS: Mapping[str, str] = {
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    # Files of queues are small for what is in them, and Spark sends a table to where it is joined
    # by the size of its files: ten million rows of 10 MB did not fit into the driver.
    "spark.sql.sources.fileCompressionFactor": "10",
    **STREAMING_CONF,
}

#: A session's setting of how small steps of a small queue are decided, where that is on this
#: machine's disk: ``memory`` (default) by the state that the process keeps, or ``spark``, as all
#: others.
SMALL_STEPS = "spark.sparkQueue.smallSteps"

#: A session's setting of what a step of a queue on this machine's disk survives when it is told:
#: ``disk`` (default) a power cut, or ``process`` the end of the process, and no more.
DURABILITY = "spark.sparkQueue.durability"

#: What makes a step of a few rows cheap, and a frame of millions slow. Planning is nearly all of
#: such a step: code that is compiled for its expressions, by Spark or by the second of Java's
#: compilers, never runs often enough to pay for itself.
SMALL_STEPS_CONF: Mapping[str, str] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.default.parallelism": "1",
    "spark.sql.ui.explainMode": "simple",
    # Every expression is sent to the JVM; with the place of each in the program, that is three
    # times as many calls.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # The displays' memory is most of what stays in the heap of a small session.
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    # With one compiler Java keeps a fifth of the room for what is compiled, which Spark outgrows.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
    ),
}


def delta_coordinate() -> str:
    """Return the Maven coordinate of the Delta jar that fits the installed packages.

    Raises
    ------
    InvalidConfigError
        When ``pyspark`` or ``delta-spark`` is not installed.
    SetupError
        When the library does not run on this version of Spark, or there is no Delta for it yet.
    """
    spark_minor = require_delta(_version_of("pyspark"))
    return f"io.delta:delta-spark_{spark_minor}_{_SCALA}:{_version_of('delta-spark')}"


def _version_of(package: str) -> str:
    from importlib import metadata  # noqa: PLC0415 - takes a while

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError as exc:
        raise InvalidConfigError(
            f"{package} is not installed; pip install 'spark-queue[spark]'"
        ) from exc


def with_delta(conf: Mapping[str, str]) -> dict[str, str]:
    """Return session settings with Delta's added; the caller's own stay.

    Packages and SQL extensions are lists: Delta is added to them, unless it is named there.
    """
    settings = {**_DEFAULTS, **_DELTA, **conf}
    settings[_PACKAGES] = _join(conf.get(_PACKAGES, ""), delta_coordinate(), "delta-spark")
    extensions = "spark.sql.extensions"
    settings[extensions] = _join(conf.get(extensions, ""), _DELTA[extensions], "io.delta")
    return settings


def local_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session on this machine: Delta's, and a heap that fits it.

    Where there is no Delta for this Spark yet, they are those of a session without it.
    """
    if require_supported(_version_of("pyspark")) in WITHOUT_DELTA:
        settings = {**_DEFAULTS, **conf}
    else:
        settings = with_delta(conf)
    size = heap(machine_memory())
    # Given as a setting, it would win over the environment.
    if size is not None and "SPARK_DRIVER_MEMORY" not in os.environ:
        settings.setdefault(_HEAP, size)
    return settings


def local_session(
    app_name: str = "spark-queue",
    *,
    master: str = "local[2]",
    quiet: bool = True,
    **conf: str,
) -> SparkSession:
    """Start (or get) a Spark session on this machine that can use Delta tables.

    Parameters
    ----------
    app_name : str
        The application's name in Spark's own displays.
    master : str
        Where to run, ``local[2]`` by default: two cores of this machine.
    quiet : bool
        Keep the output of the start (package resolution, logging set-up) out of the
        terminal, and show it if the start fails; and log errors alone, unless ``spark.log.level``
        is set. A line says when jars are downloaded.
    **conf : str
        Spark settings, which win over the defaults: ``**{"spark.driver.memory": "6g"}``. Without
        that one the driver's heap is a quarter of the machine's memory, between 1 and 16 GiB.

    Returns
    -------
    SparkSession
        A classic session; the caller stops it.

    Notes
    -----
    The session has ``spark_queue.streaming.STREAMING_CONF``, for the operators on streams. Spark's
    own, such as ``dropDuplicates`` on a stream, need another encoding of their state: start such a
    query in a ``newSession()`` with ``spark.sql.streaming.stateStore.encodingFormat`` set to
    ``unsaferow``.

    Python workers run the interpreter of the caller, unless ``PYSPARK_PYTHON`` says otherwise.
    For steps of a few rows, ``local_session(**SMALL_STEPS_CONF)`` is quicker from the first one on;
    frames of millions of rows then take several times as long.

    The first start resolves the Delta jars from Maven Central into the local cache. On a Spark for
    which there is no Delta yet the session is one without: the operators and
    ``format("spark_queue")`` work in it, and a ``DeltaQueue`` is refused.
    """
    sql = load("pyspark.sql", "spark_queue.local_session")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    require_text("app_name", app_name)
    require_text("master", master)
    require_flag("quiet", quiet)
    builder = sql.SparkSession.builder.master(master).appName(app_name)
    level = {_LOG_LEVEL: "ERROR"} if quiet else {}
    for name, value in local_conf({**level, **conf}).items():
        builder = builder.config(name, value)
    with _keep_back_output() if quiet else nullcontext():
        session: SparkSession = builder.getOrCreate()
    return session


def _join(given: str, ours: str, mark: str) -> str:
    if mark in given:
        return given
    return f"{given},{ours}" if given else ours


@contextmanager
def _keep_back_output() -> Iterator[None]:
    """Hold back output of the block, and show it if the block fails.

    The JVM inherits the streams when it starts: what it prints later is passed on.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    # A file opened with the number of a closed stream would be taken for it.
    relays = [_Relay(fd) for fd in _STREAMS] if all(map(_is_open, _STREAMS)) else []
    try:
        yield
    except BaseException:
        sys.stderr.write("".join(relay.end() for relay in relays))
        raise
    for relay in relays:
        relay.end()


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


class _Relay(threading.Thread):
    """Stands behind a stream of this process, and of a JVM that it starts.

    Parameters
    ----------
    fd : int
        The file descriptor of the stream.
    """

    def __init__(self, fd: int) -> None:
        super().__init__(name=f"spark-queue-stream-{fd}", daemon=True)
        self._fd, self._original = fd, os.dup(fd)
        self._source, self._sink = os.pipe()
        os.dup2(self._sink, fd)
        self._kept = b""
        self._ended = threading.Event()
        self.start()

    def end(self) -> str:
        """Restore this process's stream, and return the output held back."""
        os.dup2(self._original, self._fd)
        # Not by the stream, which may be another by now.
        os.write(self._sink, _END)
        os.close(self._sink)
        self._ended.wait()
        return self._kept.decode(errors="replace")

    def run(self) -> None:
        """Hold back the output until the end, then pass it on while the JVM lives."""
        rest = self._keep_back()
        while rest:
            self._pass_on(rest)
            rest = os.read(self._source, _CHUNK)
        os.close(self._source)
        os.close(self._original)

    def _pass_on(self, said: bytes) -> None:
        # A stream that is closed must not stop the JVM.
        with suppress(OSError):
            os.write(self._original, said)

    def _keep_back(self) -> bytes:
        kept, is_told = b"", False
        while _END not in kept:
            kept += os.read(self._source, _CHUNK)
            if not is_told and _DOWNLOADS in kept:
                is_told = True
                self._pass_on(_ONCE)
        self._kept, _, rest = kept.partition(_END)
        self._ended.set()
        return rest or os.read(self._source, _CHUNK)


#: The part of the machine's memory that a heap takes. Python workers and other programs need the
#: rest.
_SHARE = 4

#: In MiB: the first is Spark's own default, and beyond the last one its collector stops for longer.
_LEAST, _MOST = 1 << 10, 16 << 10

#: What bounds a container, by the two versions of control groups.
_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def heap(memory: int | None) -> str | None:
    """Return the heap for a driver on a machine.

    Parameters
    ----------
    memory : int, optional
        The machine's memory in bytes; ``None`` where it is not known.

    Returns
    -------
    str or None
        A quarter of the memory, between 1 and 16 GiB, as Spark spells it; ``None`` where that is
        Spark's own default, or nothing is known.
    """
    if memory is None:
        return None
    size = min(memory // _SHARE >> 20, _MOST)
    return f"{size}m" if size > _LEAST else None


def machine_memory(paths: Sequence[Path] = _LIMITS) -> int | None:
    """Return the bytes of memory that this machine, or the container in it, has.

    Parameters
    ----------
    paths : sequence of Path
        Files that may hold a limit.
    """
    known = [_physical(), *(_limit(path) for path in paths)]
    return min((size for size in known if size is not None), default=None)


def _physical() -> int | None:
    with suppress(AttributeError, ValueError, OSError):  # a system that does not say
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return size if size > 0 else None
    return None


def _limit(path: Path) -> int | None:
    # The file is not there, or says "max".
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None

"""Settings of an opened queue, with Spark or without."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from spark_queue.checks import require_choice
from spark_queue.durability import require_step_durability
from spark_queue.errors import InvalidConfigError, SparkNeededError
from spark_queue.session import DURABILITY, SMALL_STEPS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How old a table may be as a session of Spark reads it.
STALENESS = "spark.databricks.delta.stalenessLimit"

#: Bytes up to which a file is merged with others, and that those come to.
SMALL = 8 * 1024 * 1024

#: Rows that are read together at most: a step's are in the order of service, of which a claim reads
#: a part.
TOGETHER = 65_536

#: Of what Spark writes: bytes and rows that are read together, and bytes of a file that is merged
#: with others, and of what these come to. Older engines know no limit of rows, and leave it out.
_SIZES = {
    "parquet.block.size": SMALL,
    "parquet.block.row.count.limit": TOGETHER,
    "spark.databricks.delta.optimize.minFileSize": SMALL,
    "spark.databricks.delta.optimize.maxFileSize": SMALL,
}


class LentSettings:
    """Settings that a session has for a while.

    Of blocks at the same time the first one sets them, and the last one leaves the session as the
    first has found it.
    """

    def __init__(self, settings: Mapping[str, str | int]) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._before: WeakKeyDictionary[SparkSession, tuple[int, dict[str, str | None]]]
        self._before = WeakKeyDictionary()

    @contextmanager
    def lent(self, spark: SparkSession) -> Iterator[None]:
        """Set them for a block."""
        self._set(spark)
        try:
            yield
        finally:
            self._restore(spark)

    def _set(self, spark: SparkSession) -> None:
        with self._lock:
            users, before = self._before.get(spark, (0, {}))
            for name, value in self._settings.items() if not users else ():
                # A service may keep a setting to itself: then it is as it says.
                with suppress(Exception):
                    was = spark.conf.get(name, None)
                    if was != str(value):
                        spark.conf.set(name, value)
                        before[name] = was
            self._before[spark] = users + 1, before

    def _restore(self, spark: SparkSession) -> None:
        with self._lock:
            users, before = self._before.pop(spark)
            if users > 1:
                self._before[spark] = users - 1, before
                return
            for name, was in before.items():
                # A session that was stopped meanwhile has none.
                with suppress(Exception):
                    if was is None:
                        spark.conf.unset(name)
                    else:
                        spark.conf.set(name, was)


_LARGE_FILES = LentSettings(_SIZES)
_WHOLE_TIMES = LentSettings({"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"})
_NOTHING = nullcontext()

#: A session's settings of what every table of it is made with.
_DEFAULTS = "spark.databricks.delta.properties.defaults."


class TablesElsewhere(Protocol):
    """Tables that are not on this machine's disk; see :class:`TableSource`.

    Attributes
    ----------
    kept : str
        What a step survives, as :func:`kept_by` tells it.
    """

    kept: str


@dataclass(frozen=True, slots=True)
class PlainSession:
    """What stands where a session of Spark would: its settings, and who keeps the tables."""

    conf: Mapping[str, str] = field(default_factory=dict)
    tables: TablesElsewhere | None = None
    """``None`` for this machine's disk."""


#: Who a queue is opened with.
Session: TypeAlias = "SparkSession | PlainSession"


def spark_of(session: Session, what: str) -> SparkSession:
    """Return the session of Spark.

    Raises
    ------
    SparkNeededError
        When there is none; it says what it was needed for.
    """
    if isinstance(session, PlainSession):
        raise SparkNeededError(what, "the queue was opened without one")
    return session


def is_remote(spark: SparkSession) -> bool:
    """Tell whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_fresh(session: Session) -> bool:
    """Tell whether a session reads what others have committed, at once."""
    limit = session.conf.get(STALENESS, None)
    return limit is None or limit.strip("0 ") in ("", "s", "ms")


def promises_disk(session: Session) -> bool:
    """Whether commits are fsynced."""
    return kept_by(session) == "disk"


def kept_by(session: Session) -> str:
    """Return what a step of a session survives: ``disk``, ``process``, or ``memory`` for nothing.

    Raises
    ------
    InvalidConfigError
        When the session says something else.
    """
    if isinstance(session, PlainSession) and session.tables is not None:
        return session.tables.kept
    return _durability(session.conf.get(DURABILITY, "disk") or "disk")


@lru_cache
def _durability(kept: str) -> str:
    require_step_durability(kept, DURABILITY, InvalidConfigError)
    return kept


def small_steps(session: Session) -> str:
    """Return who decides small steps: ``memory`` or ``spark``."""
    return _small_steps(session.conf.get(SMALL_STEPS, "memory") or "memory")


@lru_cache
def _small_steps(by: str) -> str:
    require_choice(SMALL_STEPS, by, ("memory", "spark"), InvalidConfigError)
    return by


def has_own_tables(session: Session) -> bool:
    """Tell whether a session has wishes of its own for new tables."""
    if isinstance(session, PlainSession):
        return False
    return any(name.startswith(_DEFAULTS) for name in session.conf.getAll)


def size_files(spark: SparkSession, *, is_large: bool = True) -> AbstractContextManager[None]:
    """Have Spark write files of which a claim can read a part, for a while.

    A claim skips files, and rows of them, by the places that they have; one large file has all.
    Where little is written nothing is set.
    """
    return _LARGE_FILES.lent(spark) if is_large else _NOTHING


@contextmanager
def whole_times(
    spark: SparkSession, block: AbstractContextManager[None] = _NOTHING
) -> Iterator[None]:
    """Have Spark write instants as whole microseconds, in a block of another one.

    By default it writes INT96, which most other readers take for nanoseconds: far years become
    others, or are refused.
    """
    with _WHOLE_TIMES.lent(spark), block:
        yield

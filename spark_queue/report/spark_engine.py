"""Panels answered by Spark, for queues whose tables this process does not read by itself."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, fields
from datetime import datetime, timezone

from pyspark.sql import DataFrame, SparkSession, functions as F

from spark_queue.delta.plans.frames import bring
from spark_queue.delta.sql.log_rows import TooManyRowsError
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables import instants
from spark_queue.delta.tables.schema import ITEM, REFUSED
from spark_queue.delta.views.ends import Ends
from spark_queue.report import view_texts
from spark_queue.report.duck import DuckEngine
from spark_queue.report.engine import COMMITS, Answer, Engine, Engines, Question, Removal
from spark_queue.report.entry import ENTERED

_ASKED = {
    "now": "timestamp",
    "since": "timestamp",
    "since_step": "bigint",
    "paused": "boolean",
    "blocking": "boolean",
    "group_limit": "int",
    "max_in_flight": "int",
    "max_losses": "int",
    "max_age_us": "bigint",
}


class SparkEngine(Engine):
    """Answers panels by views of a session, under names that nobody else has.

    Parameters
    ----------
    spark : SparkSession
        The session.
    queue_log, status_log : DataFrame
        The rows of both logs, with the columns that the texts read.
    asked : Asked
        What is asked.
    """

    def __init__(
        self, spark: SparkSession, queue_log: DataFrame, status_log: DataFrame, asked: Question
    ) -> None:
        super().__init__()
        self._spark = spark
        self._prefix = f"sq_{uuid.uuid4().hex}_"
        self._made: list[str] = []
        self._kept: list[DataFrame] = []
        schema = ", ".join(f"{one.name} {_ASKED[one.name]}" for one in fields(asked))
        self._name("queue_log", queue_log)
        self._name("status_log", status_log)
        self._name("asked", spark.createDataFrame([tuple(asdict(asked).values())], schema))

    def _name(self, name: str, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(self._prefix + name)
        self._made.append(self._prefix + name)

    def _define(self, name: str, text: str, *, is_kept: bool) -> None:
        frame = self._spark.sql(view_texts.replace_prefix(text, self._prefix))
        if is_kept:
            frame = frame.persist()
            self._kept.append(frame)
        self._name(name, frame)

    def _ask(self, text: str) -> list[Answer]:
        rows = self._spark.sql(view_texts.replace_prefix(text, self._prefix)).collect()
        return [{name: _utc(value) for name, value in row.asDict().items()} for row in rows]

    def close(self) -> None:
        """See :class:`Engine`."""
        for frame in self._kept:
            frame.unpersist()
        for name in self._made:
            self._spark.catalog.dropTempView(name)


class SparkLogs(Engines):
    """The logs of a queue, wherever they are: Spark reads them, and answers where they are large.

    Spark plans each panel for a second; in this process it is answered in some milliseconds.
    """

    def find_entry(self, store: Store, seq: int) -> Answer | None:
        """See :class:`Engines`."""
        is_meant = (F.col("_seq") == seq) & F.col("_kind").isin(ITEM, REFUSED)
        columns = [F.col(f"`{name}`") for name in (*store.user_columns(), *ENTERED)]
        rows = instants.clamp(store.queue.read().where(is_meant).select(*columns).toArrow())
        return next(iter(rows.to_pylist()), None)

    def removals(self, store: Store) -> list[Removal]:
        """See :class:`Engines`."""
        table = store.queue.address.sql()
        history = store.spark.sql(f"DESCRIBE HISTORY {table} LIMIT {COMMITS}")
        rows = history.where("operation = 'DELETE'").select("timestamp", "userName").collect()
        return [Removal(at=row[0].astimezone(timezone.utc), who=row[1]) for row in rows]

    @contextmanager
    def over(self, store: Store, ends: Ends, asked: Question) -> Iterator[Engine]:
        """See :class:`Engines`."""
        # The items last: all that a transition names have entered by then.
        log, items = store.status.read(), store.queue.read()
        if ends.queue_step is not None:
            items = items.where(F.col("_step") <= ends.queue_step)
            log = log.where(F.col("_step") <= ends.head.step)
        items = items.select(*view_texts.QUEUE_COLUMNS)
        log = log.select(*view_texts.STATUS_COLUMNS)
        with closing(_engine(store.spark, items, log, asked)) as engine:
            yield engine


def _engine(spark: SparkSession, items: DataFrame, log: DataFrame, asked: Question) -> Engine:
    with suppress(TooManyRowsError):
        return DuckEngine(bring(items, None), bring(log, None), asked)
    return SparkEngine(spark, items, log, asked)


def _utc(value: object) -> object:
    """Read a collected timestamp, which is naive and in this process's zone."""
    return value.astimezone(timezone.utc) if isinstance(value, datetime) else value


def engines() -> Engines:
    """Return who answers here."""
    return SparkLogs()

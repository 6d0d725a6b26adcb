"""Upkeep of a queue by Spark, over its tables."""

from __future__ import annotations

import math

from pyspark.sql import DataFrame, functions as F

from spark_queue.commands import readers
from spark_queue.log.addresses import TableAddress
from spark_queue.log.maintenance import Tidied
from spark_queue.log.object import table_objects
from spark_queue.log.output import output_columns
from spark_queue.log.schema import ITEM
from spark_queue.log.session_options import PlainSession, kept_by, small_steps, whole_times
from spark_queue.log.spark.spark_log import is_delta
from spark_queue.log.step_events import LogName
from spark_queue.overriding import override
from spark_queue.session import DURABILITY
from spark_queue.spark.frames import user_columns
from spark_queue.spark.spark_look import SparkLook
from spark_queue.state.handle import Handle
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from spark_queue.upkeep import rewriter
from spark_queue.upkeep.rewriter import ARCHIVED, Archive, Rewriter, archive_name, rewriting


def version_of(store: Store, table: TableAddress) -> int:
    """Return the newest version of a table."""
    history = store.spark.sql(f"DESCRIBE HISTORY {table.sql()} LIMIT 1")
    return int(history.select("version").collect()[0][0])


def shallow(store: Store, new: TableAddress, old: TableAddress, version: int) -> None:
    """Make a table as the clone of a version of another one."""
    clone = f"SHALLOW CLONE {old.sql()} VERSION AS OF {version}"
    store.spark.sql(f"CREATE TABLE {new.sql()} {clone}")


#: Rows of all logs of a queue up to which this process looks at them sooner than Spark does.
_MOST_ROWS = 1_000_000


class SparkRewriter(Rewriter):
    """Upkeep by Spark."""

    look = SparkLook

    @override
    def among(self, found: DataFrame, others: DataFrame, *, is_in: bool) -> DataFrame:
        return found.join(others.select("_seq"), "_seq", "left_semi" if is_in else "left_anti")

    @override
    def generations_of(self, found: DataFrame) -> set[int]:
        return {row[0] for row in found.select("_gen").distinct().collect()}

    @override
    def evaluate(self, found: DataFrame) -> tuple[DataFrame, int]:
        found = found.select("_seq", "_gen").localCheckpoint()
        return found, found.count()

    @override
    def remove(self, reader: Store, which: LogName, found: DataFrame) -> None:
        reader.log(which).remove(found)

    @override
    def drop(self, reader: Store, which: LogName, gen: int, before: int | None = None) -> None:
        with rewriting(reader, which):
            reader.log(which).delete(
                f"_gen = {gen}" + ("" if before is None else f" AND _step < {before}")
            )

    @override
    def open_archive(self, store: Store, path: str) -> Archive:
        # Spark makes the table with the first rows.
        spark, address, name = store.spark, TableAddress.of(path), archive_name(store)
        rows = _archive_rows(store)
        if is_delta(spark, address):
            there = spark.table(address.sql()).schema
            about = f"the archive {address.target!r}"
            output_columns.require(spark, address, there, rows.schema, about, "the queue")

        def keep(gen: int) -> None:
            writer = _archive_rows(store, gen).write.format("delta").mode("append")
            # It knows by that which generations it has.
            writer = writer.option("txnAppId", name).option("txnVersion", gen + 1)
            save = writer.save if address.is_path else writer.saveAsTable
            block = whole_times(spark)
            with table_objects.writes(address.target, block, table_objects.LEAVE_IT):
                save(address.target)

        return keep

    @override
    def tidy(self, store: Store) -> Tidied:
        # On a shared store, files that no reader needs stay for VACUUM.
        if Snapshot(store).are_files_read and small_steps(store.session) == "memory":
            return rewriter.REWRITER.tidy(store)
        with rewriting(store, "queue"):
            store.queue.compact()
        for reader in readers.every(store):
            with rewriting(reader, "status"):
                reader.status.compact()
        return Tidied()


REWRITER = SparkRewriter()


class ObjectRewriter(SparkRewriter):
    """Upkeep of object tables: Spark reads them, this process commits."""

    @override
    def remove(self, reader: Store, which: LogName, found: DataFrame) -> None:
        rewriter.REWRITER.remove(reader, which, found.select("_seq").toArrow())

    @override
    def drop(self, reader: Store, which: LogName, gen: int, before: int | None = None) -> None:
        rewriter.REWRITER.drop(reader, which, gen, before)

    @override
    def tidy(self, store: Store) -> Tidied:
        return rewriter.REWRITER.tidy(store)


OF_OBJECTS = ObjectRewriter()


def without_spark(store: Store) -> tuple[Store, Rewriter] | None:
    """Return a small queue as opened without Spark, and its rewriter.

    ``None`` where Spark is needed.
    """
    if store.queue.is_remote:
        # This process has its files already.
        return store, rewriter.REWRITER
    # A session that asks for decisions by Spark, or by both, has its upkeep done there, too.
    if not Snapshot(store).are_files_read or small_steps(store.session) != "memory":
        return None
    if not store.handle.address.is_path or _sends_items(store) or not _is_small(store):
        return None
    mine = store.handle
    session = PlainSession({DURABILITY: kept_by(store.session)})
    handle = Handle(session, mine.address, mine.clock, mine.listener, mine.hook, mine.holder)
    # Both have to share what the process knows of the queue.
    if handle.place.identity() != mine.place.identity():
        return None
    return Store(handle, store.reader), rewriter.REWRITER


def _sends_items(store: Store) -> bool:
    """Whether a reader forwards items, for which keys are compared."""
    reader_config = (reader.reader_config() for reader in readers.claiming(store))
    return any(one.expire_to or one.punt_to or one.punt_many_to for one in reader_config)


def _is_small(store: Store) -> bool:
    logs = [store.native("queue"), *(one.native("status") for one in readers.with_logs(store))]
    rows = (math.inf if log is None else sum(file.rows for file in log.files()) for log in logs)
    return sum(rows) <= _MOST_ROWS


def _archive_rows(store: Store, gen: int | None = None) -> DataFrame:
    """Return the items of a generation, or of all, with an archive's columns."""
    rows = store.queue.read().where(F.col("_kind") == ITEM)
    rows = rows if gen is None else rows.where(F.col("_gen") == gen)
    return rows.select(*user_columns(rows), *ARCHIVED, F.lit(store.name).alias("_queue"))

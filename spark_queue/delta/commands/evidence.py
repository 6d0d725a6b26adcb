"""Ack by evidence: the output of a claim is one commit that names the claim.

Output rows carry ``_seq`` and ``_claim_id``, and their commit names the claim: in its metadata,
with the outcomes of the items without a row. A worker that takes over from a dead one commits an
*empty* transaction of that name first: then either the worker's output is there, and every outcome
of its run counts, or it never will be.

Whether the name was used is asked of the newest commits, under the right to write, where the table
is on this machine's disk, and the JVM that writes would be waited for. Elsewhere Delta is asked, by
transaction 1 of an application of that name: for that it works out the whole state of the table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import StructType

from spark_queue.delta.tables import jvms, output_columns, paths, turnstile
from spark_queue.delta.tables.address import TableAddress
from spark_queue.delta.tables.appending import sync_commits
from spark_queue.delta.tables.claim_record import (
    ClaimRecord,
    find_record,
    is_unnamed,
    newest_commit,
    read_record,
)
from spark_queue.delta.tables.forcing import make_directory
from spark_queue.delta.tables.local_log import LocalLog
from spark_queue.delta.tables.spark_log import is_delta
from spark_queue.delta.tables.wishes import promises_disk

#: Seconds that somebody waits to write: what a large claim has computed takes minutes.
_PATIENCE = 600.0

#: Commits that are searched first: a history takes long to read.
_RECENT = 1_000


class Output:
    """A Delta table that takes the results of a handler, each exactly once.

    Parameters
    ----------
    spark : SparkSession
        The caller's session.
    path : str
        The table; a text with a ``/`` is a path.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.spark = spark
        self.address = TableAddress.of(path)
        self._named: TableAddress | None = None
        self._columns = StructType()
        self._since = -1

    def exists(self) -> bool:
        """Tell whether the table is there."""
        return is_delta(self.spark, self.address)

    def lasting_name(self) -> str:
        """Return what the table is called in any session: with its database, or its whole path."""
        if (directory := self._directory()) is not None:
            return paths.location_of(directory)
        name = self._details("location" if self.address.is_path else "name")
        return self.address.target if name is None else str(name)

    def read(self) -> DataFrame:
        """Return the table as it is now."""
        reader = self.spark.read.format("delta")
        if self.address.is_path:
            return reader.load(self.address.target)
        return reader.table(self.address.target)

    def ensure(self, results: StructType) -> StructType:
        """Make the table where it is missing, with the columns of the results; return its own.

        Raises
        ------
        SchemaMismatchError
            When the results do not fit the table that is there.
        """
        directory = self._directory()
        log = None if directory is None else LocalLog.at(directory)
        if log is not None and log.may_look():
            there = output_columns.schema_of(log.schema())
        else:
            self._make(self.spark.createDataFrame([], results))
            self._force(self._place())
            there = self.read().schema
        output_columns.require(
            self.spark,
            self.address,
            there,
            results,
            f"the output {self.address.target!r}",
            "returns",
        )
        self._columns, self._since = there, newest_commit(self._place())
        return there

    def _details(self, column: str) -> Any:
        row = self.spark.sql(f"DESCRIBE DETAIL {self.address.sql()}").select(column).head()
        return None if row is None else row[0]

    def _make(self, empty: DataFrame) -> None:
        directory = paths.directory_of(self.spark, self.address)
        if directory is not None:
            make_directory(directory.parent)
        writer = empty.write.format("delta").mode("ignore")
        # Every claim leaves a transaction in the table's log; they are forgotten after a month.
        writer = writer.option("delta.setTransactionRetentionDuration", "interval 30 days")
        if self.address.is_path:
            writer.save(self.address.target)
        else:
            writer.saveAsTable(self.address.target)

    def _directory(self) -> Path | None:
        """Return the table's directory, where it is there and on this machine's disk."""
        directory = paths.directory_of(self.spark, self.address)
        return directory if directory is not None and paths.has_log(directory) else None

    def _place(self) -> Path | None:
        """Return the same of a table by name, too: others may know it by its path."""
        if self.address.is_path:
            return self._directory()
        if self._named is None:
            self._named = TableAddress.of(self._details("location") or self.address.target)
        directory = paths.directory_of(self.spark, self._named)
        return directory if directory is not None and paths.has_log(directory) else None

    def write(self, results: DataFrame, record: ClaimRecord) -> bool:
        """Append the results of a claim; False where the claim was taken over before.

        It has to be granted after :meth:`ensure`, and after the results of the claim before it.
        """
        rows = output_columns.widen(results, self._columns)
        self._commit(rows, record.claim_id, record.text())
        place = self._place()
        if place is not None and find_record(place, record.claim_id) is not None:
            return True
        return self.has(record.claim_id)

    def find_refused(self, results: DataFrame) -> DataFrame:
        """Return ``_seq`` of the results that the table refuses as it is now, and ``_why``."""
        properties, there = self._details("properties") or {}, self.read().schema
        return output_columns.find_refused(results, there, properties, self.address.target)

    def has(self, claim_id: str) -> bool:
        """Tell whether a claim has written its results."""
        return self.rows(claim_id).limit(1).count() > 0

    def rows(self, claim_id: str) -> DataFrame:
        """Return ``_seq`` of what a claim has written."""
        return self.read().where(F.col("_claim_id") == claim_id).select("_seq")

    def shut_out(self, claim_id: str) -> DataFrame:
        """Make sure that a claim writes nothing any more; return what it has written."""
        self._commit(self.read().limit(0), claim_id)
        return self.rows(claim_id)

    def find_record(self, rows: DataFrame, claim_id: str) -> ClaimRecord | None:
        """Return the record of a claim that has written these rows; ``None`` where there is none.

        Commits of earlier releases have none, and those that the table's log no longer has.
        """
        if rows.isEmpty():
            return None
        if (place := self._place()) is not None:
            return find_record(place, claim_id)
        for most in (f" LIMIT {_RECENT}", ""):
            history = self.spark.sql(f"DESCRIBE HISTORY {self.address.sql()}{most}")
            its = history.where(F.col("userMetadata").contains(claim_id)).select("userMetadata")
            if (row := its.head()) is not None:
                return read_record(row[0], claim_id)
        return None

    def _commit(self, rows: DataFrame, claim_id: str, metadata: str | None = None) -> None:
        # Spark's commits on a local disk replace each other, where processes make them at once.
        place = self._place()
        with turnstile.holding(self.address.target, place, timeout=_PATIENCE):
            turnstile.leave_behind(place, lambda: jvms.trace_of(self.spark))
            self._append(rows, claim_id, metadata, place)
            self._force(place)

    def _force(self, place: Path | None) -> None:
        """Force what Spark has committed to the disk: items are done by it."""
        if place is not None and promises_disk(self.spark):
            sync_commits(place)

    def _is_unused(self, place: Path, claim_id: str) -> bool:
        """Tell whether nobody has used a claim's name, nor can while its results are appended.

        Where nobody would wait for the JVM of a writer that was killed, as over Spark Connect, its
        append may come after the claim was shut out.
        """
        is_waited_for = jvms.trace_of(self.spark) != jvms.NOBODY
        return is_waited_for and is_unnamed(place, claim_id, self._since)

    def _append(
        self, rows: DataFrame, claim_id: str, metadata: str | None, place: Path | None
    ) -> None:
        writer, newest = rows.write.format("delta").mode("append"), newest_commit(place)
        if metadata is None or place is None or not self._is_unused(place, claim_id):
            writer = writer.option("txnAppId", claim_id).option("txnVersion", 1)
        if metadata is not None:
            writer = writer.option("userMetadata", metadata)
        try:
            if self.address.is_path:
                writer.save(self.address.target)
            else:
                writer.saveAsTable(self.address.target)
        except Exception as exc:
            # The other side committed first: what is there now says which.
            if "DELTA_CONCURRENT_TRANSACTION" not in str(exc):
                raise
        self._since = newest

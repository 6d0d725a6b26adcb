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

from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.types import StructType

from spark_queue.clock import utc
from spark_queue.commands import settle
from spark_queue.commands.asking import CLAIM, HELD, OF_CLAIM
from spark_queue.commands.settle import SettledStep
from spark_queue.errors import SparkQueueError
from spark_queue.log import addresses
from spark_queue.log.addresses import TableAddress
from spark_queue.log.delta import table_creation
from spark_queue.log.delta.claim_record import (
    ClaimRecord,
    find_record,
    is_unnamed,
    newest_commit,
    read_record,
)
from spark_queue.log.delta.table_properties import OF_RESULTS
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk import jvms, removal, write_lock
from spark_queue.log.disk.fsync import make_directory, sync_commits
from spark_queue.log.object import table_objects
from spark_queue.log.output import output_columns
from spark_queue.log.schema import CLAIMED, ITEM
from spark_queue.log.session_options import promises_disk, whole_times
from spark_queue.log.spark.spark_log import is_delta
from spark_queue.spark.spark_look import SparkLook
from spark_queue.sql.look import newest_rows
from spark_queue.state.open_items import Row
from spark_queue.state.settle_decision import GONE, LOSE, ByARescuer, Each, Gone
from spark_queue.state.store import Store

#: Seconds that a writer waits: the results of a large claim take minutes.
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
        """Whether the table is there."""
        return is_delta(self.spark, self.address)

    def lasting_name(self) -> str:
        """Return the table's name in any session: with its database, or its whole path."""
        if (directory := self._directory()) is not None:
            return addresses.location_of(directory)
        name = self._details("location" if self.address.is_path else "name")
        return self.address.target if name is None else str(name)

    def read(self) -> DataFrame:
        """Return the table at its newest version."""
        reader = self.spark.read.format("delta")
        if self.address.is_path:
            return reader.load(self.address.target)
        return reader.table(self.address.target)

    def ensure(self, results: StructType) -> StructType:
        """Create the table if missing, with the results' columns; return its own.

        Raises
        ------
        SchemaMismatchError
            When the results do not fit the table that is there.
        """
        directory = self._directory()
        log = None if directory is None else DeltaLog.at(directory)
        if log is not None and log.may_look():
            there = output_columns.schema_of(log.schema())
        else:
            self._make(results)
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

    def _make(self, results: StructType) -> None:
        directory = addresses.directory_of(self.spark, self.address)
        if directory is not None:
            make_directory(directory.parent)
            if addresses.has_log(directory) and removal.is_cut(directory):
                # Spark takes the rest of a cut commit for a table.
                with write_lock.holding(self.address.target, directory, timeout=_PATIENCE):
                    removal.remove_cut(directory)
            if self.address.is_path and table_creation.create(
                self.spark, directory, results.json(), OF_RESULTS
            ):
                return
        empty = self.spark.createDataFrame([], results)
        writer = empty.write.format("delta").mode("ignore").options(**OF_RESULTS)
        save = writer.save if self.address.is_path else writer.saveAsTable
        block = whole_times(self.spark)
        try:
            with table_objects.writes(self.address.target, block, table_objects.LEAVE_IT):
                save(self.address.target)
        except SparkQueueError:
            raise
        except Exception:
            # Delta has no word of its own for another process that was sooner.
            if not self.exists():
                raise

    def _directory(self) -> Path | None:
        """Return the table's directory, where it is there and on this machine's disk."""
        return _there(addresses.directory_of(self.spark, self.address))

    def _place(self) -> Path | None:
        """Return the directory of a table by name, too: others may use its path."""
        if self.address.is_path:
            return self._directory()
        if self._named is None:
            self._named = TableAddress.of(self._details("location") or self.address.target)
        return _there(addresses.directory_of(self.spark, self._named))

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
        """Return ``_seq`` and ``_why`` of the results that the table refuses."""
        properties, there = self._details("properties") or {}, self.read().schema
        return output_columns.find_refused(results, there, properties, self.address.target)

    def has(self, claim_id: str) -> bool:
        """Whether a claim has written its results."""
        return self.rows(claim_id).limit(1).count() > 0

    def rows(self, claim_id: str) -> DataFrame:
        """Return ``_seq`` of the rows that a claim has written."""
        return self.read().where(F.col("_claim_id") == claim_id).select("_seq")

    def shut_out(self, claim_id: str) -> DataFrame:
        """Keep a claim from writing any more; return the rows it has written."""
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
        with write_lock.holding(self.address.target, place, timeout=_PATIENCE):
            write_lock.leave_behind(place, lambda: jvms.trace_of(self.spark))
            self._append(rows, claim_id, metadata, place)
            self._force(place)

    def _force(self, place: Path | None) -> None:
        """Force Spark's commits to the disk: they prove that items are done."""
        if place is not None and promises_disk(self.spark):
            sync_commits(place)

    def _is_unused(self, place: Path, claim_id: str) -> bool:
        """Whether a claim's transaction is unused, and stays so while results are appended.

        A killed writer's JVM may append after its claim was shut out, unless others wait for that
        JVM, which they cannot over Spark Connect.
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
        save = writer.save if self.address.is_path else writer.saveAsTable
        try:
            with whole_times(self.spark):
                save(self.address.target)
        except Exception as exc:
            # The other side committed first: what is there now says which.
            if "DELTA_CONCURRENT_TRANSACTION" not in str(exc):
                raise
        self._since = newest


def _there(directory: Path | None) -> Path | None:
    """Return a table's directory; ``None`` where it is missing or half made."""
    return directory if directory is not None and removal.is_made(directory) else None


def ask(store: Store, lease: int, claim_id: str) -> None:
    """Check that a claim's output can be read, changing nothing."""
    if (output := _output(store, lease)) is not None:
        output.find_record(output.rows(claim_id), claim_id)


def abandon(store: Store, lease: int, claim_id: str) -> SettledStep:
    """Settle a claim that its holder gives up: items in the output are done, others go back."""
    any_holder = Gone(store.clock.now(), frozenset(), is_sure=True)
    return _settle(store, lease, claim_id, "release", any_holder)


def settle_by_output(store: Store, lease: int, claim_id: str, gone: Gone) -> SettledStep:
    """Settle a dead worker's claim by its output, if it has one."""
    return _settle(store, lease, claim_id, LOSE, gone)


def read_claims(store: Store) -> list[Row]:
    """Return the claims in flight, as :func:`asking.read_claims`."""
    facts = [getattr(F, how)(name).alias(name) for name, how in OF_CLAIM]
    rows = _read_claimed(store).groupBy(*CLAIM).agg(*facts).collect()
    return [{**row.asDict(), "_lease_expires_at": utc(row["_lease_expires_at"])} for row in rows]


def find_lost(store: Store, gone: Gone) -> list[int]:
    """Return the items in flight whose holder is gone."""
    return [
        row["_seq"] for row in _read_claimed(store).where(_is_of(gone)).select("_seq").collect()
    ]


def _read_claimed(store: Store) -> DataFrame:
    with store.writing("status"):
        return newest_rows(SparkLook, store, store.status_head(), "leased_items", HELD)


def _is_of(gone: Gone) -> Column:
    """Return a column: whether the holder is dead, as :meth:`Gone.has` tells."""
    ended = F.coalesce(F.col("_worker_id").isin(*gone.ended), F.lit(False))
    is_gone = F.lit(gone.is_sure) | (F.col("_lease_expires_at") <= gone.lapsed_by) | ended
    return is_gone & (F.col("_losses") >= gone.losses)


def _settle(store: Store, lease: int, claim_id: str, otherwise: str, gone: Gone) -> SettledStep:
    """Settle the items left of a claim by its output; without one, the items of a gone holder.

    A dead worker's items are looked up again in their newest rows: a holder that has renewed its
    lease keeps them.
    """
    output = _output(store, lease)
    done = None if output is None else output.shut_out(claim_id)
    record = None if output is None or done is None else output.find_record(done, claim_id)
    mine = _read_claimed(store).where(F.col("_lease") == lease)
    meant = gone if output is None else None
    outcomes = _outcomes(
        mine if meant is None else mine.where(_is_of(meant)), done, record, otherwise
    )
    verdict = ByARescuer(Each(outcomes), meant)
    return settle.settle(store, lease, verdict, action="recover")


def _output(store: Store, lease: int) -> Output | None:
    """Return the output of a claim, as its own step names it."""
    granted = (F.col("_kind") == ITEM) & (F.col("_step") == lease) & (F.col("_state") == CLAIMED)
    row = store.status.read().where(granted).select("_body").head()
    if row is None or row[0] is None:
        return None
    output = Output(store.spark, row[0])
    # Where the table is gone, so is the evidence, and all that it said was done.
    return output if output.exists() else None


def _outcomes(
    mine: DataFrame, done: DataFrame | None, record: ClaimRecord | None, otherwise: str
) -> DataFrame:
    """Return outcomes of items as :func:`~spark_queue.log.delta.claim_record.outcomes_of`."""
    outcome: Column = F.lit(otherwise)
    rows = mine.select("_seq")
    if done is not None:
        others = "ack" if record is not None and record.is_whole else otherwise
        rows = rows.join(done.withColumn("_done", F.lit(True)).distinct(), "_seq", "left")
        outcome = F.when(F.col("_done"), "ack").otherwise(others)
    error, after = F.when(outcome == LOSE, GONE), F.lit(None).cast("long")
    if record is not None and record.outcomes:
        listed = [(seq, *said[:2], said.micros) for seq, said in record.outcomes.items()]
        columns = "_seq long, _outcome string, _recorded string, _after long"
        rows = rows.join(mine.sparkSession.createDataFrame(listed, columns), "_seq", "left")
        error = F.when(F.col("_outcome").isNull(), error).otherwise(F.col("_recorded"))
        outcome, after = F.coalesce("_outcome", outcome), F.col("_after")
    told = (outcome.alias("outcome"), error.alias("error"), after.alias("after"))
    return rows.select("_seq", *told).localCheckpoint()

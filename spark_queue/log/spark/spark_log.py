"""A table of a queue as a session of Spark reads and writes it."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, Row, SparkSession, functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from spark_queue.errors import InvalidArgumentError, UnsafeSessionError
from spark_queue.log import addresses
from spark_queue.log.addresses import TableAddress
from spark_queue.log.delta.commits import Commit, commit_at, newest_version
from spark_queue.log.delta.integrity import looked
from spark_queue.log.delta.log import APP_ID
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk import jvms, write_lock
from spark_queue.log.heads import Head
from spark_queue.log.job_descriptions import described
from spark_queue.log.object import table_objects
from spark_queue.log.object.remote_commits import FarCommits
from spark_queue.log.schema import HEAD, ITEM, META_LANE
from spark_queue.log.session_options import is_fresh, size_files, small_steps, whole_times
from spark_queue.log.spark.seq_words import SeqWords
from spark_queue.log.spark.spark_types import SparkColumns, missing, with_head
from spark_queue.log.storage import Storage
from spark_queue.overriding import override

_TXN_SETTINGS = tuple(f"spark.databricks.delta.write.{name}" for name in ("txnAppId", "txnVersion"))

#: Spark's conditions for a name without its schema, or its catalog.
_NO_SCHEMA = ("SCHEMA_NOT_FOUND", "CATALOG_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE")

#: What Delta calls an attempt that lost to another writer, in its error conditions.
_CONFLICTS = ("DELTA_CONCURRENT", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")

#: What Delta calls tables whose commits may be kept by their catalog.
_OF_A_CATALOG = ("catalogManaged", "catalogOwned", "coordinatedCommits")

#: Values that are sent to rows: as many as a driver of 1 GiB, Spark's default, builds a table of.
SENT = 2_000_000

_Head = TypeVar("_Head", bound=Head)


class SparkLog(DeltaLog[_Head]):
    """One of the two tables of a queue, in a session of Spark."""

    session: SparkSession

    def __init__(
        self,
        session: SparkSession,
        address: TableAddress,
        parse: Callable[[str], _Head],
        storage: Storage | None = None,
    ) -> None:
        super().__init__(session, address, parse, storage)
        self._far: FarCommits | None = None
        self._has_far: bool | None = None
        self._columns = SparkColumns(self.properties)
        self._lacks_later: bool | None = None
        """Whether columns of later formats are missing; ``None`` where nobody has looked yet."""

    def exists(self) -> bool:
        """Tell whether there is a Delta table at the address."""
        directory = addresses.directory_of(self.session, self.address)
        if directory is None:
            return is_delta(self.session, self.address)
        if not addresses.has_log(directory):
            return False
        self.find_directory()
        return self.may_look() or is_delta(self.session, self.address)

    @override
    def may_look(self) -> bool:
        if small_steps(self.session) == "spark" or not is_fresh(self.session):
            return False
        return super().may_look()

    def detail(self) -> tuple[str, str]:
        """Return where the table's files are, and the id that it got when it was made."""
        location, table = super().detail()
        if table:
            return location, table
        row = self._describe("location", "id")
        return (str(row[0]), str(row[1])) if row else ("", "")

    @override
    def properties(self) -> Mapping[str, str]:
        if self.may_look():
            return super().properties()
        row = self._describe("properties")
        return {} if row is None else dict(row[0])

    def _describe(self, *columns: str) -> Row | None:
        return self.session.sql(f"DESCRIBE DETAIL {self.address.sql()}").select(*columns).head()

    @override
    def is_followed(self) -> bool:
        return self.is_near() or self._far_commits() is not None

    @override
    def newest(self, known: int | None) -> int | None:
        far = self._far_commits()
        return super().newest(known) if far is None else far.newest(known)

    def _commit_at(self, version: int) -> Commit:
        far = self._far_commits()
        return super()._commit_at(version) if far is None else far.at(version, APP_ID)

    @override
    def version_of(self, token: str, known: int | None) -> int | None:
        far = self._far_commits()
        return None if far is None else far.version_of(token, known)

    def _far_commits(self) -> FarCommits | None:
        """Return the commits of a table on a shared store, unless Spark is to be asked."""
        if self.is_near() or small_steps(self.session) == "spark" or not is_fresh(self.session):
            return None
        if self._has_far is None:
            self._far = self._find_far_commits()
            self._has_far = self._far is not None
        return self._far

    def _find_far_commits(self) -> FarCommits | None:
        if self.address.is_path:
            return FarCommits(self.session, self.address.sql(), self.address.target)
        row = self._describe("location", "tableFeatures")
        if row is None or any(name.startswith(_OF_A_CATALOG) for name in row[1] or ()):
            return None
        return FarCommits(self.session, self.address.sql(), str(row[0]))

    def _create(self, schema: str, wanted: Mapping[str, str], *, replaces: bool) -> None:
        verb = "CREATE OR REPLACE TABLE" if replaces else "CREATE TABLE IF NOT EXISTS"
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in wanted.items())
        columns = StructType.fromJson(json.loads(schema)).toDDL()
        directory = addresses.directory_of(self.session, self.address)
        # Who makes a queue has the right to write in the directory above.
        above = None if directory is None else directory.parent
        write_lock.leave_behind(above, lambda: jvms.trace_of(self.session))
        made = f"{self.address.sql()} ({columns}) USING delta PARTITIONED BY (_gen)"
        try:
            self.session.sql(f"{verb} {made} TBLPROPERTIES ({listed})")
        except AnalysisException as exc:
            if self.address.is_path or exc.getCondition() not in _NO_SCHEMA:
                raise
            schema = self.address.target.rpartition(".")[0]
            raise InvalidArgumentError(
                f"path is the name {self.address.target!r}, and there is no schema {schema!r}: "
                f"make it by CREATE SCHEMA {schema}, or name one that is there"
            ) from exc

    def drop(self) -> None:
        """Remove the table and its files; the errors are those of :meth:`Log.drop`."""
        if self.address.is_path:
            super().drop()
        else:
            self.session.sql(f"DROP TABLE IF EXISTS {self.address.sql()}")
            self.forget()

    @override
    def read(self, version: int | None = None) -> DataFrame:
        return self._columns.fit(self._read(version))

    @override
    def schema(self) -> str:
        if self.may_look():
            return super().schema()
        return self._columns.schema(self._read())

    def _read(self, version: int | None = None) -> DataFrame:
        reader = self.session.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return self._rows_by(reader)

    @override
    def stream(self) -> DataFrame:
        reader = self.session.readStream.format("delta").option("skipChangeCommits", "true")
        return self._columns.drop_foreign(self._rows_by(reader))

    def _rows_by(self, reader: DataFrameReader | DataStreamReader) -> DataFrame:
        target = self.address.target
        # What a power cut has taken is made again first.
        self.find_directory()
        return reader.load(target) if self.address.is_path else reader.table(target)

    def is_empty(self) -> bool:
        """Tell whether the table has no row."""
        return super().is_empty() and looked(lambda: self.read().isEmpty())

    def _query_head(self, since: int) -> _Head | None:
        def newest() -> str | None:
            rows = self._of_kind(HEAD).where(F.col("_step") >= since)
            text: str | None = rows.agg(F.max_by("_body", "_step")).collect()[0][0]
            return text

        with self._for("look for the newest step"):
            return self._parse_head(looked(newest))

    def _query_last_seq(self, step: int) -> int | None:
        def find_seq() -> int | None:
            # What others log meanwhile names items that they have enqueued meanwhile.
            rows = self.read().where((F.col("_kind") == ITEM) & (F.col("_step") <= step))
            seq: int | None = rows.agg(F.max("_seq")).collect()[0][0]
            return seq

        return looked(find_seq)

    def _query_text(self, kind: str, step: int) -> str | None:
        def row() -> Row | None:
            return self._of_kind(kind).where(F.col("_step") == step).select("_body").head()

        found = looked(row)
        return None if found is None else str(found[0])

    def compact(self) -> None:
        """Merge small files. It never loses to appends, nor they to it."""
        with self._rewrites("merge small files"), size_files(self.session):
            self.session.sql(f"OPTIMIZE {self.address.sql()}")

    @override
    def add_columns(self, fields: Sequence[Mapping[str, Any]]) -> None:
        if self._may_add(fields):
            super().add_columns(fields)
            return
        said = self._columns.adding(self.address.sql(), self._read(), fields)
        with self._writes("add columns"):
            for statement in said:
                self.session.sql(statement)
        self.force()

    def delete(self, predicate: str) -> None:
        """Delete rows of a partition, which the predicate names by a literal."""
        with self._rewrites("drop rows"):
            self.session.sql(f"DELETE FROM {self.address.sql()} WHERE {predicate}")  # noqa: S608
        self.force()

    def remove(self, seqs: DataFrame) -> None:
        """Delete the rows of some items, of which the frame has ``_seq`` and ``_gen``."""
        gens = ", ".join(str(row[0]) for row in seqs.select("_gen").distinct().collect())
        view = f"spark_queue_{uuid.uuid4().hex}"
        words = SeqWords.of(seqs)
        # All rows of these generations are read, twice: so they stay where they are.
        gone = F.broadcast(words.rows) if words.count <= SENT else words.rows
        gone.createOrReplaceTempView(view)
        is_gone = words.condition("log._seq", "gone")
        try:
            with self._rewrites("drop rows"):
                self.session.sql(
                    f"MERGE INTO {self.address.sql()} AS log USING {view} AS gone "
                    f"ON {is_gone} AND log._gen IN ({gens}) WHEN MATCHED THEN DELETE"
                )
        finally:
            self.session.catalog.dropTempView(view)
        self.force()

    # rule again: order of forcing
    @override
    def commit(
        self,
        head: _Head,
        rows: DataFrame | pa.Table | None,
        *,
        small: bool = True,
        known: int | None = None,
        is_synced: bool = True,
    ) -> bool:
        self.require_own_transactions()
        if (rows is None or isinstance(rows, pa.Table)) and self.is_readable():
            return super().commit(head, rows, is_synced=is_synced)
        large = size_files(self.session, is_large=not small)
        with self._writes(f"write step {head.step}"), large, self.still(math.inf):
            ours = self._write(head, rows, known, small=small)
        if ours and is_synced:
            self.force()
        return ours

    def _write(
        self, head: _Head, rows: DataFrame | pa.Table | None, known: int | None, *, small: bool
    ) -> bool:
        step = self._with_head(head, rows, small=small)
        if self._lacks_later is not False:
            later = missing(self._read())
            self._lacks_later = bool(later)
            step = step.drop(*(name for name, _ in later))
        writer = step.write.format("delta").mode("append")
        writer = writer.option("txnAppId", APP_ID).option("txnVersion", head.step)
        writer = writer.option("userMetadata", head.token)
        try:
            save = writer.save if self.address.is_path else writer.saveAsTable
            save(self.address.target)
        except Exception as exc:
            if self._is_ours(head):
                return True
            if any(sign in str(exc) for sign in _CONFLICTS):
                return False
            raise
        # By the token: of another's step the number is the same.
        return self.version_of(head.token, known) is not None or self._is_ours(head)

    def _query_texts(self, kind: str, lane: int) -> list[str]:
        rows = looked(lambda: self._of_kind(kind, lane).select("_body").collect())
        return [row[0] for row in rows]

    def _for(self, what: str) -> AbstractContextManager[None]:
        """Describe the jobs of a block by the table."""
        return described(self.session, f"queue table {self.address.target}: {what}")

    def _writes(self, what: str) -> AbstractContextManager[None]:
        """Describe the jobs of a block in which Spark writes to the table."""
        write_lock.leave_behind(self.find_directory(), lambda: jvms.trace_of(self.session))
        block = whole_times(self.session, self._for(what))
        return table_objects.writes(self.address.target, block)

    def _rewrites(self, what: str) -> AbstractContextManager[None]:
        """Do the same for one in which rows, or files, are taken out: no copy stays behind."""
        if self.find_directory() is not None:
            self.place.force()
        return self._writes(what)

    def _of_kind(self, kind: str, lane: int = META_LANE) -> DataFrame:
        return self.read().where((F.col("_gen") == lane) & (F.col("_kind") == kind))

    def _with_head(
        self, head: _Head, rows: DataFrame | pa.Table | None, *, small: bool
    ) -> DataFrame:
        if rows is None or isinstance(rows, pa.Table):
            return self.session.createDataFrame(with_head(rows, head)).coalesce(1)
        line = self.session.createDataFrame(with_head(None, head))
        step = rows.withColumn("_step", F.lit(head.step).cast("long"))
        if small:
            return step.unionByName(line, allowMissingColumns=True).coalesce(1)
        return step.unionByName(line.coalesce(1), allowMissingColumns=True)

    def _is_ours(self, head: _Head) -> bool:
        """Tell whether a step carries our token: in the table's newest version, or anywhere."""
        if self._newest_token() == head.token:
            return True
        logged = self.head_at(head.step)
        return logged is not None and logged.token == head.token

    def _newest_token(self) -> str | None:
        """Return whose the newest commit is, as far as that is known without reading the table."""
        try:
            directory = self.find_directory()
            if directory is not None:
                version = newest_version(directory, None)
                return None if version is None else commit_at(directory, version, APP_ID).token
            # A fraction of a read of the table, which would have to list the table's files again.
            newest = self.session.sql(f"DESCRIBE HISTORY {self.address.sql()} LIMIT 1")
            row = newest.select("userMetadata").head()
        except Exception:  # noqa: BLE001 - this does not change the commit
            return None
        return None if row is None else row[0]

    def require_own_transactions(self) -> None:
        """Raise where every write of the session would be taken for one step."""
        for setting in _TXN_SETTINGS:
            if self.session.conf.get(setting, None):
                raise UnsafeSessionError(setting, "every write would carry it; unset it")


def is_delta(spark: SparkSession, address: TableAddress) -> bool:
    """Tell whether there is a Delta table at an address."""
    try:
        rows = spark.sql(f"DESCRIBE DETAIL {address.sql()}").select("format").head()
    except Exception as exc:
        if _is_missing(exc):
            return False
        raise
    return rows is not None and rows[0] == "delta"


def _is_missing(exc: Exception) -> bool:
    signs = (
        "PATH_NOT_FOUND",
        "TABLE_OR_VIEW_NOT_FOUND",
        "DELTA_MISSING",
        "DELTA_TABLE_NOT_FOUND",
        *_NO_SCHEMA,
        "is not a Delta table",
        "doesn't exist",
    )
    return any(sign in str(exc) for sign in signs)

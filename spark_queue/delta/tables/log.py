"""A Delta table as a log of numbered steps.

Step ``n`` is committed with Delta's transaction version ``n``: of several writers one wins, the
others fail or are skipped without an error. So a writer reads its own token back before it
believes that a step is its own.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_queue.delta.tables import made, paths
from spark_queue.delta.tables.address import TableAddress
from spark_queue.delta.tables.appending import sync_commits
from spark_queue.delta.tables.heads import to_json
from spark_queue.delta.tables.lock import local_directory
from spark_queue.delta.tables.schema import HEAD, META_LANE, SKIPPING_COLUMNS
from spark_queue.errors import InvalidArgumentError, UnsafeSessionError
from spark_queue.session import DURABILITY

#: The application id under which steps are committed; it is scoped to the table.
APP_ID = "spark_queue"

#: A commit that writes a checkpoint of Delta's own log takes seconds; the default is every tenth.
_CHECKPOINT_INTERVAL = 100

#: Stands for the directory of a table that is on no disk of this machine.
_NOT_LOCAL = Path()

_TXN_SETTINGS = (
    "spark.databricks.delta.write.txnAppId",
    "spark.databricks.delta.write.txnVersion",
)

#: How old a table may be as a session reads it.
STALENESS = "spark.databricks.delta.stalenessLimit"

#: What Delta calls an attempt that lost to another writer, in its error conditions.
_CONFLICTS = ("DELTA_CONCURRENT", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")


class Head(Protocol):
    """The state of a log after a step: a dataclass, written as the text of a row of the step."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def step(self) -> int:
        """The number of the step."""
        ...

    @property
    def token(self) -> str:
        """What tells this writer's attempt at the step from any other."""
        ...

    @property
    def at(self) -> str:
        """When it was committed, by its writer's clock, as ISO 8601."""
        ...


_Head = TypeVar("_Head", bound=Head)


class Log(Generic[_Head]):
    """One of the two tables of a queue.

    Parameters
    ----------
    spark : SparkSession
        The caller's session.
    address : TableAddress
        Where the table is.
    parse : callable
        Reads a head from the text of its row.
    """

    def __init__(
        self, spark: SparkSession, address: TableAddress, parse: Callable[[str], _Head]
    ) -> None:
        self.spark = spark
        self.address = address
        self._parse: Callable[[str], _Head] = parse
        self._directory: Path | None = None

    def exists(self) -> bool:
        """Tell whether there is a Delta table at the address."""
        directory = paths.directory_of(self.spark, self.address)
        if directory is not None and not paths.has_log(directory):
            return False
        return is_delta(self.spark, self.address)

    def location(self) -> str:
        """Return where the table's files are."""
        return self.detail()[0]

    def detail(self) -> tuple[str, str]:
        """Return where the table's files are, and the id that it got when it was made."""
        directory = paths.directory_of(self.spark, self.address)
        table = None if directory is None else paths.first_id(directory)
        if directory is not None and table is not None:
            return paths.location_of(directory), table
        detail = self.spark.sql(f"DESCRIBE DETAIL {self.address.sql()}")
        row = detail.select("location", "id").head()
        return (str(row[0]), str(row[1])) if row else ("", "")

    def directory(self) -> Path | None:
        """Return the table's directory, if it is on this machine's disk."""
        if self._directory is None:
            self._directory = local_directory(self.location()) or _NOT_LOCAL
        return None if self._directory is _NOT_LOCAL else self._directory

    def create(
        self, schema: StructType, *, replaces: bool = True, skipping: str = SKIPPING_COLUMNS
    ) -> None:
        """Make the empty table, with the properties that a log of many small commits needs.

        Parameters
        ----------
        schema : StructType
            The columns.
        replaces : bool
            Whether a table that stands there already is replaced, or left as it is.
        skipping : str
            The columns whose minimum and maximum are kept per file.
        """
        properties = {
            "delta.checkpointInterval": str(_CHECKPOINT_INTERVAL),
            "delta.dataSkippingStatsColumns": skipping,
        }
        directory = paths.directory_of(self.spark, self.address)
        if directory is not None and made.create(self.spark, directory, schema, properties):
            return
        verb = "CREATE OR REPLACE TABLE" if replaces else "CREATE TABLE IF NOT EXISTS"
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        self.spark.sql(
            f"{verb} {self.address.sql()} ({schema.toDDL()}) USING delta PARTITIONED BY (_gen) "
            f"TBLPROPERTIES ({listed})"
        )

    def drop(self) -> None:
        """Remove the table and its files.

        Raises
        ------
        InvalidArgumentError
            When it is a path on a shared store, whose files only that store's tools delete.
        """
        if not self.address.is_path:
            self.spark.sql(f"DROP TABLE IF EXISTS {self.address.sql()}")
            return
        directory = local_directory(self.location())
        if directory is None:
            raise InvalidArgumentError(
                f"{self.address.target!r} is not on this machine: delete its files with the "
                "tools of its store"
            )
        shutil.rmtree(directory)

    def read(self, version: int | None = None) -> DataFrame:
        """Return the rows of all steps, or of those up to a version of the table."""
        reader = self.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        if self.address.is_path:
            return reader.load(self.address.target)
        return reader.table(self.address.target)

    def head(self, since: int = 0) -> _Head | None:
        """Return the newest head whose step is at least ``since``."""
        rows = self._heads().where(F.col("_step") >= since)
        newest = rows.agg(F.max_by("_body", "_step")).collect()[0][0]
        return None if newest is None else self._parse(newest)

    def parsed(self, text: str | None) -> _Head | None:
        """Read a head from the text of its row."""
        return None if text is None else self._parse(text)

    def head_at(self, step: int) -> _Head | None:
        """Return the head of one step."""
        rows = self._heads().where(F.col("_step") == step).select("_body").collect()
        return self._parse(rows[0][0]) if rows else None

    def head_by(self, at: datetime) -> _Head | None:
        """Return the newest head that was committed at an instant or before."""
        heads = (self._parse(row[0]) for row in self._heads().select("_body").collect())
        before = [head for head in heads if datetime.fromisoformat(head.at) <= at]
        return max(before, key=lambda head: head.step, default=None)

    def compact(self) -> None:
        """Merge small files. It never loses to appends, nor they to it."""
        self.spark.sql(f"OPTIMIZE {self.address.sql()}")

    def delete(self, predicate: str) -> None:
        """Delete rows of a partition, which the predicate names by a literal."""
        self.spark.sql(f"DELETE FROM {self.address.sql()} WHERE {predicate}")  # noqa: S608
        self.force()

    def remove(self, seqs: DataFrame) -> None:
        """Delete the rows of some items.

        Parameters
        ----------
        seqs : DataFrame
            ``_seq`` and ``_gen``.
        """
        gens = ", ".join(str(row[0]) for row in seqs.select("_gen").distinct().collect())
        view = f"spark_queue_{uuid.uuid4().hex}"
        seqs.createOrReplaceTempView(view)
        try:
            self.spark.sql(
                f"MERGE INTO {self.address.sql()} AS log USING {view} AS gone "
                f"ON log._seq = gone._seq AND log._gen IN ({gens}) WHEN MATCHED THEN DELETE"
            )
        finally:
            self.spark.catalog.dropTempView(view)
        self.force()

    def force(self) -> None:
        """Force what was committed to this machine's disk, where the session promises that."""
        directory = self.directory() if promises_disk(self.spark) else None
        if directory is not None:
            sync_commits(directory)

    def commit(self, head: _Head, rows: DataFrame | None, *, small: bool = True) -> bool:
        """Append a step, and tell whether it is ours.

        Parameters
        ----------
        head : Head
            The head of the step; its number and token say which step and whose.
        rows : DataFrame, optional
            The rows beside the head, already computed: nothing is evaluated in the transaction.
        small : bool
            Write one file instead of one for each partition of ``rows``.

        Returns
        -------
        bool
            False where another writer has the step; then nothing of ours was written.

        Raises
        ------
        UnsafeSessionError
            When the session sets a transaction of its own, which would make writes vanish.
        """
        self.require_own_transactions()
        step = self._with_head(head, rows, small=small)
        writer = step.write.format("delta").mode("append")
        writer = writer.option("txnAppId", APP_ID).option("txnVersion", head.step)
        writer = writer.option("userMetadata", head.token)
        try:
            if self.address.is_path:
                writer.save(self.address.target)
            else:
                writer.saveAsTable(self.address.target)
        except Exception as exc:
            if self._is_ours(head):
                return True
            if _is_conflict(exc):
                return False
            raise
        return self._is_ours(head)

    def _heads(self) -> DataFrame:
        return self.read().where((F.col("_gen") == META_LANE) & (F.col("_kind") == HEAD))

    def _with_head(self, head: _Head, rows: DataFrame | None, *, small: bool) -> DataFrame:
        line = self.spark.createDataFrame(
            [(META_LANE, head.step, HEAD, to_json(head))],
            "_gen int, _step long, _kind string, _body string",
        )
        if rows is None:
            return line
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
            directory = self.directory()
            if directory is not None:
                return newest_token(directory)
            # A fraction of a read of the table, which would have to list the table's files anew.
            newest = self.spark.sql(f"DESCRIBE HISTORY {self.address.sql()} LIMIT 1")
            row = newest.select("userMetadata").head()
        except Exception:  # noqa: BLE001 - the step is committed or not, whatever this says
            return None
        return None if row is None else row[0]

    def require_own_transactions(self) -> None:
        """Raise where every write of the session would be taken for one step.

        Raises
        ------
        UnsafeSessionError
            When the session sets a transaction of its own.
        """
        for setting in _TXN_SETTINGS:
            if self.spark.conf.get(setting, None):
                raise UnsafeSessionError(setting, "every write would carry it; unset it")


def promises_disk(spark: SparkSession) -> bool:
    """Tell whether a session promises that what is told survives a power cut."""
    return spark.conf.get(DURABILITY, "disk") != "process"


def newest_token(directory: Path) -> str | None:
    """Return the ``userMetadata`` of the newest commit of a table on this machine's disk.

    One small file is read, of the format that Delta's protocol fixes: a line of JSON an action.
    """
    try:
        log = directory / "_delta_log"
        names = os.listdir(log)  # noqa: PTH208 - thousands of names, of which one is wanted
        name = max(name for name in names if name.endswith(".json"))
        lines = (log / name).read_text(encoding="utf-8").splitlines()
        infos = [json.loads(line) for line in lines if line.startswith('{"commitInfo"')]
    except (OSError, ValueError):
        return None
    return infos[0]["commitInfo"].get("userMetadata") if infos else None


def is_fresh(spark: SparkSession) -> bool:
    """Tell whether a session reads what others have committed, at once."""
    limit = spark.conf.get(STALENESS, None)
    return limit is None or limit.strip("0 ") in ("", "s", "ms")


def is_delta(spark: SparkSession, address: TableAddress) -> bool:
    """Tell whether there is a Delta table at an address."""
    try:
        rows = spark.sql(f"DESCRIBE DETAIL {address.sql()}").select("format").head()
    except Exception as exc:
        if _is_missing(exc):
            return False
        raise
    return rows is not None and rows[0] == "delta"


def _is_conflict(exc: Exception) -> bool:
    return any(sign in str(exc) for sign in _CONFLICTS)


def _is_missing(exc: Exception) -> bool:
    signs = (
        "PATH_NOT_FOUND",
        "TABLE_OR_VIEW_NOT_FOUND",
        "DELTA_MISSING",
        "DELTA_TABLE_NOT_FOUND",
        "SCHEMA_NOT_FOUND",
        "is not a Delta table",
        "doesn't exist",
    )
    return any(sign in str(exc) for sign in signs)

"""A table on a shared store, or in a catalog, as a session of Spark shows it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, functions as F

from spark_queue.clock import utc
from spark_queue.doctor.table import (
    RECENT,
    CheckedTable,
    Files,
    Strangers,
    Written,
    where_of,
)
from spark_queue.log.schema import HEAD, ITEM, META_LANE
from spark_queue.log.session_options import SMALL
from spark_queue.overriding import override

#: Delta's names of the commits that put rows into a table, among the library's steps.
_ADDING = ("WRITE", "STREAMING UPDATE", "UPDATE", "COPY INTO")

#: Unknown steps that are brought here.
_FEW = 20


@dataclass(frozen=True)
class TableFar(CheckedTable):
    """Table that is checked by Spark's queries."""

    @override
    def newest_commits(self) -> Sequence[Written]:
        history = self.store.spark.sql(f"DESCRIBE HISTORY {self.place} LIMIT {RECENT}")
        rows = history.select("version", "timestamp", "operation", "userMetadata").collect()
        return [
            Written(
                version=row["version"],
                at=utc(row["timestamp"]),
                token=row["userMetadata"],
                is_foreign=row["operation"] in _ADDING and row["userMetadata"] is None,
                # Its rows tell, where they are there.
                is_in_force=False,
            )
            for row in sorted(rows, key=lambda row: int(row["version"]))
        ]

    def _meta(self, kind: str, since: int, *columns: str) -> list[Any]:
        lane = self._rows().where((F.col("_gen") == META_LANE) & (F.col("_kind") == kind))
        wanted = lane.where(F.col("_step") >= since).select("_step", "_body", *columns)
        return list(wanted.orderBy("_step").collect())

    def _rows(self) -> DataFrame:
        rows: DataFrame = self.steps.read()
        return rows

    @override
    def files(self) -> Files:
        # The number of small files follows from the mean size.
        row = self._detail
        lanes = self._rows().select("_gen").distinct().count()
        could_be = min(row["numFiles"], math.ceil(row["sizeInBytes"] / SMALL) + lanes)
        return Files(count=row["numFiles"], could_be=could_be, since=None)

    @override
    def sizes(self) -> Mapping[str, int]:
        return {"rows": int(self._detail["sizeInBytes"])}

    @cached_property
    def _detail(self) -> Any:
        detail = self.store.spark.sql(f"DESCRIBE DETAIL {self.place}")
        (row,) = detail.select("numFiles", "sizeInBytes").collect()
        return row

    @override
    def strangers(self) -> Strangers:
        rows = self._rows()
        steps = rows.where(F.col("_kind") == HEAD).select("_step").distinct()
        others = rows.join(steps, "_step", "left_anti")
        some = others.groupBy("_step").count().orderBy("_step").limit(_FEW + 1).collect()
        unknown = [row["_step"] for row in some if row["_step"] is not None]
        where = where_of(unknown, has_none=len(unknown) < len(some))
        twice = self._count_repeated() if self.which == "queue" else 0
        return Strangers(count=(others.count() if some else 0) + twice, where=where)

    def _count_repeated(self) -> int:
        items = self._rows().where(F.col("_kind") == ITEM)
        (row,) = items.select(F.count("_seq") - F.count_distinct("_seq")).collect()
        return int(row[0])

    @override
    def count_unsummed(self) -> tuple[int, int]:
        # Spark writes checkpoints for its own commits.
        return 0, 1

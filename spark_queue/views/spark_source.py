"""Views of a queue whose logs Spark reads; Spark answers itself where they are large."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from spark_queue.log import instants
from spark_queue.log.heads import StatusHead
from spark_queue.log.schema import ITEM, PROGRESS, REFUSED
from spark_queue.log.spark.spark_types import column_named
from spark_queue.overriding import override
from spark_queue.results import ItemProgress
from spark_queue.spark.frames import bring
from spark_queue.spark.spark_engines import FrameRows
from spark_queue.spark.spark_look import SparkLook
from spark_queue.sql.database import Database
from spark_queue.sql.log_rows import TooManyRowsError
from spark_queue.sql.look import QueueLook
from spark_queue.sql.where import Where
from spark_queue.state.store import Store
from spark_queue.views import answers
from spark_queue.views.answers import Answer, Answers, Ends, Question, ViewSource, by_seq


class BroughtLook(SparkLook):
    """Both logs as Spark reads them, brought to SQL in this process.

    Raises
    ------
    TooManyRowsError
        When there are more rows than this process takes; from :meth:`load`.
    """

    def _start(self) -> Any:
        return Database({})

    @override
    def entries(self, kind: str) -> Any:
        return bring(super().entries(kind), None)

    @override
    def moves(self) -> Any:
        return bring(super().moves(), None)

    @override
    def configs(self) -> Any:
        return bring(super().configs(), None)

    @override
    def find_selected(self, where: Where) -> Any:
        return bring(super().find_selected(where), None)


class SparkSource(ViewSource):
    """Views over logs, wherever they are.

    Spark plans a view for a second; SQL in this process answers in some milliseconds.
    """

    @contextmanager
    @override
    def over(self, store: Store, ends: Ends, asked: Question) -> Iterator[Answers]:
        steps = (ends.queue_step, None if ends.queue_step is None else ends.head.step)
        options = {"steps": steps, "asked": asked.as_row(), "has_values": False}
        with closing(_look(store, options)) as look:
            yield Answers(look)

    @override
    def find_entries(
        self, store: Store, seqs: Sequence[int], columns: Sequence[str]
    ) -> dict[int, Answer]:
        is_meant = F.col("_seq").isin(list(seqs)) & F.col("_kind").isin(ITEM, REFUSED)
        named = [column_named(name) for name in ("_seq", *columns)]
        rows = instants.clamp(store.queue.read().where(is_meant).select(*named).toArrow())
        return by_seq(rows)

    @override
    def find_debts(self, store: Store, head: StatusHead) -> pa.Table:
        return instants.clamp(FrameRows().debts_of(store, head))

    @override
    def find_progress(
        self, store: Store, leases: Mapping[int, int], last: int
    ) -> dict[int, ItemProgress]:
        is_meant = (F.col("_kind") == PROGRESS) & F.col("_seq").isin(list(leases))
        rows = store.status.read().where(is_meant).select(*answers.PROGRESS_COLUMNS)
        return answers.newest_progress(rows.toArrow(), leases, last)


def _look(store: Store, options: Mapping[str, Any]) -> QueueLook[Any]:
    brought = BroughtLook(store, **options)
    try:
        brought.load("states", "configs", "items", "rejected")
    except TooManyRowsError:
        brought.close()
        return SparkLook(store, **options)
    return brought


def source() -> ViewSource:
    """Return the views of a queue that Spark reads."""
    return SparkSource()

"""Bytes that a reader keeps."""

from __future__ import annotations

from pyspark.sql import functions as F

from spark_queue.delta.input.values import bytes_of
from spark_queue.delta.plans import candidates, fold
from spark_queue.delta.store import by_spark
from spark_queue.delta.store.memory import is_long
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import CLAIMED


def outstanding_bytes(store: Store) -> int:
    """Return how many bytes wait for a reader or are in its hands."""
    head = store.status_head()
    touched = fold.find_touched(by_spark.recent_rows(store, head), is_long=is_long(head))
    held = touched.where(F.col("_state") == CLAIMED).select("_seq")
    seqs = candidates.waiting(store, head).select("_seq").unionByName(held)
    rows = by_spark.items(store).join(seqs, "_seq", "left_semi")
    total = rows.agg(F.sum(bytes_of(by_spark.user_schema(store)))).collect()[0][0]
    return int(total or 0)

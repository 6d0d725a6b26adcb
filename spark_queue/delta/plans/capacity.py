"""Bytes that a reader keeps."""

from __future__ import annotations

from pyspark.sql import functions as F

from spark_queue.delta.input.values import bytes_of
from spark_queue.delta.plans import candidates, fold
from spark_queue.delta.store.store import Store, is_long
from spark_queue.delta.tables.schema import CLAIMED


def outstanding_bytes(store: Store) -> int:
    """Return how many bytes wait for a reader or are in its hands."""
    head = store.status_head()
    touched = fold.find_touched(store.recent(head), is_long=is_long(head))
    held = touched.where(F.col("_state") == CLAIMED).select("_seq")
    seqs = candidates.waiting(store, head).select("_seq").unionByName(held)
    rows = store.items().join(seqs, "_seq", "left_semi")
    total = rows.agg(F.sum(bytes_of(store.user_schema()))).collect()[0][0]
    return int(total or 0)

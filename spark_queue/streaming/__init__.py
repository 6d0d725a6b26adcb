"""The rules as operators on streams: state by key, that goes on through restarts.

A session needs RocksDB for its state, stored as Avro, so that the state can evolve::

    spark = local_session(**STREAMING_CONF)

Spark's own stateful operators cannot keep Avro: start queries with ``dropDuplicates`` or an
aggregate in a ``spark.newSession()`` that has another encoding.
"""

from __future__ import annotations

from spark_queue.streaming.checks import STREAMING_CONF, stored_counts
from spark_queue.streaming.operators import (
    distinct_in_flight,
    fair_rounds,
    one_active_per_group,
)

__all__ = [
    "STREAMING_CONF",
    "distinct_in_flight",
    "fair_rounds",
    "one_active_per_group",
    "stored_counts",
]

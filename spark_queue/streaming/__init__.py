"""The rules as operators on streams: state by key, that goes on through restarts.

A session needs RocksDB for its state, stored as Avro, so that the state can evolve. That of
``local_session`` has them; in any other, set what :data:`STREAMING_CONF` holds::

    for name, value in STREAMING_CONF.items():
        spark.conf.set(name, value)

Spark's own stateful operators cannot keep Avro: start queries with ``dropDuplicates`` or an
aggregate in a ``spark.newSession()`` that has another encoding.
"""

from __future__ import annotations

from spark_queue.extras import explain
from spark_queue.session import STREAMING_CONF

try:
    from spark_queue.streaming.operators import (
        distinct_in_flight,
        fair_rounds,
        one_active_per_group,
    )
    from spark_queue.streaming.stored import stored_counts, stored_items
except ImportError as exc:
    explain(exc, "spark_queue.streaming")
    raise

__all__ = [
    "STREAMING_CONF",
    "distinct_in_flight",
    "fair_rounds",
    "one_active_per_group",
    "stored_counts",
    "stored_items",
]

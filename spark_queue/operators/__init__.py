"""The rules as DataFrame transforms: no action, no Delta, nothing collected.

Each takes a frame first, for ``df.transform(operator, ...)``::

    waiting.transform(distinct, "path", order_by="at", in_flight=running)
           .transform(serial_heads, "folder", order_by="at", active=running)
           .transform(fair_take, 1_000, "tenant", order_by="at")
"""

from __future__ import annotations

from spark_queue.extras import explain

try:
    from spark_queue.operators.distinct import distinct, distinct_refused
    from spark_queue.operators.fair import Resume, fair_order, fair_rank, fair_take
    from spark_queue.operators.serial import serial_heads, serial_runs
except ImportError as exc:
    explain(exc, "spark_queue.operators")
    raise

__all__ = [
    "Resume",
    "distinct",
    "distinct_refused",
    "fair_order",
    "fair_rank",
    "fair_take",
    "serial_heads",
    "serial_runs",
]

"""Rows of a Delta table by the datasets of ray."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import ray
from ray.data.expressions import col

from answering import answer, compared

ray.init(num_cpus=2, object_store_memory=100_000_000, include_dashboard=False, log_to_driver=False)


def rows(path: str, where: Any = None) -> Any:
    """Return the rows that meet a condition."""
    found = every = ray.data.read_delta(path)
    if where is not None:
        found = found.filter(expr=compared(col(where[0]), *where[1:]))
    parts = ray.get(found.to_arrow_refs())
    # No rows are no blocks.
    parts = parts or [every.schema().base_schema.empty_table()]
    return pa.concat_tables(parts, promote_options="default")


if __name__ == "__main__":
    answer(rows)

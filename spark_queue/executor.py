"""What runs on an executor: a handler over the items of one partition, in their order.

A handler runs once for a lease. Should Spark run a task again, the items of the second attempt
get no outcome: whether the first one worked on them is not known, so their lease runs out and they
come back under a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_queue.errors import Reject

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Runner = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

#: How much of an error's text is kept.
_ERROR_CHARS = 2_000


def run_items(
    handler: Callable[[dict[str, Any]], Mapping[str, Any] | None], returns: StructType | None
) -> Runner:
    """Return the function that calls a handler for each item.

    A group stops at its first failure: the items behind it are released, uncharged. A rejected
    item is dead and holds nobody up.
    """
    schema = _arrow_schema(returns)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if _is_second_attempt():
            return
        stopped: str | None = None
        for batch in batches:
            rows = []
            for item in batch.to_pylist():
                group = item.pop("_group_key")
                if group is not None and group == stopped:
                    rows.append(_outcome(item["_seq"], "release", None, None))
                    continue
                row = _called(handler, item)
                rows.append(row)
                if row["outcome"] == "nack":
                    stopped = group
            yield pa.RecordBatch.from_pylist(_shaped(rows, returns), schema=schema)

    return run


def run_batches(
    handler: Callable[[pa.Table], pa.Table | None], returns: StructType | None
) -> Runner:
    """Return the function that calls a handler for each Arrow batch.

    Where it raises, every item of the batch failed.
    """
    schema = _arrow_schema(returns)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if _is_second_attempt():
            return
        for batch in batches:
            table = pa.Table.from_batches([batch])
            yield _called_with_table(handler, table, schema)

    return run


def _called(
    handler: Callable[[dict[str, Any]], Mapping[str, Any] | None], item: dict[str, Any]
) -> dict[str, Any]:
    seq = item["_seq"]
    try:
        return _outcome(seq, "ack", None, handler(item))
    except Reject as exc:
        return _outcome(seq, "dead", exc, None)
    except Exception as exc:  # noqa: BLE001 - whatever a handler raises is the item's failure
        return _outcome(seq, "nack", exc, None)


def _called_with_table(
    handler: Callable[[pa.Table], pa.Table | None], table: pa.Table, schema: pa.Schema
) -> pa.RecordBatch:
    seqs = table.column("_seq").combine_chunks()
    try:
        answer = handler(table.drop_columns("_group_key"))
    except Reject as exc:
        return _all("dead", seqs, schema, exc)
    except Exception as exc:  # noqa: BLE001 - as above, for all of them
        return _all("nack", seqs, schema, exc)
    if answer is None or "result" not in schema.names:
        return _all("ack", seqs, schema)
    results = {row.pop("_seq"): row for row in answer.to_pylist()}
    rows = [_outcome(seq, "ack", None, results.get(seq)) for seq in seqs.to_pylist()]
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def _all(
    outcome: str, seqs: pa.Array, schema: pa.Schema, exc: Exception | None = None
) -> pa.RecordBatch:
    """Give all items one outcome, a column at a time."""
    same = {"outcome": outcome, "error": _error(exc), "result": None}
    columns = [
        seqs
        if field.name == "_seq"
        else pa.repeat(pa.scalar(same[field.name], field.type), len(seqs))
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _outcome(
    seq: int, outcome: str, exc: Exception | None, result: Mapping[str, Any] | None
) -> dict[str, Any]:
    return {"_seq": seq, "outcome": outcome, "error": _error(exc), "result": result}


def _error(exc: Exception | None) -> str | None:
    return None if exc is None else f"{type(exc).__name__}: {exc}"[:_ERROR_CHARS]


def _shaped(rows: list[dict[str, Any]], returns: StructType | None) -> list[dict[str, Any]]:
    if returns is None:
        for row in rows:
            del row["result"]
    return rows


def _arrow_schema(returns: StructType | None) -> pa.Schema:
    fields = [("_seq", pa.int64()), ("outcome", pa.string()), ("error", pa.string())]
    if returns is None:
        return pa.schema(fields)
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415 - on the driver, once

    return pa.schema([*fields, ("result", to_arrow_type(returns, timezone="UTC"))])


def _is_second_attempt() -> bool:
    from pyspark import TaskContext  # noqa: PLC0415 - there is one on an executor only

    task = TaskContext.get()
    return task is not None and task.attemptNumber() > 0

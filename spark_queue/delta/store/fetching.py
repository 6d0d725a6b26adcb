"""The items of a small claim, read from the item log's files without a query."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark_queue.delta.replica.state import RememberedClaim
from spark_queue.delta.store.store import Store

#: Items up to which they are brought here.
_FEW = 1_000

#: Bytes of files up to which they are read here.
_MOST_BYTES = 16 * 1024 * 1024


def fetched(store: Store, granted: RememberedClaim) -> DataFrame | None:
    """Return the items of a claim; ``None`` where Spark has to read them.

    Returns
    -------
    DataFrame
        The user's columns, ``_seq``, ``_lease``, ``_attempts`` and ``_group_key``.
    """
    log = store.native("queue")
    if log is None or not 0 < len(granted.rows) <= _FEW:
        return None
    users = store.user_schema()
    seqs = sorted(granted.rows)
    found = [file for file in log.files() if file.may_have("_seq", seqs[0], seqs[-1])]
    if not found or sum(file.size for file in found) > _MOST_BYTES:
        return None
    try:
        rows = log.rows_of(found, [*users.names, "_kind", "_seq"])
    except OSError:
        # Whoever tidied the table up meanwhile has put their rows elsewhere.
        return None
    wanted = pa.array(seqs, pa.int64())
    rows = rows.filter(pc.and_(pc.is_in(rows["_seq"], wanted), pc.equal(rows["_kind"], "item")))
    if rows.num_rows != len(seqs):
        # Somebody has taken them out of the log; what there is to say of that, Spark says.
        return None
    return _frame(store, users, rows, granted)


def _frame(store: Store, users: StructType, rows: pa.Table, granted: RememberedClaim) -> DataFrame:
    leased = [granted.rows[seq] for seq in rows["_seq"].to_pylist()]
    for name, kind in (
        ("_lease", pa.int64()),
        ("_attempts", pa.int32()),
        ("_group_key", pa.string()),
    ):
        rows = rows.append_column(name, pa.array([row[name] for row in leased], kind))
    schema = StructType(list(users.fields)).add("_seq", "long").add("_lease", "long")
    schema = schema.add("_attempts", "integer").add("_group_key", "string")
    return store.spark.createDataFrame(rows.select(schema.names), schema)

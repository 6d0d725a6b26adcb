"""Where the readers of a queue are, as a front that takes it over has to know."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_queue.delta.input.sizes import bytes_of
from spark_queue.delta.plans import fold
from spark_queue.delta.store.store import Store, is_long
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.recent import since_checkpoint
from spark_queue.delta.tables.schema import ITEM, READY, TERMINAL
from spark_queue.journal.records import ReaderOffset


def generations(store: Store) -> list[tuple[int, int]]:
    """Return the first id of each generation, and its number."""
    items = store.queue.read().where((F.col("_kind") == ITEM) & (F.col("_gen") >= 0))
    rows = items.groupBy("_gen").agg(F.min("_seq")).collect()
    return sorted((row[1], row[0]) for row in rows)


def offset(place: Store, schema: StructType) -> ReaderOffset:
    """Return where a reader is: what it is done with, what it failed at, and how much waits."""
    head = place.status_head()
    facts = place.registered()
    rows = _touched(place, head)
    done = {row[0] for row in rows if row[1] in TERMINAL}
    begins = _begin_of(place, facts.since_step)
    passed = max(begins, head.pointers.get(0, (0.0, begins))[1])
    behind = frozenset(seq for seq in done if seq > passed)
    back = [row[0] for row in rows if row[1] == READY and row[0] <= passed]
    return ReaderOffset(
        reader=place.reader,
        name=facts.name,
        config=place.limits(),
        created_at=_instant(facts.at) or place.clock.now(),
        head=_head(passed, done, rows),
        done=behind,
        items=place.outstanding(head),
        bytes=_bytes_of(place, schema, passed, behind, back),
        errors={row[0]: row[2] for row in rows if row[1] == READY and row[2]},
    )


def _touched(place: Store, head: StatusHead) -> list[Row]:
    """Return the id, state and failures of what the reader's log has rows of."""
    recent = place.remembered(head)
    if recent is None:
        recent = since_checkpoint(place.status.read(), head)
    touched = fold.touched(recent, is_long=is_long(head))
    return touched.select("_seq", "_state", "_attempts").collect()


def _bytes_of(
    place: Store, schema: StructType, passed: int, done: Collection[int], back: Collection[int]
) -> int:
    """Return how many bytes wait: of what lies behind an id and is not done, or came back."""
    items = place.items().where(F.col("_kind") == ITEM)
    rows = items.where(F.col("_seq") > passed)
    if done:
        rows = rows.join(_ids(place, done), "_seq", "left_anti")
    if back:
        before = items.where(F.col("_seq").between(min(back), max(back)))
        rows = rows.unionByName(before.join(_ids(place, back), "_seq", "left_semi"))
    return int(rows.agg(F.sum(bytes_of(schema))).collect()[0][0] or 0)


def _ids(place: Store, seqs: Collection[int]) -> DataFrame:
    return place.spark.createDataFrame(pa.table({"_seq": pa.array(seqs, pa.int64())}))


def origins(store: Store, passed: int) -> dict[str, int]:
    """Return the ids of the items behind one that replace another, by the name of that one."""
    items = store.queue.read().where((F.col("_kind") == ITEM) & (F.col("_seq") > passed))
    rows = items.where(F.col("_body").isNotNull()).select("_body", "_seq").collect()
    return {row[0]: row[1] for row in rows}


def _begin_of(store: Store, step: int) -> int:
    """Return the last id of the steps up to one."""
    if step == 0:
        return 0
    at = store.queue.head_at(step)
    return 0 if at is None else at.last_seq


def last_step(store: Store, seq: int) -> int:
    """Return the last step all of whose items have an id up to this one."""
    items = store.queue.read().where(F.col("_kind") == ITEM)
    steps = items.groupBy("_step").agg(F.max("_seq").alias("last"))
    found = steps.where(F.col("last") <= seq).agg(F.max("_step")).collect()[0][0]
    return int(found or 0)


def seqs_after(store: Store, step: int, last: int) -> list[int]:
    """Return the ids up to one that are of later steps than a given one."""
    items = store.queue.read().where((F.col("_kind") == ITEM) & (F.col("_step") > step))
    return [row[0] for row in items.where(F.col("_seq") <= last).select("_seq").collect()]


def _head(passed: int, done: set[int], rows: Sequence[Row]) -> int:
    """Return the highest id with everything up to it done; what was touched is known by itself."""
    open_before = [row[0] for row in rows if row[0] <= passed and row[0] not in done]
    head = min(open_before) - 1 if open_before else passed
    while head + 1 in done:
        head += 1
    return head


def _instant(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None

"""The operators as engines: frames that are asked what comes next, and a processor of a stream.

They have no leases and no operators; the scenarios that need these are not played on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row as SparkRow, SparkSession, functions as F
from pyspark.sql.streaming.tws_tester import TwsTester

from spark_queue.config import LiveSettings, QueueConfig
from spark_queue.operators import (
    Resume,
    distinct,
    distinct_refused,
    fair_rank,
    serial_heads,
    serial_runs,
)
from spark_queue.streaming.processor import NUMBER, PACKED, BucketProcessor, from_bytes, pack
from spark_queue.streaming.stream_groups import SerialRules
from spark_queue.streaming.stream_rules import (
    ARRIVAL,
    CLOCK,
    COMPLETION,
    BucketRules,
    DistinctRules,
    FairRules,
)
from tests.conformance.engines import Capability, Held, Row

if TYPE_CHECKING:
    from typing_extensions import Unpack

EVENTS = pa.schema(
    [
        ("bucket", pa.int32()),
        ("at", pa.int64()),
        ("kind", pa.int32()),
        ("seq", pa.int64()),
        ("key", pa.string()),
        ("number", pa.float64()),
        ("outcome", pa.string()),
        ("row", pa.struct([("id", pa.string())])),
    ]
)

_SCHEMA = "id string, key string, tenant string, grp string, at int"


class _Limited:
    """What an engine without leases, time and operators cannot do."""

    def advance(self, seconds: float) -> None:
        raise NotImplementedError

    def states(self) -> dict[str, str]:
        raise NotImplementedError

    def cancel(self, *ids: str) -> None:
        raise NotImplementedError

    def redrive(self, *ids: str, again: bool = False) -> None:
        raise NotImplementedError

    def pause(self, key: str | None = None, by: str | None = None, for_: Any = None) -> None:
        raise NotImplementedError

    def resume(self, key: str | None = None, by: str | None = None) -> None:
        raise NotImplementedError

    def add_notes(self) -> list[str]:
        raise NotImplementedError

    def notes(self) -> dict[str, str | None]:
        raise NotImplementedError

    def configure(self, **settings: Unpack[LiveSettings]) -> None:
        raise NotImplementedError

    def why(self, item: str) -> tuple[str, str | None]:
        raise NotImplementedError

    def frees(self, item: str) -> tuple[float | None, int]:
        raise NotImplementedError


class _Given:
    """Items that an engine gave out."""

    def __init__(self, ids: list[str], settle: Callable[[list[str], str], None]) -> None:
        self.ids = ids
        self._left = list(ids)
        self._settle = settle

    def settle(
        self,
        verb: str,
        ids: Iterable[str] | None = None,
        error: str | None = None,  # noqa: ARG002
        after: float | None = None,  # noqa: ARG002
        *,
        pause: bool = False,  # noqa: ARG002
    ) -> None:
        told = self._left if ids is None else list(ids)
        self._left = [name for name in self._left if name not in told]
        self._settle(list(told), verb)

    def renew(self, seconds: float) -> None:
        raise NotImplementedError


class BatchEngine(_Limited):
    """A user's own frames of what waits and what runs, and the transforms that choose from them.

    Rows get their round when they come, and wait with it.
    """

    capabilities: frozenset[Capability] = frozenset({"composed", "on demand", "returns", "runs"})

    def __init__(self, spark: SparkSession, config: QueueConfig) -> None:
        self.spark = spark
        self.config = config
        self.waiting: list[tuple[Any, ...]] = []
        self.running: dict[str, tuple[Any, ...]] = {}
        self.current = 0.0
        self.last: dict[str | None, float] = {}
        self.came = 0

    def enqueue(self, rows: Sequence[Row]) -> list[str | None]:
        start = self.came
        self.came += len(rows)
        new = [(r.id, r.key, r.tenant, r.group, start + n) for n, r in enumerate(rows)]
        df = self.spark.createDataFrame(new, _SCHEMA).repartition(2)
        holders: dict[str, str] = {}
        if self.config.dedup_key is not None:
            live = self._frame([*self.waiting, *self.running.values()])
            lost = distinct_refused(df, "key", order_by="at", in_flight=live, winner="id")
            holders = {row["id"]: row["lost_to"]["winner"]["id"] for row in lost.collect()}
            df = distinct(df, "key", order_by="at", in_flight=live)
        self._wait(map(tuple, self._ranked(df).collect()))
        return [holders.get(row.id) for row in rows]

    def claim(self, limit: int, *, run: int = 1, lease: float | None = None) -> Held:  # noqa: ARG002
        df = self._frame(self.waiting)
        if self.config.group_key is not None:
            active = self._frame(list(self.running.values()))
            group_limit = self.config.group_limit
            df = (
                serial_runs(df, "grp", order_by="at", length=run, active=active)
                if run > 1
                else serial_heads(df, "grp", order_by="at", active=active, limit=group_limit)
            )
        taken = [tuple(row) for row in df.orderBy("round", "at").limit(limit).collect()]
        self.current = max([self.current, *(row[-1] for row in taken)])
        self.running |= {row[0]: row for row in taken}
        self.waiting = [row for row in self.waiting if row not in taken]
        return _Given([row[0] for row in taken], self._settle)

    def _ranked(self, df: DataFrame) -> DataFrame:
        if self.config.fair_key is None:
            return df.withColumn("round", F.lit(0.0))
        last = self.spark.createDataFrame(list(self.last.items()), "tenant string, round double")
        resume = Resume(self.current, last)
        ranked = fair_rank(df, "tenant", order_by="at", resume=resume).localCheckpoint()
        ends = Resume.last_of(ranked, "tenant").collect()
        self.last |= {row["tenant"]: row["round"] for row in ends}
        return ranked

    def _settle(self, ids: list[str], verb: str) -> None:
        back = [self.running.pop(name) for name in ids]
        if verb == "release":
            self._wait(back)

    def _wait(self, rows: Iterable[tuple[Any, ...]]) -> None:
        self.waiting = sorted([*self.waiting, *rows], key=lambda row: row[-2])

    def _frame(self, rows: list[tuple[Any, ...]]) -> DataFrame:
        return self.spark.createDataFrame(rows, f"{_SCHEMA}, round double")


class StreamEngine(_Limited):
    """The processor of a stream, on Spark's own test kit: every call is a micro-batch."""

    capabilities: frozenset[Capability] = frozenset({"retries"})

    def __init__(self, config: QueueConfig) -> None:
        self.config = config
        self.now = 0.0
        self.rows: dict[str, Row] = {}
        self.seqs: dict[str, int] = {}
        self.holders: dict[str, str] = {}
        self.ready: list[tuple[float, int, str]] = []
        self._tester = TwsTester(BucketProcessor(self._rules(), 1))

    def enqueue(self, rows: Sequence[Row]) -> list[str | None]:
        for row in rows:
            self.rows[row.id] = row
            self.seqs[row.id] = len(self.seqs) + 1
        before = dict(self.holders)
        passed = self._batch([self._event(ARRIVAL, row.id) for row in rows])
        if self.config.dedup_key is None:
            return [None] * len(rows)
        self.holders |= {r.key: r.id for r in rows if r.id in passed and r.key is not None}
        return [None if r.id in passed else (before | self.holders)[r.key or ""] for r in rows]

    def claim(self, limit: int, *, run: int = 1, lease: float | None = None) -> Held:  # noqa: ARG002
        self._batch([self._event(CLOCK, None)])
        taken, self.ready = sorted(self.ready)[:limit], sorted(self.ready)[limit:]
        if self.config.fair_key is not None:
            self._batch([self._event(COMPLETION, None, number) for number, _, _ in taken])
        return _Given([name for _, _, name in taken], self._settle)

    def advance(self, seconds: float) -> None:
        self.now += seconds

    def _settle(self, ids: list[str], verb: str) -> None:
        if self.config.fair_key is None:
            self._batch([self._event(COMPLETION, name, outcome=verb) for name in ids])

    def _batch(self, events: list[tuple[Any, ...]]) -> set[str]:
        """Bring a micro-batch to the processor; what goes out is ready, and returned."""
        if not events:
            return set()
        columns = zip(*events, strict=True)
        typed = zip(columns, EVENTS, strict=True)
        arrays = [pa.array(values, field.type) for values, field in typed]
        batch = pa.RecordBatch.from_arrays(arrays, schema=EVENTS)
        found = [row for part in pack([batch]) for row in part.to_pylist()]
        out = self._tester.test(0, [SparkRow(packed=row[PACKED]) for row in found])
        rows = [row for part in out for row in from_bytes(part[PACKED]).to_pylist()]
        answers = [(row["id"], row[NUMBER]) for row in rows]
        fair = self.config.fair_key is not None
        self.ready += [(num if fair else 0.0, self.seqs[name], name) for name, num in answers]
        return {name for name, _ in answers}

    def _event(
        self, kind: int, name: str | None, number: float | None = None, outcome: str | None = None
    ) -> tuple[Any, ...]:
        key = None if name is None else self._key(self.rows[name])
        cost = 1.0 if kind == ARRIVAL else 0.0
        seq = 0 if name is None else self.seqs[name]
        at = int(self.now * 1_000_000)
        row = {"id": name} if kind == ARRIVAL else None
        return (0, at, kind, seq, key, cost if number is None else number, outcome, row)

    def _key(self, row: Row) -> str | None:
        if self.config.dedup_key is not None:
            return row.key
        return row.tenant if self.config.fair_key is not None else row.group

    def _rules(self) -> Callable[[], BucketRules]:
        if self.config.dedup_key is not None:
            return DistinctRules
        if self.config.fair_key is not None:
            return partial(FairRules, {}, at_once=False)
        return partial(SerialRules, self.config)

"""The queue without Spark as an engine of the conformance suite, in the process of the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from spark_queue.claim import LocalClaim
from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.local_queue import LocalQueue
from tests.conformance.engines import SCHEMA, QueueEngine, QueueHeld, Row, Told


class LocalEngine(QueueEngine):
    """The durable queue on two Delta tables, without a session of Spark."""

    def __init__(self, path: str, config: QueueConfig) -> None:
        self.clock = ManualClock()
        self.path = path
        LocalQueue.create(path, SCHEMA, config, durability="process", clock=self.clock)
        self.queue: LocalQueue = self.opened()
        self.ids: dict[int, str] = {}

    def opened(self) -> LocalQueue:
        """Return another handle of the queue."""
        return LocalQueue.open(self.path, durability="process", clock=self.clock)

    def forget(self) -> None:
        """Let this process know no more of the queue than one that has just started."""
        self.queue._store.forget()

    def enqueue(self, rows: Sequence[Row]) -> list[str | None]:
        done = self.queue.enqueue([self.values(row) for row in rows], order_by="id")
        return self.name_outcomes(done.outcomes, rows)

    def held(self, claim: LocalClaim) -> QueueHeld:
        """Return a claim as a scenario has it."""
        return QueueHeld(self, claim, (row["_seq"] for row in claim.rows))

    def settle_each(self, claim: LocalClaim, said: Mapping[int, Told]) -> None:
        """Settle items by their seqs."""
        claim.settle_each(said)

    def states(self) -> dict[str, str]:
        rows = self.queue.status().select(["_seq", "_state"]).to_pylist()
        return {self.ids[row["_seq"]]: row["_state"] for row in rows}

    def cancel(self, *ids: str) -> None:
        self.queue.cancel({"_seq": self.seqs(ids)})

    def redrive(self, *ids: str, again: bool = False) -> None:
        self.queue.redrive({"_seq": self.seqs(ids)}, again=again)
        self.name_successors(self.queue.status())

    def notes(self) -> dict[str, str | None]:
        rows = self.queue.status().select(["_seq", "note"]).to_pylist()
        return {self.ids[row["_seq"]]: row["note"] for row in rows}

    def make(
        self, path: str, schema: str = SCHEMA, *, exist_ok: bool = False, **config: Any
    ) -> LocalQueue:
        """Make a queue at a path."""
        made = QueueConfig(**config)
        return LocalQueue.create(path, schema, made, clock=self.clock, exist_ok=exist_ok)

    def open(self, path: str) -> LocalQueue:
        """Open the queue at a path."""
        return LocalQueue.open(path, clock=self.clock)

    def drop(self, path: str, **options: Any) -> int | None:
        """Drop the queue at a path."""
        return LocalQueue.drop(path, **options)

    def read(self, path: str) -> pa.Table:
        """Return the rows of a table at a path."""
        return DeltaTable(path).to_pyarrow_table()

    def exists(self, path: str) -> bool:
        """Tell whether there is a queue at a path."""
        return LocalQueue.exists(path)

    def table(self, table: pa.Table) -> pa.Table:
        """Return a table as it is."""
        return table

    def columns(self) -> pa.Schema:
        """Return the user's columns, as Arrow has them."""
        return self.queue.schema

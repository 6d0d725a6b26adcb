"""PgQueuer as its users have it: a connection, batches of jobs put, a consumer that works them off.

Of two ways to consume: by its ``QueueManager``, which gives a handler one job at a time and writes
down what has become of them in batches; and by its two statements alone, a batch at a time.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.core.qm import QueueManager
from pgqueuer.domain.types import QueueExecutionMode
from pgqueuer.ports.repository import EntrypointExecutionParameter

from postgres import USER
from steps_bench import Row

_T = TypeVar("_T")

#: What jobs are for.
_WHAT = "item"


class _Timed(Queries):  # type: ignore[misc]
    """Notes when the first batch was asked for, and when the last one was written down."""

    began = 0.0
    ended = 0.0

    async def dequeue(self, *args: Any, **named: Any) -> Any:
        self.began = self.began or time.perf_counter()
        return await super().dequeue(*args, **named)

    async def log_jobs(self, *args: Any, **named: Any) -> None:
        await super().log_jobs(*args, **named)
        self.ended = time.perf_counter()


class PgQueuer:
    """A queue in a database, used by one process and one connection at a time."""

    def __init__(self, socket: Path, *, install: bool = True) -> None:
        self._socket = socket
        if install:
            self._run(self._installed)

    def put(self, rows: Sequence[Row]) -> None:
        """Put rows, all in one statement, each with the key by which it is there once."""

        async def putting(queries: _Timed) -> None:
            payloads = [json.dumps(row).encode() for row in rows]
            keys: list[str | None] = [row["path"] for row in rows]
            count = len(rows)
            await queries.enqueue([_WHAT] * count, payloads, [0] * count, dedupe_key=keys)

        self._run(putting)

    def consume(self, size: int, handle: Callable[[Row], object]) -> float:
        """Work off everything by its own consumer; return the seconds until all was durable."""

        async def consuming(queries: _Timed) -> float:
            async def handler(job: Any) -> None:
                handle(json.loads(job.payload))

            manager = QueueManager(queries)
            manager.entrypoint(_WHAT)(handler)
            wait, until_empty = timedelta(seconds=1), QueueExecutionMode.drain
            await manager.run(dequeue_timeout=wait, batch_size=size, mode=until_empty)
            return queries.ended - queries.began

        return self._run(consuming)

    def exchange(self, size: int, handle: Callable[[Row], object]) -> float:
        """Work off everything by its statements; return the seconds until all was durable."""

        async def exchanging(queries: _Timed) -> float:
            who, wanted = uuid.uuid4(), {_WHAT: EntrypointExecutionParameter(concurrency_limit=0)}
            while jobs := await queries.dequeue(size, wanted, who, None, timedelta(seconds=30)):
                for job in jobs:
                    handle(json.loads(job.payload))
                await queries.log_jobs([(job, "successful", None) for job in jobs])
            return queries.ended - queries.began

        return self._run(exchanging)

    def syncs(self) -> int:
        """Return how often the server has forced its log to the disk."""

        async def asking(queries: _Timed) -> int:
            await queries.driver.fetch("SELECT pg_stat_force_next_flush()")
            found = await queries.driver.fetch("SELECT wal_sync FROM pg_stat_wal")
            return int(found[0]["wal_sync"])

        return self._run(asking)

    @staticmethod
    async def _installed(queries: _Timed) -> None:
        await queries.install()

    def _run(self, work: Callable[[_Timed], Coroutine[Any, Any, _T]]) -> _T:
        async def running() -> _T:
            connected = await asyncpg.connect(
                host=str(self._socket), user=USER, database="postgres"
            )
            try:
                return await work(_Timed(AsyncpgDriver(connected)))
            finally:
                await connected.close()

        return asyncio.run(running())

"""The queues that ``compare.py`` compares, each as its users have it, and each durable.

A side is made of a folder, in any number of processes: ``put`` adds rows, ``drain`` works off what
is there and returns the seconds from the first claim to the last completion that is on the disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from small_steps import SCHEMA
from spark_queue import LocalQueue, QueueConfig
from steps_bench import Row

Handle = Callable[[Row], object]


class Side(Protocol):
    """A queue."""

    def put(self, rows: Sequence[Row]) -> None:
        """Add rows."""

    def drain(self, size: int, handle: Handle) -> float:
        """Work off what is there, by claims of a size."""


class Ours:
    """The queue of this library, without Spark: items that are there once, and turns of tenants."""

    def __init__(self, place: Path) -> None:
        name = str(place / "ours")
        if not Path(name).exists():
            LocalQueue.create(name, SCHEMA, QueueConfig(dedup_key="path", fair_key="tenant"))
        self._queue = LocalQueue.open(name)

    def put(self, rows: Sequence[Row]) -> None:
        """Add rows in one step."""
        self._queue.enqueue(list(rows))

    def drain(self, size: int, handle: Handle) -> float:
        """Claim, handle and ack."""
        began = ended = time.perf_counter()
        while (claim := self._queue.claim(size)).count:
            for row in claim.rows:
                handle(row)
            claim.ack()
            ended = time.perf_counter()
        return ended - began


class Sqlite:
    """persist-queue's ``SQLiteAckQueue``: first come, first served, an item at a time."""

    def __init__(self, place: Path) -> None:
        # Here, so that the other sides need no package that only this one does.
        from persistqueue import SQLiteAckQueue  # noqa: PLC0415

        self._queue = SQLiteAckQueue(str(place / "sqlite"), auto_commit=True, multithreading=True)
        for connection in (self._queue._putter, self._queue._getter):  # noqa: SLF001 - it has no name
            connection.execute("PRAGMA synchronous=FULL")

    def put(self, rows: Sequence[Row]) -> None:
        """Add rows one by one: it has no other way."""
        for row in rows:
            self._queue.put(row)

    def drain(self, size: int, handle: Handle) -> float:
        """Get, handle and ack, until it is empty."""
        from persistqueue.exceptions import Empty  # noqa: PLC0415 - as above

        del size
        began = ended = time.perf_counter()
        try:
            while True:
                row = self._queue.get(block=False)
                handle(row)
                self._queue.ack(row)
                ended = time.perf_counter()
        except Empty:
            return ended - began


class Postgres:
    """PgQueuer by its own consumer; the server's socket is in the folder."""

    def __init__(self, place: Path) -> None:
        from pgqueuer_drain import PgQueuer  # noqa: PLC0415 - as above

        made = place / "installed"
        self._queue = PgQueuer(Path((place / "socket").read_text()), install=not made.exists())
        made.touch()

    def put(self, rows: Sequence[Row]) -> None:
        """Add rows in one statement."""
        self._queue.put(rows)

    def drain(self, size: int, handle: Handle) -> float:
        """Run the consumer until nothing is left."""
        return self._queue.consume(size, handle)


SIDES: Mapping[str, Callable[[Path], Side]] = {
    "spark_queue": Ours,
    "PgQueuer": Postgres,
    "SQLiteAckQueue": Sqlite,
}

"""A handler over the items of a claim in this process: by threads, or by children of it.

A thread that dies takes the process with it, and what it held comes back as lost. A child that dies
costs the item that it was at, and no other.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from spark_queue.processing.calling import (
    AnyHandler,
    HandlerCalls,
    Item,
    batch_of,
    called_with_table,
    items_of,
    parts_of,
    release,
    table_apart,
)

#: What a handler runs in.
Using = Literal["threads", "processes"]

#: What is told of an item, or of several.
_Told: TypeAlias = "dict[str, Any] | pa.RecordBatch"

#: Runs the handler, and tells what becomes of one item after another.
_Worker: TypeAlias = Callable[[], Iterable[_Told]]


@dataclass(slots=True, kw_only=True)
class Crew:
    """Runs a handler, on several items at a time.

    Parameters
    ----------
    handler : callable
        Gets an item, or a table of them.
    per : "item" or "batch"
        Which of the two.
    using : "threads" or "processes"
        What runs it.
    max_workers : int
        How many of these at the same time.
    columns : pyarrow.Schema
        Those of outcomes.
    """

    handler: AnyHandler
    per: Literal["item", "batch"]
    using: Using
    max_workers: int
    columns: pa.Schema
    is_here: bool = False
    """Whether the thread that asks does all by itself, one after another."""
    cut: threading.Event = field(default_factory=threading.Event)
    """Set when what goes on is to end: no further item begins, children are killed, and what was
    not done goes back."""
    _told: deque[_Told] = field(default_factory=deque)
    """What is known of items, as it is told."""
    _most: dict[int, int] = field(default_factory=dict)
    """Of how many at most an item may be among, as a child died of a call with more."""

    def work(self, items: pa.Table, *, blocks: bool) -> pa.Table:
        """Return the outcomes of items, but for those that :meth:`take` has returned meanwhile.

        Parameters
        ----------
        items : pyarrow.Table
            In the order of service: the user's columns, ``_seq``, ``_lease``, ``_attempts`` and
            ``_group_key``.
        blocks : bool
            Whether a group stops at its first failure.
        """
        self._told.clear()
        lines = lines_of(items["_group_key"].to_pylist(), items["_seq"].to_pylist())
        if self.per == "batch":
            self._each(self._batches(items, lines))
        elif self.using == "threads":
            self._each(self._threads(items, lines, blocks=blocks))
        else:
            self._each(self._children(items, lines, blocks=blocks))
        return self.take()

    def take(self) -> pa.Table:
        """Return the outcomes that are known, and were not taken yet, from any thread."""
        told = [self._told.popleft() for _ in range(len(self._told))]
        batches = [one for one in told if isinstance(one, pa.RecordBatch)]
        if rows := [one for one in told if isinstance(one, dict)]:
            batches.append(batch_of(rows, self.columns))
        outcomes = pa.Table.from_batches(batches, self.columns)
        self._note_divided(outcomes)
        return outcomes

    def _threads(
        self, items: pa.Table, lines: Sequence[list[int]], *, blocks: bool
    ) -> list[_Worker]:
        """Have each thread take line after line."""
        rows = _items(items)
        left = deque(lines)

        def work() -> Iterator[_Told]:
            turns = HandlerCalls(self.handler, self.columns, blocks=blocks, is_over=self.cut.is_set)
            while (line := _next(left)) is not None:
                yield from (turns.run(rows[at]) for at in line)

        return [work] * min(self.max_workers, len(lines))

    def _children(
        self, items: pa.Table, lines: Sequence[list[int]], *, blocks: bool
    ) -> list[_Worker]:
        """Give each child its part of the lines."""
        rows = _items(items)

        def worker(part: list[int]) -> _Worker:
            turns = HandlerCalls(self.handler, self.columns, blocks=blocks)
            return lambda: turns.each_apart([rows[at] for at in part], self.cut)

        return [worker(part) for part in spread(lines, self.max_workers)]

    def _batches(self, items: pa.Table, lines: Sequence[list[int]]) -> list[_Worker]:
        """Give each worker a table."""
        parts = [items.take(sorted(part)) for part in spread(lines, self.max_workers)]

        def worker(part: pa.Table) -> _Worker:
            return lambda: (self._of_table(table) for table in parts_of(part, self._most))

        return [worker(part) for part in parts]

    def _of_table(self, table: pa.Table) -> pa.RecordBatch:
        if self.cut.is_set():
            return release(table["_seq"].to_pylist(), self.columns)
        if self.using == "threads":
            return called_with_table(self.handler, table, self.columns)
        return table_apart(self.handler, table, self.columns, self.cut)

    def _each(self, workers: Sequence[_Worker]) -> None:
        """Have workers tell what they do; where one fails, the others come to an end first."""
        if self.is_here:
            for work in workers:
                self._hear(work)
        elif workers:
            with ThreadPoolExecutor(len(workers), thread_name_prefix="spark_queue") as pool:
                futures = [pool.submit(self._hear, work) for work in workers]
            for future in futures:
                future.result()

    def _hear(self, work: _Worker) -> None:
        try:
            for told in work():
                self._told.append(told)
        except BaseException:
            self.cut.set()
            raise

    def _note_divided(self, outcomes: pa.Table) -> None:
        """Note which items were in a call of several that a child died of."""
        together = zip(outcomes["_seq"].to_pylist(), outcomes["together"].to_pylist(), strict=True)
        self._most |= {seq: count // 2 for seq, count in together if count is not None}


# rule again: later member of a group
def lines_of(groups: Sequence[str | None], seqs: Sequence[int]) -> list[list[int]]:
    """Return the places of items that are worked off one after another: those of a group.

    Lines come as their first item does; within one the order is that of the seqs.
    """
    lines: dict[Any, list[int]] = {}
    for at, group in enumerate(groups):
        lines.setdefault(at if group is None else group, []).append(at)
    return [sorted(line, key=lambda at: seqs[at]) for line in lines.values()]


def spread(lines: Sequence[list[int]], most: int) -> list[list[int]]:
    """Spread lines over so many parts at most, each of about as many items."""
    parts: list[list[int]] = [[] for _ in range(min(most, len(lines)))]
    for line in lines:
        min(parts, key=len).extend(line)
    return parts


def _next(left: deque[list[int]]) -> list[int] | None:
    try:
        return left.popleft()
    except IndexError:
        return None


def _items(table: pa.Table) -> list[Item]:
    return [item for batch in table.to_batches() for item in items_of(batch)]

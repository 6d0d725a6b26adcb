"""A handler over the items of a claim in this process: by threads, or by children of it.

A thread that dies takes the process with it, and what it held comes back as lost. A child that dies
costs the item that it was at, and no other.

"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from spark_queue.log.step_events import logger
from spark_queue.processing.at_work import AtWork, PausedHere
from spark_queue.processing.calling import (
    HandlerCalls,
    called_with_table,
    items_of,
    parts_of,
    table_apart,
)
from spark_queue.processing.handler_types import AnyHandler
from spark_queue.processing.outcome_rows import Item, back, batch_of, overtime, release
from spark_queue.wording import lasting

#: The outcome of an item, or the outcomes of several.
Told: TypeAlias = dict[str, Any] | pa.RecordBatch


class ItemThread(threading.Thread):
    """Tells what becomes of items, one after another.

    Parameters
    ----------
    work : callable
        Yields what there is to tell; gets the thread, to say which item it is at.
    tell : callable
        Told of it.
    name : str
        The thread's name.
    """

    def __init__(
        self,
        work: Callable[[ItemThread], Iterable[Told]],
        tell: Callable[[Told], object],
        name: str,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._work, self._tell = work, tell
        self._lock = threading.Lock()
        self._item: Item | None = None
        self._since = 0.0
        self._is_late = False
        self.is_lost = False
        """Whether it was given up: its further outcomes are dropped."""
        self.over = threading.Event()
        """Set when it has given all outcomes, or is lost."""
        self.error: BaseException | None = None
        """What ended it, if something did."""

    def run(self) -> None:
        """Work."""
        try:
            for told in self._work(self):
                self._tell(told)
        except BaseException as exc:  # noqa: BLE001 - the waiting thread raises it
            self.error = exc
        finally:
            self.over.set()

    def outcome(
        self, item: Item, call: Callable[[Item], dict[str, Any]], limit: float
    ) -> dict[str, Any]:
        """Return the outcome of an item, or that it took too long."""
        with self._lock:
            self._item, self._since = item, time.monotonic()
        told = call(item)
        with self._lock:
            is_late, self._is_late, self._item = self._is_late, False, None
        return overtime(item[1]["_seq"], limit) if is_late else told

    def look(self, limit: float, end: Callable[[int], bool]) -> bool:
        """Charge the item that it is at, if that takes too long; tell whether it was.

        A task is ended, and the item is charged when it has ended.

        A group is free when all that is known of it has come to an end: an item of one is charged
        when its thread is back, or its lease is over.
        """
        with self._lock:
            if self._item is None or self._is_late or time.monotonic() - self._since <= limit:
                return False
            group, columns = self._item
            self._is_late = True
            if end(columns["_seq"]):
                return False
            logger.warning(
                "item %d takes longer than its item_time_limit, %s: %s is busy until it returns",
                columns["_seq"],
                lasting(limit),
                self.name,
            )
            if group is not None:
                return False
            self.is_lost = True
            self._tell(overtime(columns["_seq"], limit))
            self.over.set()
            return True


#: What a handler runs in.
Using = Literal["threads", "processes"]

#: Runs the handler, and tells what becomes of one item after another.
_Worker: TypeAlias = Callable[[ItemThread], Iterable[Told]]

#: Seconds for which one that hangs is waited for, between two looks at what else there is.
_LOOK = 0.05


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
    is_late: Callable[[], bool] = lambda: False
    """Tells whether no further item of the present work is to begin: the rest goes back."""
    is_here: bool = False
    """Whether the thread that asks does all by itself, one after another."""
    cut: threading.Event = field(default_factory=threading.Event)
    """Set to end the present work: no further item begins, children are killed, and unfinished
    items go back."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set when no further claim is to begin."""
    item_limit: float = math.inf
    """Seconds that an item may take."""
    at_work: AtWork = field(default_factory=AtWork)
    """The items that threads are at."""
    paused: PausedHere = field(default_factory=PausedHere)
    """The keys that the handler asked to pause."""
    _threads: list[ItemThread] = field(default_factory=list)
    _lost: list[ItemThread] = field(default_factory=list)
    """Threads that hang at an item, and count as busy."""
    _told: deque[Told] = field(default_factory=deque)
    """Outcomes of items, as they come in."""
    _most: dict[int, int] = field(default_factory=dict)
    """Of how many at most an item may be among, as a child died of a call with more."""

    def work(self, items: pa.Table, *, blocks: bool) -> pa.Table:
        """Return the outcomes of items, without the ones that :meth:`take` gave out.

        Parameters
        ----------
        items : pyarrow.Table
            In the order of service: the user's columns, ``_seq``, ``_lease``, ``_attempts`` and
            ``_group_key``.
        blocks : bool
            Whether a group stops at its first failure.
        """
        self._told.clear()
        self.at_work.forget()
        lines = lines_of(items["_group_key"].to_pylist(), items["_seq"].to_pylist())
        if self.per == "batch":
            self._each(self._batches(items, lines))
        elif self.using == "threads":
            self._by_threads(items, lines, blocks=blocks)
        else:
            self._each(self._children(items, lines, blocks=blocks))
        return self.take()

    def look(self) -> bool:
        """Charge the items whose threads are at them for too long; tell whether there were any."""
        return sum(thread.look(self.item_limit, self.at_work.end) for thread in self._threads) > 0

    def take(self) -> pa.Table:
        """Return the outcomes that are known, and were not taken yet, from any thread."""
        told = [self._told.popleft() for _ in range(len(self._told))]
        batches = [one for one in told if isinstance(one, pa.RecordBatch)]
        if rows := [one for one in told if isinstance(one, dict)]:
            batches.append(batch_of(rows, self.columns))
        outcomes = pa.Table.from_batches(batches, self.columns)
        self._note_divided(outcomes)
        return outcomes

    def _by_threads(self, items: pa.Table, lines: Sequence[list[int]], *, blocks: bool) -> None:
        """Have each thread take line after line."""
        rows = _items(items)
        left, is_over = deque(lines), self._end_for(self.max_workers)

        def work(thread: ItemThread) -> Iterator[Told]:
            turns = self._calls(is_over, blocks=blocks)
            while not thread.is_lost and (line := _next(left)) is not None:
                for at in line:
                    told = thread.outcome(rows[at], turns.run, self.item_limit)
                    turns.saw(rows[at][0], told["outcome"])
                    if not thread.is_lost:
                        yield told

        self._each([work] * min(self._free(), len(lines)))
        # Where all threads hang, or did at the cut, these items were not begun.
        self._told.extend(back(rows[at]) for line in left for at in line)

    def _calls(self, is_over: Callable[[], bool], *, blocks: bool) -> HandlerCalls:
        """Return what calls the handler for the items of one hand."""
        return HandlerCalls(
            self.handler,
            self.columns,
            blocks=blocks,
            is_over=is_over,
            limit=self.item_limit,
            at_work=self.at_work,
            paused=self.paused,
        )

    def _end_for(self, hands: int) -> Callable[[], bool]:
        """Return what tells hands that no further item is to begin; one each does, unless cut."""
        begun = count()
        return lambda: self.cut.is_set() or (next(begun) >= hands and self.is_late())

    def _free(self) -> int:
        """Return how many threads may begin; where all hang, wait for one, or for the end."""
        while True:
            self._lost = [thread for thread in self._lost if thread.is_alive()]
            is_over = self.cut.is_set() or self.stop.is_set()
            if is_over or len(self._lost) < self.max_workers:
                return self.max_workers - len(self._lost)
            self._lost[0].join(_LOOK)

    def _children(
        self, items: pa.Table, lines: Sequence[list[int]], *, blocks: bool
    ) -> list[_Worker]:
        """Give each child its part of the lines."""
        rows = _items(items)

        def worker(part: list[int]) -> _Worker:
            turns = self._calls(self._end_for(1), blocks=blocks)
            return lambda _: turns.each_apart([rows[at] for at in part], self.cut)

        return [worker(part) for part in spread(lines, self.max_workers)]

    def _batches(self, items: pa.Table, lines: Sequence[list[int]]) -> list[_Worker]:
        """Give each worker a table."""
        parts = [items.take(sorted(part)) for part in spread(lines, self.max_workers)]

        def worker(part: pa.Table) -> _Worker:
            is_over = self._end_for(1)
            return lambda _: (
                self._of_table(table, is_over=is_over()) for table in parts_of(part, self._most)
            )

        return [worker(part) for part in parts]

    def _of_table(self, table: pa.Table, *, is_over: bool) -> pa.RecordBatch:
        if is_over:
            return release(table["_seq"].to_pylist(), self.columns)
        if self.using == "threads":
            return called_with_table(self.handler, table, self.columns)
        return table_apart(self.handler, table, self.columns, self.cut)

    def _each(self, workers: Sequence[_Worker]) -> None:
        """Have workers tell what they do; where one fails, the others come to an end first."""
        names = (f"spark_queue_{number}" for number, _ in enumerate(workers))
        self._threads = [
            ItemThread(self._hear(work), self._told.append, name)
            for work, name in zip(workers, names, strict=True)
        ]
        for thread in self._threads:
            (thread.run if self.is_here else thread.start)()
        for thread in self._threads:
            thread.over.wait()
        self._lost += [thread for thread in self._threads if thread.is_lost]
        for error in [thread.error for thread in self._threads if thread.error is not None]:
            raise error

    def _hear(self, work: _Worker) -> _Worker:
        def hear(thread: ItemThread) -> Iterator[Told]:
            try:
                yield from work(thread)
            except BaseException:
                self.cut.set()
                raise

        return hear

    def _note_divided(self, outcomes: pa.Table) -> None:
        """Note which items were in a call of several that a child died of."""
        together = zip(outcomes["_seq"].to_pylist(), outcomes["together"].to_pylist(), strict=True)
        self._most |= {seq: count // 2 for seq, count in together if count}


# rule: work of a group
def lines_of(groups: Sequence[str | None], seqs: Sequence[int]) -> list[list[int]]:
    """Return the places of items that are worked off one after another: those of a group.

    Lines come as their first item does; within one the order is that of the seqs.
    """
    lines: dict[Any, list[int]] = {}
    for at, group in enumerate(groups):
        lines.setdefault(at if group is None else group, []).append(at)
    return [sorted(line, key=seqs.__getitem__) for line in lines.values()]


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

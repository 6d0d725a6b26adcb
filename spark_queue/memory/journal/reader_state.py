"""State of one reader of a queue: its line, those who wait at it, and its settling."""

from __future__ import annotations

import dataclasses
import queue
from collections.abc import Callable
from itertools import islice
from typing import Generic, TypeVar

from spark_queue.memory.journal.journal_options import ReaderHooks
from spark_queue.memory.journal.journal_settling import Settling
from spark_queue.memory.journal.journal_state import QueueState
from spark_queue.memory.journal.offsets import ReaderCursor
from spark_queue.memory.journal.records import Entry, Read, ReaderStats
from spark_queue.memory.waiting.tickets import Ticket, TicketLine
from spark_queue.memory.waiting.timer import Alarm, seconds
from spark_queue.reader_config import ReaderConfig

T = TypeVar("T")


class ReaderState(Generic[T]):
    """The state of one reader under its queue's lock, for fronts of any kind.

    Attributes
    ----------
    line : ReaderLine
        Its items.
    waiters : TicketLine
        Those who wait for an item. What a ticket wants is whether it only looks, and whether it
        waits for a block to be loaded and for nothing else.
    settling : Settling
        How its items leave it.
    is_paused : bool
        Whether nothing is handed out.
    gone : callable or None
        Makes the error of every call, once the reader is dropped.
    """

    def __init__(
        self, line: ReaderCursor[T], queue_state: QueueState[T], hooks: ReaderHooks[T]
    ) -> None:
        self.line = line
        self.queue_state = queue_state
        self.is_paused = False
        self.gone: Callable[[], Exception] | None = None
        self.waiters: TicketLine[Read[T]] = TicketLine(
            queue_state.lock, queue_state.timer, self._in_vain, self._take_back
        )
        self.want: Callable[[], object] = lambda: None
        self._is_held = queue_state.journal.is_held
        self.settling: Settling[T] = Settling(line, queue_state, self.serve)
        self._alarm: Alarm | None = None
        self.use(hooks)

    def __repr__(self) -> str:
        return f"<ReaderState {self.settling.fullname} items={self.line.items}>"

    def use(self, hooks: ReaderHooks[T]) -> None:
        """Take other hooks, from now on. Under the lock."""
        self.settling.hooks = hooks
        self._open_timeout = seconds("open_timeout", hooks.open_timeout)
        for read in self.line.open.values():
            # Its opening was not timed; it has its whole time from now on.
            read.opened_at = read.opened_at or self.queue_state.timer.now()
        self.configure(self.line.config)

    def configure(self, config: ReaderConfig) -> None:
        """Take another configuration, from now on. Under the lock."""
        self.line.config = config
        self._ages = config.max_age is not None or self._open_timeout is not None
        self._is_bounded = config.max_items is not None or config.max_bytes is not None
        self.queue_state.watch()

    def needs_tending(self) -> bool:
        """Whether the reader must be seen to after each put."""
        return self._ages or self._is_bounded or bool(self.waiters.tickets)

    def is_refusing(self) -> bool:
        """Whether the reader is full and wants no more, even when what expired has gone."""
        if not self._is_bounded or not self.line.is_refusing():
            return False
        self._refresh()
        return self.line.is_refusing()

    # Getting

    def poll(self, *, peek: bool = False) -> Read[T] | None:
        """Open the next item, or look at it; ``None`` when there is none in memory.

        Raises
        ------
        SparkQueueError
            When the queue or the reader is closed, or the journal is not ours for sure.
        """
        queue_state = self.queue_state
        try:
            queue_state.lock.acquire()
            read = self._next(peek=peek)
        finally:
            queue_state.lock.release()
        if queue_state.handoffs:
            self._hand_off_holding(read)
        return read

    def _next(self, *, peek: bool) -> Read[T] | None:
        self._require_ours()
        if self._ages or self.queue_state.totals.has_expiring:
            self._refresh()
        line = self.line
        entry = None if self.is_paused else line.next_entry()
        if entry is None:
            return None
        if peek:
            return Read(entry, line.errors_of(entry))
        return self._open(entry)

    def _open(self, entry: Entry[T]) -> Read[T]:
        line = self.line
        line.take(entry)
        if line.cursor > line.refill_at:
            self.want()
        if self.settling.late:
            self.settling.late.pop(entry.id, None)
        return line.open_read(entry, self.queue_state.timer.now() if self._open_timeout else 0.0)

    def _require_ours(self) -> None:
        if self.gone is not None:
            raise self.gone()
        if not self._is_held():
            self.queue_state.lose()
        if self.queue_state.closed is not None:
            raise self.queue_state.closed()

    def _hand_off_holding(self, read: Read[T] | None) -> None:
        try:
            self.queue_state.hand_off()
        except BaseException:
            # An interrupt of a hook: the caller would not get the read.
            if read is not None:
                self._take_back(read)
            raise

    def ask(self, ticket: Ticket[Read[T]], patience: float | None, *, peek: bool) -> Read[T] | None:
        """Open the next item, or join the line for it and return ``None``.

        Raises
        ------
        queue.Empty
            When there is none and the patience is 0.
        SparkQueueError
            When the queue or the reader is closed, or the journal is not ours for sure.
        """
        with self.queue_state.lock:
            read = self._next(peek=peek)
            if read is not None:
                return read
            if patience == 0 and not self.awaits_load():
                raise self._in_vain()
            ticket.wants = (peek, patience == 0)
            self.waiters.join(ticket)
            self.queue_state.alert = True
            self._look_after_waiters()
        if self.queue_state.handoffs:
            self.queue_state.hand_off()
        if patience:
            ticket.expect(patience)
        return None

    def awaits_load(self) -> bool:
        """Whether there is an item to hand out, and it has to be loaded first."""
        with self.queue_state.lock:
            return not self.is_paused and self.line.is_absent()

    def _in_vain(self, *_: object) -> Exception:
        self.line.counters.get_miss += 1
        why = "is paused" if self.is_paused else "had no item in time"
        return queue.Empty(f"reader {self.settling.fullname!r} {why}")

    def _take_back(self, read: Read[T]) -> None:
        with self.queue_state.lock:
            if self.line.undo_read(read):
                self.serve()

    # Tending

    def tend(self) -> None:
        """Drop excess and expired items, and serve waiting calls. Under the lock."""
        self._refresh()
        self.restock()

    def restock(self) -> None:
        """Drop excess items, and serve waiting calls. Under the lock."""
        if self._is_bounded:
            self._drop_oldest()
        if self.waiters.tickets:
            self.serve()

    def _drop_oldest(self) -> None:
        if not self.line.is_overfull():
            return
        before = self.line.counters.discarded
        self.line.drop_oldest()
        self.queue_state.group_commit.note_settlements(self.line.counters.discarded - before)
        if self.line.is_overfull() and self.line.is_absent():
            self.want()

    def _refresh(self) -> None:
        if self._open_timeout is not None:
            self.settling.end_overdue(self.queue_state.timer.now() - self._open_timeout)
        self._sweep()

    def _sweep(self) -> None:
        if self._ages or self.queue_state.totals.has_expiring:
            for entry in self.line.sweep(self.queue_state.clock.now()):
                self.settling.expire(entry)

    def serve(self) -> None:
        """Hand the next items to waiting calls. Under the lock."""
        tickets = self.waiters.tickets
        if tickets:
            self._sweep()
        while tickets and not self.is_paused and (entry := self.line.next_entry()) is not None:
            if not self._is_held():
                self.queue_state.lose()
                return
            self._hand_over(tickets.popitem(last=False)[0], entry)
        self._look_after_waiters()

    def _hand_over(self, ticket: Ticket[Read[T]], entry: Entry[T]) -> None:
        if ticket.wants[0]:
            ticket.give(Read(entry, self.line.errors_of(entry)))
            return
        read = self._open(entry)
        if not ticket.give(read):
            self.line.undo_read(read)

    def _look_after_waiters(self) -> None:
        tickets = self.waiters.tickets
        if not tickets:
            return
        if self.awaits_load():
            self.want()
            return
        for ticket in [ticket for ticket in tickets if ticket.wants[1]]:
            del tickets[ticket]
            ticket.fail(self._in_vain())
        self._expect_overdue()

    def _expect_overdue(self) -> None:
        if self._open_timeout is None or self._alarm is not None or not self.line.open:
            return
        first = next(iter(self.line.open.values()))
        self._alarm = self.queue_state.timer.call_at(
            first.opened_at + self._open_timeout, self._ring
        )

    def _ring(self) -> None:
        with self.queue_state.lock:
            self._alarm = None
            if self.waiters.tickets and self.queue_state.closed is None:
                self.tend()
        self.queue_state.hand_off()

    def pause(self, *, paused: bool) -> None:
        """Hand nothing out, or go on."""
        with self.queue_state.lock:
            self.is_paused = paused
            self.serve()

    def evict_waiters(self) -> int:
        """End every wait with nothing, and return how many that were."""
        with self.queue_state.lock:
            count = len(self.waiters.tickets)
            self.waiters.fail_all(self._in_vain)
            self.queue_state.watch()
        return count

    def flush(self) -> int:
        """Drop the unread items, and return their number."""
        with self.queue_state.lock:
            self._require_ours()
            count = self.line.flush()
            if count:
                self.queue_state.group_commit.note_settlements(count)
        return count

    def discard_expired(self, limit: int | None) -> tuple[int, bool]:
        """Let expired items go, so many at most.

        Returns
        -------
        tuple of int and bool
            How many have left, and whether the next item was not in memory.
        """
        with self.queue_state.lock:
            self._require_ours()
            self.line.unstick()
            expired = list(islice(self.line.sweep(self.queue_state.clock.now()), limit))
            for entry in expired:
                self.settling.expire(entry)
            is_absent = self.line.is_absent()
        self.queue_state.hand_off()
        with self.queue_state.lock:
            return sum(entry.id not in self.line.stuck for entry in expired), is_absent

    def drop(self, why: Callable[[], Exception]) -> None:
        """End every wait and every later call with an error. Under the lock."""
        self.gone = why
        self.settling.is_gone = True
        self.waiters.fail_all(why)

    def lose_up_to(self, bound: int) -> bool:
        """Drop unread items up to an id; tell whether a block must be loaded to go on."""
        with self.queue_state.lock:
            count = self.line.lose_up_to(bound)
            if count:
                self.queue_state.group_commit.note_settlements(count)
            return self.line.cursor <= bound and self.line.is_absent()

    def take_all_back(self) -> None:
        """Undo every open read. Under the lock."""
        for read in list(self.line.open.values()):
            self.line.undo_read(read)
        self.serve()

    def is_idle(self) -> bool:
        """Whether the reader has nothing left, and is older than an unused one may be."""
        with self.queue_state.lock:
            return self.line.is_idle(self.queue_state.clock.now())

    def stats(self) -> ReaderStats:
        """Return all that is counted, at one instant."""
        line = self.line
        with self.queue_state.lock:
            return ReaderStats(
                name=line.name,
                items=line.items,
                bytes=line.bytes,
                open_items=len(line.open),
                open_bytes=line.open_bytes,
                waiters=len(self.waiters.tickets),
                age=line.age(self.queue_state.clock.now()),
                head=line.head,
                put=line.put_count,
                put_bytes=line.put_bytes,
                **dataclasses.asdict(line.counters),
            )

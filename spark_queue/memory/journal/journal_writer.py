"""Journal writer: commits groups, loads blocks and writes checkpoints, on the writer thread."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Generic, TypeVar

from spark_queue.errors import FencedError
from spark_queue.memory.journal.group_commit import PendingGroup
from spark_queue.memory.journal.journal_state import QueueState, ended_by
from spark_queue.memory.journal.offsets import QueueReader
from spark_queue.memory.journal.reader_state import ReaderState
from spark_queue.memory.journal.records import Entry
from spark_queue.memory.waiting.timer import Alarm, Timeout, seconds
from spark_queue.memory.waiting.waiters import call_each

T = TypeVar("T")

_log = logging.getLogger(__name__)


class JournalWriter(Generic[T]):
    """The calls that a queue makes to its journal while it runs, all on the writer thread.

    Attributes
    ----------
    commits, loads : int
        How many were made.
    """

    def __init__(self, state: QueueState[T], checkpoint_interval: Timeout) -> None:
        self._state = state
        self._journal = state.journal
        self._interval = seconds("checkpoint_interval", checkpoint_interval)
        self._alarm: Alarm | None = None
        self._heads: dict[int, int] = {}
        self._is_written = True
        self._passed = 0
        self.commits = 0
        self.loads = 0
        state.group_commit.commit = self.commit

    # Groups

    def commit(self) -> None:
        """Make durable what has gathered; a failure ends the queue."""
        if self._state.is_broken:
            return
        cut = self._state.group_commit.cut()
        try:
            if not cut.is_empty():
                self._journal.commit(cut.group)
        except BaseException as error:  # noqa: BLE001 - it is the outcome of every put of the group
            self._fail(cut, error)
        else:
            self._succeed(cut)

    def _succeed(self, cut: PendingGroup[T]) -> None:
        self._state.group_commit.settle(cut)
        self._heads = cut.group.heads
        if cut.is_empty():
            return
        self.commits += 1
        self._is_written = False
        call_each(partial(receipt.set_result, receipt.item_id) for receipt in cut.receipts)
        self._state.hand_off()

    def _fail(self, cut: PendingGroup[T], error: BaseException) -> None:
        _log.critical("queue %r has ended: %r", self._state.name, error)
        with self._state.lock:
            self._state.stop(ended_by(self._state.name, error), broken=True)
        call_each(partial(receipt.set_exception, error) for receipt in cut.receipts)
        self._state.fail_receipts()

    def require_whole(self) -> None:
        """Raise what has broken the queue, if anything has."""
        if self._state.is_broken:
            self._state.require_open()

    def sync(self) -> None:
        """Make everything durable that was done up to now."""
        self.commit()
        self.require_whole()

    # Blocks

    def want(self, reader: ReaderState[T]) -> None:
        """Have the next block of a reader loaded, unless it is on its way. Under the lock."""
        if not reader.line.is_loading:
            reader.line.is_loading = True
            self._state.writer.tell(partial(self.load, reader))

    def load(self, reader: ReaderState[T]) -> None:
        """Load the next items of a reader that are not in memory, if there are any near."""
        if self._state.closed is not None:
            return
        try:
            self.load_now(reader)
        except Exception as error:  # noqa: BLE001 - who waits for the block gets it
            _log.exception("reader %s: a block could not be loaded", reader.settling.fullname)
            self._fail_load(reader, error)
        self._state.hand_off()

    def load_now(self, reader: QueueReader[T]) -> None:
        """Load as :meth:`load` does, and raise what goes wrong."""
        state, cache, line = self._state, self._state.cache, reader.line
        with state.lock:
            count = cache.block_size()
            durable_id = state.totals.durable_id
            first = line.cursor if line.is_absent() else cache.first_missing(line, count)
            end = line.cursor + count - 1
        entries: Sequence[Entry[T]] = ()
        if first is not None:
            entries = self._journal.load(first, count)
            # Only an empty answer says that nothing follows: a short one costs another load, where
            # taking it for the end would skip items.
            end = entries[-1].id if entries else durable_id
            self.loads += 1
        with state.lock:
            line.is_loading = False
            if first is not None:
                cache.stock(first, entries, end)
                # Past missing ids, so that the next items of the reader are not evicted below.
                line.next_entry()
            cache.await_refill(line, end, count)
            self._note_expiring(entries)
            state.restock()
            cache.trim(durable_id)

    def _note_expiring(self, entries: Sequence[Entry[T]]) -> None:
        totals = self._state.totals
        if not totals.has_expiring and any(entry.expires_at is not None for entry in entries):
            totals.has_expiring = self._state.alert = True

    def _fail_load(self, reader: QueueReader[T], error: Exception) -> None:
        with self._state.lock:
            reader.line.is_loading = False
            if isinstance(error, FencedError):
                self._state.stop(ended_by(self._state.name, error), broken=True)
            else:
                reader.waiters.fail_all(lambda: error)
                self._state.watch()
        self._state.fail_receipts()

    # Checkpoints

    def checkpoint(self) -> None:
        """Make everything durable, and have the journal drop what every reader has passed.

        Readers that are further behind the others than they may be lose what lies there.
        """
        self._drop_lagging()
        self.sync()
        passed = min(self._heads.values(), default=self._state.totals.durable_id)
        if self._is_written and passed == self._passed:
            return
        self._journal.checkpoint(passed)
        self._is_written, self._passed = True, passed
        with self._state.lock:
            origins = self._state.origins
            for origin in [origin for origin, item in origins.items() if item <= passed]:
                del origins[origin]

    def _drop_lagging(self) -> None:
        for reader, bound in self._lagging():
            while reader.lose_up_to(bound):
                self.load_now(reader)

    def _lagging(self) -> list[tuple[QueueReader[T], int]]:
        with self._state.lock:
            readers = [reader for reader in self._state.readers if reader.line.config.max_lag]
            return [(reader, self._lag_bound(reader)) for reader in readers]

    def _lag_bound(self, reader: QueueReader[T]) -> int:
        others = [other.line.head for other in self._state.readers if other is not reader]
        last_id = self._state.totals.last_id
        return min([*others, last_id - (reader.line.config.max_lag or 0)])

    def expect_checkpoint(self) -> None:
        """Have the next checkpoint written when it is time, if it is to be written by itself."""
        if self._interval:
            timer = self._state.timer
            self._alarm = timer.call_at(timer.now() + self._interval, self._ring)

    def _ring(self) -> None:
        self._state.writer.tell(self._checkpoint_in_passing)

    def _checkpoint_in_passing(self) -> None:
        if self._state.closed is not None:
            return
        try:
            self.checkpoint()
        except Exception:  # noqa: BLE001 - the next one may succeed
            _log.exception("queue %r: a checkpoint failed", self._state.name)
        self.expect_checkpoint()

    # The end

    def close(self, *, drain: bool) -> None:
        """Make everything durable, unless it is to be dropped, and give the journal up."""
        if self._alarm is not None:
            self._alarm.cancel()
        try:
            if drain:
                self.require_whole()
                self.checkpoint()
        finally:
            self._give_up()

    def erase(self) -> None:
        """Remove the journal."""
        try:
            self._journal.erase()
        finally:
            self._give_up()

    def _give_up(self) -> None:
        with self._state.lock:
            self._state.is_broken = True
        self._state.fail_receipts()
        self._journal.close()

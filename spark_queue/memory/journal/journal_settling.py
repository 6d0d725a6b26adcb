"""Settling: how items leave a reader, acked, failed, expired, or replaced."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Generic, Literal, TypeVar

from spark_queue.durability import Durability
from spark_queue.errors import InvalidArgumentError
from spark_queue.memory.journal.group_commit import Receipt
from spark_queue.memory.journal.journal_options import ReaderHooks
from spark_queue.memory.journal.journal_state import QueueState
from spark_queue.memory.journal.offsets import ReaderCursor
from spark_queue.memory.journal.puts import Offer
from spark_queue.memory.journal.records import Entry, Read, origin_of
from spark_queue.wording import shorten

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Settling(Generic[T]):
    """What becomes of the items that a reader has taken, under its queue's lock.

    Parameters
    ----------
    line, queue_state
        The reader's items, and its queue.
    serve : callable
        Called under the lock when an item has come back.

    Attributes
    ----------
    hooks : ReaderHooks
        What decides besides the configuration.
    late : dict
        Reads whose time was up, by id, until their items are opened again.
    is_gone : bool
        Whether the reader is dropped.
    """

    def __init__(
        self, line: ReaderCursor[T], queue_state: QueueState[T], serve: Callable[[], object]
    ) -> None:
        self.line = line
        self.queue_state = queue_state
        self.hooks: ReaderHooks[T] = ReaderHooks()
        self.is_gone = False
        self._serve = serve
        self.late: dict[int, Read[T]] = {}

    @property
    def fullname(self) -> str:
        """What the reader is called among all queues."""
        return f"{self.queue_state.name}+{self.line.name}"

    def ack(self, read: Read[T] | int) -> bool:
        """Settle an open read as done; ``False``, and a word in the log, when it is none."""
        if type(read) is not Read:
            _require_id(read)
        queue_state, line = self.queue_state, self.line
        entry = None
        try:
            queue_state.lock.acquire()
            if queue_state.closed is None and not self.is_gone:
                closed = line.close_read(read)
                entry = self._late_entry(read) if closed is None else closed.entry
            if entry is not None:
                line.settle(entry, line.settlements.acked)
                line.counters.committed += 1
                queue_state.group_commit.note_settlements()
        finally:
            queue_state.lock.release()
        return entry is not None or self._ignore("ack", read)

    def _late_entry(self, read: Read[T] | int) -> Entry[T] | None:
        # Its time was up and its item was not opened since: the ack counts all the same.
        if isinstance(read, int) or self.late.get(read.id) is not read:
            return None
        del self.late[read.id]
        return self.line.back.pop(read.id, None)

    def _ignore(self, verb: str, read: Read[T] | int) -> bool:
        self.queue_state.owner.require()
        item = read if isinstance(read, int) else read.id
        _log.error("reader %s: %s of item %d, which is not open here", self.fullname, verb, item)
        return False

    def nack(self, read: Read[T] | int) -> bool:
        """End an open read as failed; ``False``, and a word in the log, when it is none."""
        return self._end("nack", read, self.fail)

    def release(self, read: Read[T] | int) -> bool:
        """Give an open read back, uncharged; ``False``, and a word in the log, when it is none."""
        return self._end("release", read, self._give_back)

    def _give_back(self, read: Read[T]) -> None:
        self.line.close_read(read)
        self.line.put_back(read.entry)
        self._serve()

    def _end(self, verb: str, read: Read[T] | int, end: Callable[[Read[T]], None]) -> bool:
        if not isinstance(read, Read):
            _require_id(read)
        with self.queue_state.lock:
            found = self._open_read(read)
            if found is not None:
                end(found)
        if found is None:
            return self._ignore(verb, read)
        self.queue_state.hand_off()
        return True

    def _open_read(self, read: Read[T] | int) -> Read[T] | None:
        if self.queue_state.closed is not None or self.is_gone:
            return None
        found = self.line.open.get(read if isinstance(read, int) else read.id)
        return found if isinstance(read, int) or found is read else None

    def replace(self, read: Read[T] | int, offer: Offer[T]) -> Receipt | None:
        """Put an item in the place of an open one, which is done then, both in one group.

        Raises
        ------
        QueueFullError
            When another reader is full, and refuses.
        SparkQueueError
            When the queue is closed.
        """
        if not isinstance(read, Read):
            _require_id(read)
        try:
            receipt = self._replace(read, *offer)
        finally:
            self.queue_state.hand_off()
        if receipt is None:
            self._ignore("replace", read)
        return receipt

    def _replace(
        self, read: Read[T] | int, entry: Entry[T], durability: Durability | None
    ) -> Receipt | None:
        with self.queue_state.lock:
            self.queue_state.puts.admit(entry, exempt=self.line)
            found = self._open_read(read)
            if found is None:
                return None
            entry.origin = origin_of(self.fullname, found.id)
            self.ack(found)
            return self.queue_state.puts.place(entry, durability)

    def fail(self, read: Read[T]) -> None:
        """End an open read as failed. Under the lock."""
        self.line.close_read(read)
        self.line.counters.canceled += 1
        read.errors += 1
        if self.hooks.on_error is None and self.punts_to(read.errors) is None:
            self.put_back(read)
            return
        self.line.away[read.id] = read.entry
        self.queue_state.handoffs.append(partial(hand_off_failed, self, read))

    def punts_to(self, errors: int) -> str | None:
        """Return the queue that gets an item which has failed so often."""
        config = self.line.config
        if config.punt_many_to is not None and errors >= config.punt_many_at:
            return config.punt_many_to
        return config.punt_to

    def end_overdue(self, opened_before: float) -> None:
        """End reads as failed that were opened so long ago. Under the lock."""
        while self.line.open:
            read = next(iter(self.line.open.values()))
            if read.opened_at > opened_before:
                return
            self.fail(read)
            if read.id in self.line.back:
                self.late[read.id] = read

    def expire(self, entry: Entry[T]) -> None:
        """Let an expired item go that was taken out of the order. Under the lock."""
        if self.hooks.on_expired is None and self.line.config.expire_to is None:
            self._settle(entry, "expired")
            return
        self.line.away[entry.id] = entry
        self.queue_state.handoffs.append(partial(hand_off_expired, self, entry))

    # What became of a hand-off

    def finish(self, entry: Entry[T], why: Literal["expired", "punted"]) -> None:
        """Count an item that was handed off as gone."""
        with self.queue_state.lock:
            if self._has_returned(entry):
                self._settle(entry, why)

    def stick(self, entry: Entry[T]) -> None:
        """Keep an expired item that could not leave, until expired ones are discarded again."""
        with self.queue_state.lock:
            if self._has_returned(entry):
                self.line.stuck[entry.id] = entry

    def put_back(self, read: Read[T]) -> None:
        """Let a failed item be unread again, at its place."""
        with self.queue_state.lock:
            self.line.away.pop(read.id, None)
            if self.queue_state.closed is not None:
                return
            self.line.fail(read.entry, read.errors)
            self.queue_state.group_commit.note_settlements()
            self._serve()

    def _has_returned(self, entry: Entry[T]) -> bool:
        # A queue that was closed in between can make nothing durable: it will be handed off again.
        return self.line.away.pop(entry.id, None) is not None and self.queue_state.closed is None

    def _settle(self, entry: Entry[T], why: Literal["expired", "punted"]) -> None:
        counters, settlements = self.line.counters, self.line.settlements
        if why == "expired":
            counters.expired += 1
            self.line.settle(entry, settlements.expired)
        else:
            counters.punted += 1
            self.line.settle(entry, settlements.punted)
        self.queue_state.group_commit.note_settlements()


def _require_id(read: object) -> None:
    """Raise where a value is neither a read nor the id of one."""
    if isinstance(read, bool) or not isinstance(read, int | Read):
        raise InvalidArgumentError(
            f"read is {shorten(read)}: it must be what a get returned, or the id of it"
        )


def hand_off_expired(settling: Settling[T], entry: Entry[T]) -> None:
    """Tell the hook, then the other queue, of an expired item; what fails keeps it, stuck."""
    hook, target = settling.hooks.on_expired, settling.line.config.expire_to
    try:
        if hook is not None:
            hook(entry)
    except Exception:  # noqa: BLE001 - the hook's own
        _log.exception("reader %s: expired item %d: its hook failed", settling.fullname, entry.id)
        settling.stick(entry)
        return
    leave, stay = partial(settling.finish, entry, "expired"), partial(settling.stick, entry)
    if target is None:
        leave()
    else:
        _send(settling, target, entry, settling.line.errors_of(entry), leave, stay)


def hand_off_failed(settling: Settling[T], read: Read[T]) -> None:
    """Ask the hook, then the other queue; a read that neither takes comes back, to its place."""
    leave, stay = partial(settling.finish, read.entry, "punted"), partial(settling.put_back, read)
    if _is_handled(settling, read):
        leave()
        return
    target = settling.punts_to(read.errors)
    if target is None:
        stay()
    else:
        _send(settling, target, read.entry, read.errors, leave, stay)


def _is_handled(settling: Settling[T], read: Read[T]) -> bool:
    hook = settling.hooks.on_error
    try:
        return hook is not None and bool(hook(read))
    except Exception:  # noqa: BLE001 - the hook's own
        _log.exception("reader %s: the error hook failed", settling.fullname)
        return False


def _send(
    settling: Settling[T],
    target: str,
    entry: Entry[T],
    errors: int,
    leave: Callable[[], None],
    stay: Callable[[], None],
) -> None:
    """Put an item into another queue; it leaves when it is durable there, and stays if it fails."""
    name = settling.fullname
    try:
        origin = origin_of(name, entry.id)
        queue = settling.queue_state.resolve(target)
        sent = queue.put(entry.item, errors=errors, origin=origin, durability="commit", timeout=0)
    except Exception:  # noqa: BLE001 - full, closed, or not to be found: the item stays
        _log.exception("reader %s: item %d cannot go to %r", name, entry.id, target)
        stay()
        return

    def on_settle(future: Future[int]) -> None:
        error = future.exception()
        if error is None:
            leave()
            return
        _log.error("reader %s: item %d did not reach %r: %r", name, entry.id, target, error)
        stay()

    sent.add_done_callback(on_settle)

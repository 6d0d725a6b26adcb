"""State of a journaled queue under its one lock, where producers, readers and the writer meet.

Nothing foreign runs while the lock is held but the clock, the timer and ``is_held``, which
are quick. What an item's way out needs besides (hooks, other queues) is a hand-off: noted under
the lock, and run without it by the same thread, before the call returns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from threading import RLock
from typing import Any, Generic, Protocol, TypeVar

from spark_queue.checks import limit_of
from spark_queue.clock import Clock
from spark_queue.durability import Durability
from spark_queue.errors import FencedError, JournalFailedError, QueueShutDownError
from spark_queue.memory.journal.cache import EntryCache
from spark_queue.memory.journal.group_commit import GroupCommit, WriterThread
from spark_queue.memory.journal.journal_options import QueueOptions
from spark_queue.memory.journal.offsets import QueueReader
from spark_queue.memory.journal.puts import Puts
from spark_queue.memory.journal.records import Journal, PutTotals
from spark_queue.memory.waiting.processes import Owner, settle_in
from spark_queue.memory.waiting.timer import Timeout, Timer
from spark_queue.memory.waiting.waiters import call_each


def shut_down(name: str) -> Callable[[], Exception]:
    """Return what makes the error of a queue that was closed."""
    return lambda: QueueShutDownError(f"queue {name!r} is closed")


def ended_by(name: str, error: BaseException | None) -> Callable[[], Exception]:
    """Return what makes the error of a queue whose journal was lost, or could not be written."""
    if error is None or isinstance(error, FencedError):
        holder = "somebody else" if error is None else error.holder
        return lambda: FencedError(f"queue {name!r}", holder)
    return lambda: _failure(name, error)


def _failure(name: str, cause: BaseException) -> Exception:
    error = JournalFailedError(
        f"queue {name!r} is closed, since its journal could not be written ({cause!r}): "
        "open it again, which recovers what is durable"
    )
    error.__cause__ = cause
    return error


T = TypeVar("T")


class Target(Protocol):
    """A queue that items can leave for."""

    def put(
        self,
        item: Any,
        *,
        errors: int = 0,
        origin: str | None = None,
        durability: Durability | None = None,
        timeout: Timeout = None,
    ) -> Future[int]:
        """Put an item; see :meth:`JournaledQueue.put`."""


class QueueState(Generic[T]):
    """The state of a journaled queue, for fronts of any kind.

    Attributes
    ----------
    puts : Puts
        Where items come in.
    readers : sequence of QueueReader
        The readers: the list that their registry keeps.
    alert : bool
        Whether a put must look closer: some reader has bounds, lets items expire, or is waited at.
    closed : callable or None
        Makes the error of every call, once the queue is closed, or its journal lost or broken.
    is_broken : bool
        Whether nothing more can be committed.
    origins : dict
        The ids of entries that have an origin, which is not put again.
    handoffs : deque
        Calls to be made without the lock: each settles an item by a hook or another queue.
    resolve : callable
        Returns the queue of a name.
    """

    def __init__(
        self,
        name: str,
        journal: Journal[T],
        options: QueueOptions,
        size_of: Callable[[T], int],
        clock: Clock,
        timer: Timer,
        resolve: Callable[[str], Target],
    ) -> None:
        self.name = name
        self.resolve = resolve
        self.journal = journal
        self.clock = clock
        self.timer = timer
        # Reentrant for the sake of its release, which refuses a thread that does not hold it: what
        # must be fast takes it inside of its `try`, at half the price of a `with`.
        self.lock = RLock()
        self.writer = WriterThread(f"journal of queue {name}", self.die)
        self.totals = PutTotals()
        self.cache: EntryCache[T] = EntryCache(
            limit_of("max_memory_items", options.max_memory_items),
            limit_of("max_memory_bytes", options.max_memory_bytes),
        )
        self.readers: Sequence[QueueReader[T]] = ()
        self.puts: Puts[T] = Puts(self, options, size_of)
        self.group_commit: GroupCommit[T] = GroupCommit(self, options, self.puts.let_in)
        self.origins: dict[str, int] = {}
        self.handoffs: deque[Callable[[], None]] = deque()
        self.alert = self.is_broken = False
        self.closed: Callable[[], Exception] | None = None
        self.owner = Owner(f"the journaled queue {name!r}")
        settle_in(self)

    # Processes

    def at_exit(self) -> None:
        """Lose the items that are not durable, as the durability says."""

    def after_fork(self) -> None:
        """Refuse every call: the writer thread, the journal and open reads are the parent's."""
        self.lock = RLock()
        self.closed, self.is_broken, self.alert = self.owner.refusal, True, True
        self.group_commit.close()

    # Readers

    def tend(self) -> None:
        """See to every reader after something has come or gone. Under the lock."""
        for reader in self.readers:
            reader.tend()
        self.watch()

    def restock(self) -> None:
        """See to every reader after a block was loaded. Under the lock."""
        for reader in self.readers:
            reader.restock()

    def watch(self) -> None:
        """Find out whether puts must look closer. Under the lock."""
        self.alert = (
            self.closed is not None
            or self.totals.has_expiring
            or any(reader.needs_tending() for reader in self.readers)
        )

    def hand_off(self) -> None:
        """Run every hand-off that was noted. Without the lock."""
        while self.handoffs:
            try:
                handoff = self.handoffs.popleft()
            except IndexError:
                # Another thread was faster.
                return
            handoff()

    def items(self) -> int:
        """Return how many items the readers have to do, together."""
        with self.lock:
            return sum(reader.line.items for reader in self.readers)

    # The end

    def require_open(self) -> None:
        """Raise what every call raises once the queue is closed, lost or broken."""
        if self.closed is not None:
            raise self.closed()

    def stop(self, why: Callable[[], Exception], *, broken: bool) -> None:
        """End every wait with an error, and take and deliver nothing more. Under the lock."""
        if self.closed is None or (broken and not self.is_broken):
            self.closed = why
        self.is_broken = self.is_broken or broken
        self.alert = True
        self.group_commit.close()
        self.puts.producers.fail_all(self.closed)
        for reader in self.readers:
            reader.waiters.fail_all(self.closed)

    def lose(self) -> None:
        """Stop because another process holds the journal. Under the lock."""
        if self.is_broken:
            return
        self.stop(ended_by(self.name, None), broken=True)
        self.writer.tell(self.fail_receipts)

    def fail_receipts(self) -> None:
        """Fail every future that waits for a commit, which nothing will come of."""
        with self.lock:
            receipts = self.group_commit.drop_receipts()
        error = self.closed
        if error is not None:
            call_each(partial(receipt.set_exception, error()) for receipt in receipts)

    def die(self, error: BaseException) -> None:
        """Stop since the writer thread was killed, by a callback or a hook that raised so much."""
        with self.lock:
            self.stop(ended_by(self.name, error), broken=True)
        self.fail_receipts()

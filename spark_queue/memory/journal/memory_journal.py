"""A journal in memory: for queues that need not outlive their process, and for tests."""

from __future__ import annotations

import dataclasses
import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Generic, TypeVar

from spark_queue.clock import Clock, require_clock
from spark_queue.errors import FencedError
from spark_queue.memory.journal.records import Entry, Group, ReaderOffset, Recovered, Settlements
from spark_queue.reader_config import ReaderConfig

T = TypeVar("T")


@dataclasses.dataclass(slots=True)
class _Position:
    """Where one reader is."""

    offset: ReaderOffset
    """As it was registered, with the name and configuration of today."""
    head: int
    done: set[int] = dataclasses.field(default_factory=set)
    errors: dict[int, int] = dataclasses.field(default_factory=dict)

    def apply(self, settlements: Settlements) -> None:
        for ids in (
            settlements.acked,
            settlements.expired,
            settlements.discarded,
            settlements.punted,
        ):
            self.done.update(item for item in ids if item > self.head)
        self.errors.update(settlements.returned)
        while self.head + 1 in self.done:
            self.head += 1
            self.done.remove(self.head)

    def pass_by(self, item: int) -> None:
        self.head = max(self.head, item)
        self.done = {done for done in self.done if done > self.head}
        self.errors = {done: count for done, count in self.errors.items() if done > self.head}

    def needs(self, item: int) -> bool:
        return item > self.head and item not in self.done


class MemoryStore(Generic[T]):
    """Content of a journal in memory, which outlives its holder.

    Attributes
    ----------
    entries : list of Entry
        The items that are kept, by id.
    last_id : int
        The highest id that was ever committed.
    passed : int
        Up to where items were dropped.
    holder : int
        Who may write: a number that grows.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.entries: list[Entry[T]] = []
        self.last_id = 0
        self.passed = 0
        self.holder = 0
        self._positions: dict[int, _Position] = {}
        self._numbers = 0

    def take_over(self) -> int:
        """Fence the holder of the journal, and return the number of the new holder."""
        with self._lock:
            self.holder += 1
            return self.holder

    def recover(self) -> Recovered:
        """Return the readers, the bounds of ids, and the origins still needed."""
        with self._lock:
            first = self.entries[0].id if self.entries else self.last_id + 1
            positions = list(self._positions.values())
            return Recovered(
                last_id=self.last_id,
                first_id=first,
                readers=[self._offset_at(position) for position in positions],
                origins={
                    entry.origin: entry.id
                    for entry in self.entries
                    if entry.origin is not None
                    and any(position.needs(entry.id) for position in positions)
                },
            )

    def _offset_at(self, position: _Position) -> ReaderOffset:
        behind = self.entries[self._at(position.head + 1) :]
        waiting = [entry.size for entry in behind if position.needs(entry.id)]
        return dataclasses.replace(
            position.offset,
            head=position.head,
            done=frozenset(position.done),
            errors=dict(position.errors),
            items=len(waiting),
            bytes=sum(waiting),
        )

    def _at(self, item: int) -> int:
        return bisect_left(self.entries, item, key=lambda entry: entry.id)

    def add_puts(self, puts: Sequence[Entry[T]]) -> None:
        """Make items durable: the first half of a commit."""
        with self._lock:
            self.entries.extend(puts)
            if puts:
                self.last_id = puts[-1].id

    def add_settlements(self, group: Group[T]) -> None:
        """Make durable what the readers did: the second half of a commit."""
        with self._lock:
            for number, settlements in group.settlements.items():
                if number in self._positions:
                    self._positions[number].apply(settlements)

    def load(self, first: int, limit: int) -> Sequence[Entry[T]]:
        """Return the next entries."""
        with self._lock:
            at = self._at(first)
            return self.entries[at : at + limit]

    def add_reader(self, name: str, config: ReaderConfig, head: int, now: datetime) -> ReaderOffset:
        """Register a reader."""
        with self._lock:
            number = self._numbers
            self._numbers += 1
            made = ReaderOffset(reader=number, name=name, config=config, created_at=now, head=head)
            self._positions[number] = _Position(made, head)
            return self._offset_at(self._positions[number])

    def change_reader(self, reader: int, name: str, config: ReaderConfig) -> None:
        """Give a reader another name or configuration."""
        with self._lock:
            position = self._positions[reader]
            position.offset = dataclasses.replace(position.offset, name=name, config=config)

    def drop_reader(self, reader: int) -> None:
        """Forget a reader."""
        with self._lock:
            del self._positions[reader]

    def checkpoint(self, passed: int) -> None:
        """Drop what every reader has passed."""
        with self._lock:
            self.passed = passed
            for position in self._positions.values():
                position.pass_by(passed)
            self.entries = self.entries[self._at(passed + 1) :]

    def erase(self) -> None:
        """Forget everything."""
        with self._lock:
            self.entries, self._positions, self.last_id = [], {}, 0


class MemoryJournal(Generic[T]):
    """A :class:`~spark_queue.memory.journal.records.Journal` that lives as long as its store.

    A dropped queue leaves its commits behind, as a dead process leaves its tables; the
    :meth:`successor` finds them, and fences this journal.

    Parameters
    ----------
    store : MemoryStore, optional
        What it is a journal of. Default: a new one.
    clock : Clock, optional
        What tells when a reader was made.

    Attributes
    ----------
    store : MemoryStore
    before : callable
        Called with the name of a call before it does anything, and with ``"settlements"`` when a
        commit has written the items of a group and not what became of others: may wait, or raise.

    Examples
    --------
    >>> from spark_queue.journal import JournaledQueue
    >>> journal = MemoryJournal()
    >>> with JournaledQueue(journal) as queue:
    ...     queue.put("a").result()
    1
    >>> with JournaledQueue(journal.successor()) as queue:
    ...     queue.reader().get(timeout=1).item
    'a'
    """

    def __init__(self, store: MemoryStore[T] | None = None, clock: Clock | None = None) -> None:
        self.store: MemoryStore[T] = MemoryStore() if store is None else store
        self._clock: Clock = require_clock(clock)
        self.before: Callable[[str], object] = lambda _: None
        self._number = 0

    @property
    def survives(self) -> str:
        """Nothing: what it holds ends with the process."""
        return "memory"

    def successor(self) -> MemoryJournal[T]:
        """Return another journal of the same store, which holds it once it recovers."""
        return MemoryJournal(self.store, self._clock)

    def recover(self) -> Recovered:
        """Take the journal over and return what it holds."""
        self.before("recover")
        self._number = self.store.take_over()
        return self.store.recover()

    def commit(self, group: Group[T]) -> None:
        """Make a group durable.

        Raises
        ------
        FencedError
            When another holder has taken the journal over.
        """
        self._enter("commit")
        self.store.add_puts(group.puts)
        self._enter("settlements")
        self.store.add_settlements(group)

    def load(self, first: int, limit: int) -> Sequence[Entry[T]]:
        """Return the next entries from an id on."""
        self._enter("load")
        return self.store.load(first, limit)

    def add_reader(self, name: str, config: ReaderConfig, *, head: int) -> ReaderOffset:
        """Register a reader that starts behind an id."""
        self._enter("add_reader")
        return self.store.add_reader(name, config, head, self._clock.now())

    def change_reader(self, reader: int, name: str, config: ReaderConfig) -> None:
        """Give a reader another name or configuration."""
        self._enter("change_reader")
        self.store.change_reader(reader, name, config)

    def drop_reader(self, reader: int) -> None:
        """Forget a reader."""
        self._enter("drop_reader")
        self.store.drop_reader(reader)

    def checkpoint(self, passed: int) -> None:
        """Drop what every reader has passed."""
        self._enter("checkpoint")
        self.store.checkpoint(passed)

    def erase(self) -> None:
        """Forget everything."""
        self._enter("erase")
        self.store.erase()

    def close(self) -> None:
        """Give the journal up."""
        self.before("close")

    def is_held(self) -> bool:
        """Whether no other holder has come."""
        return self.store.holder == self._number

    def _enter(self, call: str) -> None:
        self.before(call)
        if not self.is_held():
            raise FencedError("the journal", f"holder {self.store.holder}")

"""The journaled queue against lists, in random use, with crashes at any moment."""

from __future__ import annotations

import copy
import queue as stdlib
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from spark_queue.journal import (
    JournaledQueue,
    JournalFailedError,
    MemoryJournal,
    QueueOptions,
    Read,
    origin_of,
)

NAMES = ["a", "b", "c"]
MEMORY = 4


@dataclass
class Follower:
    """A reader as the lists have it."""

    start: int
    done: set[int] = field(default_factory=set)
    errors: dict[int, int] = field(default_factory=dict)
    open: dict[int, Read[str]] = field(default_factory=dict)

    def todo(self, last_id: int) -> list[int]:
        """Return what is not done."""
        return [item for item in range(self.start + 1, last_id + 1) if item not in self.done]

    def unread(self, last_id: int) -> list[int]:
        """Return what is neither done nor open."""
        return [item for item in self.todo(last_id) if item not in self.open]

    def head(self, last_id: int) -> int:
        """Return up to where everything is done."""
        todo = self.todo(last_id)
        return todo[0] - 1 if todo else last_id


@dataclass
class State:
    """What there is: in the process, or in its journal."""

    items: list[str] = field(default_factory=list)
    origins: dict[str, int] = field(default_factory=dict)
    readers: dict[str, Follower] = field(default_factory=dict)

    @property
    def last_id(self) -> int:
        """The highest id."""
        return len(self.items)


class JournalMachine(RuleBasedStateMachine):
    """Does the same to a queue and to lists, and compares what both answer and hold."""

    @initialize()
    def start(self) -> None:
        """Begin with an empty journal."""
        self.journal = self._new_journal()
        self.now = State(readers={"": Follower(0)})
        self.durable = copy.deepcopy(self.now)
        self._open()
        self.put([1, 2, 3])

    def _new_journal(self) -> Any:
        return MemoryJournal()

    def _next_journal(self) -> Any:
        """Return what the next process opens."""
        return self.journal.successor()

    def _passed(self) -> int:
        """Return up to which id the journal has dropped items."""
        return int(self.journal.store.passed)

    def _held(self) -> set[int]:
        """Return the ids of the items that the journal has."""
        return {entry.id for entry in self.journal.store.entries}

    def _open(self) -> None:
        self.steps = 0
        self.queue: JournaledQueue[str] = JournaledQueue(
            self.journal,
            options=QueueOptions(
                durability="memory",
                max_group_items=None,
                max_memory_items=MEMORY,
            ),
        )

    def teardown(self) -> None:
        """Give the queue up, so that its thread ends."""
        self.queue.close(drain=False)

    def _follower(self, data: st.DataObject) -> tuple[str, Follower]:
        name = data.draw(st.sampled_from(sorted(self.now.readers)))
        return name, self.now.readers[name]

    def _synced(self) -> None:
        self.durable = copy.deepcopy(self._without_reads(self.now))

    @staticmethod
    def _without_reads(state: State) -> State:
        readers = {
            name: Follower(each.start, set(each.done), dict(each.errors))
            for name, each in state.readers.items()
        }
        return State(list(state.items), dict(state.origins), readers)

    # Use

    @rule(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=8))
    def put(self, sizes: list[int]) -> None:
        """Put items."""
        self.steps += 1
        for size in sizes:
            item = str(self.now.last_id % 10) * size
            self.now.items.append(item)
            assert self.queue.put(item).result() == self.now.last_id

    @precondition(lambda self: self.now.readers)
    @rule(data=st.data(), count=st.integers(0, 4))
    def get(self, data: st.DataObject, count: int) -> None:
        """Get the next items, or look at one."""
        self.steps += 1
        name, follower = self._follower(data)
        for _ in range(count):
            self._get(name, follower, peek=False)
        self._get(name, follower, peek=True)

    def _get(self, name: str, follower: Follower, *, peek: bool) -> None:
        unread = follower.unread(self.now.last_id)
        try:
            read = self.queue.reader(name).get(timeout=0, peek=peek)
        except stdlib.Empty:
            assert not unread
            return
        assert unread
        assert (read.id, read.item) == (unread[0], self.now.items[unread[0] - 1])
        assert read.errors == follower.errors.get(read.id, 0)
        if not peek:
            follower.open[read.id] = read

    def _some_read(self, data: st.DataObject) -> tuple[str, Follower, Read[str]]:
        busy = sorted(name for name, each in self.now.readers.items() if each.open)
        name = data.draw(st.sampled_from(busy))
        follower = self.now.readers[name]
        return name, follower, data.draw(st.sampled_from(list(follower.open.values())))

    def _is_busy(self) -> bool:
        return any(each.open for each in self.now.readers.values())

    @precondition(_is_busy)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        """Settle an open item."""
        self.steps += 1
        name, follower, read = self._some_read(data)
        assert self.queue.reader(name).ack(read)
        assert not self.queue.reader(name).ack(read)
        self._done(follower, read.id)

    @staticmethod
    def _done(follower: Follower, item: int) -> None:
        follower.open.pop(item, None)
        follower.errors.pop(item, None)
        follower.done.add(item)

    @precondition(_is_busy)
    @rule(data=st.data())
    def nack(self, data: st.DataObject) -> None:
        """Return an open item."""
        self.steps += 1
        name, follower, read = self._some_read(data)
        assert self.queue.reader(name).nack(read)
        del follower.open[read.id]
        follower.errors[read.id] = follower.errors.get(read.id, 0) + 1

    @precondition(_is_busy)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """Give an open item back."""
        self.steps += 1
        name, follower, read = self._some_read(data)
        assert self.queue.reader(name).release(read)
        del follower.open[read.id]

    @precondition(_is_busy)
    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        """Put an item in the place of an open one."""
        self.steps += 1
        name, follower, read = self._some_read(data)
        origin = origin_of(f"queue+{name}", read.id)
        future = self.queue.reader(name).replace(read, "new")
        assert future is not None
        self._done(follower, read.id)
        self.now.items.append("new")
        self.now.origins[origin] = self.now.last_id
        assert future.result() == self.now.last_id

    @precondition(lambda self: self.now.readers)
    @precondition(lambda self: self.steps % 5 == 4)
    @rule(data=st.data())
    def flush(self, data: st.DataObject) -> None:
        """Drop what is unread."""
        name, follower = self._follower(data)
        unread = follower.unread(self.now.last_id)
        assert self.queue.reader(name).flush() == len(unread)
        for item in unread:
            self._done(follower, item)

    # Readers

    @rule(name=st.sampled_from(NAMES), start=st.sampled_from(["tail", "tail", "beginning", 2]))
    def make_reader(self, name: str, start: Any) -> None:
        """Ask for a reader, which may be there."""
        readers = self.now.readers
        is_new = name not in readers
        reader = self.queue.reader(name, start=start)
        if not is_new:
            return
        if "" in readers:
            # The name is durable at once, and all that was done under the former one before it.
            self._synced()
            for state in (self.now, self.durable):
                state.readers[name] = state.readers.pop("")
            readers[name].open.clear()
            return
        passed = self._passed()
        self._synced()
        made = Follower(max(passed, self._start(start)))
        for state in (self.now, self.durable):
            state.readers[name] = copy.deepcopy(made)
        assert reader.name == name

    def _start(self, start: Any) -> int:
        last_id = self.now.last_id
        return int({"tail": last_id, "beginning": 0, 2: min(1, last_id)}[start])

    @precondition(lambda self: self.now.readers and self.steps % 5 == 3)
    @rule(data=st.data())
    def drop_reader(self, data: st.DataObject) -> None:
        """Forget a reader."""
        name, _ = self._follower(data)
        self.queue.drop_reader(name)
        for state in (self.now, self.durable):
            del state.readers[name]

    @precondition(lambda self: not self.now.readers)
    @rule()
    def make_default(self) -> None:
        """Make the default reader again."""
        self.queue.reader()
        self._synced()
        for state in (self.now, self.durable):
            state.readers[""] = Follower(self.now.last_id)

    # The journal

    def _is_time(self) -> bool:
        # Else most runs would end before anything has happened.
        return self.steps >= 6

    @rule()
    def sync(self) -> None:
        """Make everything durable."""
        self.queue.sync()
        self._synced()

    @rule()
    def checkpoint(self) -> None:
        """Make everything durable, and drop what all have passed."""
        self.queue.checkpoint()
        self._synced()

    @precondition(_is_time)
    @rule()
    def close(self) -> None:
        """End the process well."""
        self.queue.close()
        self._synced()
        self._restart()

    @precondition(_is_time)
    @rule()
    def crash(self) -> None:
        """End the process; what was not durable is lost."""
        self._restart()

    @precondition(_is_time)
    @rule(call=st.sampled_from(["commit", "settlements", "settlements"]))
    def crash_in_a_commit(self, call: str) -> None:
        """End the process before a group is durable, or with half of it."""

        def fail(name: str) -> None:
            if name == call:
                raise OSError(call)

        self.journal.before = fail
        try:
            self.queue.sync()
        except JournalFailedError:
            if call == "settlements":
                self.durable.items = list(self.now.items)
                self.durable.origins = dict(self.now.origins)
        self._restart()

    def _restart(self) -> None:
        self.queue.close(drain=False)
        self.journal = self._next_journal()
        self._open()
        if not self.durable.readers:
            self.durable.readers[""] = Follower(self.durable.last_id)
        self.now = copy.deepcopy(self.durable)
        for origin, item in self.now.origins.items():
            fullname, _, old = origin.rpartition("/")
            follower = self.now.readers.get(fullname.removeprefix("queue+"))
            if follower is not None and self._is_retained(item) and int(old) > follower.start:
                self._done(follower, int(old))

    def _is_retained(self, item: int) -> bool:
        return any(
            item > each.start and item not in each.done for each in self.durable.readers.values()
        )

    @precondition(_is_busy)
    @rule(data=st.data())
    def crash_in_a_replacement(self, data: st.DataObject) -> None:
        """End the process when the new item is durable, and the ack of the old one is not."""
        self.replace(data)
        self.crash_in_a_commit("settlements")

    # What always holds

    @invariant()
    def counts_agree(self) -> None:
        """Every reader has as much to do as its list says."""
        stats = self.queue.stats()
        assert set(stats.readers) == set(self.now.readers)
        for name, follower in self.now.readers.items():
            todo = follower.todo(self.now.last_id)
            found = stats.readers[name]
            assert found.items == len(todo)
            assert found.bytes == sum(len(self.now.items[item - 1]) for item in todo)
            assert found.open_items == len(follower.open)
            assert found.head == follower.head(self.now.last_id)

    @invariant()
    def memory_is_bounded(self) -> None:
        """No more is in memory than fits, and than is not durable."""
        stats = self.queue.stats()
        assert stats.memory_items <= MEMORY + stats.pending

    @invariant()
    def nothing_durable_is_lost(self) -> None:
        """What is durable and not done is in the journal."""
        held = self._held()
        for follower in self.durable.readers.values():
            assert held.issuperset(follower.todo(self.durable.last_id))


TestJournalMachine = JournalMachine.TestCase
TestJournalMachine.settings = settings(stateful_step_count=40)

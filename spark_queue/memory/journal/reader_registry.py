"""Registry of the readers of a queue: found again, made, renamed and dropped."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Generic, Literal, TypeVar

from spark_queue.checks import optional, require_kind
from spark_queue.errors import InvalidArgumentError, ReaderNotFoundError, did_you_mean
from spark_queue.memory.journal.journal_options import ReaderHooks
from spark_queue.memory.journal.journal_state import QueueState
from spark_queue.memory.journal.journal_writer import JournalWriter
from spark_queue.memory.journal.offsets import ReaderCursor
from spark_queue.memory.journal.reader_state import ReaderState
from spark_queue.memory.journal.records import ReaderOffset, Recovered
from spark_queue.reader_config import ReaderConfig, require_reader_name
from spark_queue.wording import shorten

T = TypeVar("T")

#: Where a new reader begins: behind the last item, at the oldest one, or at an id.
ReaderStart = Literal["tail", "beginning"] | int

#: Behind which id a start by its name is, given the last one.
_STARTS: dict[str, Callable[[int], int]] = {"tail": lambda last: last, "beginning": lambda _: 0}


class Registry(Generic[T]):
    """The readers of a queue.

    There is one always, until the last is dropped: the default reader, whose name is empty, as long
    as there is none with a name.

    What changes them runs on the writer thread, between groups.

    Parameters
    ----------
    state, journal_writer
        The queue, and what writes its journal.
    config : ReaderConfig
        What a reader gets that is given none.
    hooks : ReaderHooks
        The same, for hooks.

    Attributes
    ----------
    readers : list of ReaderState
        All readers. Used under the queue's lock.
    """

    def __init__(
        self,
        state: QueueState[T],
        journal_writer: JournalWriter[T],
        config: ReaderConfig,
        hooks: ReaderHooks[T],
    ) -> None:
        self._state = state
        self.readers: list[ReaderState[T]] = []
        state.readers = self.readers
        self._journal_writer = journal_writer
        self._config = config
        self._hooks = hooks

    # Finding

    def recover(self) -> None:
        """Take the journal over, and bring its readers back to where they were."""
        journal, totals = self._state.journal, self._state.totals
        found = journal.recover()
        totals.last_id = totals.durable_id = found.last_id
        self._state.origins = dict(found.origins)
        offsets = list(found.readers)
        if not offsets:
            offsets.append(journal.add_reader("", self._config, head=found.last_id))
        for offset in offsets:
            self._install(self._line(_clamp(offset, found)), self._hooks)
        self._settle_replaced(found)

    def _settle_replaced(self, found: Recovered) -> None:
        """Ack the old items of replacements that a crash interrupted."""
        for origin, item in found.origins.items():
            reader, _, old = origin.rpartition("/")
            for each in self.readers:
                if each.settling.fullname == reader and old.isdecimal():
                    self._settle(each, int(old), item)

    def _settle(self, reader: ReaderState[T], old: int, new: int) -> None:
        line = reader.line
        if old >= new or line.is_done(old):
            return
        for entry in self._state.journal.load(old, 1):
            if entry.id == old:
                line.settle(entry, line.settlements.acked)
                self._state.group_commit.note_settlements()

    def load_heads(self) -> None:
        """Have the next item of each full reader in memory: if it has expired, there is room."""
        for reader in self.blind():
            self._journal_writer.load(reader)

    def blind(self) -> list[ReaderState[T]]:
        """Return full readers whose next item is not in memory."""
        with self._state.lock:
            return [each for each in self.readers if each.is_refusing() and each.line.is_absent()]

    def find(self, name: str) -> ReaderState[T] | None:
        """Return the reader of a name, ``None`` when there is none."""
        with self._state.lock:
            named = (reader for reader in self.readers if reader.line.name == name)
            return next(named, None)

    def names(self) -> list[str]:
        """Return the names of all readers."""
        with self._state.lock:
            return [reader.line.name for reader in self.readers]

    # Making

    def make(
        self,
        name: str,
        config: ReaderConfig | None,
        start: ReaderStart,
        hooks: ReaderHooks[T] | None,
    ) -> ReaderState[T]:
        """Return the reader of a name, with another configuration if one is given; or make it.

        Raises
        ------
        InvalidArgumentError
            When the start is neither known by its name nor an id.
        ReaderNotFoundError
            When the default reader is wanted and there are readers with names.
        SparkQueueError
            When the queue is closed.
        """
        require_reader(name, config, start, hooks)
        self._state.require_open()
        # Wherever it wants to start: it inherits the items that wait for the default reader.
        found = self.find(name) or self.find("")
        if found is not None:
            self._change(found, name, config or found.line.config, hooks)
            return found
        names = self.names()
        if not name and names:
            raise ReaderNotFoundError(self._state.name, name, names)
        return self._add(name, config or self._config, start, hooks or self._hooks)

    def _change(
        self,
        reader: ReaderState[T],
        name: str,
        config: ReaderConfig,
        hooks: ReaderHooks[T] | None,
    ) -> None:
        line = reader.line
        if name != line.name:
            # A replacement names the reader of the old item by its name at that time.
            self._journal_writer.sync()
        if (name, config) != (line.name, line.config):
            self._state.journal.change_reader(line.number, name, config)
        with self._state.lock:
            if name != line.name:
                line.name = name
                reader.take_all_back()
            reader.configure(config)
            if hooks is not None:
                reader.use(hooks)
            reader.tend()
        self._state.hand_off()
        self.load_heads()

    def _add(
        self, name: str, config: ReaderConfig, start: ReaderStart, hooks: ReaderHooks[T]
    ) -> ReaderState[T]:
        self._journal_writer.sync()
        line = self._follow(name, config, start)
        try:
            offset = self._state.journal.add_reader(name, config, head=line.head)
        except BaseException:
            self._unfollow(line)
            raise
        with self._state.lock:
            line.number, line.created_at = offset.reader, offset.created_at
            line.owe(offset.items, offset.bytes)
            return self._install(line, hooks)

    def _follow(self, name: str, config: ReaderConfig, start: ReaderStart) -> ReaderCursor[T]:
        # From here on the cache keeps what the reader will need: some of it is durable only after
        # the journal was asked, so that it would not be found there.
        state = self._state
        with state.lock:
            durable_id = state.totals.durable_id
            wanted = start - 1 if isinstance(start, int) else _STARTS[start](durable_id)
            pending = state.group_commit.puts
            offset = ReaderOffset(
                reader=-1,
                name=name,
                config=config,
                created_at=state.clock.now(),
                head=max(0, min(wanted, durable_id)),
                items=len(pending),
                bytes=sum(entry.size for entry in pending),
            )
            line = self._line(offset)
            for entry in pending:
                state.cache.add(entry)
            return line

    def _line(self, offset: ReaderOffset) -> ReaderCursor[T]:
        line = ReaderCursor(offset, self._state.totals, self._state.cache)
        self._state.cache.followers.append(line)
        self._state.cache.note_missing(line.cursor, self._state.totals.durable_id)
        return line

    def _install(self, line: ReaderCursor[T], hooks: ReaderHooks[T]) -> ReaderState[T]:
        reader = ReaderState(line, self._state, hooks)
        reader.want = partial(self._journal_writer.want, reader)
        self.readers.append(reader)
        self._state.watch()
        if line.is_absent():
            reader.want()
        return reader

    # Dropping

    def drop(self, name: str) -> None:
        """Forget a reader; what waits at it gets an error.

        Raises
        ------
        ReaderNotFoundError
            When there is none of this name.
        """
        self._state.require_open()
        reader = self.find(name)
        if reader is None:
            raise self._unknown(name)
        self._state.journal.drop_reader(reader.line.number)
        with self._state.lock:
            self.readers.remove(reader)
            reader.drop(partial(self._unknown, name))
        self._unfollow(reader.line)

    def _unfollow(self, line: ReaderCursor[T]) -> None:
        with self._state.lock:
            self._state.cache.followers.remove(line)
            self._state.cache.prune()
            self._state.watch()

    def _unknown(self, name: str) -> ReaderNotFoundError:
        return ReaderNotFoundError(self._state.name, name, self.names())


def require_reader(name: object, config: object, start: object, hooks: object) -> None:
    """Raise :class:`InvalidArgumentError` where the arguments cannot make a reader."""
    require_reader_name(name, is_default=True)
    optional(require_kind, "config", config, kind=ReaderConfig)
    optional(require_kind, "hooks", hooks, kind=ReaderHooks)
    if isinstance(start, str) and start not in _STARTS:
        raise InvalidArgumentError(f"start is {shorten(start)}{did_you_mean(start, list(_STARTS))}")
    if isinstance(start, bool) or not isinstance(start, int | str):
        known = " or ".join(map(repr, _STARTS))
        raise InvalidArgumentError(
            f"start is {shorten(start)}: it must be {known}, or the id of an item"
        )


def _clamp(offset: ReaderOffset, found: Recovered) -> ReaderOffset:
    head = min(max(offset.head, found.first_id - 1), found.last_id)
    done = frozenset(item for item in offset.done if head < item <= found.last_id)
    errors = {
        item: count
        for item, count in offset.errors.items()
        if head < item <= found.last_id and item not in done
    }
    return dataclasses.replace(offset, head=head, done=done, errors=errors)

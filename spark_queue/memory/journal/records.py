"""Records that a journaled queue and its journal exchange, and the journal's protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, Protocol, TypeVar

from spark_queue.checks import require_seq, require_string
from spark_queue.errors import InvalidArgumentError
from spark_queue.reader_config import ReaderConfig

T = TypeVar("T")


@dataclass(slots=True)
class Entry(Generic[T]):
    """An item of the journal. It never changes; freezing it would take as long as the whole put."""

    id: int
    """1, 2, 3, ... for the queue, shared by all its readers; never used again."""
    item: T
    added_at: datetime
    size: int
    """How many bytes it counts."""
    expires_at: datetime | None = None
    """When it expires for every reader, if it does."""
    errors: int = 0
    """How often it had failed in other queues before it came here."""
    origin: str | None = None
    """What it stands for, where it replaces an item or comes from another queue: evidence, after a
    crash, that it has arrived. See :func:`origin_of`."""


def origin_of(reader: str, item: int) -> str:
    """Return how an item of a reader is named, as the origin of another."""
    require_string("reader", reader)
    require_seq("item", item)
    return f"{reader}/{item}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOffset:
    """What a journal knows of one reader."""

    reader: int
    """Its number, which never changes; 0 for the default reader."""
    name: str
    """Its name; the default reader has none, ``""``."""
    config: ReaderConfig
    created_at: datetime
    head: int
    """Every item up to this id is done."""
    done: frozenset[int] = frozenset()
    """Items behind the head that are done as well."""
    errors: Mapping[int, int] = field(default_factory=dict)
    """How often items that came back had failed, where that is not what their entry says."""
    items: int = 0
    """How many items wait for it: those behind the head that are not done."""
    bytes: int = 0
    """How many bytes these count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a journal holds when it is opened."""

    last_id: int
    """The highest id that was ever given; 0 for a new journal."""
    first_id: int
    """The lowest id that may still be there: lower ones were dropped, or archived."""
    readers: Sequence[ReaderOffset]
    """All readers. A journal that is new has none."""
    origins: Mapping[str, int] = field(default_factory=dict)
    """The ids of entries that have an origin and that some reader has not passed, by origin."""


@dataclass(slots=True)
class Settlements:
    """What became of items of one reader, in one group. An id is in one of these at most."""

    acked: list[int] = field(default_factory=list)
    expired: list[int] = field(default_factory=list)
    discarded: list[int] = field(default_factory=list)
    """Dropped because the reader was full, or flushed."""
    punted: list[int] = field(default_factory=list)
    """Went to another queue, or were given up by an error handler."""
    returned: dict[int, int] = field(default_factory=dict)
    """Came back unread: the errors of each, by id."""

    def is_empty(self) -> bool:
        """Whether nothing happened."""
        return not (self.acked or self.expired or self.discarded or self.punted or self.returned)


@dataclass(slots=True)
class Group(Generic[T]):
    """Puts and settlements that become durable together: the puts first.

    The two may fall apart in a crash, in this order only: no settlement is durable before its item.
    """

    puts: list[Entry[T]] = field(default_factory=list)
    settlements: dict[int, Settlements] = field(default_factory=dict)
    """By the number of the reader."""
    heads: dict[int, int] = field(default_factory=dict)
    """Up to which id each reader is done once the group is durable, by its number."""


class Journal(Protocol[T]):
    """The durable half of a journaled queue. One thread at a time calls it."""

    @property
    def survives(self) -> str:
        """What a commit survives: a power cut (``disk``), the ``process``, or neither."""

    def recover(self) -> Recovered:
        """Take the journal over from its holder, and return what it holds.

        Returns once the former holder delivers nothing more. Called once, first.
        """

    def commit(self, group: Group[T]) -> None:
        """Make a group durable: all of it, when this returns.

        Raises
        ------
        FencedError
            When another holder has taken the journal over: nothing of the group is durable.
        """

    def load(self, first: int, limit: int) -> Sequence[Entry[T]]:
        """Return some of the next entries from an id on, in order; none only at the end.

        Ids may be missing in between.
        """

    def add_reader(self, name: str, config: ReaderConfig, *, head: int) -> ReaderOffset:
        """Register a reader that starts behind an id; durable when this returns."""

    def change_reader(self, reader: int, name: str, config: ReaderConfig) -> None:
        """Give a reader another name or configuration; durable when this returns."""

    def drop_reader(self, reader: int) -> None:
        """Forget a reader; durable when this returns."""

    def checkpoint(self, passed: int) -> None:
        """Write the positions of readers compactly; drop or archive items that all have passed.

        Every item up to ``passed`` is done for every reader, durably; ids that are missing up to
        there are no reason to wait any more.
        """

    def erase(self) -> None:
        """Remove the journal and everything in it."""

    def close(self) -> None:
        """Give the journal up, so that the next holder need not wait."""

    def is_held(self) -> bool:
        """Whether the journal is still ours for sure: only then may items be handed out.

        Quick: it is called for every item.
        """


_CHANGEABLE = (dict, list, set, bytearray)


def own(item: T) -> T:
    """Return a copy of an item, where it is made of plain containers.

    A queue writes an item later than it takes it, and may hand it out again: to another reader, or
    when it came back. Objects of other kinds are kept as they are.
    """
    if not isinstance(item, _CHANGEABLE):
        return item
    try:
        return deepcopy(item)
    except RecursionError as exc:
        raise InvalidArgumentError("the item is nested too deep to be copied: flatten it") from exc
    except TypeError as exc:
        raise InvalidArgumentError(f"the item cannot be copied, as a queue does: {exc}") from exc


class Read(Generic[T]):
    """What a get hands out: an item, and the token to ack, nack or release it with.

    Attributes
    ----------
    entry : Entry
        The item as the journal has it.
    errors : int
        How often it has failed, here and in the queues it came from.
    opened_at : float
        When it was handed out, by the queue's timer; 0 where no reader asks for it.
    """

    __slots__ = ("_item", "entry", "errors", "opened_at")

    def __init__(self, entry: Entry[T], errors: int, opened_at: float = 0.0) -> None:
        self.entry = entry
        self.errors = errors
        self.opened_at = opened_at

    def __repr__(self) -> str:
        return f"<Read {self.id} {self.item!r} errors={self.errors}>"

    @property
    def id(self) -> int:
        """The id of the item."""
        return self.entry.id

    @property
    def item(self) -> T:
        """The item itself, for this read alone."""
        try:
            return self._item
        except AttributeError:
            self._item: T = own(self.entry.item)
            return self._item

    @property
    def added_at(self) -> datetime:
        """When it was put."""
        return self.entry.added_at


@dataclass(slots=True)
class PutTotals:
    """The counts of a queue's puts since it was opened."""

    last_id: int = 0
    """The highest id that was given."""
    durable_id: int = 0
    """The highest id that the journal holds for sure."""
    items: int = 0
    bytes: int = 0
    has_expiring: bool = False
    """Whether an item was seen that expires by itself."""


@dataclass(slots=True)
class Counters:
    """What happened to the items of one reader since its queue was opened."""

    get_hit: int = 0
    """Gets that were answered with an item."""
    get_miss: int = 0
    """Gets that ended with nothing."""
    opened: int = 0
    committed: int = 0
    """Reads that ended by an ack."""
    canceled: int = 0
    """Reads that ended by a nack, or by their timeout."""
    expired: int = 0
    discarded: int = 0
    """Items that were dropped since the reader was full."""
    lost: int = 0
    """Items that were dropped since the reader was too far behind the others."""
    punted: int = 0
    """Failed items that an error handler or another queue took."""
    flushes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderStats:
    """One reader at one instant."""

    name: str
    items: int
    """Items that are not done, open ones included."""
    bytes: int
    open_items: int
    open_bytes: int
    waiters: int
    age: timedelta
    """How long the oldest unread item has waited."""
    head: int
    """Every item up to this id is done."""
    put: int
    """Items that were put while the reader was there."""
    put_bytes: int
    get_hit: int
    get_miss: int
    opened: int
    committed: int
    canceled: int
    expired: int
    discarded: int
    lost: int
    punted: int
    flushes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalStats:
    """A journaled queue at one instant."""

    items: int
    """The items of all readers together: one that two have not read counts twice."""
    bytes: int
    pending: int
    """Items that are not durable yet."""
    memory_items: int
    memory_bytes: int
    commits: int
    """Groups that were made durable."""
    loads: int
    """Blocks that were read back."""
    readers: Mapping[str, ReaderStats]

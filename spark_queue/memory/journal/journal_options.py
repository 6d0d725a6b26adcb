"""Options of a journaled queue and hooks of its readers, given when they are opened."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

from spark_queue.checks import limit_of, optional, require_callable, require_kind
from spark_queue.durability import Durability, require_put_durability
from spark_queue.errors import InvalidArgumentError, InvalidConfigError
from spark_queue.memory.journal.records import Entry, Read
from spark_queue.memory.waiting.timer import seconds
from spark_queue.reader_config import ReaderConfig
from spark_queue.wording import shorten

T = TypeVar("T")

_LIMITS = (
    "max_item_size",
    "max_group_items",
    "max_group_bytes",
    "max_pending",
    "max_memory_items",
    "max_memory_bytes",
)
#: Types with a size in bytes. ``isinstance`` is faster with a tuple than with a union.
_SIZED = (bytes, str, bytearray)

_NAME = re.compile(r"[A-Za-z0-9:_-]{1,255}")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """How a queue keeps its promises, and what they may cost.

    Raises
    ------
    InvalidConfigError
        When a value is out of its range; the message names the field and the value.
    """

    durability: Durability = "commit"
    """What survives when the future of a put is done. With ``"commit"`` (default), ``"process"`` or
    ``"disk"`` that waits for its group, and is as durable as a step of the queue, or as the word
    says. Otherwise it is done at once, and the group is committed within the ``interval``
    (``"interval"``), or when it is large enough, or another call commits it (``"memory"``). Each
    put may say otherwise."""
    interval: float | timedelta = 1.0
    """How long acks, and items of ``"interval"``, wait for their group at most, in seconds. Longer
    makes fewer commits, and loses more in a crash."""
    max_group_items: int | None = 10_000
    """How many items, or acks, make a group due at once."""
    max_group_bytes: int | None = 16 * 1024 * 1024
    """How many bytes make a group due at once."""
    max_pending: int | None = 100_000
    """How many items may wait to be durable; beyond it a put waits too."""
    max_item_size: int | None = None
    """How many bytes an item may count; larger ones are refused."""
    max_memory_items: int | None = 100_000
    """How many items are kept in memory, for all readers together. Items that are open, that came
    back, or that are not durable yet do not count: they stay in any case."""
    max_memory_bytes: int | None = 128 * 1024 * 1024
    """How many bytes these may count."""
    checkpoint_interval: float | timedelta | None = None
    """How often the positions of the readers are written compactly, in seconds; ``None`` for only
    when asked, and at the close."""

    def __post_init__(self) -> None:
        require_put_durability(self.durability, InvalidConfigError)
        try:
            for name in _LIMITS:
                limit_of(name, getattr(self, name))
            if seconds("interval", self.interval) is None:
                raise InvalidConfigError(f"interval is {self.interval!r}: puts are never durable")
            seconds("checkpoint_interval", self.checkpoint_interval)
        except InvalidArgumentError as error:
            raise InvalidConfigError(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderHooks(Generic[T]):
    """What happens to the items of one reader on their ways out, as far as that is code.

    A hook runs without any lock, on the thread whose call found the item. What it raises is logged,
    and the item stays.

    Raises
    ------
    InvalidArgumentError
        When the time is no duration, or a hook cannot be called.
    """

    open_timeout: float | timedelta | None = None
    """How long a read may stay open, in seconds: an older one ends as by a nack, when the
    reader is next asked for an item. ``None`` (default) for ever."""
    on_error: Callable[[Read[T]], object] | None = None
    """Gets a read that has failed, its errors counted: true says that the item is dealt with and
    does not come back."""
    on_expired: Callable[[Entry[T]], object] | None = None
    """Gets an item before it counts as expired. One whose call fails is tried again by the next
    ``discard_expired``, and is not delivered."""

    def __post_init__(self) -> None:
        seconds("open_timeout", self.open_timeout)
        optional(require_callable, "on_error", self.on_error)
        optional(require_callable, "on_expired", self.on_expired)


def require_options(options: object, config: object, hooks: object, queues: object) -> None:
    """Raise where the arguments cannot open a queue."""
    optional(require_kind, "options", options, kind=QueueOptions)
    optional(require_kind, "config", config, kind=ReaderConfig)
    optional(require_kind, "hooks", hooks, kind=ReaderHooks)
    optional(require_callable, "queues", queues)


def size_of(item: Any) -> int:
    """Return how many bytes an item counts: its length where it is text or bytes, else 0."""
    return len(item) if isinstance(item, _SIZED) else 0


def require_name(name: object) -> str:
    """Return the name of a queue.

    Raises
    ------
    InvalidArgumentError
        When it is no text of letters, digits, ``:``, ``_`` and ``-``, or a longer one.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"name is {shorten(name)}: the name of a queue has up to 255 letters, digits, ':', '_' "
            "and '-'"
        )
    return name

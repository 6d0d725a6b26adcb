"""Configuration of a reader: its bounds, and where its overflow goes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

from spark_queue.checks import (
    known_options,
    optional,
    require_choice,
    require_count,
    require_duration,
    require_moment,
    require_text,
    seconds,
)
from spark_queue.errors import InvalidArgumentError, InvalidConfigError
from spark_queue.wording import shorten

FullPolicy = Literal["refuse", "drop_oldest"]

_COUNTS = ("max_items", "max_bytes", "max_expire_sweep", "max_lag")
_DURATIONS = ("max_age", "max_idle")
#: Characters of the name of a reader: it is written with every step of a queue.
_LONGEST_NAME = 200

_QUEUES = ("expire_to", "punt_to", "punt_many_to")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderConfig:
    """The bounds of one reader. Everything may change while the queue runs.

    Items that are open (handed out, and neither acked nor returned) count against them, and
    are never dropped.

    Raises
    ------
    InvalidConfigError
        When a value is out of its range; the message names the field and the value.
    """

    max_items: int | None = None
    """How many items may wait for the reader; ``None`` for no limit."""
    max_bytes: int | None = None
    """How many bytes may wait; items are accepted while there are fewer, so that one item may reach
    over the limit. ``None`` for no limit."""
    full_policy: FullPolicy = "refuse"
    """When the reader is full: the queue refuses new items, for all readers (default), or this
    reader's oldest items that are not open are dropped, and counted."""
    max_age: timedelta | None = None
    """How long after it was put an item expires for this reader, if not earlier by itself."""
    max_expire_sweep: int | None = None
    """How many expired items one sweep removes at most; ``None`` for all."""
    expire_to: str | None = None
    """The queue that gets what expires here; ``None`` drops it."""
    punt_to: str | None = None
    """The queue that gets every item that fails here; ``None`` keeps it for another attempt."""
    punt_many_to: str | None = None
    """The queue that gets items that failed ``punt_many_at`` times, on their whole way."""
    punt_many_at: int = 100
    """How many failures that takes; below it, ``punt_to`` decides."""
    max_idle: timedelta | None = None
    """How old a reader with nothing left must be to count as unused; ``None`` for never."""
    max_lag: int | None = None
    """How many items the queue keeps for the reader once all others are past them; what lies
    further back is dropped, and counted as lost. ``None`` keeps everything."""

    def __post_init__(self) -> None:
        for name in _COUNTS:
            optional(require_count, name, getattr(self, name), error=InvalidConfigError)
        require_count("punt_many_at", self.punt_many_at, InvalidConfigError)
        for name in _DURATIONS:
            value = getattr(self, name)
            optional(require_duration, name, value, error=InvalidConfigError, least=timedelta(0))
        for name in _QUEUES:
            value, kind = getattr(self, name), "the name of a queue, or None"
            optional(require_text, name, value, error=InvalidConfigError, kind=kind)
        require_choice("full_policy", self.full_policy, get_args(FullPolicy), InvalidConfigError)

    def to_dict(self) -> dict[str, Any]:
        """Return the values that are no defaults as plain data (durations in seconds)."""
        plain = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                plain[field.name] = value.total_seconds() if field.name in _DURATIONS else value
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> ReaderConfig:
        """Read a configuration from plain data, as :meth:`to_dict` writes it.

        Raises
        ------
        InvalidConfigError
            When a name is unknown (with the name that was probably meant) or a value is wrong.
        """
        if not isinstance(plain, Mapping):
            raise InvalidConfigError(
                f"the configuration is {shorten(plain)}: it must map names to values"
            )
        values = known_options(cls, plain)
        for name in _DURATIONS:
            if isinstance(values.get(name), int | float):
                values[name] = seconds(name, values[name])
        return cls(**values)


def require_reader_name(name: object, *, is_default: bool = False) -> None:
    """Raise where a value cannot name a reader: the one check of all queues and fronts.

    Parameters
    ----------
    name : object
        The name.
    is_default : bool
        Whether the empty name is the default reader's here.
    """
    if isinstance(name, str) and (is_default if not name else _is_name(name)):
        return
    raise InvalidArgumentError(
        f"a reader has a name, which {shorten(name)} is not: it is a text of at most "
        f"{_LONGEST_NAME} characters, all of which can be printed"
        + ("" if is_default else "; the default reader is the queue itself, by its own methods")
    )


def _is_name(name: str) -> bool:
    # A lone surrogate cannot be printed.
    return len(name) <= _LONGEST_NAME and name.isprintable()


def require_reader(name: object, start: object, config: object = None) -> None:
    """Raise unless the arguments of a new reader are valid."""
    require_reader_name(name)
    if isinstance(start, str):
        require_choice("start", start, ("tail", "beginning"))
    elif start is not None:
        require_moment("start", start)
    if config is not None and not isinstance(config, ReaderConfig):
        raise InvalidConfigError(f"config is {shorten(config)}: it must be a ReaderConfig")

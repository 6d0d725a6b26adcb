"""From where on something is worth a word."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta

from spark_queue.checks import optional, require_count, require_duration
from spark_queue.errors import InvalidArgumentError

#: Those that may be nothing at all, and those that are ``None`` where they are not asked for.
_FROM_ZERO = ("lease_grace", "clock_skew")
_OPTIONAL = ("oldest", "retention")


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """From where on a check says something. The defaults are for queues that somebody works off.

    Raises
    ------
    InvalidArgumentError
        When a value is out of its range.
    """

    lease_grace: timedelta = timedelta(minutes=1)
    """How long a lease may be over before somebody should have taken its item."""
    oldest: timedelta | None = None
    """How long an item may wait whose time has come, for any reason; ``None`` (default): as long
    as it likes."""
    idle: timedelta = timedelta(hours=1)
    """How long nobody may claim while items could run."""
    window: timedelta = timedelta(hours=1)
    """How far failures and dead letters are looked back at, and how long a tenant may get no turn
    while others do, or a group wait for one of its own."""
    failures: int = 60
    """Failures within the window from which on they are a storm, if successes are no more."""
    dead: int = 1
    """Dead letters within the window from which on they grow."""
    checkpoint_rows: int = 100_000
    """Rows of the status log that may follow its last checkpoint: a new process reads them."""
    small_files: int = 100
    """By how many the files of a table could be fewer."""
    retention: timedelta | None = None
    """How long finished items are kept; ``None`` (default): for ever."""
    free: int = 100 * 2**20
    """Bytes that should be left on the disk; never less than the queue takes, which merges write
    once more."""
    clock_skew: timedelta = timedelta(seconds=30)
    """By how much clocks may differ."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _OPTIONAL:
                optional(require_duration, field.name, value, error=InvalidArgumentError)
            elif isinstance(field.default, int):
                require_count(field.name, value, InvalidArgumentError)
            elif field.name in _FROM_ZERO:
                require_duration(field.name, value, InvalidArgumentError, timedelta(0))
            else:
                require_duration(field.name, value, InvalidArgumentError)

"""Time as an argument: an operation asks its clock once, so that tests can drive time by hand."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any, Protocol

from spark_queue.checks import require_kind, require_methods, require_moment
from spark_queue.errors import InvalidArgumentError


class Clock(Protocol):
    """Tells the time of an operation."""

    def now(self) -> datetime:
        """Return the current instant, with a time zone."""


class SystemClock:
    """The machine's clock, in UTC."""

    def now(self) -> datetime:
        """Return the current instant in UTC."""
        return datetime.now(timezone.utc)


class ManualClock:
    """A clock that stands still until it is moved, for tests and simulations.

    Parameters
    ----------
    start : datetime, optional
        The first instant, with a time zone. Default: 2026-01-01 00:00 UTC.

    Examples
    --------
    >>> clock = ManualClock()
    >>> clock.advance(timedelta(seconds=90))
    >>> clock.now().isoformat()
    '2026-01-01T00:01:30+00:00'
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=timezone.utc)) -> None:
        require_kind("start", start, datetime)
        require_moment("start", start)
        self._now = start

    def now(self) -> datetime:
        """Return the instant at which the clock stands."""
        return self._now

    def advance(self, by: timedelta) -> None:
        """Move the clock forward by a duration.

        Raises
        ------
        InvalidArgumentError
            When it is no duration, or leads out of the years that a timestamp has.
        """
        require_kind("by", by, timedelta)
        try:
            self._now += by
        except OverflowError as exc:
            raise InvalidArgumentError(f"by is {by}: it leads out of the years 1 to 9999") from exc


def require_clock(clock: Any) -> Clock:
    """Return a clock, the system's for ``None``; raise where it tells no time."""
    if clock is None:
        return SystemClock()
    require_methods("clock", clock, "now")
    given: Clock = clock
    return given


def utc(local: datetime) -> datetime:
    """Read a collected timestamp, which is naive and in this process's zone."""
    return local.astimezone(timezone.utc)

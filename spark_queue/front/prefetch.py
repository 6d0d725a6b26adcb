"""Number of items that a front claims at a time."""

from __future__ import annotations

from datetime import datetime, timedelta

from spark_queue.clock import Clock

#: Items that a claim takes at most where nobody chose a number.
_MOST = 1_000

#: What is claimed lasts its takers so long, and so many times as long as the claim took.
_LASTS, _CLAIMS = timedelta(milliseconds=100), 10

#: A claim is at most so many times as large as the last one.
_FASTEST = 4

#: Items that nobody asked for are given back after so many times what they should have lasted.
_STALE = 10


class Prefetch:
    """Size of the next claim, from how fast the items of the last one were taken.

    Parameters
    ----------
    fixed : int, optional
        The size that was chosen; by default it is learnt.
    clock : Clock
        The queue's clock.
    """

    def __init__(self, fixed: int | None, clock: Clock) -> None:
        self._fixed = fixed
        self._clock = clock
        self._size = 1 if fixed is None else fixed
        self._lasts = _LASTS
        self._lease = timedelta.max
        self._filled_at: datetime | None = None
        self._ready = self._filled = 0

    @property
    def size(self) -> int:
        """How many items the next claim takes, unless more are waited for."""
        return self._size

    def is_low(self, ready: int) -> bool:
        """Tell whether fewer items are ready than half of a claim."""
        return ready * 2 < self._size

    def fill(self, ready: int, claimed: int, began: datetime, lease: timedelta) -> None:
        """Note that a claim which began then brought items, and how many are ready now."""
        self._filled_at = self._clock.now()
        self._ready, self._filled, self._lease = ready, claimed, lease
        self._lasts = max(_LASTS, _CLAIMS * (self._filled_at - began))

    def learn(self, ready: int) -> None:
        """Choose the size of the next claim, now that so few items of the last one are left."""
        if self._fixed is not None or not self._filled:
            return
        taken, since = self._ready - ready, self._since()
        pace = taken * (self._lasts / max(since, timedelta.resolution))
        self._size = max(1, int(min(pace, _FASTEST * self._filled, _MOST)))
        self._filled = 0

    def time_left(self) -> timedelta:
        """Return how long what is ready may be held without being asked for."""
        if self._filled_at is None:
            return timedelta.max
        most = self._lease if self._fixed is not None else min(self._lease, _STALE * self._lasts)
        return most - self._since()

    def forget(self) -> None:
        """Begin again with single items: what was claimed ahead was given back."""
        self._filled_at, self._filled = None, 0
        if self._fixed is None:
            self._size = 1

    def _since(self) -> timedelta:
        return timedelta(0) if self._filled_at is None else self._clock.now() - self._filled_at

"""Retries of a front: said once, and ever further apart."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

#: Seconds until a step is tried again: after the first failure, doubled by each, and at most.
_FIRST, _MOST = 1 / 16, 10.0


class Retries:
    """One kind of step of a front, which is tried again for as long as the front lives.

    The first failure of its kind is logged, and the success that ends a row of them.

    Parameters
    ----------
    name : str
        The queue's name, for what is logged.
    what : str
        What the step does, as in "claims".
    now : callable
        Tells monotonic seconds.
    """

    def __init__(self, name: str, what: str, now: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._what = what
        self._now = now
        self._failures = 0
        self._said: set[object] = set()
        self._until = 0.0

    def is_due(self) -> bool:
        """Tell whether the pause after the last failure is over."""
        return not self._failures or self._now() >= self._until

    def attempt(self, step: Callable[[], object], most: float = _MOST) -> bool:
        """Do the step, and tell whether it went well; if not, it is due after a pause."""
        try:
            step()
        except BaseException as exc:  # noqa: BLE001 - without its thread, a front would hang
            self.note(exc, most)
            return False
        self.succeed()
        return True

    def note(self, error: BaseException, most: float = _MOST) -> None:
        """Count a failure."""
        self._until = self._now() + min(_FIRST * 2 ** min(self._failures, 30), most)
        self._failures += 1
        kind = (type(error), getattr(error, "errno", None))
        if kind in self._said:
            return
        self._said.add(kind)
        logger.warning(
            "%s: the front %s in vain, tries again ever more rarely, and says this once: %s",
            self._name,
            self._what,
            error,
            # What the system refuses needs no lines of ours.
            exc_info=None if isinstance(error, OSError) else error,
        )

    def succeed(self) -> None:
        """Count a success."""
        if self._failures:
            told = "%s: the front %s again, after %d failure(s)"
            logger.warning(told, self._name, self._what, self._failures)
        self._failures = 0
        self._said.clear()

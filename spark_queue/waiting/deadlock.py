"""The graph of who waits for whom: a wait that closes a circle in it never ends."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def leads_to(goal: N, start: N, waits_for: Callable[[N], N | None]) -> bool:
    """Tell whether one that waits, waits for a goal in the end.

    Parameters
    ----------
    goal, start : hashable
        Of those that wait; equal only when they are the same.
    waits_for : callable
        Returns what one of them waits for, or ``None``. A circle without the goal ends too.
    """
    seen = set[N]()
    at: N | None = start
    while at is not None and at not in seen:
        if at == goal:
            return True
        seen.add(at)
        at = waits_for(at)
    return False

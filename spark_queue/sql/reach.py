"""Distance that a claim looks ahead of the order of service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spark_queue.log.heads import StatusHead
from spark_queue.log.settings import Settings
from spark_queue.state.request import Request
from spark_queue.state.snapshot import Snapshot

#: How far ahead of the pointer a first claim looks, in turns, and how fast it looks further.
_FIRST_WIDTH = 64.0
_WIDER = 8


def nearest(settings: Settings, request: Request) -> float:
    """Return how many turns ahead of the pointer a claim looks at least."""
    return 4.0 * request.limit if settings.config.fair_key is None else _FIRST_WIDTH


def reaches(at: Snapshot, head: StatusHead, request: Request) -> Iterator[float | None]:
    """Return widening reaches; the last is ``None``, for all."""
    width = _first_width(at, head, request)
    tops = at.queue.tops
    for wider in (1, _WIDER, _WIDER**2):
        reach = width * wider
        if all(_is_exhausted(at, head, priority, reach) for priority in tops):
            break
        yield reach
    yield None


# rule: reach of a claim
def is_sure(
    at: Snapshot,
    head: StatusHead,
    within: Mapping[int, int],
    wanted: int,
    reach: float,
) -> bool:
    """Tell whether the first items are all within reach.

    Parameters
    ----------
    within : mapping
        Items that may start and come within reach, by priority.
    wanted : int
        How many are needed.
    """
    sure = 0
    for priority in sorted({*within, *at.queue.tops}, reverse=True):
        sure += within.get(priority, 0)
        if sure >= wanted:
            return True
        if not _is_exhausted(at, head, priority, reach):
            return False
    return True


def wanted_of(limit: int, room: int | None, lapsed: int) -> int:
    """Return how many candidates a claim needs, with the first that finds no slot."""
    return limit if room is None else min(limit, room + 1 + lapsed)


def _first_width(at: Snapshot, head: StatusHead, request: Request) -> float:
    least = max(head.width, nearest(at.settings, request))
    if at.settings.config.fair_key is None:
        return least
    return max(least, _usual_width(at, head, request.limit))


def _usual_width(at: Snapshot, head: StatusHead, limit: int) -> float:
    """Return how many turns some items take, if items are spread evenly.

    Where many lines end early the first turns have more, so that this is far enough.
    """
    left = at.count_left(head)
    turns = sum(
        max(0.0, top - head.pointers.get(priority, (0.0, 0))[0])
        for priority, top in at.queue.tops.items()
    )
    return limit * turns / max(left, 1)


def _is_exhausted(at: Snapshot, head: StatusHead, priority: int, reach: float) -> bool:
    """Tell whether no item of a priority is beyond a reach."""
    settings = at.settings
    if settings.stretches and settings.config.group_key is not None:
        # A tag that its group raised may lie behind the last one that a line has given out.
        return False
    top = at.queue.tops.get(priority, 0.0)
    last = max([top, *(s.turn(priority, top) for s in settings.stretches.values())])
    return last <= head.pointers.get(priority, (0.0, 0))[0] + reach

"""Line of threads of which the first makes one step of what all of them ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from spark_queue.log.disk.forks import part_in_children

_Work = TypeVar("_Work")
_Done = TypeVar("_Done")

#: The part of the time of a step for which its first thread waits for those of the last one.
_PART = 0.25


class LinePlace(Generic[_Work, _Done]):
    """Place of a thread in the line, with its answer.

    Attributes
    ----------
    done : object, optional
        Its part of a step that another thread has made, or it itself.
    error : BaseException, optional
        Why there is none.
    is_apart : bool
        Whether it is to make a step of its own.
    """

    def __init__(self, work: _Work, kind: object) -> None:
        self.work, self.kind = work, kind
        self.done: _Done | None = None
        self.error: BaseException | None = None
        self.is_apart = False
        self.called = threading.Event()


class StepLine(Generic[_Work, _Done]):
    """See :class:`LinePlace`. What two threads ask is one step where it is of one kind."""

    def __init__(self) -> None:
        self.leave_parent()
        part_in_children(self)

    def __reduce__(self) -> tuple[type[StepLine[_Work, _Done]], tuple[()]]:
        # The threads are those of one process.
        return StepLine, ()

    def leave_parent(self) -> None:
        """Forget the threads of a parent: they are not in this child."""
        self._changed = threading.Condition()
        self._places: list[LinePlace[_Work, _Done]] = []
        self._first: LinePlace[_Work, _Done] | None = None
        self._expected, self._began, self._took = 1, 0.0, 0.0

    @contextmanager
    def entering(self, work: _Work, kind: object) -> Iterator[LinePlace[_Work, _Done]]:
        """Wait until this thread is the first, or another has made its step."""
        place = LinePlace[_Work, _Done](work, kind)
        try:
            with self._changed:
                self._places.append(place)
                self._changed.notify_all()
                if self._first is None:
                    self._call(place)
            place.called.wait()
            yield place
        finally:
            self.leave(place)

    def is_first(self, place: LinePlace[_Work, _Done]) -> bool:
        """Return whether the thread of a place makes the step, after those of the last one came."""
        if self._first is not place:
            return False
        with self._changed:
            self._changed.wait_for(lambda: len(self._places) >= self._expected, _PART * self._took)
        self._began = time.monotonic()
        return True

    def group(self, first: LinePlace[_Work, _Done]) -> list[LinePlace[_Work, _Done]]:
        """Return the places whose step the first one makes, by now."""
        with self._changed:
            others = (place for place in self._places if place is not first)
            return [first, *(place for place in others if place.kind == first.kind)]

    def tell(self, group: Sequence[LinePlace[_Work, _Done]], told: Iterable[_Done]) -> None:
        """Give each of a group its part of the step, and call the next one."""
        self._took = time.monotonic() - self._began
        with self._changed:
            self._expected = len(self._places)
        # The first one leaves last: else one of them would be the first.
        for place, done in reversed([*zip(group, told, strict=True)]):
            place.done = done
            self.leave(place)

    def fail(self, group: Sequence[LinePlace[_Work, _Done]], error: BaseException | None) -> None:
        """Give each of a group an error, or have it make a step of its own for ``None``."""
        for place in reversed(group):
            if place.done is None:
                place.error, place.is_apart = error, error is None
            self.leave(place)

    def leave(self, place: LinePlace[_Work, _Done]) -> None:
        """Take a place out of the line; who comes behind the first one is the first then."""
        with self._changed:
            if place in self._places:
                self._places.remove(place)
            place.called.set()
            if self._first is place:
                self._first = None
                if self._places:
                    self._call(self._places[0])

    def _call(self, place: LinePlace[_Work, _Done]) -> None:
        self._first = place
        place.called.set()

"""The queues watched: each opened once, and read once for all viewers at a time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from spark_queue.doctor.examine import examine
from spark_queue.errors import QueueNotFoundError
from spark_queue.log.step_events import logger
from spark_queue.report.finding import Checkup
from spark_queue.report.following import Followed, Shared, Wanted
from spark_queue.report.lines import FlowPoint
from spark_queue.report.model import ItemReport, Report, SharedReport

if TYPE_CHECKING:
    from spark_queue.operating import Operating

#: Seconds after which a checkup is renewed: it looks at every file of the tables.
FOR_A_CHECK = 30.0


@dataclass(slots=True)
class KeptCheckup:
    """The newest checkup of a queue: only the first look waits for it.

    Parameters
    ----------
    examine : callable
        Makes a checkup.
    timer : callable
        Says the seconds from which ages are counted.
    """

    examine: Callable[[], Checkup]
    timer: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: Checkup | None = None
    _at: float = 0.0
    _is_renewing: bool = False

    def look(self) -> Checkup:
        """Return the last checkup, and renew an old one in the background."""
        with self._lock:
            known = self._known
            if known is None:
                known = self.examine()
                self._known, self._at = known, self.timer()
            elif self.timer() - self._at > FOR_A_CHECK and not self._is_renewing:
                self._is_renewing = True
                threading.Thread(target=self._renew, daemon=True).start()
            return known

    def _renew(self) -> None:
        found = None
        try:
            found = self.examine()
        except Exception:  # noqa: BLE001 - an error of any kind stops no page
            # The next look says it to who looks.
            logger.exception("a checkup cannot be renewed")
        with self._lock:
            self._is_renewing = False
            self._known, self._at = found, self.timer()


#: Seconds for which a report is shown to a viewer who comes by a link, and to one who has it
#: refreshed.
FOR_A_CLICK = 10.0
FOR_A_REFRESH = 1.0

#: Hours that the chart of a queue shows, and what its button says.
RANGES = {1: "1 h", 6: "6 h", 24: "24 h", 168: "7 d"}

#: Items that a page lists.
LISTED = 100

#: Answers cached besides the report: as many as pages are open together.
_KEPT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedQueue:
    """A queue as one of its readers sees it."""

    look: Followed
    operate: Operating


#: Opens a queue, given its name and a reader's; the default reader for ``None``.
Opener = Callable[[str, str | None], OpenedQueue]


@dataclass(frozen=True, slots=True)
class _Answer:
    at: float
    value: Any


@dataclass(slots=True)
class WatchedQueue:
    """A queue that is looked at, by any number of threads.

    Parameters
    ----------
    number : int
        Its place among the queues served.
    name : str
        Its name or path.
    reader : str, optional
        The reader that sees it; the default one for ``None``.
    opener : callable
        Opens it, when it is first looked at.
    timer : callable
        Says the seconds from which ages are counted.
    """

    number: int
    name: str
    reader: str | None
    opener: Opener
    timer: Callable[[], float] = time.monotonic
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _opened: OpenedQueue | None = None
    _answers: dict[object, _Answer] = field(default_factory=dict)
    _checkup: KeptCheckup | None = None

    def open(self) -> OpenedQueue:
        """Return the queue, opening it at the first call.

        Raises
        ------
        QueueNotFoundError, ReaderNotFoundError
            When it is not there.
        """
        with self._lock:
            if self._opened is None:
                self._opened = self.opener(self.name, self.reader)
            return self._opened

    def report(self, most_age: float) -> Report:
        """Return a report that was read no longer ago than so many seconds."""
        report: Report = self._answer("report", most_age, lambda look: look())
        return report

    def item(self, seq: int, most_age: float) -> ItemReport:
        """Return the same of an item."""
        item: ItemReport = self._answer(seq, most_age, lambda look: look.item(seq))
        return item

    def items(self, by: Shared, digest: str, most_age: float) -> SharedReport:
        """Return the first items that share something: one more than a list has room for."""
        found: SharedReport = self._answer(
            (by, digest), most_age, lambda look: look.items(by, digest, LISTED + 1)
        )
        return found

    def find(self, wanted: Wanted, most_age: float) -> SharedReport:
        """Return the first matching items: one more than a list has room for."""
        found: SharedReport = self._answer(
            wanted, most_age, lambda look: look.find(wanted, LISTED + 1)
        )
        return found

    def flow(self, hours: int, most_age: float) -> tuple[FlowPoint, ...]:
        """Return the items enqueued and ended in the last hours."""
        report = self.report(most_age)
        if report.window == timedelta(hours=hours):
            return report.flow
        found: tuple[FlowPoint, ...] = self._answer(
            ("flow", hours), most_age, lambda look: look.flow(timedelta(hours=hours))
        )
        return found

    def checkup(self) -> Checkup:
        """Return the checkup of the queue, of all its readers."""
        with self._lock:
            if self._checkup is None:
                self._checkup = KeptCheckup(lambda: _examine(self.open().look))
            # Actions may come before the first look.
            kept = self._checkup
        return kept.look()

    def operate(self, do: Callable[[Operating], Any]) -> Any:
        """Return the result of an operation; the next look sees its effect."""
        operate = self.open().operate
        try:
            return do(operate)
        finally:
            with self._lock:
                self._answers.clear()
                self._checkup = None

    def _answer(self, about: object, most_age: float, read: Callable[[Followed], Any]) -> Any:
        # Viewers who come while it is read wait, and are shown the same.
        with self._lock:
            known = self._answers.get(about)
            if known is not None and self.timer() - known.at <= most_age:
                return known.value
            value = self._read(read)
            self._answers.pop(about, None)
            self._answers[about] = _Answer(self.timer(), value)
            while len(self._answers) > _KEPT:
                self._answers.pop(next(iter(self._answers)))
            return value

    def _read(self, read: Callable[[Followed], Any]) -> Any:
        try:
            return read(self.open().look)
        except QueueNotFoundError:
            # A queue created in its place is another: it is opened again.
            self._opened = None
            raise


def _examine(look: Followed) -> Checkup:
    # What the pages have read is not read again.
    return examine(look.store.of_reader(0), source=look.source)


class Board:
    """The queues that are served, as any of their readers sees them.

    Parameters
    ----------
    names : sequence of str
        The queues.
    opener : callable
        Opens one.
    reader : str, optional
        The reader that sees them where none is named.
    """

    def __init__(self, names: Sequence[str], opener: Opener, reader: str | None = None) -> None:
        self._names, self._opener, self._reader = tuple(names), opener, reader
        self._lock = threading.Lock()
        self._seats: dict[tuple[int, str | None], WatchedQueue] = {}

    def __iter__(self) -> Iterator[WatchedQueue]:
        """Go through the queues as they were named."""
        return (self.seat(number) for number in range(len(self._names)))

    def number_of(self, name: str) -> int | None:
        """Return the number of a queue by its name, or by another path to the same place."""
        places = [os.path.abspath(one) for one in self._names]  # noqa: PTH100 - or it is no path
        place = os.path.abspath(name)  # noqa: PTH100 - as above
        return places.index(place) if name and place in places else None

    def seat(self, number: int, reader: str | None = None) -> WatchedQueue:
        """Return a queue as a reader sees it.

        Raises
        ------
        LookupError
            When there is no such queue, or no such reader.
        """
        name = self._names[number]
        # The default reader has no name.
        reader = self._reader if reader is None else reader or None
        with self._lock:
            found = self._seats.get((number, reader))
        if found is None:
            found = WatchedQueue(number, name, reader, self._opener)
            if reader != self._reader:
                # A missing queue takes no place.
                found.open()
            with self._lock:
                found = self._seats.setdefault((number, reader), found)
        return found

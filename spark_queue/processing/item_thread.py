"""Threads that work on items, left alone when they hang."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import pyarrow as pa

from spark_queue.log.step_events import logger
from spark_queue.processing.calling import Item, overtime
from spark_queue.wording import lasting

#: The outcome of an item, or the outcomes of several.
Told: TypeAlias = dict[str, Any] | pa.RecordBatch


class ItemThread(threading.Thread):
    """Tells what becomes of items, one after another.

    Parameters
    ----------
    work : callable
        Yields what there is to tell; gets the thread, to say which item it is at.
    tell : callable
        Told of it.
    name : str
        The thread's name.
    """

    def __init__(
        self,
        work: Callable[[ItemThread], Iterable[Told]],
        tell: Callable[[Told], object],
        name: str,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._work, self._tell = work, tell
        self._lock = threading.Lock()
        self._item: Item | None = None
        self._since = 0.0
        self._is_late = False
        self.is_lost = False
        """Whether it was given up: its further outcomes are dropped."""
        self.over = threading.Event()
        """Set when it has given all outcomes, or is lost."""
        self.error: BaseException | None = None
        """What ended it, if something did."""

    def run(self) -> None:
        """Work."""
        try:
            for told in self._work(self):
                self._tell(told)
        except BaseException as exc:  # noqa: BLE001 - the waiting thread raises it
            self.error = exc
        finally:
            self.over.set()

    def outcome(
        self, item: Item, call: Callable[[Item], dict[str, Any]], limit: float
    ) -> dict[str, Any]:
        """Return the outcome of an item, or that it took too long."""
        with self._lock:
            self._item, self._since = item, time.monotonic()
        told = call(item)
        with self._lock:
            is_late, self._is_late, self._item = self._is_late, False, None
        return overtime(item[1]["_seq"], limit) if is_late else told

    def look(self, limit: float) -> bool:
        """Charge the item that it is at, if that takes too long; tell whether it was.

        A group is free when all that is known of it has come to an end: an item of one is charged
        when its thread is back, or its lease is over.
        """
        with self._lock:
            if self._item is None or self._is_late or time.monotonic() - self._since <= limit:
                return False
            group, columns = self._item
            self._is_late = True
            logger.warning(
                "item %d takes longer than its item_time_limit, %s: %s is busy until it returns",
                columns["_seq"],
                lasting(limit),
                self.name,
            )
            if group is not None:
                return False
            self.is_lost = True
            self._tell(overtime(columns["_seq"], limit))
            self.over.set()
            return True

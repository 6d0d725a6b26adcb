"""The rule of a distinct stream: a key passes once, until its completion frees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from spark_queue.rules.dedup import Distinct
from spark_queue.streaming.rules.events import ARRIVAL, COMPLETION, Counting, Event, Outgoing

#: The rule knows holders by number. A completion names a key and no row, so that one number does.
_ROW = 0


class DistinctRules(Counting):
    """The keys of one bucket that are in flight.

    Counts: ``passed``, ``refused``, ``completed``, and ``unknown`` for completions of keys that are
    not in flight: late ones, second ones, and those of nobody.
    """

    def __init__(self) -> None:
        super().__init__()
        self._distinct = Distinct("live")

    def apply(self, events: Iterable[Event]) -> list[Outgoing]:
        """Pass arrivals whose key is free; free the keys of completions."""
        answers = []
        for event in events:
            if event.kind == ARRIVAL and self._passes(event):
                answers.append(Outgoing(event.row, 0.0))
            elif event.kind == COMPLETION:
                self._complete(event)
        return answers

    def dump(self) -> dict[str, Any]:
        """Return the keys in flight."""
        return {"live": list(self._distinct.holders), "counts": self.counts}

    def load(self, plain: Mapping[str, Any]) -> None:
        """Go on where plain data was written."""
        self.counts = dict(plain["counts"])
        for key in plain["live"]:
            self._distinct.take(key, _ROW, 0.0)

    def _passes(self, event: Event) -> bool:
        if self._distinct.holder(event.key, 0.0) is not None:
            self.count("refused")
            return False
        self._distinct.take(event.key, _ROW, 0.0)
        self.count("passed")
        return True

    def _complete(self, event: Event) -> None:
        if self._distinct.holder(event.key, 0.0) is None:
            self.count("unknown")
            return
        self._distinct.leave(event.key, _ROW, 0.0)
        self.count("completed")

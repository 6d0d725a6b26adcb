"""The rule of a distinct stream: a key passes once, until its completion frees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from spark_queue.rules.dedup_keys import Distinct
from spark_queue.streaming.rules.events import ARRIVAL, COMPLETION, Counting, Event, Outgoing

#: Where the holder of a key stands of which an earlier release has not kept the place.
_UNKNOWN = -(2**63)


class DistinctRules(Counting):
    """The keys of one bucket that are in flight, each with the place at which it passed.

    Counts: ``passed``, ``refused``, ``completed``, ``unknown`` for completions of keys that are not
    in flight, and ``stale`` for those that came before what is in flight.

    Parameters
    ----------
    ordered : bool
        Whether events have places, so that a completion frees only what came before it.
    """

    def __init__(self, *, ordered: bool = False) -> None:
        super().__init__()
        self._ordered = ordered
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

    def remembers_keys(self) -> bool:
        """Tell whether a key is in flight."""
        return bool(self._distinct.holders)

    def dump(self) -> dict[str, Any]:
        """Return the keys in flight."""
        live = [[key, holder.seq] for key, holder in self._distinct.holders.items()]
        return {"live": live, "counts": self.counts}

    def load(self, plain: Mapping[str, Any]) -> None:
        """Go on where plain data was written; in format 1 a key had no place."""
        self.counts = dict(plain["counts"])
        for entry in plain["live"]:
            key, at = (entry, _UNKNOWN) if isinstance(entry, str) else entry
            self._distinct.take(key, at, 0.0)

    def _passes(self, event: Event) -> bool:
        if self._distinct.holder(event.key, 0.0) is not None:
            self.count("refused")
            return False
        self._distinct.take(event.key, event.at, 0.0)
        self.count("passed")
        return True

    def _complete(self, event: Event) -> None:
        passed_at = self._distinct.holder(event.key, 0.0)
        if passed_at is None:
            self.count("unknown")
            return
        # At one place completions come first: this one is of an earlier run.
        if self._ordered and event.at <= passed_at:
            self.count("stale")
            return
        self._distinct.leave(event.key, passed_at, 0.0)
        self.count("completed")

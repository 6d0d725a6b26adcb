"""Rules of the operators on streams: distinct and fair, over events of a bucket."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple, cast

from spark_queue.rules.fairness import Account, Level, Turns
from spark_queue.streaming.stream_pages import PAGE, Pages, PageStore

#: What a row says. At one instant completions come first: they free what an arrival may take.
COMPLETION, ARRIVAL, CLOCK = 0, 1, 2


class Event(NamedTuple):
    """One row, as a bucket sees it; events of a batch are applied in the order of their fields."""

    at: int
    """When, in microseconds; 0 where rows have no time."""
    kind: int
    """:data:`COMPLETION`, :data:`ARRIVAL` or :data:`CLOCK`."""
    seq: int
    """The explicit sequence; of a completion, that of the item it is about."""
    key: str | None
    """The key or group."""
    number: float
    """What the operator needs besides: a cost, a round, the number of a run."""
    outcome: str | None
    """Of a completion, how it went."""
    row: int
    """Of an arrival, the number under which its row is kept; -1 for others."""


class Outgoing(NamedTuple):
    """A row that goes out."""

    row: int
    """The number of the row that came in."""
    number: float
    """What the operator says of it: its round, or the number of its run."""


class BucketRules:
    """The state of one bucket: its keys, in pages, and its counts.

    Parameters
    ----------
    page : int
        How much is in a page, on average.
    """

    counts: dict[str, int]
    """How many events of each sort there were, since the query's first batch."""

    def __init__(self, *, page: int = PAGE) -> None:
        self._page = page
        self.load({"counts": {}}, {})

    def apply(self, events: Iterable[Event]) -> list[Outgoing]:
        """Take in events, in order, and answer what goes out."""
        raise NotImplementedError

    def dump(self) -> dict[str, Any]:
        """Write what has changed, and return the rest as plain data for JSON."""
        return {**self._write(), **self.pages.close(), "counts": self.counts}

    def load(self, plain: Mapping[str, Any], store: PageStore) -> None:
        """Go on where plain data was written, and pages are in a store.

        Before format 3 all was in the plain data: it is written to pages.
        """
        self.counts = dict(plain["counts"])
        self.pages = Pages(store, plain, self._page)
        self._read(plain)

    def count(self, what: str, more: int = 1) -> None:
        """Count some more."""
        if more:
            self.counts[what] = self.counts.get(what, 0) + more

    def _read(self, plain: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def _write(self) -> dict[str, Any]:
        raise NotImplementedError


#: Where the holder of a key stands of which an earlier release has not kept the place.
UNKNOWN = -(2**63)


class DistinctRules(BucketRules):
    """The keys of one bucket that are in flight, each with the place at which it passed.

    Counts: ``passed``, ``refused``, ``completed``, ``unknown`` for completions of keys that are not
    in flight, and ``stale`` for those older than the row in flight.

    Parameters
    ----------
    ordered : bool
        Whether events have places, so that a completion frees only what came before it.
    page : int
        How much is in a page, on average.
    """

    def __init__(self, *, ordered: bool = False, page: int = PAGE) -> None:
        super().__init__(page=page)
        self._ordered = ordered

    def apply(self, events: Iterable[Event]) -> list[Outgoing]:
        """Pass arrivals whose key is free; free the keys of completions."""
        answers = []
        for event in events:
            if event.kind == ARRIVAL and self._passes(event):
                answers.append(Outgoing(event.row, 0.0))
            elif event.kind == COMPLETION:
                self._complete(event)
        return answers

    def _read(self, plain: Mapping[str, Any]) -> None:
        """Go on with the keys in flight; in format 1 a key had no place."""
        self._live: dict[str, int | None] = {}
        for entry in plain.get("live", ()):
            key, at = (entry, UNKNOWN) if isinstance(entry, str) else entry
            self._live[key] = at

    def _write(self) -> dict[str, Any]:
        for key, at in self._live.items():
            if at is None:
                self.pages.drop(key)
            else:
                self.pages.put(key, at)
        self._live.clear()
        return {}

    # rule again: one item of a key
    def _passed_at(self, key: str) -> int | None:
        """Return the place at which a key passed that is in flight."""
        if key not in self._live:
            found = self.pages.find(key)
            self._live[key] = None if found is None else found[0]
        return self._live[key]

    def _passes(self, event: Event) -> bool:
        if event.key is not None:
            if self._passed_at(event.key) is not None:
                self.count("refused")
                return False
            self._live[event.key] = event.at
        self.count("passed")
        return True

    def _complete(self, event: Event) -> None:
        passed_at = None if event.key is None else self._passed_at(event.key)
        if event.key is None or passed_at is None:
            self.count("unknown")
            return
        # At one place completions come first: this one is of an earlier run.
        if self._ordered and event.at <= passed_at:
            self.count("stale")
            return
        self._live[event.key] = None
        self.count("completed")


_PRIORITY = 0

#: How many pages of keys whose rounds are over a micro-batch clears that it does not read anyway.
_CLEARED = 4


class FairRules(BucketRules):
    """The keys of one bucket whose last round is still to come, and the round that is served.

    Counts: ``tagged``; ``served`` for rows that moved the round on, and ``invalid`` for those
    without a round, by each bucket that they reach.

    Parameters
    ----------
    weights : mapping
        How many rows make up a key's part of a round; 1 where a key is not named.
    at_once : bool
        Whether the rounds that were given out in a batch have been served when the next one comes.
    page : int
        How much is in a page, on average.
    """

    def __init__(self, weights: Mapping[str, float], *, at_once: bool, page: int = PAGE) -> None:
        self._weights = weights
        self._at_once = at_once
        super().__init__(page=page)

    def apply(self, events: Iterable[Event]) -> list[Outgoing]:
        """Give each arrival its round."""
        accounts = self._level.accounts
        answers, highest = [], 0.0
        for event in events:
            if event.kind == ARRIVAL:
                account = accounts.get(event.key) or self._account(event.key)
                account.raw_last = account.start() + event.number
                number = account.last
                highest = max(highest, number)
                answers.append(Outgoing(event.row, number))
            elif event.kind == COMPLETION:
                self._serve(event.number)
        self.count("tagged", len(answers))
        if self._at_once and answers:
            self._serve(highest)
        return answers

    def _read(self, plain: Mapping[str, Any]) -> None:
        self._turns = Turns(self._weights)
        self._turns.levels[_PRIORITY] = self._level = Level(_PRIORITY)
        self._level.advance(plain.get("round", 0.0), 0)
        for key, last in plain.get("last", ()):
            account = self._turns.account(_PRIORITY, key)
            account.raw_last = account.raw(last)

    def _write(self) -> dict[str, Any]:
        """Keep the last round of each key that is still to come.

        Of the others nothing need be known: they go on from the round that is served.
        """
        turn = self._level.turn
        for key, account in self._level.accounts.items():
            if account.last > turn:
                self.pages.put(cast("str | None", key), account.last, due=account.last)
            else:
                self.pages.drop(cast("str | None", key))
        self._level.accounts.clear()
        for key in chain(self.pages.due_here(turn), self.pages.due(turn, _CLEARED)):
            self.pages.drop(key)
        return {"round": turn}

    def _account(self, key: str | None) -> Account:
        account = self._turns.account(_PRIORITY, key)
        known = self.pages.find(key)
        if known is not None:
            account.raw_last = account.raw(known[0])
        return account

    def _serve(self, number: float | None) -> None:
        if number is None or not math.isfinite(number):
            self.count("invalid")
        elif number > self._level.turn:
            self._level.advance(number, 0)
            self.count("served")

"""The rule of a fair stream: the round of each arrival, while rounds are being served."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from spark_queue.rules.fairness import Level, Turns
from spark_queue.streaming.rules.events import ARRIVAL, COMPLETION, Counting, Event, Outgoing

_PRIORITY = 0


class FairRules(Counting):
    """The keys of one bucket whose last round is still to come, and the round that is served.

    Counts: ``tagged``; ``served`` for rows that moved the round on, and ``invalid`` for those
    without a round, by each bucket that they reach.

    Parameters
    ----------
    weights : mapping
        How many rows make up a key's part of a round; 1 where a key is not named.
    at_once : bool
        Whether the rounds that were given out in a batch have been served when the next one comes.
    """

    def __init__(self, weights: Mapping[str, float], *, at_once: bool) -> None:
        super().__init__()
        self._turns = Turns(weights, fair=True)
        self._turns.levels[_PRIORITY] = self._level = Level(_PRIORITY)
        self._at_once = at_once

    def apply(self, events: Iterable[Event]) -> list[Outgoing]:
        """Give each arrival its round."""
        accounts, account_of = self._level.accounts, self._turns.account
        answers, highest = [], 0.0
        for event in events:
            if event.kind == ARRIVAL:
                account = accounts.get(event.key) or account_of(_PRIORITY, event.key)
                number = account.next_tag(event.number)
                highest = max(highest, number)
                answers.append(Outgoing(event.row, number))
            elif event.kind == COMPLETION:
                self._serve(event.number)
        self.count("tagged", len(answers))
        if self._at_once and answers:
            self._serve(highest)
        return answers

    def remembers_keys(self) -> bool:
        """Tell whether a key has a round that is still to come."""
        return bool(self.dump()["last"])

    def dump(self) -> dict[str, Any]:
        """Return the round that is served, and the last round of each key that is beyond it.

        Of the others nothing need be known: they go on from the round that is served.
        """
        turn = self._level.turn
        accounts = self._level.accounts.values()
        last = [[account.fair_key, account.last] for account in accounts if account.last > turn]
        return {"round": turn, "last": last, "counts": self.counts}

    def load(self, plain: Mapping[str, Any]) -> None:
        """Go on where plain data was written."""
        self.counts = dict(plain["counts"])
        self._level.advance(plain["round"], 0)
        for key, last in plain["last"]:
            account = self._turns.account(_PRIORITY, key)
            account.raw_last = account.raw(last)

    def _serve(self, number: float | None) -> None:
        if number is None or not math.isfinite(number):
            self.count("invalid")
        elif number > self._level.turn:
            self._level.advance(number, 0)
            self.count("served")

"""Wait for the end of items: of the live ones, not of later ones."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from spark_queue.errors import InvalidArgumentError
from spark_queue.sql.planner_choice import planner_of
from spark_queue.sql.where import Where
from spark_queue.state.step_waits import look_at, rest_until_news
from spark_queue.state.store import Store
from spark_queue.wording import shorten

if TYPE_CHECKING:
    from spark_queue.views.answers import Ends

#: Columns of the status that change while an item lives.
_CHANGING = (
    *("_state", "_attempts", "_losses", "_deferrals", "_available_at", "_first_claimed_at"),
    *("_claimed_at", "_finished_at", "_lease", "_worker_id", "_lease_expires_at", "_error"),
)

#: A column of those in a condition.
_NAMED = re.compile(rf"(?<!\w)({'|'.join(_CHANGING)})(?!\w)", re.IGNORECASE)

#: A count rests for so many times as long as it took: many who wait leave a queue to its workers.
_SHARE = 5


@dataclass(frozen=True, slots=True)
class Waited:
    """Result of a wait: the items by their state."""

    states: Mapping[str, int]
    """How many of them are in which state; those that were purged since are in none."""

    @property
    def left(self) -> int:
        """How many have not ended: the time was over before."""
        return sum(self.states.get(state, 0) for state in ("ready", "claimed"))

    @property
    def failed(self) -> int:
        """How many are dead or expired."""
        return sum(self.states.get(state, 0) for state in ("dead", "expired"))

    def __bool__(self) -> bool:
        """Whether all have ended, and none is dead or expired."""
        return not (self.left or self.failed)


def require_fixed(where: Where) -> None:
    """Refuse a selection by columns that change while an item lives.

    Raises
    ------
    InvalidArgumentError
        When it names one, or is an expression of Arrow, whose columns cannot be told.
    """
    if isinstance(where, pc.Expression):
        raise InvalidArgumentError(
            f"where is {where}, an expression of pyarrow.compute: to wait, say it in SQL, or name "
            "columns with their values"
        )
    named = _NAMED.search(" ".join(map(str, where)) if isinstance(where, Mapping) else where)
    if named:
        raise InvalidArgumentError(
            f"where is {shorten(where)}: {named[1]} changes while an item lives, so no wait would "
            "know which items are meant; name columns of yours, keys, or _seq"
        )


def wait_for_end(store: Store, where: Where, timeout: float, ends: Ends) -> Waited:
    """Wait until the selected items that lived at an end have ended, so many seconds at most."""
    end, planner = time.monotonic() + timeout, planner_of(store)
    # The states were first: an item that came between both looks is new, and is waited for.
    step, last_seq = ends.head.step, (ends.queue_head or store.queue_head()).last_seq
    while True:
        began, look = time.monotonic(), look_at(store)
        waited, now = Waited(planner.count_live_at(where, step, last_seq)), time.monotonic()
        if not waited.left or now >= end:
            return waited
        rest_until_news(store, look, min(_SHARE * (now - began), end - now), end)

"""The pass of a claim by SQL: an engine puts items in order, limits take them one by one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from spark_queue.config import QueueConfig
from spark_queue.rules.limiting import Limits, Pass
from spark_queue.sql.sql_engines import Tables

LIMITED = pa.schema(
    [("nth", pa.int64()), ("place", pa.int64()), ("path", pa.string()), ("most", pa.int64())]
)
OVERRIDES = pa.schema([("nth", pa.int64()), ("key", pa.string()), ("most", pa.int64())])
CLOSED = pa.schema([("nth", pa.int64()), ("key", pa.string())])
CHOSEN = pa.schema([("seq", pa.int64()), ("pos", pa.int64())])
GROUPS = pa.schema([("group_key", pa.string()), ("seq", pa.int64())])
REACHED = pa.schema([("priority", pa.int64()), ("turn", pa.float64()), ("seq", pa.int64())])

#: What a block of candidates has beside those that the claim wants, and before the first.
_MORE = 1_000
_START = (2**32, 0.0, 0)

#: The places of the fair key and the group key; stored ones come after them.
_OWN = 2


class Candidate(NamedTuple):
    """An item in the order of service: a row of ``pass_candidates``."""

    seq: int
    priority: int
    turn: float
    place: str
    fair_key: str | None
    group_key: str | None
    flow_keys: str | None


def variants_of(config: QueueConfig) -> dict[str, str]:
    """Return the variants of a claim's views in a queue with limits."""
    if not config.limits:
        return {}
    return {
        "standing_items": "standing_items_with_limits",
        "first_in_order": "first_in_order_by_pass",
    }


def two_stages(config: QueueConfig) -> str:
    """Return the view of what a claim gets where lapsed items have slots of a full queue."""
    return "granted_items_with_limits" if config.limits else "granted_items"


def question_variants(config: QueueConfig) -> dict[str, str]:
    """Return the variants of views that say what limits keep back."""
    return {} if config.limits else {"kept_back": "nothing_kept_back"}


def limited_of(config: QueueConfig) -> pa.Table:
    """Return the number of each limit, and where its key is in an item."""
    rows = [
        {"nth": nth, "place": place, "path": f"$[{place - _OWN}]", "most": limit.default}
        for nth, (limit, place) in enumerate(
            zip(config.limits, Limits(config).keys.places, strict=True)
        )
    ]
    return pa.Table.from_pylist(rows, LIMITED)


def overrides_of(config: QueueConfig) -> pa.Table:
    """Return the numbers of keys that have their own."""
    rows = [
        {"nth": nth, "key": key, "most": most}
        for nth, limit in enumerate(config.limits)
        for key, most in limit.overrides.items()
    ]
    return pa.Table.from_pylist(rows, OVERRIDES)


@dataclass(slots=True)
class LimitPass:
    """One claim's pass over the candidates of an engine.

    Attributes
    ----------
    limit : int
        How many items the claim wants.
    within : Counter
        By priority: the items that it takes, and the one that finds no slot in the queue.
    is_over : bool
        Whether no later candidate is taken.
    """

    database: Tables
    config: QueueConfig
    limit: int
    run: int
    room: int | None
    chosen: list[int] = field(default_factory=list)
    within: Counter[int] = field(default_factory=Counter)
    is_over: bool = False

    def walk(self) -> None:
        """Take items in order, and give the engine which, and whose groups were passed."""
        has_several = self.config.group_limit * self.run > 1
        limits = Limits(self.config)
        flights = self.database.rows("flights")
        for row in flights.to_pylist():
            limits.flights[row["nth"], row["key"]] = row["items"]
        taking = Pass(limits.room, has_groups=self.config.group_key is not None)
        if has_several:
            for row in self.database.rows("kept_groups").to_pylist():
                taking.keep_back(row["seq"], row["group_key"])
        # A full queue has slots for those alone that come in the second stage.
        self.is_over = self.room == 0
        for block in self._blocks(taking, may_skip=not has_several):
            for candidate in block:
                self._look_at(candidate, taking, limits)
                if self.is_over:
                    break
        places = [self.chosen, list(range(len(self.chosen)))]
        self.database.give("chosen", pa.table(places, schema=CHOSEN))
        passed = [list(taking.passed), list(taking.passed.values())]
        self.database.give("passed_groups", pa.table(passed, schema=GROUPS))

    def _blocks(self, taking: Pass, *, may_skip: bool) -> Iterator[list[Candidate]]:
        """Return candidates in order; of later blocks those whose keys have room, where it may."""
        name, size, reached = "pass_candidates", self.limit + _MORE, _START
        while not self.is_over:
            self.database.give("reached", pa.table([[one] for one in reached], schema=REACHED))
            rows = self.database.rows(name, size)
            yield [Candidate(*row) for row in zip(*rows.to_pydict().values(), strict=True)]
            if rows.num_rows < size:
                return
            last = rows.slice(size - 1).to_pylist()[0]
            reached, size = (last["priority"], last["turn"], last["seq"]), 2 * size
            if may_skip:
                closed = [key for key, left in taking.left.items() if left <= 0]
                columns = [[nth for nth, _ in closed], [key for _, key in closed]]
                self.database.give("closed", pa.table(columns, schema=CLOSED))
                name = "pass_candidates_of_open_keys"

    def _look_at(self, one: Candidate, taking: Pass, limits: Limits) -> None:
        stored = json.loads(one.flow_keys) if one.flow_keys else None
        keys = limits.keys.find(one.fair_key, one.group_key, stored)
        is_lapsed = one.place == "lost"
        if not taking.takes(one.seq, one.group_key, keys, is_lapsed=is_lapsed):
            return
        self.within[one.priority] += 1
        if self.room is not None and not is_lapsed:
            if not self.room:
                self.is_over = True
                return
            self.room -= 1
        self.chosen.append(one.seq)
        self.is_over = len(self.chosen) >= self.limit

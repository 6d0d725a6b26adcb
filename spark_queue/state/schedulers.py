"""Schedulers made from a replica, for one step."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from spark_queue.config import QueueConfig
from spark_queue.log.heads import Pointer
from spark_queue.log.schema import CLAIMED, READY
from spark_queue.log.settings import Settings
from spark_queue.reader_config import ReaderConfig
from spark_queue.rules.dedup_keys import kept_for
from spark_queue.rules.following import FORMAT
from spark_queue.rules.pacing import Paces
from spark_queue.rules.scheduler import Scheduler
from spark_queue.state.open_items import Holders, LineKey, Row, has_begun
from spark_queue.state.replica import Replica


@dataclass(slots=True)
class Several:
    """The replicas of all readers as one: an item is open if any reader has it open.

    Attributes
    ----------
    replicas : sequence of Replica
        One of each reader.
    ends : dict
        The last tag of each line that was learnt.
    served : dict
        Nothing: how far the readers have come does not move a new item.
    """

    replicas: Sequence[Replica]
    ends: dict[LineKey, float] = field(default_factory=dict)
    served: dict[tuple[LineKey, bool], float] = field(default_factory=dict)

    def learn_ends(self, lines: Collection[LineKey]) -> None:
        """Bring the last tags of some lines here."""
        for replica in self.replicas:
            replica.learn_ends(lines)
        self.ends = {
            line: max(replica.ends.get(line, 0.0) for replica in self.replicas) for line in lines
        }

    def members(self, groups: Collection[str], pointers: Mapping[int, Pointer]) -> list[Row]:
        """Return :meth:`Replica.members` of any of the readers."""
        found: dict[int, Row] = {}
        for replica in self.replicas:
            found |= {row["_seq"]: row for row in replica.members(groups, pointers)}
        return list(found.values())

    def holders(self, asked: Mapping[str, int | None]) -> Holders:
        """Return the newest item of each dedup key, and whether it is open for any reader."""
        found: Holders = {}
        for replica in self.replicas:
            for key, (seq, at, is_open) in replica.holders(asked).items():
                known = found.get(key, (0, at, False))
                found[key] = max(known, (seq, at, is_open))
        return found

    def open_of(self, held: Holders, *, is_begun: bool) -> list[Row]:
        """Return :meth:`Replica.open_of`, an item as one has it that has begun it."""
        found: dict[int, Row] = {}
        for replica in self.replicas:
            for row in replica.open_of(held, is_begun=is_begun):
                if row["_seq"] not in found or has_begun(row):
                    found[row["_seq"]] = row
        return list(found.values())


#: What new items are measured against.
Measure = Replica | Several


@dataclass(frozen=True, slots=True)
class ReaderTerms:
    """Settings of a queue and of a reader that judge a reader's items."""

    settings: Settings
    """The settings in force."""
    reader_config: ReaderConfig
    """What the reader allows."""
    judging: QueueConfig = field(init=False, repr=False, compare=False)
    """The configuration for failures: the attempts are the reader's, and who holds a key does not
    matter, as nothing is accepted."""

    def __post_init__(self) -> None:
        config = self.settings.config
        most = _least(config.max_attempts, punted_at(self.reader_config))
        judging = replace(without_keys(config), max_attempts=most)
        object.__setattr__(self, "judging", judging)


def scheduler(
    config: QueueConfig,
    rows: Iterable[Row],
    pointers: Mapping[int, Pointer],
    lines: Iterable[list[Any]],
    *,
    reader_config: ReaderConfig | None = None,
    holders: Iterable[list[Any]] = (),
    last_seq: int = 0,
    keep_finished: bool = True,
) -> Scheduler:
    """Return a scheduler in the state that rows describe.

    Parameters
    ----------
    config : QueueConfig
        The configuration in force.
    rows : iterable of Row
        The newest rows of items that are ready or claimed.
    pointers : mapping
        How far the order of service has come, by priority.
    lines : iterable
        What :func:`line_of` returns of each line that matters.
    reader_config : ReaderConfig, optional
        What the reader allows.
    holders : iterable
        What :func:`holders` returns.
    last_seq : int
        The last seq that was given to a row.
    keep_finished : bool
        Whether what an item was is still known at its end.
    """
    items = [item(row, reader_config) for row in sorted(rows, key=lambda row: int(row["_seq"]))]
    claimed = sum(one["state"] == CLAIMED for one in items)
    return Scheduler.restore(
        config,
        {
            "format": FORMAT,
            "step": 0,
            "last_seq": last_seq,
            "paused": False,
            "keep_finished": keep_finished,
            "clock": None,
            "tally": {"enqueued": len(items), CLAIMED: claimed, READY: len(items) - claimed},
            "levels": _levels(pointers, lines),
            "items": items,
            "refused": [],
            "holders": list(holders),
            "grants": [],
        },
    )


def paces_of(replica: Replica, config: QueueConfig) -> Paces:
    """Return what keys owe."""
    paces = Paces(config)
    for (by, key), debt in replica.debts.items():
        paces.learn(by, key, debt)
    return paces


def punted_at(reader_config: ReaderConfig) -> int | None:
    """Return the failures after which a reader punts an item instead of retrying it."""
    if reader_config.punt_to is not None:
        return 1
    return None if reader_config.punt_many_to is None else reader_config.punt_many_at


def without_keys(config: QueueConfig) -> QueueConfig:
    """Return a configuration without keys, for steps that accept nothing."""
    return replace(
        config,
        dedup_key=None,
        dedup_scope="live",
        on_duplicate="skip",
        debounce=None,
        at_most=None,
    )


def line_of(known: Measure, settings: Settings, at: LineKey) -> list[Any]:
    """Return the priority of a line and its account, as a snapshot has it."""
    priority, fair_key = at
    stretch = settings.stretch(fair_key)
    pinned = stretch.pins.get(priority, (0.0, 0.0))
    turns = (known.served.get((at, False)), known.served.get((at, True)))
    return [priority, fair_key, stretch.weight, *pinned, known.ends.get(at, 0.0), *turns]


def holders(config: QueueConfig, held: Holders) -> list[list[Any]]:
    """Return who has each of some dedup keys, as a snapshot has it."""
    kept = kept_for(config.dedup_scope)
    return [
        [key, seq, seconds(at) + kept if math.isfinite(kept) else None, live]
        for key, (seq, at, live) in held.items()
    ]


def seconds(at: datetime) -> float:
    """Return an instant on the scale of the scheduler."""
    return at.timestamp()


def _levels(pointers: Mapping[int, Pointer], lines: Iterable[list[Any]]) -> list[dict[str, Any]]:
    accounts: dict[int, list[list[Any]]] = {priority: [] for priority in pointers}
    for priority, *account in lines:
        accounts.setdefault(priority, []).append(account)
    return [
        {"priority": p, "turn": turn, "seq": seq, "accounts": accounts[p]}
        for p, (turn, seq) in ((p, pointers.get(p, (0.0, 0))) for p in accounts)
    ]


def item(row: Row, reader_config: ReaderConfig | None) -> dict[str, Any]:
    """Return an item as a snapshot has it."""
    return {
        "seq": row["_seq"],
        "raw_tag": row["_round"],
        "enqueued_at": seconds(row["_enqueued_at"]),
        "priority": row["_priority"],
        "fair_key": row["_fair_key"],
        "available_at": _instant(row["_available_at"]),
        "state": row["_state"],
        "attempts": row["_attempts"],
        "losses": row["_losses"],
        # Older rows have none.
        "deferrals": row["_deferrals"] or 0,
        "lease": row["_lease"] if row["_state"] == CLAIMED else None,
        "lease_expires_at": _instant(row["_lease_expires_at"]),
        "new": {
            "fair_key": row["_fair_key"],
            "group_key": row["_group_key"],
            "cost": row["_cost"],
            "expires_at": _instant(expires_at(row, reader_config)),
            "max_attempts": max_attempts(row, reader_config),
            **_flow_columns(row),
        },
        **_chain(row),
    }


def _chain(row: Row) -> dict[str, Any]:
    # As most items are in none, they leave it out.
    if row["_chain"] is None:
        return {}
    return {"chain": row["_chain"], "chain_at": _instant(row.get("_chain_at"))}


def _flow_columns(row: Row) -> dict[str, Any]:
    # Most queues have no bounds of keys, and a claim may look at thousands of items.
    keys, units = row["_flow_keys"], row["_units"]
    found = {} if keys is None else {"flow_keys": json.loads(keys)}
    return found if units is None else {**found, "units": json.loads(units)}


# rule: deadline of an item
def expires_at(row: Row, reader_config: ReaderConfig | None) -> datetime | None:
    """Return when an item expires for a reader: by its deadline, or by its age."""
    own: datetime | None = row["_expires_at"]
    if reader_config is None or reader_config.max_age is None:
        return own
    aged: datetime = row["_enqueued_at"] + reader_config.max_age
    return aged if own is None else min(own, aged)


# rule: attempts of an item
def max_attempts(row: Row, reader_config: ReaderConfig | None) -> int | None:
    """Return an item's own limit of failures; none for a reader that punts it before."""
    own: int | None = row["_max_attempts"]
    return own if own is None or reader_config is None else _least(own, punted_at(reader_config))


def _least(*values: int | None) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _instant(at: datetime | None) -> float | None:
    return None if at is None else seconds(at)

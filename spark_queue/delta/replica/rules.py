"""A scheduler that knows what a replica knows: it decides, and is thrown away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from spark_queue.config import QueueConfig
from spark_queue.delta.replica.several import Measure
from spark_queue.delta.replica.state import LineKey, Row
from spark_queue.delta.tables.heads import Pointer
from spark_queue.delta.tables.schema import CLAIMED, READY
from spark_queue.delta.tables.settings import Settings
from spark_queue.reader_config import ReaderConfig
from spark_queue.rules import Scheduler
from spark_queue.rules.snapshot import FORMAT


@dataclass(frozen=True, slots=True)
class ReaderTerms:
    """Settings and limits by which a reader's items are judged."""

    settings: Settings
    """The settings in force."""
    limits: ReaderConfig
    """What the reader allows."""
    judging: QueueConfig = field(init=False, repr=False, compare=False)
    """The configuration for failures: the attempts are the reader's, and who holds a key does not
    matter, as nothing is accepted."""

    def __post_init__(self) -> None:
        config = self.settings.config
        most = _least(config.max_attempts, punted_at(self.limits))
        judging = replace(without_keys(config), max_attempts=most)
        object.__setattr__(self, "judging", judging)


def scheduler(
    config: QueueConfig,
    rows: Iterable[Row],
    pointers: Mapping[int, Pointer],
    lines: Iterable[list[Any]],
    *,
    limits: ReaderConfig | None = None,
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
        What :func:`line` returns of each line that matters.
    limits : ReaderConfig, optional
        What the reader allows.
    holders : iterable
        What :func:`holders` returns.
    last_seq : int
        The last seq that was given to a row.
    keep_finished : bool
        Whether what an item was is still known at its end.
    """
    items = [item(row, limits) for row in sorted(rows, key=lambda row: int(row["_seq"]))]
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


def punted_at(limits: ReaderConfig) -> int | None:
    """Return the failures after which a reader punts any item, and does not retry it."""
    if limits.punt_to is not None:
        return 1
    return None if limits.punt_many_to is None else limits.punt_many_at


def without_keys(config: QueueConfig) -> QueueConfig:
    """Return a configuration for steps that accept nothing: who holds a key does not matter."""
    return replace(config, dedup_key=None, dedup_scope="live")


def line(known: Measure, settings: Settings, at: LineKey) -> list[Any]:
    """Return the priority of a line and its account, as a snapshot has it."""
    priority, fair_key = at
    stretch = settings.stretch(fair_key)
    pinned = stretch.pins.get(priority, (0.0, 0.0))
    turns = (known.served.get((at, False)), known.served.get((at, True)))
    return [priority, fair_key, stretch.weight, *pinned, known.ends.get(at, 0.0), *turns]


# rule again: scope of a key
def holders(
    known: Measure, config: QueueConfig, asked: Mapping[str, int | None], now: datetime
) -> list[list[Any]]:
    """Return who holds each of some dedup keys, given with its hash, as a snapshot has it."""
    scope = config.dedup_scope
    found = []
    for key, (seq, at, live) in known.holders(asked).items():
        until = seconds(at + scope) if isinstance(scope, timedelta) else None
        if live or scope == "forever" or (until is not None and until > seconds(now)):
            found.append([key, seq, until, live])
    return found


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


def item(row: Row, limits: ReaderConfig | None) -> dict[str, Any]:
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
        "lease": row["_lease"] if row["_state"] == CLAIMED else None,
        "lease_expires_at": _instant(row["_lease_expires_at"]),
        "new": {
            "fair_key": row["_fair_key"],
            "group_key": row["_group_key"],
            "cost": row["_cost"],
            "expires_at": _instant(expires_at(row, limits)),
            "max_attempts": _max_attempts(row, limits),
        },
    }


# rule again: deadline of an item
def expires_at(row: Row, limits: ReaderConfig | None) -> datetime | None:
    """Return when an item expires for a reader: by itself, or because it has become too old."""
    own: datetime | None = row["_expires_at"]
    if limits is None or limits.max_age is None:
        return own
    aged: datetime = row["_enqueued_at"] + limits.max_age
    return aged if own is None else min(own, aged)


# rule again: attempts of an item
def _max_attempts(row: Row, limits: ReaderConfig | None) -> int | None:
    """Return an item's own limit of failures, which is none of a reader that punts it before."""
    own: int | None = row["_max_attempts"]
    return own if own is None or limits is None else _least(own, punted_at(limits))


def _least(*values: int | None) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _instant(at: datetime | None) -> float | None:
    return None if at is None else seconds(at)

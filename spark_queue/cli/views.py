"""Views of a queue as commands show them, by whichever engine it was opened with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import timedelta, timezone
from typing import Any

from spark_queue.cli.words import plain
from spark_queue.clock import SystemClock
from spark_queue.columns import kinds
from spark_queue.queue_views import store_of, views_of
from spark_queue.report import following
from spark_queue.report.condition import Condition, judge_condition, kept_back
from spark_queue.report.following import Followed
from spark_queue.report.reading import read_vitals
from spark_queue.views.answers import AsOf, ends_at

#: Columns that status shows besides the user's.
SHOWN = (
    *("_seq", "_state", "_attempts", "_losses", "_deferrals", "_enqueued_at", "_available_at"),
    *("_claimed_at", "_finished_at", "_worker_id", "_lease_expires_at", "_error"),
)

#: Columns shown of a dead letter.
LETTER = ("_seq", "_attempts", "_losses", "_deferrals", "_finished_at", "_error", "_successor")

#: Rows up to which this process reads a log; a cluster has more room.
_MOST = 1_000_000

#: Fair keys up to which a name is compared with all of them.
_MOST_KEYS = 10_000


def items(
    queue: Any,
    past: AsOf,
    where: str | None,
    limit: int,
    columns: Sequence[str],
    *,
    dead: bool = False,
) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
    """Return the instant seen, the number of items or dead letters, and the first."""
    store = store_of(queue)
    ends = ends_at(store, past)
    at = (ends.at or SystemClock().now()).astimezone(timezone.utc)
    counts, first = views_of(queue).listing(
        store, ends, columns, limit, where=where, dead=dead, most=_MOST
    )
    return at.isoformat(), counts, plain(first)


def condition(queue: Any, past: AsOf) -> tuple[Condition, tuple[str, ...]]:
    """Return how a queue does, in a word, and why; and what keeps keys of it back."""
    seen = read_vitals(store_of(queue), past)
    return judge_condition(seen), kept_back(seen)


def stats(queue: Any, past: AsOf, limit: int) -> dict[str, Any]:
    """Return counts per state, and of the keys that wait longest."""
    found = queue.stats(past)
    told = [one.name for one in fields(found) if one.name != "per_key"]
    counts = {name: plain(getattr(found, name)) for name in told}
    keys = views_of(queue).worst_keys(store_of(queue), found.per_key, limit)
    return {**counts, "per_key": plain(keys)}


def fair_keys(queue: Any) -> list[str] | None:
    """Return the fair keys of all items; ``None`` where they are too many."""
    found = views_of(queue).worst_keys(store_of(queue), queue.stats().per_key, _MOST_KEYS + 1)
    if len(found) > _MOST_KEYS:
        return None
    return [row["fair_key"] for row in found if row["fair_key"] is not None]


def columns(queue: Any) -> str:
    """Return the user's columns as DDL."""
    found = kinds.read_users(store_of(queue).queue.schema())
    return ", ".join(f"{field.name} {field.kind.simple}" for field in found)


def reports(queue: Any, window: timedelta, like: Followed | None = None) -> Followed:
    """Return a reader of reports that reads only the logs' new steps.

    It shares its rows with another one of the same queue, for any reader.
    """
    return following.follow(store_of(queue), window, like.source if like else None)

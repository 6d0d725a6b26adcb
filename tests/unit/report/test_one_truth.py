"""Every face of a queue says the same, and what its tables say, whatever has happened to it."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_queue.clock import ManualClock
from spark_queue.errors import LeaseLostError, SparkQueueError
from spark_queue.local_queue import LocalQueue
from spark_queue.metrics import instruments
from spark_queue.metrics.metric_samples import Sample, samples
from spark_queue.report.model import Report
from spark_queue.retry_policy import RetryPolicy
from tests.unit.report.conftest import Make

_SECOND = timedelta(seconds=1)
_ENDED = ("acked", "dead", "expired", "cancelled")


@dataclass
class Item:
    """An item, as the rows of both tables have it."""

    row: dict[str, Any]
    moves: list[dict[str, Any]] = field(default_factory=list)
    successor: bool = False

    @property
    def state(self) -> str:
        """Where it is."""
        return str(self.moves[-1]["_state"]) if self.moves else "ready"

    @property
    def waits_since(self) -> datetime:
        """Since when it may run, as of its newest times."""
        last = self.moves[-1] if self.moves and self.moves[-1]["_enqueued_at"] else self.row
        return self._later(last["_available_at"])

    def _later(self, at: datetime | None) -> datetime:
        entered: datetime = self.row["_enqueued_at"]
        return entered if at is None else max(entered, at)

    @property
    def waited(self) -> float | None:
        """For how long it waited until its first claim."""
        claims = [move["_at"] for move in self.moves if _is_claim(move)]
        may_run = self._later(self.row["_available_at"])
        return (min(claims) - may_run).total_seconds() if claims else None


def _is_claim(move: dict[str, Any]) -> bool:
    return bool(move["_state"] == "claimed" and move["_lease"] == move["_step"])


def _read_tables(queue: LocalQueue) -> dict[int, Item]:
    """Read the tables by another library, row by row."""
    queue_rows, status_rows = (
        DeltaTable(str(Path(queue.name, name))).to_pyarrow_table().to_pylist()
        for name in ("queue", "status")
    )
    items = {row["_seq"]: Item(row) for row in queue_rows if row["_kind"] == "item"}
    for row in sorted(status_rows, key=lambda one: one["_step"]):
        if row["_kind"] == "item" and row["_seq"] in items:
            items[row["_seq"]].moves.append(row)
    for row in queue_rows:
        if row["_kind"] == "item" and row["_origin"] in items:
            items[row["_origin"]].successor = True
    return items


def _play(queue: LocalQueue, clock: ManualClock, chance: random.Random) -> None:
    """Do some of what users, workers and operators do."""
    held = queue.claim(chance.randint(1, 5), worker_id=chance.choice("uvw"), lease=40 * _SECOND)
    for seq in [row["_seq"] for row in held.rows]:
        outcome = chance.choice(["ack", "ack", "nack", "release", "dead", None])
        if outcome is not None:
            said = (outcome, "boom") if outcome in ("nack", "dead") else outcome
            with suppress(LeaseLostError):
                held.settle_each({seq: said})
    if held.rows and chance.random() < 0.3:
        with suppress(LeaseLostError):
            held.renew(90 * _SECOND)
    clock.advance(chance.choice([0, 7, 25, 200]) * _SECOND)
    some = {"_seq": [chance.randint(1, 40) for _ in range(3)]}
    with suppress(SparkQueueError):
        act = chance.choice([queue.cancel, queue.redrive, None, None])
        done = act(some) if act else None
        if done is not None and done.step and chance.random() < 0.5:
            queue.undo(done.step)
    if chance.random() < 0.1:
        queue.maintain()


@pytest.mark.parametrize("seed", range(2))
def test_faces_agree_with_the_tables(make: Make, clock: ManualClock, seed: int) -> None:
    """Counts, ages, waits and holders are those of the rows, in each face."""
    chance = random.Random(seed)  # noqa: S311 - a history that can be played again
    queue = make(
        "id string, tenant string",
        fair_key="tenant",
        max_attempts=2,
        retry=RetryPolicy(delay=30 * _SECOND),
    )
    for _ in range(3):
        later = [None, None, clock.now() + timedelta(minutes=2)]
        rows = [
            {"id": str(n), "tenant": chance.choice("ab"), "available_at": chance.choice(later)}
            for n in range(8)
        ]
        queue.enqueue(rows)
        for _ in range(4):
            _play(queue, clock, chance)

        items, now = _read_tables(queue), clock.now().astimezone(timezone.utc)
        report, found = queue.report(), samples(queue)
        _require_counts(queue, items, report, found)
        _require_ages(queue, items, now, report, found)
        _require_holders(queue, items, report)
        _require_rates(items, now, report, found)


def _require_counts(
    queue: LocalQueue, items: dict[int, Item], report: Report, found: list[Sample]
) -> None:
    states = Counter(item.state for item in items.values())
    again = Counter(item.state for item in items.values() if item.successor)
    stats, seen = queue.stats(), report.overview
    assert Counter(queue.status()["_state"].to_pylist()) == states
    assert {name: getattr(stats, name) for name in _ENDED} == {n: states[n] for n in _ENDED}
    assert (stats.ready, stats.claimed) == (states["ready"], states["claimed"])
    assert stats.redriven == again.total()
    assert (seen.ready, seen.claimed) == (states["ready"], states["claimed"])
    left = {name: states[name] - again[name] for name in _ENDED}
    assert {name: getattr(seen, name) for name in _ENDED} == left
    assert seen.redriven == again.total()
    depth = {one.labels["state"]: one.value for one in found if one.metric is instruments.DEPTH}
    assert depth == {
        "ready": states["ready"],
        "claimed": states["claimed"],
        **left,
        "redriven": again.total(),
    }
    keys: dict[str, Counter[str]] = defaultdict(Counter)
    for item in items.values():
        state = "redriven" if item.successor and item.state in _ENDED else item.state
        keys[item.row["_fair_key"]][state] += 1
    assert {one.fair_key: (one.ready, one.claimed, one.dead) for one in report.tenants} == {
        key: (all_["ready"], all_["claimed"], all_["dead"]) for key, all_ in keys.items()
    }
    (line,) = report.readers
    assert (line.items, line.open_items) == (seen.ready + seen.claimed, seen.claimed)


def _require_ages(
    queue: LocalQueue,
    items: dict[int, Item],
    now: datetime,
    report: Report,
    found: list[Sample],
) -> None:
    waiting = [one.waits_since for one in items.values() if one.state == "ready"]
    due = [at for at in waiting if at <= now]
    age = (now - min(due)).total_seconds() if due else None
    stats = queue.stats()
    (metric,) = [one.value for one in found if one.metric is instruments.OLDEST]
    told = None if stats.oldest_age is None else stats.oldest_age.total_seconds()
    tenants = [one.oldest_age for one in report.tenants if one.oldest_age is not None]
    faces = [report.overview.oldest_age, told, report.readers[0].oldest_age]
    assert [*faces, max(tenants, default=None), metric] == [age, age, age, age, age or 0.0]
    waits = [one.waited for one in items.values() if one.waited is not None]
    assert isinstance(stats.per_key, pa.Table)
    most = [one for one in stats.per_key["wait_max"].to_pylist() if one is not None]
    assert max(most, default=None) == max(waits, default=None)
    assert max((t.wait_max for t in report.tenants if t.wait_max is not None), default=None) == (
        max(waits, default=None)
    )


def _require_holders(queue: LocalQueue, items: dict[int, Item], report: Report) -> None:
    held = {seq: one.moves[-1] for seq, one in items.items() if one.state == "claimed"}
    by_worker = Counter(move["_worker_id"] for move in held.values())
    assert {one.worker_id: one.items for one in report.workers if one.items} == by_worker
    status = queue.status()
    assert {
        row["_seq"]: row["_worker_id"]
        for row in status.select(["_seq", "_worker_id"]).to_pylist()
        if row["_worker_id"] is not None
    } == {seq: move["_worker_id"] for seq, move in held.items()}


def _require_rates(
    items: dict[int, Item], now: datetime, report: Report, found: list[Sample]
) -> None:
    seen = report.overview
    acked = [one.moves[-1]["_at"] for one in items.values() if one.state == "acked"]
    done = sum(at > now - report.window for at in acked)
    first = max(min(one.row["_enqueued_at"] for one in items.values()), now - report.window)
    seconds = (now - first).total_seconds()
    assert (seen.done_in_window, seen.seconds) == (done, seconds)
    assert seen.done_per_second == (pytest.approx(done / seconds) if seconds else None)
    assert sum(point.done for point in report.flow) == done
    assert report.flow[-1].items == seen.ready + seen.claimed == report.depth[-1].items
    assert (seen.trend == "done") == (seen.ready + seen.claimed == 0)
    left = [one.value for one in found if one.metric is instruments.TIME_LEFT]
    assert left == ([] if seen.time_left is None else [seen.time_left])
    if seen.trend == "falls":
        least, most = seen.time_left_least, seen.time_left_most
        assert least is not None
        assert seen.time_left is not None
        assert least <= seen.time_left <= (most or seen.time_left)

"""A queue whose steps SQL decides writes what a queue writes that is decided in memory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig, RetryPolicy
from spark_queue.delta.commands.checkpoint import checkpoint
from spark_queue.delta.store import replicas
from spark_queue.delta.tables.facts import LogName
from spark_queue.errors import LeaseLostError
from spark_queue.local.queue import LocalQueue

LOGS: tuple[LogName, ...] = ("queue", "status")

#: Columns that differ between two queues with the same history.
_OWN = ("_claim_id", "_worker_id")

_SCOPES: list[Any] = ["live", "live", "forever", timedelta(seconds=40)]


@contextmanager
def every_step_is_large() -> Iterator[None]:
    """Let SQL decide steps of any size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replicas, "LARGE", 0)
        yield


def _config(draw: random.Random) -> QueueConfig:
    return QueueConfig(
        dedup_key=(key := draw.choice([None, "id"])),
        dedup_scope="live" if key is None else draw.choice(_SCOPES),
        fair_key=(fair := draw.choice([None, "tenant"])),
        weights={} if fair is None else draw.choice([{}, {"a": 3.0, "b": 0.7}]),
        group_key=draw.choice([None, "grp"]),
        priority=draw.choice([None, "prio"]),
        lease=timedelta(seconds=30),
        max_in_flight=draw.choice([None, 4]),
        max_attempts=draw.choice([None, 2]),
        max_losses=draw.choice([None, 2]),
        retry=RetryPolicy(delay=timedelta(seconds=10), jitter=0.5),
    )


def _row(draw: random.Random) -> dict[str, Any]:
    return {
        "tenant": draw.choice(["a", "b", None]),
        "grp": draw.choice(["g", "h", None]),
        "prio": draw.choice([0, 1]),
        "id": draw.choice([None, *"abcdefgh"]),
        "cost": draw.choice([1.0, 0.1, 2.5]),
    }


def _rows_of(queue: LocalQueue, which: LogName) -> list[dict[str, Any]]:
    log = queue._store.native(which)
    assert log is not None
    rows = log.rows_of(log.files(), log.columns()).to_pylist()
    kept = [{name: row[name] for name in row if name not in _OWN} for row in rows]
    return sorted((row for row in kept if row["_kind"] != "head"), key=repr)


@pytest.mark.parametrize("seed", range(25))
def test_large_steps_are_those_of_memory(tmp_path: Path, seed: int) -> None:
    """Laws 1-8: both logs have the same rows after a random history."""
    draw, clock = random.Random(seed), ManualClock()  # noqa: S311 - a history to replay
    config, columns = _config(draw), "tenant string, grp string, prio int, id string"
    small, large = (
        LocalQueue.create(tmp_path / name, columns, config, durability="process", clock=clock)
        for name in ("small", "large")
    )
    claims: list[tuple[Any, Any]] = []
    for _ in range(14):
        what = draw.random()
        if what < 0.3:
            rows = [_row(draw) for _ in range(draw.randint(1, 8))]
            told = small.enqueue(rows).outcomes
            with every_step_is_large():
                assert large.enqueue(rows).outcomes == told
        elif what < 0.6:
            limit, run = draw.randint(1, 6), draw.choice([1, 2]) if config.group_key else 1
            first = small.claim(limit, run=run, worker_id="w")
            with every_step_is_large():
                second = large.claim(limit, run=run, worker_id="w")
            assert [row["_seq"] for row in first.rows] == [row["_seq"] for row in second.rows]
            claims += [(first, second)] if first.count else []
        elif what < 0.8 and claims:
            _settle(draw, draw.choice(claims))
        elif what < 0.95:
            clock.advance(timedelta(seconds=draw.choice([1, 12, 31])))
        else:
            for queue in (small, large):
                checkpoint(queue._store)
    for which in LOGS:
        assert _rows_of(small, which) == _rows_of(large, which)


def _settle(draw: random.Random, claims: tuple[Any, Any]) -> None:
    """Settle or renew a claim of both queues in one of the ways that a holder has."""
    seqs = [row["_seq"] for row in claims[0].rows]
    said = {seq: (draw.choice(["ack", "nack", "release", "dead"]), None) for seq in seqs}
    how = draw.choice(["each", "ack", "renew"])
    lost = []
    for claim in claims:
        step = {"each": lambda claim=claim: claim.settle_each(said), "ack": claim.ack}
        with every_step_is_large() if claim is claims[1] else nullcontext():
            try:
                step.get(how, claim.renew)()
                lost.append("")
            except LeaseLostError as error:
                lost.append(str(error))
    assert lost[0] == lost[1]

"""A history of rates that is read from its logs, and decided again."""

from __future__ import annotations

import random
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from spark_queue import LocalQueue, QueueConfig, Rate
from spark_queue.clock import ManualClock
from spark_queue.commands.admin import checkpoint
from spark_queue.commands.settle import settle
from spark_queue.log.schema import CLAIMED, CONFIG, ITEM, OPEN_LANE, RATE, READY
from spark_queue.log.settings import Settings
from spark_queue.rules.rule_model import NewItem, Release
from spark_queue.rules.scheduler import Scheduler
from spark_queue.state.settle_decision import Every

SECOND = timedelta(seconds=1)

#: Columns by which a step is decided again.
_ROWS = (
    "_kind",
    "_gen",
    "_step",
    "_at",
    "_seq",
    "_state",
    "_lease",
    "_body",
    "_by",
    "_key",
    "_tat",
)


def _play(queue: LocalQueue, clock: ManualClock, draw: random.Random) -> None:
    """Claim, give back what was not begun, and change the settings, in any order."""
    for _ in range(40):
        clock.advance(draw.choice([0.1, 0.5, 3]) * SECOND)
        claim = queue.claim(100)
        clock.advance(draw.choice([0.1, 0.5, 3]) * SECOND)
        if claim.count:
            unbegun = Every("release", is_begun=draw.random() < 0.6)
            settle(queue._store, claim.lease, unbegun)
        what = draw.randrange(12)
        if what == 0:
            limit = draw.choice([0.5, 1, 4, None])
            queue.configure(rates=(Rate(by="tenant", limit=limit, per=SECOND, burst=3),))
        elif what == 1:
            queue.pause(key=draw.choice("ab"), for_=2)
        elif what == 2:
            checkpoint(queue._store)
        elif what == 3:
            queue._store.forget()


class _Replay:
    """A scheduler that decides again what the rows of a log say."""

    def __init__(self, config: QueueConfig) -> None:
        self.scheduler = Scheduler(config)
        self.leases: dict[int, int] = {}

    def decide(self, step: int, rows: list[dict[str, Any]]) -> None:
        """Decide a step again, and compare it."""
        items = {row["_seq"]: row for row in rows if row["_kind"] == ITEM}
        owed = {(row["_by"], row["_key"]): row["_tat"] for row in rows if row["_kind"] == RATE}
        for row in rows:
            if row["_kind"] == CONFIG:
                self._configure(Settings.from_json("q", row["_body"]), row["_at"].timestamp())
        taken = {seq: row["_at"] for seq, row in items.items() if row["_state"] == CLAIMED}
        if taken:
            grant = self.scheduler.claim(min(taken.values()).timestamp(), 100)
            assert sorted(item.seq for item in grant.items) == sorted(taken)
            assert {(by, key): debt.tat for by, key, debt in grant.debts} == owed
            self.leases[step] = grant.lease
        back = {seq: row for seq, row in items.items() if row["_state"] == READY}
        for seq, row in back.items():
            outcome = {seq: Release(is_begun=not owed)}
            self.scheduler.settle(self.leases[row["_lease"]], outcome, row["_at"].timestamp())
        known = {(by, key): tat for by, key, tat, *_ in self.scheduler.snapshot()["debts"]}
        assert {of: known[of] for of in owed} == owed

    def _configure(self, settings: Settings, at: float) -> None:
        ends = {(one.by, one.key): one.until for one in settings.pauses}
        self.scheduler.configure(settings.config, at)
        self.scheduler.pause_keys({of: end.timestamp() for of, end in ends.items() if end})


# rule: rate of a key, debt of a key, debt under a changed rate, units that come back
@pytest.mark.parametrize("seed", range(3))
def test_a_history_is_decided_again_step_for_step(tmp_path: Path, seed: int) -> None:
    """FC-28: by the rows of the settings each claim gets the same, and charges the same."""
    clock, draw = ManualClock(), random.Random(seed)  # noqa: S311 - of a test
    rates = (Rate(by="tenant", limit=2, per=SECOND, burst=3), Rate(limit=3, per=SECOND, burst=4))
    config = QueueConfig(fair_key="tenant", rates=rates, lease=timedelta(days=1))
    queue = LocalQueue.create(
        str(tmp_path / "queue"), "tenant string", config, durability="process", clock=clock
    )
    replay, tenants = _Replay(config), [draw.choice("abc") for _ in range(20)]
    now = clock.now().timestamp()
    replay.scheduler.admit([NewItem(fair_key=tenant) for tenant in tenants], now)
    queue.enqueue([{"tenant": tenant} for tenant in tenants])
    _play(queue, clock, draw)
    log = queue._store.native("status")
    assert log is not None
    rows = log.rows_of(log.files(), _ROWS).sort_by("_step").to_pylist()
    rows = [row for row in rows if row["_gen"] != OPEN_LANE]
    for step, made in groupby(rows, key=itemgetter("_step")):
        replay.decide(step, list(made))
    assert len(replay.leases) > 10

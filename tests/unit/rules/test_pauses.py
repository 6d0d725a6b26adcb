"""Items that are kept out of the lines: of paused keys."""

from __future__ import annotations

import json
import math
from datetime import timedelta

from spark_queue.config import QueueConfig
from spark_queue.rules.rule_model import NewItem
from spark_queue.rules.scheduler import Scheduler

_LEASE = timedelta(seconds=10)


def _scheduler(*ids: str, group: bool = False, **settings: object) -> Scheduler:
    """Return a scheduler with items of the key that their ids begin with."""
    config = QueueConfig(fair_key="t", lease=_LEASE, **settings)  # type: ignore[arg-type]
    scheduler = Scheduler(config)
    news = [NewItem(payload=i, fair_key=i[0], group_key="g" if group else None) for i in ids]
    scheduler.admit(news, 0.0)
    return scheduler


def _claim(scheduler: Scheduler, now: float, limit: int = 10) -> list[object]:
    return [item.payload for item in scheduler.claim(now, limit).items]


def test_nothing_of_a_paused_key_starts_until_the_instant() -> None:
    """Its items are due again by time alone, in their old places."""
    scheduler = _scheduler("a1", "b1", "a2", "b2")
    scheduler.pause_keys({("t", "a"): 5.0})
    assert _claim(scheduler, 0.0, 1) == ["b1"]
    assert scheduler.explain(1, 0.0).reason == "key paused"
    assert scheduler.next_event_at(0.0) == 5.0
    assert _claim(scheduler, 5.0) == ["a1", "a2", "b2"]


def test_a_pause_without_an_end_lasts_until_its_key_is_resumed() -> None:
    """No time ends it, and new items of the key wait, too."""
    scheduler = _scheduler("a1")
    scheduler.pause_keys({("t", "a"): math.inf})
    scheduler.admit([NewItem(payload="a2", fair_key="a")], 1.0)
    assert scheduler.next_event_at(1.0) is None
    plain = json.loads(json.dumps(scheduler.snapshot()))
    scheduler = Scheduler.restore(scheduler.config, plain)
    assert _claim(scheduler, 1e9) == []
    scheduler.pause_keys({})
    assert _claim(scheduler, 1e9) == ["a1", "a2"]

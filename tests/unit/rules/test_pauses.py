"""Items that are kept out of the lines: of paused keys."""

from __future__ import annotations

import json
import math
from datetime import timedelta

from spark_queue.config import QueueConfig
from spark_queue.rules import Ack, Nack, NewItem, Scheduler

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


def test_a_lapsed_item_of_a_paused_key_keeps_its_slot_and_is_not_taken_over() -> None:
    """Its holder may still ack; the queue has no room for another in its place."""
    scheduler = _scheduler("a1", "b1", max_in_flight=1)
    grant = scheduler.claim(0.0, 1)
    scheduler.pause_keys({("t", "a"): 30.0})
    assert _claim(scheduler, 10.0) == []
    assert scheduler.settle(grant.lease, {1: Ack()}, 11.0).lost == ()
    assert _claim(scheduler, 11.0) == ["b1"]


def test_its_last_loss_ends_it_all_the_same() -> None:
    """A pause keeps no item from its end."""
    scheduler = _scheduler("a1", max_losses=1)
    assert _claim(scheduler, 0.0) == ["a1"]
    scheduler.pause_keys({("t", "a"): 30.0})
    assert scheduler.claim(10.0, 1).dead == (1,)


def test_an_item_of_a_paused_key_blocks_its_group_as_one_that_waits_for_its_time() -> None:
    """With ``skip`` the others of the group pass it; the longer of pause and delay counts."""
    for on_failure, served in (("block", []), ("skip", ["b1"])):
        scheduler = _scheduler("a1", "b1", group=True, group_key="g", on_failure=on_failure)
        scheduler.pause_keys({("t", "a"): 5.0})
        assert _claim(scheduler, 0.0) == served
    scheduler = _scheduler("a1")
    grant = scheduler.claim(0.0, 1)
    scheduler.pause_keys({("t", "a"): 1000.0})
    scheduler.settle(grant.lease, {1: Nack()}, 1.0)
    assert _claim(scheduler, 999.0) == []
    assert _claim(scheduler, 1000.0) == ["a1"]

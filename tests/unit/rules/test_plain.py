from __future__ import annotations

import json
from datetime import timedelta

import pytest

from spark_queue.errors import InvalidArgumentError
from spark_queue.rules.rule_model import Ack, Nack, NewItem
from spark_queue.rules.scheduler import Scheduler
from tests.unit.rules.steps import admit, claim, drain, fair, scheduler_of, settle


def through_json(scheduler: Scheduler) -> Scheduler:
    """Return a scheduler restored from a snapshot that was written as JSON."""
    plain = json.loads(json.dumps(scheduler.snapshot(), allow_nan=False))
    return Scheduler.restore(scheduler.config, plain)


def test_restore_goes_on_where_the_snapshot_was_taken() -> None:
    """Order, leases, keys and counters are as they were."""
    scheduler = scheduler_of(weights={"A": 2.0}, dedup_scope=timedelta(seconds=50))
    admit(scheduler, *fair("AABBCC"), NewItem(dedup_key="k", available_at=3.0))
    settle(scheduler, *claim(scheduler, 2), outcome=Nack("no"))
    grant = scheduler.claim(0.0, 2, claim_id="c")
    again = through_json(scheduler)
    assert again.snapshot() == scheduler.snapshot()
    assert again.counts() == scheduler.counts()
    assert again.claim(0.0, 2, claim_id="c") == grant
    for one in (scheduler, again):
        assert one.settle(grant.lease, {item.seq: Ack() for item in grant.items}, 1.0).lost == ()
        assert one.admit([NewItem(dedup_key="k")], 2.0)[0].duplicate_of == 7
    assert drain(again, 4.0) == drain(scheduler, 4.0)


def test_restore_keeps_the_scope_of_keys_when_it_has_no_end() -> None:
    """A key that is taken for ever stays so."""
    scheduler = scheduler_of(dedup_scope="forever")
    admit(scheduler, NewItem(dedup_key="k"))
    settle(scheduler, *claim(scheduler))
    again = through_json(scheduler)
    assert again.admit([NewItem(dedup_key="k")], 1e9)[0].duplicate_of == 1


def test_restore_works_without_a_dedup_key() -> None:
    """A queue without distinct keys has none to restore."""
    scheduler = scheduler_of(dedup_key=None)
    admit(scheduler, *fair("AB"))
    assert drain(through_json(scheduler)) == [1, 2]


def test_restore_applies_the_weights_that_it_is_given() -> None:
    """Weights that changed meanwhile are in force, as after configure."""
    scheduler = scheduler_of()
    admit(scheduler, *fair("AAAABB"))
    claim(scheduler, 2)
    config = scheduler.config.changed(weights={"A": 2.0})
    again = Scheduler.restore(config, scheduler.snapshot())
    scheduler.configure(config)
    assert claim(again, 9) == claim(scheduler, 9) == [2, 3, 6, 4]


def test_restore_reads_the_tags_of_the_older_format() -> None:
    """A snapshot whose tags were turns is served as if its tags had been stored as costs."""
    scheduler = scheduler_of(weights={"A": 2.0, "B": 4.0})
    admit(scheduler, *fair("AABBAC"))
    claim(scheduler, 1)
    scheduler.cancel([6], 0.0)
    old = scheduler.snapshot() | {"format": 1}
    weights = {"A": 2.0, "B": 4.0, "C": 1.0}
    for account in old["levels"][0]["accounts"]:
        # Weight, base, scale, and the last tag: turns from the beginning on.
        account[2:5] = [0.0, 1.0, account[4] / account[1]]
    for item in old["items"]:
        if item["seq"] != 6:
            item["raw_tag"] /= weights[item["fair_key"]]
    again = Scheduler.restore(scheduler.config, old)
    assert again.snapshot() == scheduler.snapshot()
    admit(scheduler, *fair("AB"))
    admit(again, *fair("AB"))
    assert drain(again) == drain(scheduler)


def test_restore_is_refused_when_the_format_is_another() -> None:
    """A snapshot of another format is not guessed at."""
    plain = {**scheduler_of().snapshot(), "format": 99}
    with pytest.raises(InvalidArgumentError, match="format 99"):
        Scheduler.restore(scheduler_of().config, plain)


def test_restore_forgets_idle_keys_when_their_time_comes() -> None:
    """A key without items is forgotten once its last turn is passed, restored or not."""
    scheduler = scheduler_of()
    admit(scheduler, *fair("AB"))
    scheduler.cancel([1], 0.0)
    again = through_json(scheduler)
    assert len(again.snapshot()["levels"][0]["accounts"]) == 2
    for one in (scheduler, again):
        assert drain(one) == [2]
        assert one.snapshot()["levels"][0]["accounts"] == []

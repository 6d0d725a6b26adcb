from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError, InvalidConfigError
from spark_queue.retry_policy import RetryPolicy
from spark_queue.rules.outcomes import retry_draw
from spark_queue.rules.rule_model import Ack, Admitted, Dead, Nack, NewItem, Release
from spark_queue.rules.scheduler import Scheduler
from tests.unit.rules.steps import admit, claim, scheduler_of, settle


def test_claim_is_empty_when_the_queue_is() -> None:
    """FQ-19: an empty claim is a step and a value, and later items work."""
    scheduler = Scheduler(QueueConfig())
    assert scheduler.claim(0.0, 5).items == ()
    admit(scheduler, NewItem())
    assert claim(scheduler) == [1]


def test_claim_names_its_lease_by_the_step() -> None:
    """Every mutating call is a step; the step that grants a lease is its name."""
    scheduler = Scheduler(QueueConfig())
    admit(scheduler, NewItem(payload="x"))
    grant = scheduler.claim(3.0, 1, worker_id="w", lease=7.0)
    assert (grant.lease, scheduler.step, grant.lease_expires_at) == (2, 2, 10.0)
    item = scheduler.item(1)
    assert item is not None
    assert (item.lease, item.lease_expires_at, item.worker_id) == (2, 10.0, "w")
    assert grant.items[0].payload == "x"


def test_claim_answers_the_same_when_its_id_is_the_same() -> None:
    """A repeated claim gets its grant again, takes nothing more, and is no step."""
    scheduler = Scheduler(QueueConfig())
    admit(scheduler, NewItem(), NewItem())
    grant = scheduler.claim(0.0, 1, claim_id="c")
    assert scheduler.claim(5.0, 9, claim_id="c") is grant
    assert scheduler.step == 2
    assert claim(scheduler) == [2]


@pytest.mark.parametrize("options", [{"run": 0}, {"lease": 0.0}, {"lease": -1.0}])
def test_claim_is_refused_when_an_option_is_out_of_range(options: dict[str, Any]) -> None:
    """A refused call changes nothing."""
    scheduler = Scheduler(QueueConfig())
    with pytest.raises(InvalidArgumentError, match="must be"):
        scheduler.claim(0.0, 1, **options)
    assert scheduler.step == 0


@pytest.mark.parametrize("limit", [0, -1])
def test_claim_takes_nothing_when_the_limit_is_not_positive(limit: int) -> None:
    """A limit of 0 or less is an empty claim."""
    scheduler = Scheduler(QueueConfig())
    admit(scheduler, NewItem())
    assert claim(scheduler, limit) == []


def test_claim_goes_on_with_lost_items_when_no_slot_is_left() -> None:
    """A new item that finds no slot is passed over; a lost one behind it has its own."""
    scheduler = scheduler_of(max_in_flight=2)
    admit(scheduler, NewItem())
    claim(scheduler)
    admit(scheduler, NewItem(priority=9), NewItem(priority=9))
    assert claim(scheduler, now=10.0) == [2, 1]
    assert claim(scheduler, now=10.0) == []


def test_claim_takes_lost_members_in_order_when_no_slot_is_free() -> None:
    """Without a free slot the ready members of a group are passed over, the lost ones are not."""
    scheduler = scheduler_of(fair_key=None, group_limit=3, max_in_flight=2)
    admit(scheduler, *[NewItem(group_key="x") for _ in range(3)])
    assert claim(scheduler) == [1, 2]
    settle(scheduler, 1, outcome=Release())
    scheduler.configure(scheduler.config.changed(max_in_flight=1))
    assert claim(scheduler, now=10.0) == [2]


def test_settle_reports_what_the_lease_does_not_hold() -> None:
    """Unknown, foreign, settled and unclaimed items are lost, and unchanged."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem(), NewItem())
    grant = scheduler.claim(0.0, 1)
    assert scheduler.settle(grant.lease, {1: Ack(), 2: Ack(), 99: Ack()}, 0.0).lost == (2, 99)
    assert scheduler.settle(grant.lease, {1: Dead()}, 0.0).lost == (1,)
    assert [scheduler.state(seq) for seq in (1, 2, 99)] == ["acked", "ready", None]


def test_settle_delays_an_item_when_an_attempt_failed() -> None:
    """The n-th failure waits by the retry policy, its jitter drawn from seq and attempt."""
    policy = RetryPolicy(backoff="exponential", delay=timedelta(seconds=4), jitter=0.5)
    scheduler = scheduler_of(retry=policy)
    admit(scheduler, NewItem())
    settle(scheduler, *claim(scheduler), outcome=Nack("no"), now=100.0)
    item = scheduler.item(1)
    assert item is not None
    assert (item.state, item.attempts, item.error) == ("ready", 1, "no")
    assert item.available_at == pytest.approx(100 + 4 * (1 - 0.5 * retry_draw(1, 1)))


# rule: delay of a retry
@pytest.mark.parametrize(
    ("backoff", "waits"), [("exponential", [2, 4, 8]), ("linear", [2, 4, 6]), ("fixed", [2, 2, 2])]
)
def test_settle_backs_off_from_the_first_failure_on(backoff: Any, waits: list[float]) -> None:
    """The first retry waits the policy's delay, and each later one as long as the policy says."""
    retry = RetryPolicy(backoff=backoff, delay=timedelta(seconds=2))
    scheduler = scheduler_of(max_attempts=None, retry=retry)
    admit(scheduler, NewItem())
    now = 0.0
    for wait in waits:
        assert claim(scheduler, now=now) == [1]
        settle(scheduler, 1, outcome=Nack(), now=now)
        item = scheduler.item(1)
        assert item is not None
        assert item.available_at == now + wait
        now += wait


def test_redrive_enqueues_finished_items_again_but_no_acked_ones() -> None:
    """A redriven item is a new one, at once available, and without a deadline."""
    scheduler = scheduler_of()
    new = NewItem(payload="x", expires_at=5.0, available_at=1.0)
    admit(scheduler, NewItem(), new, NewItem(expires_at=90.0), NewItem())
    settle(scheduler, *claim(scheduler, 1))
    scheduler.cancel([3], 1.0)
    scheduler.expire(6.0)
    assert scheduler.redrive([1, 2, 3, 4, 99], 6.0) == [
        Admitted(seq=5, origin=2),
        Admitted(seq=6, origin=3),
    ]
    again, kept = scheduler.item(5), scheduler.item(6)
    assert again is not None
    assert kept is not None
    assert again.new == NewItem(payload="x")
    assert (again.origin, again.enqueued_at, kept.new.expires_at) == (2, 6.0, None)
    assert scheduler.state(2) == "expired"


def test_purge_forgets_finished_items_and_keeps_the_counters() -> None:
    """Only terminal items and refused rows can be purged."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem(dedup_key="a"), NewItem(), NewItem(dedup_key="a"))
    settle(scheduler, *claim(scheduler, 1))
    assert scheduler.purge([1, 2, 3, 99]) == (1, 3)
    assert (scheduler.state(1), scheduler.item(1)) == (None, None)
    assert scheduler.explain(3, 0.0).reason == "unknown"
    assert scheduler.counts()["acked"] == 1


def test_purge_leaves_what_tells_that_an_item_was_redriven() -> None:
    """A successor goes with all that it comes from, or later: nothing is redriven once more."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem())
    for seq in (1, 2, 3):
        scheduler.cancel([seq], 0.0)
        scheduler.redrive([seq], 0.0)
    assert scheduler.purge([3, 2]) == ()
    assert scheduler.redrive([1, 2, 3], 0.0) == []
    assert scheduler.purge([3, 2, 1]) == (1, 2, 3)


def test_configure_is_refused_when_a_fixed_setting_changes() -> None:
    """What identifies items is fixed when a queue is created."""
    scheduler = scheduler_of()
    with pytest.raises(InvalidConfigError, match="dedup_key is fixed"):
        scheduler.configure(QueueConfig(fair_key="f", group_key="g", priority="p"))


def test_configure_ends_lost_items_when_max_losses_shrinks() -> None:
    """A lower limit applies to leases that had run out before."""
    scheduler = scheduler_of(max_losses=None)
    admit(scheduler, NewItem())
    claim(scheduler)
    claim(scheduler, 0, now=20.0)
    scheduler.configure(scheduler.config.changed(max_losses=1))
    assert scheduler.config.max_losses == 1
    assert scheduler.claim(20.0, 9).dead == (1,)


@pytest.mark.parametrize("cost", [0.0, -1.0, float("inf"), float("nan")])
def test_new_item_is_refused_when_its_cost_is_not_positive(cost: float) -> None:
    """A cost moves its key forward by a finite step."""
    with pytest.raises(InvalidArgumentError, match="cost"):
        NewItem(cost=cost)


def test_admit_changes_nothing_when_a_key_is_not_hashable() -> None:
    """A batch with a key that cannot be compared is refused as a whole."""
    scheduler = scheduler_of()
    broken: Any = []
    with pytest.raises(TypeError, match="unhashable"):
        scheduler.admit([NewItem(), NewItem(group_key=broken)], 0.0)
    assert (scheduler.counts()["enqueued"], scheduler.step) == (0, 0)


@pytest.mark.parametrize("bad", [10**400, float("inf"), float("nan"), 0, -1, True, "2"])
def test_what_cannot_be_divided_by_is_no_weight(bad: Any) -> None:
    """A weight is a number above 0 that a float can hold; a cost is one too."""
    with pytest.raises(InvalidConfigError, match=r"weights\['a'\]"):
        QueueConfig(fair_key="tenant", weights={"a": bad})
    if not isinstance(bad, str | bool):
        with pytest.raises(InvalidArgumentError, match="cost"):
            NewItem(cost=bad)

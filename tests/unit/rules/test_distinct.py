from __future__ import annotations

from datetime import timedelta

import pytest

from spark_queue.rules.rule_model import Admitted, Dead, NewItem
from spark_queue.rules.scheduler import Scheduler
from tests.unit.rules.steps import admit, claim, scheduler_of, settle

A, B, NULL = NewItem(dedup_key="a"), NewItem(dedup_key="b"), NewItem()


def holders(scheduler: Scheduler, *items: NewItem, now: float = 0.0) -> list[int | None]:
    """Enqueue items, and return what each is a duplicate of."""
    return [admitted.duplicate_of for admitted in scheduler.admit(items, now)]


# rule: one item of a key
def test_admit_refuses_a_row_when_the_batch_has_its_key_already() -> None:
    """The first row of a batch wins; every row has a seq, refused ones too."""
    scheduler = scheduler_of()
    assert scheduler.admit([A, B, A], 0.0) == [
        Admitted(seq=1),
        Admitted(seq=2),
        Admitted(seq=3, duplicate_of=1, holder="waits"),
    ]
    assert (scheduler.counts()["enqueued"], scheduler.counts()["refused"]) == (2, 1)


def test_admit_refuses_a_row_when_the_window_is_over_but_the_item_is_live() -> None:
    """A live item keeps its key beyond the duration."""
    scheduler = scheduler_of(dedup_scope=timedelta(seconds=10))
    admit(scheduler, A)
    assert holders(scheduler, A, now=50.0) == [1]
    settle(scheduler, *claim(scheduler, now=50.0), now=50.0)
    assert holders(scheduler, A, now=50.0) == [None]


@pytest.mark.parametrize("scope", ["live", "forever", timedelta(days=1)])
def test_redrive_passes_the_key_on_when_its_item_is_dead(
    scope: str | timedelta,
) -> None:
    """An item is no duplicate of the one it repeats, but if asked for again, one of the first."""
    scheduler = scheduler_of(dedup_scope=scope)
    admit(scheduler, A)
    settle(scheduler, *claim(scheduler), outcome=Dead("bad"))
    assert scheduler.redrive([1], 1.0) == [Admitted(seq=2, origin=1)]
    assert scheduler.redrive([1], 1.0) == []
    again = scheduler.redrive([1], 1.0, again=True)
    assert again == [Admitted(seq=3, origin=1, duplicate_of=2, holder="waits")]
    assert scheduler.state(1) == "dead"


def test_redrive_keeps_the_key_when_the_window_of_the_old_item_ends() -> None:
    """The new item holds the key as long as it is live, longer than the old one's window."""
    scheduler = scheduler_of(dedup_scope=timedelta(seconds=8))
    admit(scheduler, NewItem(dedup_key="k"))
    settle(scheduler, *claim(scheduler), outcome=Dead())
    scheduler.redrive([1], 5.0)
    (again,) = scheduler.admit([NewItem(dedup_key="k")], 20.0)
    assert again.duplicate_of == 2

"""Short words for the steps of a scheduler, for tests."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from spark_queue.config import QueueConfig
from spark_queue.retry_policy import RetryPolicy
from spark_queue.rules.rule_model import Ack, NewItem, Outcome
from spark_queue.rules.scheduler import Scheduler


def scheduler_of(**settings: Any) -> Scheduler:
    """Return a scheduler that knows every key, has leases of 10 seconds and retries at once."""
    defaults: dict[str, Any] = {
        "dedup_key": "d",
        "fair_key": "f",
        "group_key": "g",
        "priority": "p",
        "lease": timedelta(seconds=10),
        "retry": RetryPolicy(delay=timedelta(0)),
    }
    return Scheduler(QueueConfig(**{**defaults, **settings}))


def admit(scheduler: Scheduler, *items: NewItem, now: float = 0.0) -> list[int]:
    """Enqueue items, and return their seqs."""
    return [admitted.seq for admitted in scheduler.admit(items, now)]


def grouped(*groups: str | None) -> list[NewItem]:
    """Return one item per group name."""
    return [NewItem(group_key=group) for group in groups]


def fair(keys: str) -> list[NewItem]:
    """Return one item per letter, which is its fair key."""
    return [NewItem(fair_key=key) for key in keys]


def claim(scheduler: Scheduler, limit: int = 100, now: float = 0.0, **options: Any) -> list[int]:
    """Claim, and return the seqs in order of service."""
    return [item.seq for item in scheduler.claim(now, limit, **options).items]


def settle(
    scheduler: Scheduler, *seqs: int, outcome: Outcome | None = None, now: float = 0.0
) -> tuple[int, ...]:
    """Settle claimed items under the leases that hold them, and return what was lost."""
    lost: tuple[int, ...] = ()
    for seq in seqs:
        item = scheduler.item(seq)
        lease = 0 if item is None or item.lease is None else item.lease
        lost += scheduler.settle(lease, {seq: outcome or Ack()}, now).lost
    return lost


def drain(scheduler: Scheduler, now: float = 0.0) -> list[int]:
    """Claim and acknowledge one item after another until none is left."""
    order: list[int] = []
    while seqs := claim(scheduler, 1, now):
        settle(scheduler, *seqs, now=now)
        order += seqs
    return order

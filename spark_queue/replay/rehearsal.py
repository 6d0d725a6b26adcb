"""A queue's own past under other settings: who would have waited how long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_queue import checks
from spark_queue.config import SETTINGS, QueueConfig
from spark_queue.config_changes import merge
from spark_queue.replay.history import NOBODY, Past, PastItem, changes_by_pauses
from spark_queue.replay.play import NEVER, Run, run
from spark_queue.replay.summary import SHOWN, UserSummary, by_user, percentile
from spark_queue.rules.rule_model import NewItem
from spark_queue.rules.scheduler import Scheduler
from spark_queue.wording import in_html

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from spark_queue.config import LiveSettings


#: How many times the waits of a play may differ from the past.
_TRUSTED = 2.0

#: Seconds that are added to waits at least, before they are compared.
_LEAST = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantWait:
    """How the items of a fair key fared, and would have. Times are seconds."""

    key: str
    items: int
    was_p50: float | None
    """What half of those that were claimed waited no longer than, as it was."""
    was_p95: float | None
    was_max: float | None
    before: UserSummary
    """Played under the configuration in force."""
    after: UserSummary
    """Played under the other one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The past of a queue played twice."""

    items: int
    guessed: int
    """Items without any work yet: they take the mean of their key, or of all."""
    left_out: int
    """Items that ended without having been worked on."""
    workers_before: int
    workers_after: int
    changed: dict[str, Any]
    """The settings that differ, as plain data, with what they would be."""
    tenants: tuple[TenantWait, ...]
    """By key."""
    stuck_before: int
    """Items that would never run in the first play, as no item of their key may: they count as if
    they had waited until its end."""
    stuck_after: int
    """The same of the second play."""
    retries: int
    """Claims of items beyond the first of each, which are not played."""
    off: float
    """How many times longer, or shorter, a key's items waited in the first play than they did, at
    the most: by their 95th percentile, to which the mean work of an item is added."""
    is_trusted: bool
    """Whether the first play is near enough to the past for the second to mean something."""

    def worst(self, count: int = SHOWN) -> list[TenantWait]:
        """Return the keys that would wait longest under either configuration."""
        checks.require_seq("count", count)
        longest = sorted(
            self.tenants, key=lambda one: (-max(one.before.wait_p95, one.after.wait_p95), one.key)
        )
        return longest[:count]

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{in_html(one.key)}</td><td>{one.items:,}</td>"
            f"<td>{'' if one.was_p95 is None else f'{one.was_p95:,.1f}'}</td>"
            f"<td>{one.before.wait_p95:,.1f}</td><td>{one.after.wait_p95:,.1f}</td></tr>"
            for one in self.worst()
        )
        warning = "" if self.is_trusted else f"<p><b>{distrust(self.off, self.retries)}</b></p>"
        return (
            f"{warning}<b>{self.items:,}</b> items, {self.workers_before} workers, then "
            f"{self.workers_after}; what 95 % of the items of a key wait, in seconds<table><tr>"
            f"<th>key</th><th>items</th><th>was</th><th>before</th><th>after</th></tr>{rows}"
            "</table>"
        )


def distrust(off: float, retries: int) -> str:
    """Say how far the first play is from the past, and why."""
    return (
        f"not to be trusted: before is off from what was by {off:,.1f} times; "
        f"retries ({retries:,}) and delays are not played"
    )


def rehearse(
    past: Past,
    *,
    workers: int | None = None,
    on_progress: Callable[[str, int], None] | None = None,
    **settings: Unpack[LiveSettings],
) -> Rehearsal:
    """Play the past of a queue under its configuration, and again under another one.

    Time is simulated, and nothing is written. Each worker has one item at a time; items come when
    they came, take what they took, for any worker, and are paused as they were. Retries, delays of
    failures, and keys that are taken do not come again. Where the first play is far from the past,
    the answer says so (``is_trusted``).

    Parameters
    ----------
    past : Past
        What :func:`history` has read.
    workers : int, optional
        How many items are worked on at a time in the second play; in the first, and by default, as
        many as claims were held at once.
    on_progress : callable, optional
        Gets ``"before"`` or ``"after"``, and how many items have begun, now and then.
    **settings
        The settings to change, as ``configure`` takes them. Those by which items are served count
        (rows of ``SETTINGS`` with ``orders``), others make no difference.

    Raises
    ------
    InvalidConfigError
        When a setting is unknown, fixed at creation, or out of its range.
    InvalidArgumentError
        When ``workers`` is below 1.
    """
    checks.require_kind("past", past, Past)
    checks.optional(checks.require_count, "workers", workers)
    checks.optional(checks.require_callable, "on_progress", on_progress)
    changed = merge(past.config, settings)
    after = past.workers if workers is None else workers
    plays = (("before", past.config, past.workers), ("after", changed, after))
    begun = [
        _play(past, config, count, None if on_progress is None else partial(on_progress, name))
        for name, config, count in plays
    ]
    found = [_with_stuck(past, runs) for runs in begun]
    old, new = past.config.to_dict(), changed.to_dict()
    off = _distance(found[0])
    return Rehearsal(
        items=len(past.items),
        guessed=past.guessed,
        left_out=past.left_out,
        workers_before=past.workers,
        workers_after=after,
        changed={name: value for name, value in new.items() if value != old[name]},
        tenants=_tenants(past.items, *map(by_user, found)),
        stuck_before=len(past.items) - len(begun[0]),
        stuck_after=len(past.items) - len(begun[1]),
        retries=past.retries,
        off=off,
        is_trusted=off <= _TRUSTED,
    )


def _distance(runs: Sequence[Run[PastItem]]) -> float:
    """Return the largest factor between a key's played and real waits."""
    waits: dict[str, list[tuple[float, float]]] = {}
    for one in runs:
        if one.job.waited is not None:
            waits.setdefault(one.job.user, []).append((one.job.waited, one.waited))
    # Waits shorter than an item's work are as good as none.
    work = sum(one.job.runs_for for one in runs) / max(1, len(runs))
    off = 1.0
    for pairs in waits.values():
        both = (percentile(sorted(side), 0.95) for side in zip(*pairs, strict=True))
        least, most = sorted(wait + max(work, _LEAST) for wait in both)
        off = max(off, most / least)
    return off


def _play(
    past: Past, config: QueueConfig, workers: int, on_progress: Callable[[int], None] | None
) -> list[Run[PastItem]]:
    orders = {row.name: getattr(config, row.name) for row in SETTINGS if row.orders}
    rules = QueueConfig(**orders, lease=NEVER)
    scheduler = Scheduler(rules, keep_finished=False)
    return run(past.items, workers, scheduler, _item, on_progress, changes_by_pauses(past))


def _with_stuck(past: Past, runs: list[Run[PastItem]]) -> list[Run[PastItem]]:
    """Return runs, with one at their end for each item that never ran."""
    begun = {one.job.number for one in runs}
    end = max(one.ended for one in [*runs, *(Run(item, item.submitted) for item in past.items)])
    return [*runs, *(Run(item, end) for item in past.items if item.number not in begun)]


def _item(past: PastItem) -> NewItem:
    return NewItem(
        payload=past,
        # Without a key there is no limit.
        fair_key=None if past.user == NOBODY else past.user,
        group_key=past.group_key,
        flow_keys=past.flow_keys,
        units=past.units,
        priority=past.priority,
        cost=past.cost,
    )


def _tenants(
    items: Sequence[PastItem], before: Sequence[UserSummary], after: Sequence[UserSummary]
) -> tuple[TenantWait, ...]:
    waits: dict[str, list[float]] = {}
    for item in items:
        if item.waited is not None:
            waits.setdefault(item.user, []).append(item.waited)
    return tuple(
        _tenant(sorted(waits.get(one.user, ())), one, other)
        for one, other in zip(before, after, strict=True)
    )


def _tenant(waits: list[float], before: UserSummary, after: UserSummary) -> TenantWait:
    return TenantWait(
        key=before.user,
        items=before.jobs,
        was_p50=percentile(waits, 0.5) if waits else None,
        was_p95=percentile(waits, 0.95) if waits else None,
        was_max=waits[-1] if waits else None,
        before=before,
        after=after,
    )

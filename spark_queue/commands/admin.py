"""Commands of an operator: configure, pause, cancel, redrive, purge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from spark_queue import acting
from spark_queue.acting import operator
from spark_queue.config import QueueConfig
from spark_queue.config_changes import merge, plain_of, value_text
from spark_queue.errors import SettingsChangedError
from spark_queue.flow import moves_debts
from spark_queue.log.heads import StatusHead, following
from spark_queue.log.schema import (
    ACKED,
    CANCELLED,
    CLAIMED,
    CONFIG,
    EXPIRED,
    META_LANE,
    READY,
    TERMINAL,
)
from spark_queue.log.settings import Settings
from spark_queue.log.step_events import Engine
from spark_queue.results import Affected, Reconfigured
from spark_queue.sql.decisions import Moved, StagedCheckpoint
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state import fence
from spark_queue.state.replica_rows import status_table
from spark_queue.state.snapshot import Snapshot, look_as_far
from spark_queue.state.steps import Answer, Step, engine_of, is_small, on_items, on_status
from spark_queue.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_T = TypeVar("_T")

#: Where items are that have not ended.
LIVE = (READY, CLAIMED)

#: Where items are that ended, and were not done.
ENDED = tuple(state for state in TERMINAL if state != ACKED)

#: Changes the settings, given those in force and the head they are in force at.
Change = Callable[[Settings, StatusHead], Settings]


def configure(
    store: Store,
    change: Change,
    action: str = "configure",
    *,
    about: str | None = None,
    only_changes: bool = False,
) -> int:
    """Log another configuration, in force from this step on; return the step.

    What it is about is as :func:`config_row` has it.

    With ``only_changes`` nothing is logged where it is in force already: then 0 is returned.
    """

    def decide(at: Snapshot) -> Answer[tuple[int, Settings]]:
        before, old = at.status, at.settings
        new = change(old, before)
        if only_changes and new == old:
            return Answer(answer=(0, old))
        row, head = config_row(new, store.clock.now(), about), following(before)
        stage = StagedCheckpoint(rows=row, head=head)
        engine: Engine = "python"
        if new.stretches != old.stretches or moves_debts(old.config, new.config):
            # Turns are stretched around the pointer, and debts are moved: the fold starts there.
            stage = planner_of(store).checkpoint(at, new, row)
            engine = engine_of(stage.rows)
        head = replace(stage.head, config_step=stage.head.step)
        answer = (head.step, new)
        return Step(head=head, rows=stage.rows, counts={}, answer=answer, engine=engine)

    # Asked before: a queue created in this place later is another one.
    at = store.position()
    step, settings = on_status(store, action, decide)
    if step:
        at.settings[step] = settings
    return step


def change(store: Store, settings: Mapping[str, Any], expected: Mapping[str, Any]) -> Reconfigured:
    """Change some live settings from this step on; the others stay.

    Raises
    ------
    SettingsChangedError
        When a setting has not the expected value.
    """
    replaced: list[QueueConfig] = []

    def decide(old: Settings, at: StatusHead) -> Settings:
        for name, value in expected.items():
            wanted = merge(old.config, {name: value})
            if wanted != old.config:
                both = (plain_of(one, {name: value})[name] for one in (wanted, old.config))
                raise SettingsChangedError(store.name, name, *(value_text(name, v) for v in both))
        replaced[:] = old.config, merge(old.config, settings)
        return old.reconfigured(replaced[1], at.pointers)

    step = configure(store, decide)
    before, after = (plain_of(config, settings) for config in replaced)
    return Reconfigured(step, before=before, after=after)


def config_row(settings: Settings, now: datetime, about: str | None = None) -> pa.Table:
    """Return the row that puts settings in force, with the operator's name.

    Parameters
    ----------
    about : str, optional
        What it says something of: ``5``, who redrove by that step of the item log; ``undo 3``, that
        this step takes back that one; ``undo 3 by queue 5`` (or ``status 5``), that another does;
        ``purge 7 [...]`` or ``retention 7 [...]``, that so many items go, with what operators did
        with them.
    """
    row = {"_gen": META_LANE, "_kind": CONFIG, "_at": now, "_body": settings.to_json()}
    return status_table([{**row, "_worker_id": operator() or acting.whoami(), "_error": about}])


def sign(store: Store, action: str, about: str) -> None:
    """Log the operator of a step whose rows have no place for a name.

    The settings are logged once more, as they are; ``about`` is as :func:`config_row` has it.
    """
    configure(store, lambda old, _: old, action, about=about)


def free_of_gone(store: Store) -> None:
    """Free the queue of a front that ended without giving it up."""
    now, directory = store.clock.now(), store.handle.place.directory()

    def decide(at: Snapshot) -> Answer[None]:
        before = at.queue
        if not fence.is_gone(before.hold, now, directory):
            return Answer(answer=None)
        return Step(head=fence.without_hold(following(before)), counts={}, answer=None)

    on_items(store, "free", decide)


def matching(store: Store, where: Any, states: tuple[str, ...]) -> Any:
    """Return the items in some states that are meant, as :meth:`Planner.matching` does."""
    return planner_of(store).matching(where, states)


def cancel(store: Store, where: Any, *, dry_run: bool) -> Affected:
    """End every live item that is meant; a dry run only counts them, and shows the first."""
    if dry_run:
        return planner_of(store).count_affected(matching(store, where, LIVE), CANCELLED)
    step, count = end(store, "cancel", lambda _: matching(store, where, LIVE), CANCELLED)
    return Affected(count, step=step, becomes={CANCELLED: count})


def expire(store: Store) -> tuple[int, int]:
    """Log the expiry of all overdue ready items; return the step and the count."""
    now = store.clock.now()
    planner = planner_of(store)
    return end(store, "expire", lambda _: planner.due(now), EXPIRED)


# rule: replaced item of a key
def end_replaced(store: Store) -> int:
    """Cancel the items that the next claim would, as others replaced them; return how many."""
    now, planner = store.clock.now(), planner_of(store)
    if not store.queue_head().has_chains:
        return 0

    def decide(at: Snapshot) -> Answer[tuple[int, int]]:
        look_as_far(at)
        return _ending(at, planner.end_replaced(planner.find_replaced(at, now), now), CANCELLED)

    return on_status(store, "replace", decide)[1]


def end(
    store: Store,
    action: str,
    find: Callable[[Snapshot], DataFrame | pa.Table],
    state: str,
    error: str | None = None,
) -> tuple[int, int]:
    """Log the end of items, as one step; return the step and the count.

    Parameters
    ----------
    find : callable
        Returns the items as of a snapshot: ``_seq``, ``_gen``, ``_state``, ``_attempts``,
        ``_losses`` and the schedule. Asked again for each try.
    state : str
        The terminal state that they get.
    error : str, optional
        Why.
    """
    now = store.clock.now()

    def decide(at: Snapshot) -> Answer[tuple[int, int]]:
        return _ending(at, planner_of(store).end(find(at), state, now, error), state)

    return on_status(store, action, decide)


def _ending(at: Snapshot, moved: Moved, state: str) -> Answer[tuple[int, int]]:
    """Return the step by which items end, answered by its number and theirs."""
    before, total = at.status, moved.total()
    if total == 0:
        return Answer(answer=(0, 0))
    head = following(
        before,
        claimed=before.claimed - moved.was.get(CLAIMED, 0),
        finished=before.finishing({state: total}),
        log_rows=before.log_rows + total,
    )
    return _step(head, moved, state, (head.step, total))


def _step(head: StatusHead, moved: Moved, state: str, answer: _T) -> Step[StatusHead, _T]:
    """Return the step that moves items to a state."""
    total = moved.total()
    return Step(
        head=head,
        rows=moved.rows,
        small=is_small(total),
        counts={state: total},
        answer=answer,
        engine=engine_of(moved.rows, "arrow"),
    )


def give_back(store: Store, action: str) -> int:
    """Make all items in flight ready again, uncharged; return their number.

    A step is made if there are any, or if a front holds the log.
    """

    def decide(at: Snapshot) -> Answer[int]:
        before = at.status
        if not before.claimed and not before.hold.by:
            return Answer(answer=0)
        planner = planner_of(store)
        moved = planner.end(matching(store, "true", (CLAIMED,)), READY, store.clock.now(), None)
        total = moved.total()
        head = following(
            before, claimed=0, log_rows=before.log_rows + total, hold=type(before.hold)()
        )
        return _step(head, moved, READY, total)

    return on_status(store, action, decide)


def read_finished(store: Store, where: Any) -> Any:
    """Return the finished items that are meant."""
    return matching(store, where, TERMINAL)


def revive(store: Store, where: Any, *, dry_run: bool) -> Affected:
    """Make finished items that were not acked ready again; a dry run as for :func:`cancel`."""
    planner = planner_of(store)
    if dry_run:
        return planner.count_affected(matching(store, where, ENDED), READY)
    return revive_all(store, "redrive", lambda _: matching(store, where, ENDED), planner.revive)


def revive_all(
    store: Store,
    action: str,
    find: Callable[[Snapshot], DataFrame | pa.Table],
    moved_of: Callable[[Any, datetime], Moved],
) -> Affected:
    """Make finished items ready again, as one step.

    Parameters
    ----------
    find : callable
        Returns the items, as for :func:`end`.
    moved_of : callable
        Returns the rows by which they are ready again, at an instant.
    """

    def decide(at: Snapshot) -> Answer[Affected]:
        before = at.status
        moved = moved_of(find(at), store.clock.now())
        total = moved.total()
        if total == 0:
            return Answer(answer=Affected(0))
        head = following(
            before,
            finished=before.finishing({state: -n for state, n in moved.was.items()}),
            log_rows=before.log_rows + total,
        )
        return _step(head, moved, READY, Affected(total, step=head.step, becomes={READY: total}))

    return on_status(store, action, decide)


#: Rows since the last checkpoint from which a claim writes the next one first.
LONG_FOLD = 500_000

#: How many times the size of a claim the fold may be: its claims and settles are two rows an item.
_CLAIMS = 6


def checkpoint(store: Store) -> int:
    """Write a checkpoint as a step of its own, and return the number of the step."""

    def decide(at: Snapshot) -> Step[StatusHead, int]:
        stage = planner_of(store).checkpoint(at)
        return Step(
            head=stage.head,
            rows=stage.rows,
            small=False,
            counts={"fold": at.status.log_rows},
            answer=stage.head.step,
            engine=engine_of(stage.rows),
        )

    return on_status(store, "checkpoint", decide)


# rule: checkpoint that is due
def is_checkpoint_due(head: StatusHead, limit: int) -> bool:
    """Whether the fold has become long enough to be worth a checkpoint.

    Claims as large as a fold would else write one each time, which costs more than it saves.
    """
    return head.log_rows >= max(LONG_FOLD, _CLAIMS * limit)

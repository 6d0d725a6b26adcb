"""Take back what an operator did in a step: as a step of its own, and once however often."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_queue.acting import operator
from spark_queue.commands import admin, enqueue, rows
from spark_queue.commands.key_pauses import is_pause, named_pauses, put_back
from spark_queue.commands.rows import Enqueued
from spark_queue.config import QueueConfig
from spark_queue.errors import CannotUndoError, InvalidArgumentError
from spark_queue.flow import Pause
from spark_queue.log.heads import StatusHead
from spark_queue.log.schema import (
    ACKED,
    CANCELLED,
    CLAIMED,
    CONFIG,
    DEAD,
    EXPIRED,
    OPEN,
    READY,
    REFUSED,
    SERVED,
)
from spark_queue.log.session_options import PlainSession
from spark_queue.log.settings import Settings
from spark_queue.log.step_events import logger
from spark_queue.results import Affected, Undone
from spark_queue.sql.decisions import RESTORED, TAKEN, Made
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state.request import SKIPPING
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def redrive(store: Store, where: Any, *, again: bool, dry_run: bool = False) -> Affected:
    """Enqueue matching dead, expired or cancelled items again, by default once.

    With ``dry_run`` it is only decided: who comes back, and whose key is taken.
    """
    planner = planner_of(store)

    def find() -> DataFrame | pa.Table:
        return planner.redrivable(where, admin.ENDED, again=again)

    done = enqueued_again(
        store, lambda: planner.again(find()), ("_origin",), again=again, dry_run=dry_run
    )
    made = {READY: done.inserted, REFUSED: done.duplicates + done.refused}
    becomes = {state: count for state, count in made.items() if count}
    if not dry_run:
        return Affected(done.inserted, becomes=becomes)
    meant = planner.count_affected(find(), READY)
    return Affected(done.inserted, states=meant.states, becomes=becomes, sample=meant.sample)


def enqueued_again(
    store: Store,
    find: Callable[[], DataFrame | pa.Table],
    extra: Sequence[str],
    *,
    again: bool = False,
    undone: int | None = None,
    dry_run: bool = False,
) -> Enqueued:
    """Enqueue former items as new ones, once each; log the operator, if any.

    Parameters
    ----------
    store : Store
        The queue.
    find : callable
        Returns them as rows with the user's columns and those of the log that are named.
    extra : sequence of str
        Columns of the log that the rows have as well; ``_origin`` among them.
    again : bool
        Whether one may be among them that was enqueued again before.
    undone : int, optional
        The step that is taken back by this, which is logged, too.
    dry_run : bool
        Only decide it, and write nothing.
    """
    action = "enqueue" if undone is None else "undo"
    if isinstance(store.session, PlainSession):
        # The lock keeps out an enqueue of the same items.
        with store.writing("queue"):
            frame = rows.checked_again(store, find(), extra)
            rules, at = SKIPPING, Snapshot(store)
            done = enqueue.commit(at, frame, rules, action=action, dry_run=dry_run)
    else:
        since = None if again else store.queue_head().step
        rules = replace(SKIPPING, redriven_since=since)
        done = enqueue.enqueue(
            store, find(), rules=rules, extra=extra, action=action, dry_run=dry_run
        )
    if dry_run or not done.inserted:
        return done
    if undone is not None:
        sign(store, done.step, "undo", f"undo {undone} by queue {done.step}")
    elif operator() is not None:
        sign(store, done.step, "redrive", str(done.step))
    return done


def sign(store: Store, step: int, action: str, about: str) -> None:
    """Log who restored items by a step; errors are only logged."""
    try:
        admin.sign(store, action, about)
    except Exception:  # noqa: BLE001 - the step it is about stands
        logger.exception("%s: who redrove by step %d is not in the log", store.name, step)


_AGAIN = "what was done may be seen elsewhere; enqueue the items again to have it done once more"

#: What a step was whose items came to a state, and why that is not taken back; the first counts.
_NOT_TAKEN_BACK = {
    ACKED: ("settled items as done", _AGAIN),
    DEAD: ("settled items as dead", "redrive them: they come as new items"),
    EXPIRED: ("logged that items expired", "their time is over; redrive them as new items"),
    CLAIMED: ("leased items", "their holder gives them back (release); or cancel them"),
    READY: ("gave items back, or made them ready again", "cancel the ones not to run"),
}


def undo(store: Store, step: int, *, for_itself: bool, dry_run: bool = False) -> Undone:
    """Undo a step of a reader's log.

    Parameters
    ----------
    store : Store
        The queue as the reader sees it.
    step : int
        The step.
    for_itself : bool
        Whether the reader is one of several: then its items are ready again for it alone, and
        nobody else gets new ones.
    dry_run : bool
        Only tell what would come of it, and write nothing.

    Raises
    ------
    InvalidArgumentError
        When there is no such step.
    CannotUndoError
        When what it did is not taken back.
    """
    newest = store.status_head().step
    if not 1 <= step <= newest:
        raise InvalidArgumentError(
            f"step is {step}: the status log of {store.name!r} has the steps 1 to {newest}"
        )
    made = planner_of(store).read_made(step)
    if made.has(CONFIG):
        return _reconfigure(store, step, dry_run=dry_run)
    states = made.items()
    _require_cancel(store, step, made, states)
    take_back = _revive if for_itself else _restore
    return take_back(store, step, states[CANCELLED], dry_run=dry_run)


def _require_cancel(store: Store, step: int, made: Made, states: dict[str, int]) -> None:
    for state, (what, why) in _NOT_TAKEN_BACK.items():
        if state in states:
            raise CannotUndoError(store.name, step, what, why)
    if made.dropped:
        why = "they were too many; raise the limit, and redrive them"
        raise CannotUndoError(store.name, step, "dropped items over a reader's limit", why)
    if made.replaced:
        why = "put the one again that is wanted"
        raise CannotUndoError(store.name, step, "ended items that others had replaced", why)
    if CANCELLED in states:
        return
    if made.has(OPEN) or made.has(SERVED):
        raise CannotUndoError(store.name, step, "wrote a checkpoint", "it changed nothing")
    why = "nothing of it is left in the log; what it was about was purged, or is past its retention"
    raise CannotUndoError(store.name, step, "ended, or moved, items that are gone", why)


def _restore(store: Store, step: int, cancelled: int, *, dry_run: bool) -> Undone:
    """Enqueue the items that a step cancelled as new ones, at their places."""
    planner = planner_of(store)
    config = store.settings(store.status_head()).config
    # A group lowers the priority of a member, and with it goes the line that a place is one of.
    keeps_place = config.group_key is None or config.priority is None
    done = enqueued_again(
        store,
        lambda: planner.restore(planner.cancelled_in(step, is_first=True), keeps_place=keeps_place),
        RESTORED,
        undone=step,
        dry_run=dry_run,
    )
    return Undone(
        undone=step,
        what="cancel",
        enqueue_step=0 if dry_run else done.step,
        restored=done.inserted,
        taken=done.duplicates,
        holders=_holders(store, done, dry_run=dry_run) if done.duplicates else (),
        left=max(0, cancelled - done.inserted - done.duplicates),
    )


def _holders(store: Store, done: Enqueued, *, dry_run: bool) -> list[tuple[int, int]]:
    """Return refused items, and the holders of their keys."""
    if not dry_run:
        return planner_of(store).find_taken(done.step)
    rows = [] if done.rows is None else done.rows.to_pylist()
    found = [(row["_origin"], row["_duplicate_of"]) for row in rows if row["_kind"] == REFUSED]
    return sorted(found)[:TAKEN]


def _revive(store: Store, step: int, cancelled: int, *, dry_run: bool) -> Undone:
    """Make a step's cancelled items ready again, for one of several readers."""
    planner = planner_of(store)
    if dry_run:
        done = planner.count_affected(planner.cancelled_in(step), READY)
    else:
        done = admin.revive_all(
            store,
            "undo",
            lambda _: planner.cancelled_in(step),
            lambda found, now: planner.end(found, READY, now, None),
        )
    if done.step:
        sign(store, done.step, "undo", f"undo {step} by status {done.step}")
    left = cancelled - done
    return Undone(undone=step, what="cancel", step=done.step, restored=int(done), left=left)


def _reconfigure(store: Store, step: int, *, dry_run: bool) -> Undone:
    """Put the settings back that a step changed, and no others."""
    old, new, made_at = _settings_around(store, step)
    changed = _changes(old, new, made_at)
    if not changed:
        why = "it notes what another step did, or that a purge took items away, which are gone"
        raise CannotUndoError(store.name, step, "changed no setting", why)
    were = named_pauses(old, made_at)

    def change(now: Settings, at: StatusHead) -> Settings:
        for name, value in _changes(old, now, made_at).items():
            if name in changed and value != changed[name]:
                why = f"{name} was changed again by now; undo that first, or configure it"
                raise CannotUndoError(store.name, step, f"changed {name}", why)
        backed = {n: getattr(old.config, n) for n in changed if n in QueueConfig.__slots__}
        config = replace(now.config, **backed)
        paused = old.paused if _PAUSED in changed else now.paused
        back = put_back(now, {n: were.get(n) for n in changed if is_pause(n)})
        return replace(back.reconfigured(config, at.pointers), paused=paused)

    if dry_run:
        at = store.status_head()
        written, is_due = 0, change(store.settings(at), at) != store.settings(at)
    else:
        written = admin.configure(store, change, "undo", about=f"undo {step}", only_changes=True)
        is_due = bool(written)
    names = changed if is_due else ()
    settings, before = (_plain_of(one, made_at, names) for one in (old, new))
    what = _name_of(changed)
    return Undone(undone=step, what=what, step=written, settings=settings, before=before)


def _plain_of(settings: Settings, at: datetime, names: Iterable[str]) -> dict[str, Any]:
    """Return settings by their names, as plain data."""
    named = named_pauses(settings, at)
    plain = {**settings.config.to_dict(), _PAUSED: settings.paused}
    return {n: _until(named.get(n)) if is_pause(n) else plain[n] for n in names}


def _settings_around(store: Store, step: int) -> tuple[Settings, Settings, datetime]:
    """Return the settings before a step and from it on, and its instant."""
    before = store.status.head_at(step - 1) if step > 1 else None
    if before is None or not before.config_step:
        why = "drop the queue, or the reader, to be rid of it"
        raise CannotUndoError(store.name, step, "is the first one", why)
    head = _head_at(store, step)
    return store.settings(before), store.settings(head), datetime.fromisoformat(head.at)


_PAUSED = "paused"


def _until(pause: Pause | None) -> str:
    if pause is None:
        return "not paused"
    return "until resumed" if pause.until is None else pause.until.isoformat()


def _changes(old: Settings, new: Settings, at: datetime) -> dict[str, Any]:
    """Return the settings of the new ones that differ from the old as of an instant."""
    found = {
        field.name: getattr(new.config, field.name)
        for field in fields(QueueConfig)
        if getattr(new.config, field.name) != getattr(old.config, field.name)
    }
    if old.paused != new.paused:
        found[_PAUSED] = new.paused
    were, are = named_pauses(old, at), named_pauses(new, at)
    changed = (name for name in {**were, **are} if were.get(name) != are.get(name))
    return {**found, **{name: are.get(name) for name in changed}}


def _name_of(changed: dict[str, Any]) -> str:
    if all(map(is_pause, changed)):
        return "pause" if any(changed.values()) else "resume"
    if set(changed) != {_PAUSED}:
        return "configure"
    return "pause" if changed[_PAUSED] else "resume"


def _head_at(store: Store, step: int) -> StatusHead:
    head: StatusHead | None = store.status.head_at(step)
    if head is None:
        raise InvalidArgumentError(f"step is {step}: the status log of {store.name!r} has no head")
    return head

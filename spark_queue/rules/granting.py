"""Effects of a claim on the state: ends, and new leases.

A claim that counts only once it is written is proposed first, and leaves no trace.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from spark_queue.config import LIVE_SETTINGS, QueueConfig
from spark_queue.errors import InvalidArgumentError, InvalidConfigError
from spark_queue.flow import bounds_of
from spark_queue.rules.bounds import Pass, Played
from spark_queue.rules.places import Place, freed_at
from spark_queue.rules.ready import Line
from spark_queue.rules.rule_model import Grant, Leased, Record
from spark_queue.rules.scheduler_state import SchedulerState
from spark_queue.rules.service_order import Horizon, Served, Service
from spark_queue.rules.timing import add_loss

#: The error of an item that another one of its key has replaced.
REPLACED = "replaced by {}"


def carry_out(state: SchedulerState, grant: Grant, limit: int, run: int, worker_id: str) -> Grant:
    """Carry out a claim, and return its grant and the items it ended."""
    older = _replaced_items(state)
    expired, dead = expire(state), bury(state)
    replaced = _cancel(state, older)
    regroup(state, run)
    passing = state.start_pass()
    served = _serve(state, limit, passing)
    leased = tuple(_lease(state, one, grant, worker_id) for one in served)
    charged = _charges_of(passing)
    state.charge(grant.lease, charged["debts"])
    return dataclasses.replace(
        grant,
        items=leased,
        expired=expired,
        dead=dead,
        replaced=replaced,
        **charged,
    )


def _charges_of(passing: Pass | None) -> dict[str, Any]:
    """Return what a claim charged to keys, and when what lacked units may start."""
    if passing is None:
        return {"debts": (), "next_at": None}
    return {"debts": passing.debts(), "next_at": passing.next_at()}


def propose(
    state: SchedulerState, grant: Grant, limit: int, run: int, horizon: Horizon | None = None
) -> Grant | None:
    """Return the grant of a claim without claiming; only the clock moves on.

    ``None``: the next items may lie beyond the horizon.
    """
    state.timing.advance(state.clock, state.move)
    if horizon is not None and _is_passed(state, horizon):
        return None
    with _set_aside(state) as (expired, dead, replaced):
        regroup(state, run)
        freed = sum(record.state == "claimed" for record in [*expired, *dead])
        passing = state.start_pass()
        looked = _look(state, limit, freed, horizon, passing)
    if looked is None:
        return None
    taken, in_doubt = looked
    return dataclasses.replace(
        grant,
        items=tuple(_lease_of(served) for served in taken),
        in_doubt=in_doubt,
        expired=tuple(record.seq for record in expired),
        dead=tuple(record.seq for record in dead),
        replaced=replaced,
        **_charges_of(passing),
    )


def play(state: SchedulerState, now: float) -> Played:
    """Return what a claim of any length would take at an instant; nothing is changed."""
    was, run, moved = state.clock, state.run, list[Record]()

    def move(record: Record, place: Place) -> None:
        moved.append(record)
        state.move(record, place)

    state.pass_time(now)
    state.timing.advance(state.clock, move)
    try:
        with _set_aside(state) as (expired, dead, _):
            regroup(state, 1)
            freed = sum(record.state == "claimed" for record in [*expired, *dead])
            taking = state.start_pass()
            served, _ = _look(state, sys.maxsize, freed, None, taking) or ([], {})
    finally:
        state.clock = was
        for record in moved:
            state.move(record, record.place_at(was))
        regroup(state, run)
    return Played.of(frozenset(one.record.seq for one in served), taking)


def expire(state: SchedulerState) -> tuple[int, ...]:
    """End the waiting items past their deadlines, and return them."""
    state.timing.advance(state.clock, state.move)
    expired = state.timing.past_deadline(state.clock)
    for record in expired:
        state.finish(record, "expired")
    return tuple(record.seq for record in expired)


def bury(state: SchedulerState) -> tuple[int, ...]:
    """End the items that lost their last lease, and return them."""
    dead = state.timing.worn_out(state.config.max_losses)
    for record in dead:
        record.losses = add_loss(record.losses)
        state.finish(record, "dead", "lease lost")
    return tuple(record.seq for record in dead)


# rule: replaced item of a key
def _replaced_items(state: SchedulerState) -> list[tuple[Record, int]]:
    """Return the items that another one has replaced, each with that, as the claim begins."""
    found = {} if state.chains is None else state.chains.replaced
    return [(one, by) for _, one in sorted(found.items()) if (by := one.replaced_by) is not None]


def _cancel(state: SchedulerState, older: list[tuple[Record, int]]) -> tuple[tuple[int, int], ...]:
    """End items that others have replaced, and return them; those that have expired are over."""
    replaced = [(one, by) for one, by in older if one.place != "done"]
    for one, by in replaced:
        state.finish(one, "cancelled", REPLACED.format(by))
    return tuple((one.seq, by) for one, by in replaced)


def configure(state: SchedulerState, config: QueueConfig, now: float | None) -> None:
    """Put changed settings in force: bounds, weights, graces of leases, and what groups allow."""
    require_live(state.config, config)
    state.begin(now)
    if bounds_of(config) != bounds_of(state.config):
        state.change_bounds(config)
    state.config = config
    for account in state.turns.reweigh(config.weights):
        state.line.refresh(account)
    for record in state.records.values():
        if record.lease_expires_at is not None:
            record.freed_at = freed_at(record.lease_expires_at, config)
            state.move(record, record.place_at(state.clock))
    regroup(state, state.run)


def require_live(before: QueueConfig, after: QueueConfig) -> None:
    """Raise where a configuration changes a setting that is fixed at creation."""
    for field in dataclasses.fields(QueueConfig):
        is_changed = getattr(after, field.name) != getattr(before, field.name)
        if is_changed and field.name not in LIVE_SETTINGS:
            raise InvalidConfigError(f"{field.name} is fixed when a queue is created")


def regroup(state: SchedulerState, run: int) -> None:
    """Set how many members of a group may be claimed, by the settings and the run."""
    config = state.config
    state.run = run
    blocking = config.on_failure == "block"
    state.serial.configure(limit=config.group_limit, blocking=blocking, run=run)


@contextmanager
def _set_aside(
    state: SchedulerState,
) -> Iterator[tuple[list[Record], list[Record], tuple[tuple[int, int], ...]]]:
    """Set aside the items that a claim would end, and put them back on exit."""
    places: dict[int, tuple[Record, Place | None]] = {}

    def aside(records: list[Record]) -> list[Record]:
        for record in records:
            places[record.seq] = (record, record.place)
            state.move(record, "done")
            state.count(record, -1)
        return records

    older = _replaced_items(state)
    expired = aside(state.timing.past_deadline(state.clock))
    dead = aside(state.timing.worn_out(state.config.max_losses))
    replaced = [(one, by) for one, by in older if one.place != "done"]
    aside([one for one, _ in replaced])
    try:
        yield expired, dead, tuple((one.seq, by) for one, by in replaced)
    finally:
        for _, (record, place) in sorted(places.items()):
            state.count(record, 1)
            state.move(record, cast("Place", place))


# rule: lapsed items of a full queue
def _serve(state: SchedulerState, limit: int, passing: Pass | None) -> list[Served]:
    """Serve the next items, and take them out of the line."""
    room = state.room()
    first = Service(state.line, state.serial.before, passing)
    if room is None:
        return _handed_out(state, first, first.take(limit, None))
    served = _handed_out(state, first, first.take(limit, room)) if room else []
    lost = _lost_service(state, served, passing)
    return served + _handed_out(state, lost, lost.take(limit - len(served), 0))


def _handed_out(state: SchedulerState, service: Service, taken: list[Served]) -> list[Served]:
    _hand_out(state, taken)
    service.close()
    for level in {served.record.account.level for served in taken}:
        level.forget_idle()
    return taken


# rule: reach of a claim
def _is_passed(state: SchedulerState, horizon: Horizon) -> bool:
    """Whether the pointer passed the horizon: items beyond it may be overdue."""
    rank, *place = horizon
    level = state.turns.levels.get(int(-rank)) if math.isfinite(rank) else None
    return level is not None and (level.turn, level.seq) > tuple(place)


# rule again: lapsed items of a full queue
def _look(
    state: SchedulerState, limit: int, freed: int, horizon: Horizon | None, passing: Pass | None
) -> tuple[list[Served], dict[tuple[int, Hashable], float]] | None:
    """Return the items to be served, serving none, and :attr:`Grant.in_doubt`.

    ``None`` as for :func:`propose`.
    """
    room = state.room(freed)
    service = Service(state.line, state.serial.before, passing)
    served = [] if room == 0 else service.take(limit, room, horizon)
    # But for items that replaced others, seqs are in the order of turns in each line.
    is_certain = horizon is None or state.chains is None
    in_doubt = {} if is_certain else service.next_by_seq()
    service.withdraw()
    if service.is_cut:
        return None
    if room is None:
        return served, in_doubt
    with state.turns.restoring(one.record.account for one in served):
        _hand_out(state, served)
        lost = _lost_service(state, served, passing).take(limit - len(served), 0)
        return served + lost, in_doubt


def _hand_out(state: SchedulerState, taken: Sequence[Served]) -> None:
    for served in taken:
        record, slot = served.record, served.slot
        state.turns.hand_out(
            record.account, record.seq, served.turn, slot.turn, overdue=slot.overdue
        )


def _lost_service(state: SchedulerState, served: Sequence[Served], passing: Pass | None) -> Service:
    """Return the service of items whose lease ran out, as if no others waited."""
    gone = {one.record.seq for one in served}
    line = Line(state.records)
    for record in state.timing.lost_records():
        if record.seq not in gone and record in state.line:
            line.add(record)
    return Service(line, partial(_lost_before, state, gone), passing)


# rule again: later member of a group
def _lost_before(state: SchedulerState, gone: Collection[int], record: Record) -> Record | None:
    earlier = state.serial.before(record)
    while earlier is not None and not _precedes(state, gone, earlier):
        earlier = state.serial.before(earlier)
    return earlier


def _precedes(state: SchedulerState, gone: Collection[int], record: Record) -> bool:
    """Whether later members of a group stay behind one where only lost leases are taken over."""
    if record.place == "due":
        return state.bounds.keep_back(record, state.clock)
    return _is_lost(state, gone, record)


def _is_lost(state: SchedulerState, gone: Collection[int], record: Record) -> bool:
    return record.place == "lost" and record.seq not in gone and record in state.line


def _lease(state: SchedulerState, served: Served, grant: Grant, worker_id: str) -> Leased:
    leased, record = _lease_of(served), served.record
    record.losses = leased.losses
    state.hold(record, grant.lease, grant.lease_expires_at, worker_id)
    return leased


def _lease_of(served: Served) -> Leased:
    record = served.record
    return Leased(
        seq=record.seq,
        payload=record.new.payload,
        fair_key=record.new.fair_key,
        group_key=record.new.group_key,
        priority=record.priority,
        turn=served.turn,
        attempts=record.attempts,
        losses=add_loss(record.losses) if record.place == "lost" else record.losses,
        overdue=served.slot.overdue,
    )


def check_run(run: int) -> None:
    """Raise where a claim may take less than one item of a group."""
    if run < 1:
        raise InvalidArgumentError(f"run is {run}: it must be at least 1")


def seconds_of(lease: float | None, config: QueueConfig) -> float:
    """Return how long a lease lasts, by default as configured."""
    if lease is None:
        return config.lease.total_seconds()
    if not lease > 0:
        raise InvalidArgumentError(f"a lease of {lease!r} seconds: it must be above 0")
    return lease

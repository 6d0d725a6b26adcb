"""What one claim does to the state: it ends what has ended, and leases what comes next."""

from __future__ import annotations

import dataclasses
from functools import partial

from spark_queue.rules.model import Grant, Leased
from spark_queue.rules.ready import Line
from spark_queue.rules.record import Record
from spark_queue.rules.selection import Served, Service
from spark_queue.rules.state import SchedulerState


def granted(state: SchedulerState, grant: Grant, limit: int, run: int, worker_id: str) -> Grant:
    """Return a grant with what it got, and what its claim has ended."""
    expired, dead = expire(state), bury(state)
    regroup(state, run)
    leased = [_lease(state, served, grant, worker_id) for served in _serve(state, limit)]
    return dataclasses.replace(grant, items=tuple(leased), expired=expired, dead=dead)


def expire(state: SchedulerState) -> tuple[int, ...]:
    """End what waits and is past its deadline, and return which."""
    state.timing.advance(state.clock, state.move)
    expired = state.timing.past_deadline(state.clock)
    for record in expired:
        state.finish(record, "expired")
    return tuple(record.seq for record in expired)


def bury(state: SchedulerState) -> tuple[int, ...]:
    """End what lost its last lease, and return which."""
    dead = state.timing.worn_out(state.config.max_losses)
    for record in dead:
        record.losses += 1
        state.finish(record, "dead", "lease lost")
    return tuple(record.seq for record in dead)


def regroup(state: SchedulerState, run: int) -> None:
    """Say how many members of a group may be claimed, by the settings and the run of a claim."""
    config = state.config
    state.run = run
    blocking = config.on_failure == "block"
    state.serial.configure(limit=config.group_limit, blocking=blocking, run=run)


def _serve(state: SchedulerState, limit: int) -> list[Served]:
    room = state.room()
    if room is None:
        return _pass(state, Service(state.line, state.serial.before), limit, None)
    served = _pass(state, Service(state.line, state.serial.before), limit, room) if room else []
    lost = Service(_lost_line(state), partial(_lost_before, state))
    return served + _pass(state, lost, limit - len(served), 0)


def _pass(state: SchedulerState, service: Service, limit: int, room: int | None) -> list[Served]:
    taken = service.take(limit, room)
    for served in taken:
        state.turns.hand_out(
            served.record, served.turn, served.slot.turn, overdue=served.slot.overdue
        )
    service.close()
    return taken


def _lost_line(state: SchedulerState) -> Line:
    line = Line(state.records)
    for record in state.timing.lost():
        if record in state.line:
            line.add(record)
    return line


def _lost_before(state: SchedulerState, record: Record) -> Record | None:
    earlier = state.serial.before(record)
    while earlier is not None and not (earlier.place == "lost" and earlier in state.line):
        earlier = state.serial.before(earlier)
    return earlier


def _lease(state: SchedulerState, served: Served, grant: Grant, worker_id: str) -> Leased:
    record = served.record
    record.losses += record.place == "lost"
    state.hold(record, grant.lease, grant.lease_expires_at, worker_id)
    return Leased(
        seq=record.seq,
        payload=record.new.payload,
        fair_key=record.new.fair_key,
        group_key=record.new.group_key,
        priority=record.priority,
        turn=served.turn,
        attempts=record.attempts,
        losses=record.losses,
        overdue=served.slot.overdue,
    )

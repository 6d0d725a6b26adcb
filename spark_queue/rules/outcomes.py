"""Outcomes of items: an end, or a next attempt, and the lease until then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple
from zlib import crc32

from spark_queue.config import QueueConfig
from spark_queue.rules.pacing import instant_of
from spark_queue.rules.places import State, Terminal
from spark_queue.rules.rule_model import Ack, Dead, Defer, Nack, Outcome, Record, Release, Settled
from spark_queue.rules.scheduler_state import TERMINAL, SchedulerState

#: The error of an item that was deferred for the last time.
TOO_OFTEN = "deferred too often"


# rule: delay of a retry
def retry_draw(seq: int, attempts: int) -> float:
    """Return the draw of an item's retry, from 0 up to but not including 1.

    It is the CRC-32 (the one of zlib and of Spark SQL's ``crc32``) of the ASCII text
    ``"<seq>:<attempts>"`` in decimal, divided by ``2 ** 32``. In Spark SQL:
    ``crc32(concat(seq, ':', attempts)) / 4294967296D``.

    Parameters
    ----------
    seq : int
        The item's sequence number.
    attempts : int
        Its failed attempts so far, 1 after the first failure.

    Examples
    --------
    >>> round(retry_draw(7, 1), 6)
    0.664352
    """
    return crc32(f"{seq}:{attempts}".encode("ascii")) / 2**32


def settle(state: SchedulerState, lease: int, outcomes: Mapping[int, Outcome]) -> Settled:
    """Record what became of items, but for those that the lease no longer holds."""
    lost, dead = [], []
    for seq, outcome in outcomes.items():
        record = state.holding(lease, seq)
        if record is None:
            lost.append(seq)
        elif apply(state, record, outcome) == "dead":
            dead.append(seq)
    return Settled(lost=tuple(lost), dead=tuple(dead))


# rule: renewal of a lease
def renew(
    state: SchedulerState, lease: int, seconds: float, seqs: Iterable[int] | None
) -> tuple[int, ...]:
    """Extend a lease of items, by default of all that it holds, and return those that it lost."""
    lost = []
    for seq in sorted(state.leases.get(lease, ())) if seqs is None else seqs:
        record = state.holding(lease, seq)
        if record is None:
            lost.append(seq)
        else:
            state.hold(record, lease, state.clock + seconds, record.worker_id)
    return tuple(lost)


def cancel(state: SchedulerState, seqs: Iterable[int]) -> tuple[int, ...]:
    """Take open items out for good, and return which."""
    cancelled = []
    for seq in seqs:
        record = state.records.get(seq)
        if record is not None and record.state not in TERMINAL:
            state.finish(record, "cancelled")
            cancelled.append(seq)
    return tuple(cancelled)


def purge(state: SchedulerState, seqs: Iterable[int]) -> tuple[int, ...]:
    """Forget finished items and refused rows, and return which."""
    purged = []
    # What an item comes from is older, and gone by then, if it goes.
    for seq in sorted(seqs):
        record = state.records.get(seq)
        if record is not None and record.origin in state.records:
            continue
        if record is not None and record.state in TERMINAL:
            del state.records[seq]
            purged.append(seq)
        elif state.refused.pop(seq, None) is not None:
            purged.append(seq)
    return tuple(purged)


class ItemTries(NamedTuple):
    """What there is of an item before an outcome of it."""

    seq: int
    attempts: int
    """Failures so far."""
    deferrals: int
    most: int | None
    """Failures of which it dies, where that is its own affair."""
    error: str | None


class Became(NamedTuple):
    """What an outcome makes of an item."""

    state: Terminal | Literal["ready"]
    attempts: int
    deferrals: int
    error: str | None
    available_at: float | None = None
    """Not claimed before; None: as it was."""


# rule: outcome of an item
def become(tries: ItemTries, outcome: Outcome, config: QueueConfig, clock: float) -> Became:
    """Return what its holder's outcome makes of an item."""
    as_before = tries.attempts, tries.deferrals
    if isinstance(outcome, Ack):
        return Became("acked", *as_before, tries.error)
    if isinstance(outcome, Dead):
        return Became("dead", *as_before, tries.error if outcome.error is None else outcome.error)
    if isinstance(outcome, Release):
        return Became("ready", *as_before, tries.error)
    if isinstance(outcome, Defer):
        return _defer(tries, outcome, config, clock)
    return _fail(tries, outcome, config, clock)


# rule: outcome of an item, attempts of an item
def _fail(tries: ItemTries, outcome: Nack, config: QueueConfig, clock: float) -> Became:
    attempts, error = tries.attempts + 1, outcome.error
    most = config.max_attempts if tries.most is None else tries.most
    if most is not None and attempts >= most:
        return Became("dead", attempts, tries.deferrals, error)
    after = outcome.after
    if after is None:
        draw = retry_draw(tries.seq, attempts)
        after = config.retry.delay_after(attempts, draw).total_seconds()
    return Became("ready", attempts, tries.deferrals, error, clock + after)


# rule: deferral of an item
def _defer(tries: ItemTries, outcome: Defer, config: QueueConfig, clock: float) -> Became:
    deferrals, most = tries.deferrals + 1, config.max_deferrals
    if most is not None and deferrals >= most:
        return Became("dead", tries.attempts, deferrals, TOO_OFTEN)
    return Became("ready", tries.attempts, deferrals, outcome.error, clock + outcome.after)


def apply(state: SchedulerState, record: Record, outcome: Outcome) -> State:
    """Apply its holder's outcome to an item, and return the new state."""
    if isinstance(outcome, Release) and record.asked and not outcome.is_begun:
        charges = state.charges.get(record.lease or 0, {})
        state.bounds.paces.give_back(record.asked, charges, instant_of(state.clock))
    most = record.new.max_attempts
    tries = ItemTries(record.seq, record.attempts, record.deferrals, most, record.error)
    became = become(tries, outcome, state.config, state.clock)
    record.attempts, record.deferrals, record.error = became[1:4]
    if became.available_at is not None:
        record.available_at = became.available_at
    if became.state == "ready":
        state.give_back(record)
    else:
        state.finish(record, became.state)
    return record.state

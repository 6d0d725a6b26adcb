"""Outcomes of items: an end, or a next attempt, and the lease until then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from zlib import crc32

from spark_queue.config import QueueConfig
from spark_queue.rules.pacing import instant_of
from spark_queue.rules.places import State
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


# rule: outcome of an item
def apply(state: SchedulerState, record: Record, outcome: Outcome) -> State:
    """Apply its holder's outcome to an item, and return the new state."""
    if isinstance(outcome, Ack):
        state.finish(record, "acked")
    elif isinstance(outcome, Dead):
        state.finish(record, "dead", outcome.error)
    elif isinstance(outcome, Release):
        if record.asked and not outcome.is_begun:
            charges = state.charges.get(record.lease or 0, {})
            state.bounds.paces.give_back(record.asked, charges, instant_of(state.clock))
        state.give_back(record)
    elif isinstance(outcome, Defer):
        _defer(state, record, outcome)
    else:
        _fail(state, record, outcome)
    return record.state


# rule: outcome of an item
def _fail(state: SchedulerState, record: Record, outcome: Nack) -> None:
    config = state.config
    record.attempts += 1
    record.error = outcome.error
    if _is_last(record, config):
        state.finish(record, "dead", outcome.error)
        return
    after = outcome.after
    if after is None:
        draw = retry_draw(record.seq, record.attempts)
        after = config.retry.delay_after(record.attempts, draw).total_seconds()
    record.available_at = state.clock + after
    state.give_back(record)


# rule: deferral of an item
def _defer(state: SchedulerState, record: Record, outcome: Defer) -> None:
    record.deferrals += 1
    record.error = outcome.error
    most = state.config.max_deferrals
    if most is not None and record.deferrals >= most:
        state.finish(record, "dead", TOO_OFTEN)
        return
    record.available_at = state.clock + outcome.after
    state.give_back(record)


# rule: attempts of an item
def _is_last(record: Record, config: QueueConfig) -> bool:
    """Whether an item may not fail again, by its own limit or the queue's."""
    own = record.new.max_attempts
    most = config.max_attempts if own is None else own
    return most is not None and record.attempts >= most

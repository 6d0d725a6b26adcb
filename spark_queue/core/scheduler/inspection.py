"""Questions about a scheduler: they change nothing, and may be asked for any time."""

from __future__ import annotations

from spark_queue.core.scheduler.books import TERMINAL, Books
from spark_queue.core.scheduler.nouns import Explanation
from spark_queue.core.scheduler.record import Record
from spark_queue.core.scheduler.serial import in_the_way


def explain(books: Books, seq: int, now: float) -> Explanation:
    """Say why an item is, or is not, running."""
    now = max(now, books.clock)
    record = books.records.get(seq)
    if record is None:
        holder = books.refused.get(seq)
        if holder is None:
            return Explanation(reason="unknown")
        return Explanation(reason="duplicate", by=holder)
    if record.state in TERMINAL:
        return Explanation(reason="finished", state=record.state)
    return _explain_time(books, record, now) or _explain_place(books, record, now)


def next_event_at(books: Books, now: float) -> float | None:
    """Return when time alone could make something claimable."""
    if books.paused:
        return None
    at = books.timing.next_at()
    return None if at is None else max(at, now)


def _explain_time(books: Books, record: Record, now: float) -> Explanation | None:
    state = record.state
    if state == "claimed" and not record.ran_out(now):
        return Explanation(reason="leased", until=record.lease_expires_at, state=state)
    if books.paused:
        return Explanation(reason="paused", state=state)
    if record.has_expired(now):
        return Explanation(reason="expired", state=state)
    if state == "claimed" and _is_worn_out(books, record):
        return Explanation(reason="lease lost", state=state)
    if state == "ready" and not record.is_due(now):
        return Explanation(reason="delayed", until=record.available_at, state=state)
    return None


def _explain_place(books: Books, record: Record, now: float) -> Explanation:
    config = books.config
    blocking = config.on_failure == "block"
    members = [m for m in books.serial.members(record) if not _ends(books, m, now)]
    other = in_the_way(record, members, now, limit=config.group_limit, blocking=blocking)
    if other is not None:
        return Explanation(reason="held by group", by=other.seq, state=record.state)
    if record.state == "ready" and _is_full(books, now):
        return Explanation(reason="limit", state=record.state)
    return Explanation(reason="runnable", state=record.state)


def _is_full(books: Books, now: float) -> bool:
    limit = books.config.max_in_flight
    if limit is None or books.tally["claimed"] < limit:
        return False
    claimed = (books.records[seq] for seqs in books.leases.values() for seq in seqs)
    return sum(not _ends(books, record, now) for record in claimed) >= limit


def _ends(books: Books, record: Record, now: float) -> bool:
    """Whether a claim would end the item before it looks for others to serve."""
    if record.state == "claimed":
        if not record.ran_out(now):
            return False
        return record.has_expired(now) or _is_worn_out(books, record)
    return record.has_expired(now)


def _is_worn_out(books: Books, record: Record) -> bool:
    max_losses = books.config.max_losses
    return max_losses is not None and record.losses + 1 >= max_losses

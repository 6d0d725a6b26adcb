"""Delays, deadlines and leases, as heaps that the clock is held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spark_queue.rules.heap import Heap
from spark_queue.rules.record import Place, Record

Move = Callable[[Record, Place], None]


class Timing:
    """Which items wait for which instant.

    Hooks: ``move`` when an item changes its place, ``advance`` when the clock moves,
    ``past_deadline`` and ``worn_out`` when a claim looks for what it must end first. A heap is
    touched only by items that use it.
    """

    __slots__ = ("_deadlines", "_delays", "_leases", "_losses", "_records")

    def __init__(self, records: Mapping[int, Record]) -> None:
        self._records = records
        self._delays: Heap[int] = Heap()
        self._leases: Heap[int] = Heap()
        self._deadlines: Heap[int] = Heap()
        self._losses: Heap[int] = Heap()

    def move(self, record: Record, old: Place | None, new: Place) -> None:
        """Forget what an item waited for at its old place; note what it waits for at the new."""
        seq = record.seq
        if old == "held":
            self._leases.discard(seq)
        elif old == "delayed":
            self._delays.discard(seq)
        elif old == "lost":
            self._losses.discard(seq)
        if new == "held":
            self._leases.put(seq, (record.lease_expires_at, seq))
        elif new == "delayed":
            self._delays.put(seq, (record.available_at, seq))
        elif new == "lost":
            self._losses.put(seq, (-record.losses, seq))
        if record.new.expires_at is not None:
            self._watch_deadline(record, new)

    # rule: deadline of an item
    def _watch_deadline(self, record: Record, new: Place) -> None:
        # A deadline ends the waiting only: an item under a live lease may finish.
        if new in {"held", "done"}:
            self._deadlines.discard(record.seq)
        else:
            self._deadlines.put(record.seq, (record.new.expires_at, record.seq))

    # rule: place at an instant
    def advance(self, now: float, move: Move) -> None:
        """Move the items whose delay or lease has ended."""
        for seq in self._delays.pop_until(now):
            move(self._records[seq], "due")
        for seq in self._leases.pop_until(now):
            move(self._records[seq], "lost")

    def past_deadline(self, now: float) -> list[Record]:
        """Return the waiting items whose deadline has passed, by deadline and seq."""
        return [self._records[seq] for seq in self._deadlines.pop_until(now)]

    # rule: loss of a lease
    def worn_out(self, max_losses: int | None) -> list[Record]:
        """Return the items for which the lease that ran out was the last one allowed."""
        if max_losses is None:
            return []
        seqs = self._losses.pop_until(1 - max_losses)
        return [self._records[seq] for seq in sorted(seqs)]

    def lost_records(self) -> list[Record]:
        """Return the items whose lease ran out."""
        return [self._records[seq] for seq in self._losses.values()]

    def next_at(self) -> float | None:
        """Return the earliest instant that anything waits for."""
        heaps = (self._delays, self._leases, self._deadlines)
        return min((entry[0][0] for heap in heaps if (entry := heap.first())), default=None)

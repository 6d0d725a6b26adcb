"""The producer of a front: puts that gathered become one enqueue, and each gets its own answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal, cast

from spark_queue import tracing
from spark_queue.front.batcher import Batcher, settle
from spark_queue.front.queue_ends import Inlet
from spark_queue.journal.deliveries import own

#: What may become of an item that is put.
Became = Literal["inserted", "duplicate", "refused"]


@dataclass(frozen=True, slots=True)
class PutResult:
    """What became of an item that was put."""

    seq: int
    """Its number in the queue, refused or not."""
    outcome: Became
    """``refused`` where a reader was full."""
    duplicate_of: int | None = None
    """The item that has its key."""


@dataclass(frozen=True, slots=True)
class Put:
    """An item on its way in."""

    item: Any
    future: Future[PutResult]
    trace: str | None = None
    """The trace in which it was put."""

    @classmethod
    def of(cls, item: object, future: Future[PutResult]) -> Put:
        """Put an item as it is now: its owner may change it before it is written."""
        copied = own(dict(item)) if isinstance(item, Mapping) else item
        return cls(copied, future, tracing.current())


class Producer:
    """Enqueues what gathers, one group after another.

    Parameters
    ----------
    into : Inlet
        The queue.
    puts : Batcher
        Where puts wait.
    on_written : callable
        Called after each group that was written.
    """

    def __init__(self, into: Inlet, puts: Batcher[Put], *, on_written: Callable[[], None]) -> None:
        self._into = into
        self._puts = puts
        self._on_written = on_written

    def run(self) -> None:
        """Work until the line is closed and empty."""
        with self._puts.taking():
            while not self._puts.is_done:
                group = self._puts.take()
                with self._puts.busy():
                    self._write(group)

    def _write(self, group: Sequence[Put]) -> None:
        """Answer each of a group; what the queue cannot hold keeps no other from being written."""
        left = group
        try:
            left = self._fitting(group)
            results = self._enqueue(left) if left else []
            answers = list(zip(left, results, strict=True))
        except BaseException as exc:  # noqa: BLE001 - all waiters are told of any error
            for put in left:
                settle(put.future.set_exception, exc)
            return
        for put, result in answers:
            settle(put.future.set_result, result)
        if answers:
            self._on_written()

    def _fitting(self, group: Sequence[Put]) -> list[Put]:
        """Return what the queue can hold; the futures of the others fail, each by itself."""
        found = list(zip(group, self._into.misfits([put.item for put in group]), strict=True))
        for put, misfit in found:
            if misfit is not None:
                settle(put.future.set_exception, misfit)
        return [put for put, misfit in found if misfit is None]

    def _enqueue(self, group: Sequence[Put]) -> list[PutResult]:
        traces = [put.trace for put in group]
        items = [put.item for put in group]
        told = sorted(self._into.enqueue(items, traces), key=lambda row: row[0])
        return [PutResult(seq, cast("Became", became), holder) for seq, became, holder in told]

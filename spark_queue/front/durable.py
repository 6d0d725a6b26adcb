"""Front of a queue on Delta: single items in and out, for a service or a notebook."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from spark_queue import checks, extras
from spark_queue.config import OnDuplicate
from spark_queue.errors import InvalidArgumentError
from spark_queue.front.aio_durable import AioDurableQueue, settle_by_end
from spark_queue.front.consumer import Consumer, Delivery
from spark_queue.front.producer import Batcher, Producer, Put, PutResult
from spark_queue.front.queue_ends import (
    Inlet,
    LocalInlet,
    LocalOutlet,
    Outlet,
    require_open,
)
from spark_queue.local_queue import LocalQueue, LocalReader, LocalVerbs
from spark_queue.memory.singular.requests import Promise
from spark_queue.memory.waiting.processes import Owner
from spark_queue.memory.waiting.timer import Timeout
from spark_queue.queue import Batch, Queue, Rows
from spark_queue.results import EnqueueResult
from spark_queue.saying import Said, defer_of, nack_of
from spark_queue.state.request import FITTING
from spark_queue.wording import text_of

if TYPE_CHECKING:
    from typing_extensions import Self

    from spark_queue.delta_queue import DeltaQueue
    from spark_queue.reader import Reader

#: How long a front may rest: longer than any caller waits, and as long as a lock can.
_LONGEST = timedelta(days=36_500)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontOptions:
    """How a front gathers, and how far it reads ahead.

    Raises
    ------
    InvalidArgumentError
        When a number is not a whole one of at least 1, or a time is not above zero.
    """

    max_group: int = 10_000
    """How many puts, or outcomes, are written together at most."""
    max_pending: int = 100_000
    """How many puts may wait to be written; who puts one more waits."""
    linger: timedelta = timedelta(milliseconds=10)
    """How long puts gather behind a group that was written; after a rest one is written at once."""
    prefetch: int | Literal["auto"] = "auto"
    """How many items are claimed together, and held in memory until they are taken. By default as
    many as the takers took in the last tenth of a second, 1,000 at most; what they do not take
    within a second is given back. A number is always claimed, and given back after a lease. With 1
    an item is claimed for each :meth:`get`, and not ahead; so it is where a claim counts as a
    start, by a rate. Before the first :meth:`get` nothing is claimed."""
    lease: timedelta | None = None
    """How long they are leased; renewed as long as the front lives. Default: the queue's."""
    poll_every: timedelta = timedelta(seconds=1)
    """How often an empty queue is looked at again. On this machine's disk who waits is woken before
    that by what others write, and when an item becomes due."""

    def __post_init__(self) -> None:
        for name in ("max_group", "max_pending"):
            checks.require_count(name, getattr(self, name), most=checks.MOST)
        if not _is_learnt(self.prefetch):
            checks.require_count("prefetch", self.prefetch, most=checks.MOST)
        for name in ("linger", "poll_every"):
            least, value = timedelta(microseconds=1), getattr(self, name)
            checks.require_duration(name, value, least=least, most=_LONGEST)
        checks.optional(checks.require_duration, "lease", self.lease)


class DurableQueue:
    """A queue on Delta for threads and coroutines that put and get single items.

    A put returns at once, with a future that resolves when the item is durable, to its seq or to
    that of the item whose duplicate it is. Items come out in the queue's own order: distinct, fair
    and serial, as it is configured. They are claimed ahead, many at once, and their leases are
    renewed for as long as the front lives; outcomes are written many at once, too.

    All is kept in the queue, so that a front may be killed at any time: items whose futures were
    done are there, and claimed items come back to their places when their leases run out, or at
    once where their process is known to have ended.

    Parameters
    ----------
    into : DeltaQueue or LocalQueue
        The queue, with Spark or without; a session stays the caller's.
    reader : Reader or LocalQueue, optional
        By which reader items are taken; the queue's default one by default.
    options : FrontOptions, optional
        Groups, and how far to read ahead.

    Examples
    --------
    >>> with DurableQueue(files) as front:                          # doctest: +SKIP
    ...     front.put({"path": "a.csv", "tenant": "x"}).result().seq
    ...     with front.receive(timeout=5) as delivery:
    ...         load(delivery.item["path"])
    1
    """

    def __init__(
        self,
        into: DeltaQueue | LocalQueue,
        *,
        reader: Reader | LocalReader | DeltaQueue | LocalQueue | None = None,
        options: FrontOptions | None = None,
    ) -> None:
        chosen = FrontOptions() if options is None else options
        checks.require_kind("options", chosen, FrontOptions)
        inlet, outlet = _ends(into, into if reader is None else reader)
        self._into: Queue[Any, Any, Any, Any] = into
        self._owner = Owner(f"the front of queue {outlet.name!r}")
        self._puts: Batcher[Put] = Batcher(
            chosen.max_group, chosen.max_pending, chosen.linger, name=outlet.name
        )
        prefetch = chosen.prefetch if isinstance(chosen.prefetch, int) else None
        self._consumer = Consumer(outlet, prefetch, chosen.lease, chosen.max_group)
        producer = Producer(inlet, self._puts, on_written=self._consumer.look_again)
        self._producing = _start_thread("durable-queue-puts", producer.run)
        self._consuming = _start_thread(
            "durable-queue-claims", self._consumer.run, chosen.poll_every
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def aio(self) -> AioDurableQueue:
        """The same queue, for coroutines."""
        return AioDurableQueue(self, self._consumer, self._owner)

    def put(
        self,
        item: Mapping[str, Any],
        timeout: Timeout = None,
        *,
        on_duplicate: OnDuplicate | None = None,
    ) -> Future[PutResult]:
        """Add an item; wait only where too many wait to be written.

        Parameters
        ----------
        item : mapping
            The queue's columns; ``available_at``, ``expires_at``, ``cost`` and ``max_attempts`` may
            come with them.
        timeout : float or timedelta, optional
            How long to wait for room; for ever by default.
        on_duplicate : "skip", "raise" or "replace", optional
            As for the queue's ``enqueue``; "raise" fails the future of this item alone.

        Returns
        -------
        Future of PutResult
            Done when the item is durable, or refused. What keeps its group from being written
            fails it.

        Raises
        ------
        QueueFullError
            When there was no room in time.
        QueueShutDownError
            When the queue is closed.
        DeadlockError
            When the callback of a put's future would have to wait for room, which it holds up.
        SetupError
            As of every verb, in a child of a fork: the front is the parent's.
        """
        self._owner.require()
        rules = FITTING if on_duplicate is None else replace(FITTING, on_duplicate=on_duplicate)
        put = Put.of(item, Promise(self._puts.context), rules)
        self._puts.add(put, timeout)
        return put.future

    def put_many(
        self, items: Sequence[Mapping[str, Any]], timeout: Timeout = None
    ) -> tuple[int, list[Future[PutResult]]]:
        """Add items in order; stop at the first for which there is no room, and say how many."""
        checks.require_several("items", items)
        futures: list[Future[PutResult]] = []
        with contextlib.suppress(queue.Full):
            futures.extend(self.put(item, timeout) for item in items)
        return len(futures), futures

    def enqueue(self, rows: Rows, *, batch: Batch | None = None) -> EnqueueResult[Any]:
        """Add rows in a step of their own, as the queue's ``enqueue`` does.

        It returns when they are durable. Waiting puts are written before or after.

        Parameters
        ----------
        rows
            What the queue's ``enqueue`` takes.
        batch : tuple of str and int, optional
            The source and the number of this batch of it, so that the call may be repeated.

        Returns
        -------
        EnqueueResult
            What it did; of a batch that came before, that it is ``repeated``.
        """
        self._owner.require()
        done = self._into.enqueue(rows, batch=batch)
        self._consumer.look_again()
        return done

    def get(self, timeout: Timeout = None) -> Delivery:
        """Take the next item, and wait for one where there is none.

        Without patience (``timeout=0``) it makes one claim, and takes as long as that.

        Raises
        ------
        queue.Empty
            When the time is up.
        QueueShutDownError
            When the queue is closed.
        """
        self._owner.require()
        return self._consumer.get(timeout)

    @contextmanager
    def receive(self, timeout: Timeout = None) -> Iterator[Delivery]:
        """Take the next item for a scope: its normal end acks, an exception nacks.

        ``RetryAfter`` defers it, and an interruption releases it, uncharged. The outcome is on its
        way when the scope ends; it is durable when :meth:`sync` returns.
        """
        with settle_by_end(self._settle, self.get(timeout)) as delivery:
            yield delivery

    def ack(self, delivery: Delivery) -> Future[None]:
        """Say that an item is done.

        Returns
        -------
        Future
            Done when that is durable; it fails with :class:`LeaseLostError` where another holder
            had the item by then, and with the error of a write that failed.
        """
        return self._settle(delivery, Said("ack"))

    def nack(
        self,
        delivery: Delivery,
        error: str,
        *,
        after: float | timedelta | None = None,
        pause: bool | str = False,
    ) -> Future[None]:
        """Say that an item failed: it is retried, or dead. The future is as for :meth:`ack`.

        A retry waits, and a key of the item is paused for as long, as :meth:`Claim.nack` says.
        """
        return self._settle(delivery, nack_of(error, after, pause=pause))

    def defer(
        self,
        delivery: Delivery,
        after: float | timedelta,
        error: str | None = None,
        *,
        pause: bool | str = False,
    ) -> Future[None]:
        """Have an item wait, uncharged: see :meth:`Claim.defer`. The future is as for an ack."""
        return self._settle(delivery, defer_of(after, error, pause=pause))

    def release(self, delivery: Delivery) -> Future[None]:
        """Give an item back to its place, uncharged. The future is as for :meth:`ack`."""
        return self._settle(delivery, Said("release"))

    def dead(self, delivery: Delivery, error: str) -> Future[None]:
        """Send an item to the dead letters. The future is as for :meth:`ack`."""
        return self._settle(delivery, Said("dead", text_of(error)))

    def sync(self) -> None:
        """Return when everything that was put and settled before is durable, or has failed."""
        self._owner.require()
        self._puts.join()
        self._consumer.join()

    def close(self) -> None:
        """Write waiting puts and outcomes, give unsettled items back, and end. Idempotent.

        In a child of a fork this does nothing.
        """
        if not self._owner.is_here():
            return
        self._puts.close()
        self._producing.join()
        self._consumer.close()
        self._consuming.join()

    def _settle(self, delivery: Delivery, said: Said) -> Future[None]:
        self._owner.require()
        return self._consumer.settle(delivery, said)


def _ends(into: DeltaQueue | LocalQueue, source: object) -> tuple[Inlet, Outlet]:
    """Return both ends of a queue, without a needless import of Spark."""
    require_open("into", into)
    if isinstance(into, LocalQueue) and isinstance(source, LocalVerbs):
        return LocalInlet(into), LocalOutlet(source)
    if isinstance(into, LocalQueue) or isinstance(source, LocalVerbs):
        raise InvalidArgumentError("reader is of another kind than the queue: open both alike")
    home = extras.load(
        "spark_queue.front.spark_ends", "a front of a queue that was opened by Spark"
    )
    ends: tuple[Inlet, Outlet] = home.ends(into, source)
    return ends


def _is_learnt(prefetch: object) -> bool:
    return isinstance(prefetch, str) and prefetch == "auto"


def _start_thread(name: str, run: Callable[..., None], *args: object) -> threading.Thread:
    thread = threading.Thread(target=run, args=args, name=name, daemon=True)
    thread.start()
    return thread

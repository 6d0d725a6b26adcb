"""Long work that a signal ends at once and in good order."""

from __future__ import annotations

import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")

#: The exit code of a process that SIGTERM ended.
_TERMINATED = 128 + signal.SIGTERM

#: Seconds between the attempts to cancel what must not go on.
_AGAIN = 1.0

_thread = threading.local()


def interruptible(
    spark: SparkSession,
    work: Callable[[threading.Event], _T],
    stop: threading.Event | None = None,
) -> _T:
    """Run something long on a thread of its own, so that a signal can end it.

    A thread that is interrupted while it waits for Spark cannot speak to Spark any more: its
    connection is taken by the answer that is still to come. So this thread only waits. When a
    signal interrupts it, the event is set, the Spark jobs of the work are cancelled, and the work
    has the time it needs to put things in order.

    Parameters
    ----------
    spark : SparkSession
        Whose jobs the work runs.
    work : callable
        Gets the event, and should begin nothing further once it is set.
    stop : threading.Event, optional
        The event; a new one by default.

    Raises
    ------
    SystemExit
        After SIGTERM, with code 143, where the program did not say otherwise what SIGTERM does.
    KeyboardInterrupt
        After SIGINT.
    """
    tag = f"spark_queue-{uuid.uuid4().hex}"

    def work_marked(stop: threading.Event) -> _T:
        _thread.tag = tag
        _mark(spark, tag)
        return work(stop)

    return on_a_thread(
        work_marked,
        stop,
        cut=lambda: _cancel(spark, tag),
        again=lambda: _cancel(spark, _inner(tag)),
    )


def on_a_thread(
    work: Callable[[threading.Event], _T],
    stop: threading.Event | None,
    *,
    cut: Callable[[], None],
    again: Callable[[], None],
) -> _T:
    """Run something on a thread of its own, and wait for it; a signal ends it in good order.

    Parameters
    ----------
    work, stop
        As for :func:`interruptible`, and so are the errors.
    cut : callable
        Ends what goes on, after the event is set.
    again : callable
        The same from time to time, until the work has ended.
    """
    stop = stop or threading.Event()
    outcome: Future[_T] = Future()
    thread = threading.Thread(target=_run, args=(lambda: work(stop), outcome), name="spark_queue")
    is_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with raising_at_sigterm(SystemExit(_TERMINATED)) if is_default else nullcontext():
        try:
            thread.start()
            wait([outcome])
        except BaseException:
            stop.set()
            cut()
            # A thread whose join was interrupted counts as ended, in Python 3.10 to 3.12.
            while thread.ident is not None and wait([outcome], _AGAIN).not_done:
                again()
            raise
    return outcome.result()


@contextmanager
def cancelled_first(spark: SparkSession) -> Iterator[None]:
    """Mark jobs for a signal to cancel, however late they start.

    Other jobs of interruptible work are cancelled only if they run when the signal comes: what it
    does afterwards, to put things in order, is left alone.
    """
    tag = getattr(_thread, "tag", None)
    if tag is None:
        yield
        return
    _mark(spark, _inner(tag))
    try:
        yield
    finally:
        _unmark(spark, _inner(tag))


@contextmanager
def raising_at_sigterm(error: BaseException) -> Iterator[None]:
    """Raise an error on SIGTERM, where this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(_signal: int, _frame: object) -> None:
        raise error

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(work: Callable[[], _T], outcome: Future[_T]) -> None:
    try:
        outcome.set_result(work())
    except BaseException as exc:  # noqa: BLE001 - the caller gets it
        outcome.set_exception(exc)


def _inner(tag: str) -> str:
    return f"{tag}-first"


def _mark(spark: SparkSession, tag: str) -> None:
    if _is_classic():
        spark.sparkContext.addJobTag(tag)
    else:
        spark.addTag(tag)


def _unmark(spark: SparkSession, tag: str) -> None:
    if _is_classic():
        spark.sparkContext.removeJobTag(tag)
    else:
        spark.removeTag(tag)


def _cancel(spark: SparkSession, tag: str) -> None:
    if _is_classic():
        # interruptTag misses the jobs of a checkpoint where plans are not adaptive.
        spark.sparkContext.cancelJobsWithTag(tag)
    else:
        spark.interruptTag(tag)


def _is_classic() -> bool:
    from pyspark.sql.utils import is_remote  # noqa: PLC0415 - the library loads without Spark

    return not is_remote()

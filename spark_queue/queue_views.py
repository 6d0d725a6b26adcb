"""A queue as one of its readers sees it: frames and frozen facts, by step."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Generic, TypeVar

from spark_queue import checks, commands, report, sql, views
from spark_queue.log.schema import CLAIMED, READY, REFUSED, TERMINAL
from spark_queue.state.store import Store
from spark_queue.wording import in_html

if TYPE_CHECKING:
    from spark_queue.commands.wait_for_end import Waited
    from spark_queue.config import QueueConfig
    from spark_queue.flow import Pause
    from spark_queue.log.heads import ClaimSize
    from spark_queue.reader_config import ReaderConfig
    from spark_queue.report.finding import Checkup, Thresholds
    from spark_queue.report.model import ItemReport, Report
    from spark_queue.results import Explanation, Lag, QueueStats
    from spark_queue.sql.where import Where
    from spark_queue.views.answers import AsOf, Ends
    from spark_queue.views.views import QueueViews

_HOUR = timedelta(hours=1)

#: What a table is to the caller: a frame of Spark, or a table of Arrow.
FrameT = TypeVar("FrameT")

#: What the columns of such a table are.
SchemaT = TypeVar("SchemaT")


class Opened:
    """A queue as one of its readers sees it: nothing here writes.

    Parameters
    ----------
    main : Store
        The queue, of all its readers.
    reader : Store, optional
        The queue as its reader sees it; by default its default reader, looked up when it is needed.
    """

    def __init__(self, main: Store, reader: Store | None = None) -> None:
        self._main = main
        self._reader = reader
        #: Whether it is seen by a reader that was asked for by name.
        self._is_one_of_many = reader is not None

    @property
    def _store(self) -> Store:
        """The queue as its reader sees it."""
        if self._reader is None:
            self._reader = commands.readers.default(self._main)
        return self._reader

    def _ends(self, as_of: AsOf) -> Ends:
        """Return the last steps of both logs for a report; a bad ``as_of`` raises."""
        checks.require_as_of(as_of)
        return views.answers.ends_at(self._store, as_of)

    @property
    def name(self) -> str:
        """The queue's name or path."""
        return self._main.name

    @property
    def config(self) -> QueueConfig:
        """The configuration in force."""
        return self._main.settings(self._main.status_head()).config

    @property
    def paused(self) -> bool:
        """Whether claims get nothing."""
        return self._store.settings(self._store.status_head()).paused

    @property
    def paused_keys(self) -> tuple[Pause, ...]:
        """The paused keys, each with its end and its author."""
        store = self._store
        return store.settings(store.status_head()).paused_at(store.clock.now())

    def counts(self) -> dict[str, int]:
        """Return how many items are in each state, and how many rows were refused.

        No row is read for it: it takes a millisecond where :meth:`stats` counts all items.
        """
        store = self._store
        head, queue = store.status_head(), store.queue_head()
        over = {state: head.finished.get(state, 0) for state in TERMINAL}
        waiting = store.outstanding(head) - head.claimed
        # The head counts dropped items, too.
        refused = sql.file_rows.refused_of(store) if queue.refused else None
        return {
            READY: waiting,
            CLAIMED: head.claimed,
            **over,
            REFUSED: queue.refused if refused is None else refused,
        }

    def instant_of(self, step: int) -> datetime:
        """Return when a step of the status log was made.

        Raises
        ------
        InvalidArgumentError
            When the queue has no such step.
        """
        checks.require_count("step", step)
        return datetime.fromisoformat(self._ends(step).head.at)

    def explain_step(self, step: int) -> ClaimSize | None:
        """Explain how long the claim is that a step granted.

        Parameters
        ----------
        step : int
            A step of the status log, as ``Claim.lease`` and ``StepFacts.lease`` say it.

        Returns
        -------
        ClaimSize or None
            How many items it got, of how many at most, by which time, and why; as text it is a
            sentence. ``None`` for a step that granted no claim of a measured length: ``process``
            measures it with ``limit="auto"``, on queues of format 6.

        Raises
        ------
        InvalidArgumentError
            When the queue has no such step.
        """
        checks.require_count("step", step)
        size = self._ends(step).head.claim_size
        return size if size is not None and size.step == step else None

    def explain(self, seq: int) -> Explanation:
        """Explain why an item is not running: its holder, and until when."""
        checks.require_seq("seq", seq)
        known = views.explaining.live(self._store, seq)
        return known or self.report_item(seq).chain[0]

    def report(self, as_of: AsOf = None, window: timedelta = _HOUR) -> Report:
        """Report to the operator: where items are, what fails, who waits and why.

        On this machine's disk it is read without a job of Spark.

        Parameters
        ----------
        as_of : int or datetime, optional
            A step of the status log, or an instant, to look back at; now by default.
        window : timedelta
            How long before that instant counts as now, in speeds, waits and failures.

        Raises
        ------
        InvalidArgumentError
            When the queue has no such step, a time has no offset, or the window is not above zero.
        """
        return report.reading.read(self._store, as_of, window)

    def report_item(self, seq: int, as_of: AsOf = None) -> ItemReport:
        """Tell an item's history, and what it waits for, to the end of the chain."""
        return report.reading.read_item(self._store, seq, as_of)

    def _repr_html_(self) -> str:
        from spark_queue.report.page import draw_glance  # noqa: PLC0415 - takes a while

        try:
            return draw_glance(repr(self), self._store, self.counts)
        except Exception:  # noqa: BLE001 - a notebook shows missing and damaged queues, too
            # The name of a reader may be gone, too.
            return in_html(f"{type(self).__name__}({self.name!r})")


class Looking(Opened, Generic[FrameT, SchemaT]):
    """The queries of a queue's reader: nothing here writes.

    Frames are a ``DataFrame`` of Spark, which is read when it is used and can be joined, filtered
    and written like any other; without Spark a ``pyarrow.Table``.
    """

    @property
    def _views(self) -> QueueViews[FrameT, SchemaT]:
        """The engine of questions."""
        raise NotImplementedError

    @property
    def schema(self) -> SchemaT:
        """The columns of an item: a ``StructType``, or without Spark a ``pyarrow.Schema``."""
        return self._views.schema(self._main)

    def status(self, as_of: AsOf = None, *, short: bool = False) -> FrameT:
        """Return one row an item: the user's columns, its keys, its state and its times.

        Parameters
        ----------
        as_of : int or datetime, optional
            A step of the status log, or an instant, to look back at; now by default.
        short : bool
            Only the user's columns, ``_seq``, ``_state``, ``_attempts``, ``_worker_id`` and
            ``_error``: where an item is, how often it was tried, who has it, and what failed.

        Returns
        -------
        DataFrame or pyarrow.Table
            In the order of ``_seq``. ``_state`` is ready, claimed, acked, dead, expired or
            cancelled.

        Raises
        ------
        InvalidArgumentError
            When the queue has no such step, or a time has no offset.
        SparkNeededError
            When there is no session, and only Spark reads the tables.
        """
        checks.require_flag("short", short)
        ends = self._ends(as_of)
        return self._views.status(
            self._store, ends, sql.look.SHORT_STATUS if short else sql.look.STATUS
        )

    def dead(self, as_of: AsOf = None) -> FrameT:
        """Return the dead letters, as :meth:`status` shows them, with ``_error``.

        ``_successor`` is the item as which a letter was redriven, null where it was not.
        """
        ends = self._ends(as_of)
        return self._views.dead(self._store, ends)

    def history(self, seq: int | None = None) -> FrameT:
        """Return every transition of an item, oldest first; or of all, with their ``_seq``."""
        if seq is not None:
            checks.require_seq("seq", seq)
        return self._views.history(self._store, seq)

    def stats(self, as_of: AsOf = None) -> QueueStats:
        """Count the items per state and per fair key; ``as_of`` as for :meth:`status`."""
        ends = self._ends(as_of)
        return self._views.stats(self._store, ends)

    def wait(
        self, where: Where, timeout: timedelta | float | None = None, *, as_of: AsOf = None
    ) -> Waited:
        """Wait until the items that are meant, and have not ended yet, have ended.

        Items that come later do not count. A cancelled item has ended as somebody wanted it; one
        that is redriven is a new item.

        Parameters
        ----------
        where : str or dict
            Which items, as for :meth:`DeltaQueue.cancel`, by columns that do not change.
        timeout : timedelta or float, optional
            For how long, or for how many seconds, at most; 0 only looks. By default for ever.
        as_of : int or datetime, optional
            The step of the status log, or the instant, at which they lived; now by default. A wait
            that is begun again, or looks from time to time, names one: so it counts the same items
            each time, those that have ended since among them. After an enqueue, which is no step of
            the status log, that is an instant.

        Returns
        -------
        Waited
            How many are in which state. It is true where all have ended, and none is dead or
            expired.

        Raises
        ------
        InvalidArgumentError
            When ``where`` names a column that changes, such as ``_state``, or one that is not
            there, or is an expression of Arrow; when the timeout is below 0; when the queue has no
            such step, or the time has no offset.
        SparkNeededError
            When there is no session, and only Spark reads the tables.
        """
        sql.where.require_where(where)
        commands.wait_for_end.require_fixed(where)
        length = checks.length_of("timeout", timeout)
        seconds, ends = math.inf if length is None else length.total_seconds(), self._ends(as_of)
        return commands.wait_for_end.wait_for_end(self._store, where, seconds, ends)

    def doctor(self, thresholds: Thresholds | None = None) -> Checkup:
        """List the queue's faults: since when, how bad, and the remedy.

        Parameters
        ----------
        thresholds : Thresholds, optional
            From where on something is worth a word.
        """
        from spark_queue.doctor.examine import examine  # noqa: PLC0415 - takes a while

        return examine(self._main, thresholds)


class ReaderFacts(Looking[FrameT, SchemaT]):
    """One reader of a queue."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, store)

    @property
    def reader(self) -> str:
        """The reader's name; empty for the default reader."""
        return self._store.registered().name

    @property
    def number(self) -> int:
        """The reader's number, which stays when it is renamed."""
        return self._store.reader

    @property
    def limits(self) -> ReaderConfig:
        """The limits in force."""
        return self._store.reader_config()

    def lag(self) -> Lag:
        """Return how far the reader is behind, in items, bytes, time and steps.

        Raises
        ------
        SparkNeededError
            When there is no session, and only Spark counts the bytes of a column, or reads the
            logs.
        """
        return self._views.lag(self._store)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.reader!r})"


def store_of(seen: Opened) -> Store:
    """Return the logs behind a queue, for the library's other rooms."""
    return seen._store  # noqa: SLF001


def views_of(seen: Looking[FrameT, SchemaT]) -> QueueViews[FrameT, SchemaT]:
    """Return the engine of questions about a queue, for such rooms."""
    return seen._views  # noqa: SLF001


def main_store_of(seen: Opened) -> Store:
    """Return the logs behind a queue, of all its readers, for such rooms."""
    return seen._main  # noqa: SLF001

"""An open queue, with Spark or without: the verbs without frames or tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spark_queue import checks
from spark_queue.commands import admin, create_drop, dry_runs, forward_items, readers
from spark_queue.commands.readers import Start
from spark_queue.config import LiveSettings, QueueConfig
from spark_queue.config_changes import merge
from spark_queue.errors import QueueNotFoundError
from spark_queue.log.schema import CLAIMED, READY, REFUSED, TERMINAL
from spark_queue.log_errors import FileAccessError, FileGoneError
from spark_queue.reader_config import ReaderConfig, require_reader
from spark_queue.report import reading
from spark_queue.report.model import HOUR, ItemReport, Report
from spark_queue.results import Affected, Explanation, Reconfigured
from spark_queue.sql import file_rows
from spark_queue.state import existence
from spark_queue.state.store import Store
from spark_queue.views import explaining
from spark_queue.views.ends import AsOf, Ends, ends_at
from spark_queue.views.pauses import in_force_since
from spark_queue.wording import in_html

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: A queue as one of its readers sees it.
ReaderT = TypeVar("ReaderT")


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
            self._reader = readers.default(self._main)
        return self._reader

    def _ends(self, as_of: AsOf) -> Ends:
        """Return the last steps of both logs for a report; a bad ``as_of`` raises."""
        checks.require_as_of(as_of)
        return ends_at(self._store, as_of)

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

    def counts(self) -> dict[str, int]:
        """Return how many items are in each state, and how many rows were refused.

        No row is read for it: it takes a millisecond where :meth:`stats` counts all items.
        """
        store = self._store
        head, queue = store.status_head(), store.queue_head()
        over = {state: head.finished.get(state, 0) for state in TERMINAL}
        waiting = store.outstanding(head) - head.claimed
        # The head counts dropped items, too.
        refused = file_rows.refused_of(store) if queue.refused else None
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

    def explain(self, seq: int) -> Explanation:
        """Explain why an item is not running: its holder, and until when."""
        checks.require_seq("seq", seq)
        known = explaining.live(self._store, seq)
        return known or reading.read_item(self._store, seq).chain[0]

    def report(self, as_of: AsOf = None, window: timedelta = HOUR) -> Report:
        """Report to the operator: where items are, what fails, who waits and why.

        On this machine's disk it is read without a job of Spark.

        Parameters
        ----------
        as_of : int or datetime, optional
            A step of the status log, or an instant, to look back at; now by default.
        window : timedelta
            How long before that instant counts as now, in rates, waits and failures.

        Raises
        ------
        InvalidArgumentError
            When the queue has no such step, a time has no offset, or the window is not above zero.
        """
        return reading.read(self._store, as_of, window)

    def report_item(self, seq: int, as_of: AsOf = None) -> ItemReport:
        """Tell an item's history, and what it waits for, to the end of the chain."""
        return reading.read_item(self._store, seq, as_of)

    def _repr_html_(self) -> str:
        from spark_queue.report.glance import draw_glance  # noqa: PLC0415 - takes a while

        try:
            return draw_glance(repr(self), self._store, self.counts)
        except Exception:  # noqa: BLE001 - a notebook shows missing and damaged queues, too
            # The name of a reader may be gone, too.
            return in_html(f"{type(self).__name__}({self.name!r})")


def drop_queue(store: Store, *, dry_run: bool) -> Affected | None:
    """Remove a queue, or count what would go; see :meth:`DeltaQueue.drop`."""
    checks.require_flag("dry_run", dry_run)
    try:
        if not dry_run and create_drop.finish_drop(store):
            return None
        existence.require_exists(store)
        if dry_run:
            return dry_runs.foresee_drop(store)
        create_drop.drop(store)
    except (FileGoneError, FileAccessError) as exc:
        # Another drop removes the files that this one looks at.
        if create_drop.is_dropped(store, exc.file):
            raise QueueNotFoundError(store.name) from exc
        raise
    return None


class Configured(Opened):
    """Such a queue, whose settings may be changed."""

    def configure(
        self, *, expected: Mapping[str, Any] | None = None, **settings: Unpack[LiveSettings]
    ) -> Reconfigured:
        """Change live settings (see ``LIVE_SETTINGS``) from the next step on.

        Other settings, and other weights, stay: two callers may change the weights of two keys at
        once. A weight of ``None`` is removed.

        Parameters
        ----------
        expected : mapping, optional
            The values before the change, as the caller knows them.
        **settings
            The settings that are changed.

        Returns
        -------
        Reconfigured
            The step from which they are in force: a claim after it sees them. It knows what it
            replaced.

        Raises
        ------
        InvalidConfigError
            When a setting is unknown, fixed at creation, or out of its range; expected ones, too.
        InvalidArgumentError
            When ``expected`` is no mapping of settings.
        SettingsChangedError
            When a setting has not the expected value. Nothing was written.
        """
        expected = {} if expected is None else expected
        checks.require_kind("expected", expected, Mapping)
        config = self.config
        for named in (settings, expected):
            merge(config, named)
        return admin.change(self._store, settings, expected)

    def pause(self) -> int:
        """Stop giving out items; claimed items go on.

        Returns the step it is in force from. Where it is paused already nothing is written.
        """
        return self._give_out(paused=True)

    def resume(self) -> int:
        """Give out items again; otherwise as :meth:`pause`."""
        return self._give_out(paused=False)

    def _give_out(self, *, paused: bool) -> int:
        action = "pause" if paused else "resume"
        step = admin.configure(
            self._store, lambda old, _: replace(old, paused=paused), action, only_changes=True
        )
        return step or in_force_since(self._store, paused=paused)


class ReaderRegistry(Opened, Generic[ReaderT]):
    """The readers of a queue, which come and go: each has all items, and a place of its own."""

    def reader(
        self, name: str, *, start: Start | None = None, config: ReaderConfig | None = None
    ) -> ReaderT:
        """Return a reader of the queue, registered where there is none of the name.

        Every reader sees every item from its start on, with a position, claims, attempts and dead
        letters of its own. The first that is named takes over what the default reader had, and is
        the default as long as it is the only one; from the second on the queue is read by name.

        Parameters
        ----------
        name : str
            How the reader is called; its number, which it keeps, is its identity.
        start : "tail", "beginning", int or datetime, optional
            Where a new reader starts: at the tail (default), at the oldest item kept, behind a step
            of the item log, or after an instant. Items that are gone by then count as lost in its
            ``lag()``. The first reader goes on where the default reader was, without ``start``.
        config : ReaderConfig, optional
            Its limits; a reader that is there gets them from now on, if they are given.

        Raises
        ------
        InvalidArgumentError
            When the name is empty, the start is none of those, or the first reader that is named
            is to start elsewhere than where the default reader is.
        QueueNotFoundError
            When a queue that it sends items to is missing.
        """
        require_reader(name, start, config)
        if config is not None:
            config = forward_items.with_targets(self._main, config)
        self._reader = None
        return self._make_reader(readers.register(self._main, name, config, start))

    def open_reader(self, name: str) -> ReaderT:
        """Return a reader that is registered; the name of the default one is empty.

        Raises
        ------
        ReaderNotFoundError
            When there is none of the name.
        """
        checks.require_kind("name", name, str)
        return self._make_reader(readers.find(self._main, name))

    def readers(self) -> tuple[str, ...]:
        """Return the names of all readers; the default reader's is empty."""
        return tuple(facts.name for facts in self._main.queue_head().readers.values())

    def drop_reader(self, name: str, *, dry_run: bool = False) -> Affected | None:
        """Forget a reader: its position, and what it had not read.

        After the last one, the default reader begins again with what comes from then on.

        Parameters
        ----------
        name : str
            Its name.
        dry_run : bool
            Only count the items that it is not done with, and show the first: what is returned
            then.

        Raises
        ------
        ReaderNotFoundError
            When there is none of the name.
        """
        checks.require_kind("name", name, str)
        checks.require_flag("dry_run", dry_run)
        if dry_run:
            return dry_runs.unread(readers.look_up(self._main, name))
        self._reader = None
        readers.drop(self._main, name)
        return None

    def _make_reader(self, reader: Store) -> ReaderT:
        """Return the queue as a reader sees it."""
        raise NotImplementedError

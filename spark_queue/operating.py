"""The verbs of an operator of a queue, and its readers, which come and go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spark_queue import checks, commands, flow_forms, sql, views
from spark_queue.config_changes import merge
from spark_queue.queue_views import Opened
from spark_queue.reader_config import ReaderConfig, require_reader
from spark_queue.state.store import Store

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from spark_queue.commands.readers import Start
    from spark_queue.config import LiveSettings
    from spark_queue.results import Affected, Reconfigured, Undone
    from spark_queue.sql.where import Where

#: A queue as one of its readers sees it.
ReaderT = TypeVar("ReaderT")


class Operating(Opened):
    """A queue in the hands of an operator."""

    def configure(
        self, *, expected: Mapping[str, Any] | None = None, **settings: Unpack[LiveSettings]
    ) -> Reconfigured:
        """Change live settings (see ``LIVE_SETTINGS``) from the next step on.

        Other settings, other weights, and rules by other expressions stay: two callers may change
        the weights of two keys at once. A weight of ``None`` is removed.

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
        return commands.admin.change(self._store, settings, expected)

    def pause(
        self,
        *,
        key: str | None = None,
        by: str | None = None,
        for_: timedelta | float | None = None,
    ) -> int:
        """Stop giving out items, or those of a key; claimed items go on.

        Items of a paused key keep their places, and the others pass them. A lease of such an item
        that runs out is not taken over before the pause ends. What is past its deadline, or lost
        its last lease, ends all the same.

        Parameters
        ----------
        key : str, optional
            The key, by its text; without it the whole queue is paused.
        by : str, optional
            By which expression it is one: that of ``fair_key`` (the default), of ``group_key``, or
            of a limit.
        for_ : timedelta or float, optional
            For how long, or for how many seconds; by default until :meth:`resume`. The longer of
            two wins; 0 resumes the key.

        Returns
        -------
        int
            The step it is in force from. Where that changes nothing, nothing is written.

        Raises
        ------
        InvalidArgumentError
            When ``by`` or ``for_`` is given without a key, the queue has no key of the expression,
            or ``for_`` is below 0.
        InvalidConfigError
            When the queue was made before a key could be paused, and not upgraded since.
        """
        if key is None:
            flow_forms.require_no_key("pause", by=by, for_=for_)
            return self._give_out(paused=True)
        return commands.key_pauses.pause(self._store, key, by, for_)

    def resume(self, *, key: str | None = None, by: str | None = None) -> int:
        """Give out items again, or those of a key; otherwise as :meth:`pause`."""
        if key is None:
            flow_forms.require_no_key("resume", by=by)
            return self._give_out(paused=False)
        return commands.key_pauses.resume(self._store, key, by)

    def _give_out(self, *, paused: bool) -> int:
        action = "pause" if paused else "resume"
        step = commands.admin.configure(
            self._store, lambda old, _: replace(old, paused=paused), action, only_changes=True
        )
        return step or views.operator_steps.in_force_since(self._store, paused=paused)

    def cancel(self, where: Where, *, dry_run: bool = False) -> Affected:
        """End every ready or claimed item that is meant.

        Parameters
        ----------
        where : str, dict or pyarrow.compute.Expression
            Which items, by the columns of ``status()``. SQL says a condition:
            ``"tenant = 'a' AND _seq < 100"``. A dict says the value of each column, or several in
            a list: ``{"tenant": "a", "_seq": [1, 2]}``; ``None`` is null. A queue without Spark
            also takes an expression of Arrow, ``pc.field("_seq") < 100``, and of SQL what plainly
            means the same to Spark.
        dry_run : bool
            Only count, by state, and show the first.

        Returns
        -------
        Affected
            How many items it is about: a number, which knows the step (:meth:`undo`). A holder of
            such an item gets ``LeaseLostError``; a handler hears of it (:func:`current_item`).

        Raises
        ------
        InvalidArgumentError
            When no column is named, or there is none of the name, or none with such a value.
        SparkNeededError
            When there is no session, and only Spark knows what the SQL means.
        """
        sql.where.require_where(where, dry_run=dry_run)
        return commands.admin.cancel(self._store, where, dry_run=dry_run)

    def redrive(self, where: Where, *, dry_run: bool = False, again: bool = False) -> Affected:
        """Enqueue dead, expired or cancelled items again, as new items that name the old.

        They have the delay and the deadline of the old behind them. An item is redriven once: one
        that has a successor (``dead()``) is passed over. Whether the key of an item was taken
        since is decided as for any enqueue.

        A reader that was asked for by name makes them ready again instead, for itself alone. They
        keep their place, and start without failures and losses, and without the delay and the
        deadline that they were enqueued with.

        Parameters
        ----------
        where, dry_run
            As for :meth:`cancel`; the errors are the same.
        again : bool
            Redrive also items redriven before; for a reader it makes no difference.

        Returns
        -------
        Affected
            How many items it is about.
        """
        sql.where.require_where(where, dry_run=dry_run, again=again)
        if self._is_one_of_many:
            return commands.admin.revive(self._store, where, dry_run=dry_run)
        return commands.undo_command.redrive(self._store, where, again=again, dry_run=dry_run)

    def undo(self, step: int, *, dry_run: bool = False) -> Undone:
        """Take back what an operator did in a step of the status log, as far as that can be.

        Cancelled items come back as new ones that name the old, at the places that they had; a
        pause or a configuration is put back to its former value. It is a step of its own,
        and done twice it is done once.

        Parameters
        ----------
        step : int
            The step: ``cancel`` answers with it (:class:`Affected`), and so do ``pause``,
            ``resume`` and ``configure``.
        dry_run : bool
            Only tell what would come of it, and write nothing.

        Returns
        -------
        Undone
            What came back, and what did not: a key that was taken since keeps its item out.

        Raises
        ------
        InvalidArgumentError
            When the log has no such step.
        CannotUndoError
            When it was something that is not taken back; it says what, and why not.
        """
        checks.require_count("step", step)
        checks.require_flag("dry_run", dry_run)
        for_itself = self._is_one_of_many
        return commands.undo_command.undo(self._store, step, for_itself=for_itself, dry_run=dry_run)


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
            Its configuration; a reader that is there gets it from now on, if it is given.

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
            config = commands.forward_items.with_targets(self._main, config)
        self._reader = None
        return self._make_reader(commands.readers.register(self._main, name, config, start))

    def open_reader(self, name: str) -> ReaderT:
        """Return a reader that is registered; the name of the default one is empty.

        Raises
        ------
        ReaderNotFoundError
            When there is none of the name.
        """
        checks.require_kind("name", name, str)
        return self._make_reader(commands.readers.find(self._main, name))

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
            return commands.dry_runs.unread(commands.readers.look_up(self._main, name))
        self._reader = None
        commands.readers.drop(self._main, name)
        return None

    def _make_reader(self, reader: Store) -> ReaderT:
        """Return the queue as a reader sees it."""
        raise NotImplementedError

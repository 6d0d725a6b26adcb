"""A queue that is open, with Spark or without, as one of its readers sees it: its settings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_queue.config import LiveSettings, QueueConfig
from spark_queue.delta.commands import admin, readers
from spark_queue.delta.store.store import Store

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Opened:
    """A queue as one of its readers sees it: nothing here writes.

    Parameters
    ----------
    main : Store
        The queue, whoever reads it.
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


class Configured(Opened):
    """Such a queue, in the hands of whoever changes its settings."""

    def configure(self, **settings: Unpack[LiveSettings]) -> int:
        """Change live settings (see ``LIVE_SETTINGS``) from the next step on.

        Returns
        -------
        int
            The step from which they are in force: a claim after it sees them.

        Raises
        ------
        InvalidConfigError
            When a setting is unknown, fixed at creation, or out of its range.
        """
        self.config.changed(**settings)
        return admin.configure(
            self._store,
            lambda old, at: old.reconfigured(old.config.changed(**settings), at.pointers),
        )

    def pause(self) -> int:
        """Stop giving out items; what is claimed goes on. Returns the step it is in force from."""
        return admin.configure(self._store, lambda old, _: replace(old, paused=True), "pause")

    def resume(self) -> int:
        """Give out items again. Returns the step it is in force from."""
        return admin.configure(self._store, lambda old, _: replace(old, paused=False), "resume")

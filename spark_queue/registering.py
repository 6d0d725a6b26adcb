"""A queue with several readers, which come and go: each has all items, and a place of its own."""

from __future__ import annotations

from pyspark.sql import DataFrame

from spark_queue import checks
from spark_queue.delta.commands import foreseeing, forwarding, readers
from spark_queue.delta.commands.readers import Start
from spark_queue.maintaining import Maintaining
from spark_queue.reader import Reader
from spark_queue.reader_config import ReaderConfig, require_reader
from spark_queue.results import Affected


class Registering(Maintaining):
    """A queue in the hands of whoever has others read it."""

    def reader(
        self,
        name: str,
        *,
        start: Start | None = None,
        config: ReaderConfig | None = None,
    ) -> Reader:
        """Return a reader of the queue, registered where there is none of the name.

        Every reader sees every item from its start on, with a position, claims, attempts and dead
        letters of its own. The first that is named takes over what the default reader had, and is
        the default as long as it is the only one; from the second on the queue is read by name.

        Parameters
        ----------
        name : str
            How the reader is called; its number, which it keeps, is its identity.
        start : "tail", "beginning", int or datetime, optional
            Where a new reader starts: with what comes from now on (default), with the oldest item
            that is kept, behind a step of the item log, or with what was enqueued after an instant.
            What is gone by then is counted in :meth:`Reader.lag` as lost. The first one goes on
            where the default reader was, and is not told.
        config : ReaderConfig, optional
            Its limits; a reader that is there gets them from now on, if they are given.

        Raises
        ------
        InvalidArgumentError
            When the name is empty, the start is none of those, or the first reader that is named
            is to start elsewhere than where the default reader is.
        """
        require_reader(name, start, config)
        if config is not None:
            config = forwarding.with_targets(self._main, config)
        self._reader = None
        return Reader(readers.register(self._main, name, config, start))

    def open_reader(self, name: str) -> Reader:
        """Return a reader that is registered; the name of the default one is empty.

        Raises
        ------
        ReaderNotFoundError
            When there is none of the name.
        """
        checks.require_string("name", name)
        return Reader(readers.find(self._main, name))

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
        checks.require_string("name", name)
        checks.require_flag("dry_run", dry_run)
        if dry_run:
            return foreseeing.unread(readers.named(self._main, name))
        self._reader = None
        readers.drop(self._main, name)
        return None

    def read_stream(self, reader: str, *, start: Start = "tail") -> DataFrame:
        """Return the items as a plain stream, for a query with a checkpoint of its own.

        The reader is registered, so that its items are kept: say with :meth:`Reader.advance`, from
        ``foreachBatch`` or from time to time, up to which step the query is done.

        Parameters
        ----------
        reader : str
            Its name. A reader either claims or streams.
        start
            As for :meth:`reader`.

        Returns
        -------
        DataFrame
            A stream with the user's columns, ``_seq`` and ``_step``, each item once.
        """
        require_reader(reader, start)
        self._reader = None
        return Reader(readers.register(self._main, reader, None, start, streams=True)).stream()

"""One reader of a queue: it sees every item, and keeps a position of its own."""

from __future__ import annotations

from pyspark.sql import DataFrame

from spark_queue.checks import require_change, require_seq
from spark_queue.consuming import AsReader
from spark_queue.delta.commands import admin, readers
from spark_queue.delta.views import lag
from spark_queue.errors import InvalidArgumentError
from spark_queue.reader_config import ReaderConfig
from spark_queue.results import Lag


class Reader(AsReader):
    """A queue as one of its readers sees it; made by :meth:`DeltaQueue.reader`.

    What it claims, settles, retries, buries, pauses and configures is its own: no other reader
    notices. The items are shared, and never rewritten by reading.
    """

    @property
    def reader(self) -> str:
        """The reader's name; empty for the default reader."""
        return self._store.registered().name

    @property
    def number(self) -> int:
        """What the reader keeps when it gets another name."""
        return self._store.reader

    @property
    def limits(self) -> ReaderConfig:
        """The limits in force."""
        return self._store.limits()

    def lag(self) -> Lag:
        """Return how far the reader is behind, in items, bytes, time and steps."""
        return lag.lag(self._store)

    def redrive(
        self,
        where: str,
        *,
        dry_run: bool = False,
        again: bool = False,  # noqa: ARG002 - a queue's own redrive has it
    ) -> int:
        """Make dead, expired or cancelled items ready again, for this reader alone.

        Parameters
        ----------
        where : str
            A predicate over the columns of :meth:`status`.
        dry_run : bool
            Only count.
        again : bool
            Makes no difference: what is ready again is not over, and has no successor.

        Returns
        -------
        int
            How many items it is about. They keep their place, and their attempts start anew.
        """
        require_change(where, dry_run=dry_run)
        if dry_run:
            return admin.redrivable(self._store, where, again=True).count()
        return admin.revive(self._store, where)

    def advance(self, step: int) -> None:
        """Say that a stream of this reader is done with all items up to a step (``_step``).

        Raises
        ------
        InvalidArgumentError
            When the reader claims, or the item log has no such step.
        """
        require_seq("step", step)
        self._require_streams()
        readers.advance(self._store, step)

    def stream(self) -> DataFrame:
        """Return the items as a stream (:meth:`DeltaQueue.read_stream`)."""
        self._require_streams()
        return readers.stream(self._store)

    def _require_streams(self) -> None:
        if not self._store.registered().streams:
            raise InvalidArgumentError(
                f"reader {self.reader!r} claims its items: only one that was made by read_stream "
                "is read as a stream"
            )

    def __repr__(self) -> str:
        return f"Reader({self.name!r}, {self.reader!r})"

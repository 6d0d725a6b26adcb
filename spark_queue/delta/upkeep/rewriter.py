"""Engines of upkeep: who finds what is over in the logs of a queue, and takes rows out of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import Any, Generic, TypeAlias

from spark_queue.delta.sql.look import FrameT, QueueLook
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.chores import Tidied
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.wishes import PlainSession

#: Keeps the items of a generation, by its number, in another table; twice is as once.
Archive: TypeAlias = Callable[[int], None]

#: What an archive has of an item beside the user's columns, and the name of the queue.
ARCHIVED = ("_seq", "_enqueued_at", "_origin")


class Rewriter(ABC, Generic[FrameT]):
    """What upkeep does in another way with Spark, and without.

    Frames of items have ``_seq`` and ``_gen``, and may have more.
    """

    look: type[QueueLook[FrameT]]

    @abstractmethod
    def among(self, found: FrameT, others: FrameT, *, is_in: bool) -> FrameT:
        """Return the items that are among others, or that are not."""

    @abstractmethod
    def generations_of(self, found: FrameT) -> set[int]:
        """Return the generations of items."""

    @abstractmethod
    def evaluate(self, found: FrameT) -> tuple[FrameT, int]:
        """Return items computed once, and how many there are."""

    @abstractmethod
    def remove(self, reader: Store, which: LogName, found: FrameT) -> None:
        """Take items out of a log."""

    @abstractmethod
    def drop(self, reader: Store, which: LogName, gen: int, before: int | None = None) -> None:
        """Take a partition out of a log, or its rows of the steps before one."""

    @abstractmethod
    def open_archive(self, store: Store, path: str) -> Archive:
        """Return what keeps generations before they are dropped.

        Raises
        ------
        SchemaMismatchError
            With the column that does not fit the table that is there.
        """

    @abstractmethod
    def bury(self, reader: Store) -> int:
        """Settle the items that lost their last lease; return how many died."""

    @abstractmethod
    def tidy(self, store: Store) -> Tidied:
        """Merge the small files of all logs, and remove those that nobody reads any more."""


def archive_name(store: Store) -> str:
    """Return the name under which an archive knows which generations of a queue it has.

    A queue that is made in the place of another one has its own.
    """
    return f"archive of {store.handle.place.identity()}"


def rewriter_of(store: Store, *, reads_files: bool = False) -> Rewriter[Any]:
    """Return the engine of a store; nothing of Spark is imported where it is not it.

    With ``reads_files`` it is the one of this process wherever that reads the item log.
    """
    is_here = isinstance(store.session, PlainSession)
    is_here = is_here or (reads_files and store.native("queue") is not None)
    module = import_module(f"spark_queue.delta.upkeep.{'by_files' if is_here else 'by_spark'}")
    found: Rewriter[Any] = module.REWRITER
    if store.queue.is_remote and not is_here:
        found = module.OF_OBJECTS
    return found

"""Questions about a queue, answered by the views of the one catalogue."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_queue.clock import utc
from spark_queue.errors import InvalidArgumentError
from spark_queue.log.heads import QueueHead, StatusHead
from spark_queue.log.settings import Settings
from spark_queue.results import ItemProgress
from spark_queue.rules.bounds import Played
from spark_queue.sql import catalogue
from spark_queue.sql.catalogue import needed_by
from spark_queue.sql.log_rows import micros
from spark_queue.sql.look import QueueLook, instant_of
from spark_queue.sql.sql_engines import asked_at
from spark_queue.state.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_queue.config import QueueConfig


#: A step of the status log, an instant, or (``None``) now.
AsOf = int | datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The last steps of both logs that are looked at."""

    head: StatusHead
    """The head of the status log's."""
    queue_head: QueueHead | None = None
    """The item log's; ``None`` for now, where no step is cut off of either."""
    at: datetime | None = None
    """When the status log's was made, or the instant that was asked for; ``None`` for now."""

    @property
    def queue_step(self) -> int | None:
        """The last step of the item log; ``None`` for now."""
        return None if self.queue_head is None else self.queue_head.step


def ends_at(store: Store, as_of: AsOf) -> Ends:
    """Find the last steps: the status log's first, then the item log's at that instant.

    Raises
    ------
    InvalidArgumentError
        When the step or the instant lies before the queue was made.
    """
    if as_of is None:
        return Ends(head=store.status_head())
    head = store.status.head_at(as_of) if isinstance(as_of, int) else store.status.head_by(as_of)
    if head is None:
        raise InvalidArgumentError(f"as_of is {as_of}: the queue has no step there")
    at = datetime.fromisoformat(head.at) if isinstance(as_of, int) else as_of
    return Ends(head=head, queue_head=store.queue.head_by(at) or QueueHead(), at=at)


#: The views that several others are made of: each is computed once for all.
SHARED = (
    *("status", "transitions", "with_place_of_status", "reasons", "runnable", "failures"),
    *("wordings", "eligible_items_of_status"),
)

#: A row of a view, by column; its times are instants in UTC.
Answer = dict[str, Any]

#: Columns of the row by which an item entered, besides the user's.
ENTRY = (
    *("_dedup_key", "_fair_key", "_group_key", "_priority", "_cost", "_max_attempts"),
    *("_enqueued_at", "_available_at", "_expires_at", "_origin"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The instant, the window and the settings of a question to views: ``sq_asked``."""

    now: datetime
    since: datetime
    """When the window begins."""
    settings: Settings
    max_age: timedelta | None
    play: Callable[..., Played] = Played
    """Plays a claim: of many more items where one is asked about, until it takes that."""

    @property
    def config(self) -> QueueConfig:
        """The configuration in force."""
        return self.settings.config

    def about(self, seq: int) -> Question:
        """Return the question about one item."""
        return replace(self, play=partial(self.play, seq))

    def as_row(self) -> dict[str, object]:
        """Return the row of ``sq_asked``: times in microseconds since 1970."""
        asked = {"since": micros(self.since), "paused": self.settings.paused, "play": self.play}
        return asked | asked_at(self.now, self.config, self.max_age)


class Answers:
    """Rows of views over both logs of a reader.

    Parameters
    ----------
    look : QueueLook
        The logs, and the engine that answers.
    """

    def __init__(self, look: QueueLook[Any]) -> None:
        self._look = look

    def rows(self, view: str, where: str = "true", first: int | None = None) -> list[Answer]:
        """Return rows of a view; with ``first``, that many with the lowest ``seq``."""
        self._share(view)
        some = "" if first is None else f" ORDER BY seq LIMIT {first}"
        found = self._look.query(f"SELECT * FROM sq_{view} WHERE {where}{some}")  # noqa: S608 - our own
        return _read(view, found)

    def panels(self, *views: str) -> dict[str, list[Answer]]:
        """Return the rows of several views, each in its order."""
        self._share(*views)
        found = self._look.query_each([f"SELECT * FROM sq_{view}" for view in views])  # noqa: S608 - our own
        return {view: _read(view, rows) for view, rows in zip(views, found, strict=True)}

    def judges_each(self) -> bool:
        """Tell whether the answers so far count an item as runnable that waits behind others."""
        return self._look.judges_each()

    def select(self, where: Any) -> None:
        """Provide the items that match a condition as the view ``selected``."""
        self._look.select(where)

    def count(self, view: str, where: str) -> int:
        """Return the number of rows of a view that are so."""
        self._share(view)
        found = self._look.query(f"SELECT count(*) AS items FROM sq_{view} WHERE {where}")  # noqa: S608 - as above
        return int(found[0]["items"])

    def _share(self, *views: str) -> None:
        needed = {*views}.union(*map(needed_by, views))
        for name in SHARED:
            if name in needed:
                self._look.keep(name)


def by_seq(rows: pa.Table) -> dict[int, Answer]:
    """Return rows by their ``_seq``, which is no column of theirs then."""
    return {row.pop("_seq"): row for row in rows.to_pylist()}


def _read(view: str, found: list[Answer]) -> list[Answer]:
    instants = [name for name, is_instant in catalogue.views()[view].columns.items() if is_instant]
    for row in found:
        for name in instants:
            row[name] = None if row[name] is None else instant_of(row[name])
        if "moment" in row:
            # Not every SQL orders by a column of that name.
            row["at"] = row.pop("moment")
    return found


class ViewSource(ABC):
    """Views of one queue, as any of its readers sees it, again and again."""

    @abstractmethod
    @contextmanager
    def over(self, store: Store, ends: Ends, asked: Question) -> Iterator[Answers]:
        """Answer over the logs of a reader, up to a step of each."""

    @abstractmethod
    def find_entries(
        self, store: Store, seqs: Sequence[int], columns: Sequence[str]
    ) -> dict[int, Answer]:
        """Return some columns of the rows by which items entered, or were refused, by ``seq``."""

    @abstractmethod
    def find_debts(self, store: Store, head: StatusHead) -> pa.Table:
        """Return the rows of what keys owe, as of a step: ``DEBTS``, in any order."""

    @abstractmethod
    def find_progress(
        self, store: Store, leases: Mapping[int, int], last: int
    ) -> dict[int, ItemProgress]:
        """Return how far the work on items is, by ``seq``, up to a step.

        Parameters
        ----------
        leases : mapping
            The lease of each item that is meant.
        """


#: What is read of a row of progress.
PROGRESS_COLUMNS = ("_seq", "_lease", "_step", "_at", "_body")


def newest_progress(
    rows: pa.Table, leases: Mapping[int, int], last: int
) -> dict[int, ItemProgress]:
    """Return the newest progress of items, by ``_seq``.

    Parameters
    ----------
    rows : pyarrow.Table
        Rows of progress.
    leases : mapping
        The lease of each item that is meant: what was said under another one is over.
    last : int
        The last step that counts.
    """
    found = {}
    for row in rows.sort_by("_step").to_pylist():
        if row["_step"] <= last and leases.get(row["_seq"]) == row["_lease"]:
            found[row["_seq"]] = ItemProgress(**json.loads(row["_body"]), at=utc(row["_at"]))
    return found

"""Interface of the engines that answer the panels' texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from spark_queue.delta.store.store import Store
from spark_queue.delta.views.ends import Ends
from spark_queue.report import view_texts

if TYPE_CHECKING:
    from spark_queue.delta.store.store import Store

#: Commits that are looked at for what was taken away.
COMMITS = 1_000

#: A row of a panel, by column; its times are instants in UTC.
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of the logs: the row of ``sq_asked``."""

    now: datetime
    since: datetime
    since_step: int
    paused: bool
    blocking: bool
    group_limit: int
    max_in_flight: int | None
    max_losses: int | None
    max_age_us: int | None


class Engine(ABC):
    """Answers panels over the logs of one reader, cut at a step of each."""

    def __init__(self) -> None:
        self._views: set[str] = set()

    def rows(self, view: str, where: str = "true", first: int | None = None) -> list[Answer]:
        """Return the rows of a view, in its order; or so many of the first by ``seq``."""
        self._have(view)
        some = "" if first is None else f" ORDER BY seq LIMIT {first}"
        return _rename(self._ask(f"SELECT * FROM sq_{view} WHERE {where}{some}"))  # noqa: S608 - our own

    def panels(self, *views: str) -> dict[str, list[Answer]]:
        """Return the rows of several views, each in its order."""
        for view in views:
            self._have(view)
        found = self._ask_each([f"SELECT * FROM sq_{view}" for view in views])  # noqa: S608 - our own
        return {view: _rename(rows) for view, rows in zip(views, found, strict=True)}

    def count(self, view: str, where: str) -> int:
        """Return how many rows of a view there are."""
        self._have(view)
        (row,) = self._ask(f"SELECT count(*) AS items FROM sq_{view} WHERE {where}")  # noqa: S608 - as above
        return int(row["items"])

    def _have(self, view: str) -> None:
        for name in view_texts.required_views(view):
            if name not in self._views:
                self._define(name, view_texts.text_of(name), is_kept=name in view_texts.SHARED)
                self._views.add(name)

    @abstractmethod
    def _define(self, name: str, text: str, *, is_kept: bool) -> None:
        """Make a view; one that is kept is worked out at most once."""

    @abstractmethod
    def _ask(self, text: str) -> list[Answer]:
        """Answer a query over the views."""

    def _ask_each(self, texts: Sequence[str]) -> Iterable[list[Answer]]:
        """Answer several queries."""
        return map(self._ask, texts)

    @abstractmethod
    def close(self) -> None:
        """Forget what was kept."""


def _rename(rows: list[Answer]) -> list[Answer]:
    for row in rows:
        if "moment" in row:
            # A word that not every SQL lets a column have.
            row["at"] = row.pop("moment")
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Rows of the item log were taken away: by a purge, or by retention."""

    at: datetime
    who: str | None = None


class Engines(ABC):
    """Makes engines over the logs of one queue."""

    @abstractmethod
    def find_entry(self, store: Store, seq: int) -> Answer | None:
        """Return the row by which an item entered, or was refused; ``None`` where there is none.

        It has the user's columns, and :data:`~spark_queue.report.engine.ENTERED`.
        """

    @abstractmethod
    def removals(self, store: Store) -> list[Removal]:
        """Return when items were taken away, as far as the table still says so."""

    @abstractmethod
    @contextmanager
    def over(self, store: Store, ends: Ends, asked: Question) -> Iterator[Engine]:
        """Have the logs of a reader, up to a step of each."""

"""Facts about a queue's table, local or not, for checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Protocol

from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.log import Log
from spark_queue.delta.tables.schema import CONFIG, HEAD
from spark_queue.delta.tables.settings import Settings

#: Commits that are looked at, from the newest back.
RECENT = 500

#: Steps that a predicate names at most.
_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a commit of a table was."""

    version: int
    at: datetime
    """When its file was written, or when Delta says that it was."""
    token: str | None
    """What tells a step of the library from any other commit."""
    is_foreign: bool
    """Whether it has put rows there, and is no step and no upkeep of the library."""
    is_in_force: bool
    """Whether files of it are known to be read still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """What a step has said of itself."""

    step: int
    at: datetime
    """By the clock of its maker."""
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A configuration that came into force."""

    step: int
    at: datetime
    paused: bool
    who: str | None
    """Who has done that; ``None`` where an older release did not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files of a table."""

    count: int
    could_be: int
    """How many there would be after small ones were merged."""
    since: datetime | None
    """When the oldest of those was written."""
    gone: Sequence[str] = ()
    """What is wrong with those that are not there, or not whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strangers:
    """Rows that no step of the library wrote."""

    count: int
    where: str
    """By what SQL tells them from others; empty where nothing does."""


class CheckedTable(Protocol):
    """One of the two tables of a queue."""

    @property
    def which(self) -> LogName:
        """Which of the two it is."""

    @property
    def reader(self) -> str:
        """Whose status log it is; empty for the default reader, and for the items."""

    @property
    def place(self) -> str:
        """The table as SQL names it."""

    def newest_commits(self) -> Sequence[Written]:
        """Return the newest commits that are still there, oldest first."""

    def heads_since(self, since: int) -> Sequence[Logged]:
        """Return the heads of the steps from one on, in their order."""

    def configurations(self) -> Sequence[Configuration]:
        """Return the configurations of a status log, in their order."""

    def files(self) -> Files:
        """Return what is known of its files."""

    def size(self) -> int:
        """Return how many bytes it takes."""

    def strangers(self) -> Strangers:
        """Return the rows that are of no step."""

    def count_unsummed(self) -> tuple[int, int]:
        """Return how many commits nobody has summed up, and after how many somebody should."""


@dataclass(frozen=True)
class LoggedTable(ABC):
    """A table of a queue, of which somebody brings the rows of heads and configurations."""

    store: Store
    which: LogName
    reader: str

    @property
    def steps(self) -> Log[Any]:
        """The log that the table is."""
        return self.store.queue if self.which == "queue" else self.store.status

    @property
    def place(self) -> str:
        """See :class:`CheckedTable`."""
        return self.steps.address.sql()

    def heads_since(self, since: int) -> Sequence[Logged]:
        """See :class:`CheckedTable`."""
        heads = [self.steps.parse(row["_body"]) for row in self._meta(HEAD, since)]
        return [
            Logged(step=head.step, at=datetime.fromisoformat(head.at), token=head.token)
            for head in heads
        ]

    def configurations(self) -> Sequence[Configuration]:
        """See :class:`CheckedTable`."""
        return [
            Configuration(
                step=row["_step"],
                at=row["_at"].astimezone(timezone.utc),
                paused=Settings.from_json(self.store.name, row["_body"]).paused,
                who=row["_worker_id"],
            )
            for row in self._meta(CONFIG, 0, "_at", "_worker_id")
        ]

    @abstractmethod
    def _meta(self, kind: str, since: int, *columns: str) -> Sequence[Any]:
        """Return the rows of a kind in the lane of heads, from a step on, in order."""


def where_of(steps: Sequence[int], *, has_none: bool) -> str:
    """Return by what SQL tells rows of unknown steps, or of none at all; empty for no such rows."""
    named = ", ".join(map(str, sorted(steps)[:_NAMED]))
    parts = ["_step IS NULL"] * has_none + [f"_step IN ({named})"] * bool(named)
    return " OR ".join(parts)

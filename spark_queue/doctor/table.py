"""What checks ask of a table of a queue, wherever that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.log import Head

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """What a step has said of itself."""

    step: int
    at: datetime
    """By the clock of whoever made it."""
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
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


class Table(Protocol):
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

    def written(self) -> Sequence[Written]:
        """Return the newest commits that are still there, oldest first."""

    def logged(self, since: int) -> Sequence[Logged]:
        """Return the heads of the steps from one on, in their order."""

    def configured(self) -> Sequence[Configured]:
        """Return the configurations of a status log, in their order."""

    def files(self) -> Files:
        """Return what is known of its files."""

    def strangers(self) -> Strangers:
        """Return the rows that are of no step."""

    def unsummed(self) -> tuple[int, int]:
        """Return how many commits nobody has summed up, and after how many somebody should."""


def logged(head: Head) -> Logged:
    """Return what a head says of its step."""
    return Logged(step=head.step, at=datetime.fromisoformat(head.at), token=head.token)


def where_of(steps: Sequence[int], *, has_none: bool) -> str:
    """Return by what SQL tells rows of unknown steps, or of none at all; empty for no such rows."""
    named = ", ".join(map(str, sorted(steps)[:_NAMED]))
    parts = ["_step IS NULL"] * has_none + [f"_step IN ({named})"] * bool(named)
    return " OR ".join(parts)

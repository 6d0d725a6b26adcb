"""Interface of the engines, which answer commands with plain data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from spark_queue.cli.shown.formats import Format
from spark_queue.config import QueueConfig
from spark_queue.results import Affected, EnqueueResult

if TYPE_CHECKING:
    from spark_queue.cli.scope import Scope
    from spark_queue.doctor.finding import Checkup
    from spark_queue.doctor.thresholds import Thresholds
    from spark_queue.local.local_queue import LocalQueue
    from spark_queue.queue import DeltaQueue
    from spark_queue.reader import Reader
    from spark_queue.report.reading import Followed

#: A queue, as one of its readers sees it.
AnyQueue: TypeAlias = "DeltaQueue | Reader | LocalQueue"

#: A step of the status log, an instant, or (``None``) now.
Past: TypeAlias = int | datetime | None

#: What status shows of an item beside the user's columns.
SHOWN = (
    "_seq",
    "_state",
    "_attempts",
    "_losses",
    "_enqueued_at",
    "_available_at",
    "_claimed_at",
    "_finished_at",
    "_worker_id",
    "_lease_expires_at",
    "_error",
)

#: What is shown of a dead letter.
LETTER = ("_seq", "_attempts", "_losses", "_finished_at", "_error", "_successor")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSource:
    """Where rows to enqueue are."""

    table: str | None
    """A table of the catalog, or"""
    files: str | None
    """a file, directory or pattern."""
    kind: Format | None
    """The format of the files."""
    order_by: str | None
    on_duplicate: Literal["skip", "raise"]


class CommandEngine(Protocol):
    """Answers commands; a module is one."""

    def create(self, scope: Scope, name: str, schema: str, config: QueueConfig) -> str:
        """Make a queue, and return its name as the library has it."""

    def open_queue(self, scope: Scope, name: str, reader: str | None) -> AnyQueue:
        """Open a queue, as its default reader sees it or as one that is registered."""

    def drop(self, scope: Scope, place: str, *, dry_run: bool = False) -> Affected | None:
        """Remove a queue, or return what would be removed."""

    def clone(self, scope: Scope, name: str, to: str) -> AnyQueue:
        """Make a queue once more, and return the clone."""

    def examine(self, scope: Scope, name: str, limits: Thresholds) -> Checkup:
        """Look for what is wrong with a queue, also with one that does not open."""

    def locate(self, scope: Scope, name: str) -> str:
        """Return the name or path of a queue as the library has it."""

    def enqueue(self, scope: Scope, queue: AnyQueue, source: RowSource) -> EnqueueResult:
        """Add rows."""

    def columns(self, queue: AnyQueue) -> str:
        """Return the user's columns as DDL."""

    def status(
        self, queue: AnyQueue, past: Past, where: str | None, limit: int
    ) -> tuple[datetime, dict[str, Any]]:
        """Return the instant that is seen, how many items are in which state, and the first."""

    def dead(
        self, queue: AnyQueue, past: Past, where: str | None, limit: int
    ) -> tuple[int, list[dict[str, Any]]]:
        """Return how many dead letters there are, and the first of them."""

    def stats(self, queue: AnyQueue, past: Past, limit: int) -> dict[str, Any]:
        """Return counts per state and of the keys that wait longest."""

    def reports(self, queue: AnyQueue, window: timedelta, like: Followed | None = None) -> Followed:
        """Return what reads a report whenever it is called, and of the logs what is new.

        What it has read it shares with another one, of the same queue as any reader sees it.
        """

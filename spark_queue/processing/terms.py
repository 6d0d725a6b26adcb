"""Terms of processing, with Spark or without: a handler and its claims."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from spark_queue import checks
from spark_queue.delta.commands import claims
from spark_queue.delta.replica.request import Request
from spark_queue.delta.store import fencing
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.store.store import Store
from spark_queue.errors import InvalidArgumentError
from spark_queue.processing.handlers import AnyHandler


@dataclass(frozen=True, slots=True)
class Terms:
    """A handler, and what its claims ask for, on any queue."""

    handler: AnyHandler
    per: Literal["item", "batch"] = "item"
    limit: int = checks.PER_CLAIM
    max_per_group: int | None = None
    lease: timedelta | None = None
    worker_id: str | None = None

    def check_terms(self, on_claim: object) -> None:
        """Raise where an option is none, on any queue."""
        checks.require_handler("handler", self.handler)
        checks.require_choice("per", self.per, ("item", "batch"))
        checks.require_claim(self.limit, self.lease, 1, self.worker_id)
        checks.optional(checks.require_count, "max_per_group", self.max_per_group, most=checks.MOST)
        checks.optional(checks.require_callable, "on_claim", on_claim)

    def request(self, store: Store) -> Request:
        """Return what claims from a queue ask for."""
        at, who = Snapshot(store), self.worker_id or worker_id(store)
        return claims.request(at, self.limit, self.lease, who, self._run(at), None)

    def _run(self, at: Snapshot) -> int:
        """Return how many items of a group a claim takes; where nobody says all, if in order."""
        most = self.max_per_group
        if most is None:
            grouped = at.settings.config.group_key is not None
            return self.limit if grouped and self.per == "item" else 1
        if most > 1 and self.per == "batch":
            raise InvalidArgumentError(f"max_per_group is {most}: with per='batch' it must be 1")
        return most


def worker_id(store: Store) -> str:
    """Return an id for this process; others on this machine can tell from it whether it runs."""
    return fencing.life_of(store.handle.place.directory())

"""What processing is asked for: the options of a handler, and what they mean for one queue."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypedDict

from pyspark.sql.types import StructType

from spark_queue import checks
from spark_queue.delta.commands import claims
from spark_queue.delta.commands.evidence import Output
from spark_queue.delta.input.ddl import parsed
from spark_queue.delta.store.store import Store
from spark_queue.errors import InvalidArgumentError
from spark_queue.processing.handlers import AnyHandler
from spark_queue.processing.worker import ProcessResult, Work, worker_id


class _AnyOptions(TypedDict, total=False):
    """What any handler is given, however it is run."""

    limit: int
    lease: timedelta | None
    returns: StructType | str | None
    output: str | None


class _Options(_AnyOptions, total=False):
    """What handlers of items and of batches are given alike."""

    on_claim: Callable[[ProcessResult], None] | None


class ProcessOptions(_Options, total=False):
    """The options of :meth:`Reader.process` for any kind of handler."""

    worker_id: str | None
    time_limit: timedelta | None
    stop: threading.Event | None


class StreamOptions(_Options, total=False):
    """The options of :meth:`Reader.process_stream` for any kind of handler."""

    trigger: timedelta
    name: str | None


class HandlerOptions(_AnyOptions, total=False):
    """How a handler is to be run, whatever its kind: fields of :class:`Asked`."""

    per: Literal["item", "batch"]
    max_per_group: int | None


@dataclass(frozen=True, slots=True)
class Asked:
    """A handler, and how it is to be run, whatever the queue."""

    handler: AnyHandler
    per: Literal["item", "batch"] = "item"
    limit: int = 10_000
    max_per_group: int | None = None
    lease: timedelta | None = None
    worker_id: str | None = None
    returns: StructType | str | None = None
    output: str | None = None

    def check(self, on_claim: object) -> None:
        """Raise where an option is none, whatever the queue."""
        checks.require_callable("handler", self.handler)
        checks.require_choice("per", self.per, ("item", "batch"))
        checks.require_claim(self.limit, self.lease, 1, self.worker_id)
        checks.optional(checks.require_count, "max_per_group", self.max_per_group, most=checks.MOST)
        checks.optional(checks.require_text, "output", self.output)
        checks.optional(checks.require_callable, "on_claim", on_claim)

    def of(self, store: Store) -> Work:
        """Return the work that this is for the items of a queue."""
        run, returns = self._run(store), self.returns
        return Work(
            handler=self.handler,
            per=self.per,
            request=claims.request(
                store, self.limit, self.lease, self.worker_id or worker_id(store), run, None
            ),
            returns=None if returns is None else parsed(returns, "returns"),
            output=None if self.output is None else Output(store.spark, self.output),
        )

    def _run(self, store: Store) -> int:
        """Return how many items of a group a claim takes; where nobody says all, if in order."""
        most = self.max_per_group
        if most is None:
            grouped = store.settings(store.status_head()).config.group_key is not None
            return self.limit if grouped and self.per == "item" else 1
        if most > 1 and self.per == "batch":
            raise InvalidArgumentError(f"max_per_group is {most}: with per='batch' it must be 1")
        return most

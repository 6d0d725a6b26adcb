"""Options of processing, and their meaning for one queue."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypedDict

from pyspark.sql.types import StructType

from spark_queue import checks
from spark_queue.delta.commands.evidence import Output
from spark_queue.delta.input.ddl import parse_columns
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.address import require_table
from spark_queue.processing.loop import ProcessResult, Terms
from spark_queue.processing.worker import Work


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
    forever: bool


class StreamOptions(_Options, total=False):
    """The options of :meth:`Reader.process_stream` for any kind of handler."""

    trigger: timedelta
    name: str | None


class HandlerOptions(_AnyOptions, total=False):
    """How a handler of any kind is to be run: fields of :class:`Asked`."""

    per: Literal["item", "batch"]
    max_per_group: int | None


@dataclass(frozen=True, slots=True)
class Asked(Terms):
    """A handler, and how it is to be run, on any queue."""

    returns: StructType | str | None = None
    output: str | None = None

    def check(self, on_claim: object) -> None:
        """Raise where an option is none, on any queue."""
        self.check_terms(on_claim)
        checks.optional(require_table, "output", self.output)

    def of(self, store: Store) -> Work:
        """Return the work that this is for the items of a queue."""
        return Work(
            handler=self.handler,
            per=self.per,
            request=self.request(store),
            returns=None if self.returns is None else parse_columns(self.returns, "returns"),
            output=None if self.output is None else Output(store.spark, self.output),
        )

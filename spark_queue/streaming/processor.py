"""The stateful processor of all operators: a bucket of keys is one value of state.

Spark's Python state costs a round trip for each key and each access. A bucket of many keys, read
and written once a micro-batch, costs that once for all of them
(``docs/adr/0009-bucketed-state.md``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from spark_queue.errors import InvalidArgumentError
from spark_queue.streaming.rules.events import CLOCK, Answer, Event, Rules

#: The version of what is stored; a release reads its own and older ones.
FORMAT = 1

#: The name of the state variable.
STATE = "bucket"

STATE_SCHEMA = StructType(
    [
        StructField("format", IntegerType()),
        StructField("buckets", IntegerType()),
        StructField("body", StringType()),
        StructField("counts", StringType()),
    ]
)

#: What goes out of the processor.
ANSWERS = StructType([StructField("payload", StringType()), StructField("number", DoubleType())])

#: The columns of an event, in the order of :class:`Event`.
EVENT_COLUMNS = list(Event._fields)


class BucketProcessor(StatefulProcessor):
    """Brings the events of a micro-batch to the rules of their bucket.

    Parameters
    ----------
    make : callable
        Makes the empty rules of a bucket.
    buckets : int
        Into how many buckets the keys are divided; kept in the state, since it must not change.
    """

    def __init__(self, make: Callable[[], Rules], buckets: int) -> None:
        self._make = make
        self._buckets = buckets

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the one value of state."""
        self._state = handle.getValueState(STATE, STATE_SCHEMA)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ARG002 - the bucket; its rows are all that matters
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Apply the events of a bucket, in order, and write its state down once."""
        events = _in_order(rows)
        stored = self._state.get()
        if stored is None and all(event.kind == CLOCK for event in events):
            return
        rules = self._rules(stored)
        answers = rules.apply(events)
        plain = rules.dump()
        counts = plain.pop("counts")
        self._state.update((FORMAT, self._buckets, json.dumps(plain), json.dumps(counts)))
        if answers:
            yield pd.DataFrame(answers, columns=list(Answer._fields))

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _rules(self, stored: Any) -> Rules:
        rules = self._make()
        if stored is None:
            return rules
        if stored[0] > FORMAT:
            raise InvalidArgumentError(
                f"the state has format {stored[0]}, this release reads up to {FORMAT}: upgrade"
            )
        if stored[1] != self._buckets:
            raise InvalidArgumentError(
                f"the state has {stored[1]} buckets, the operator {self._buckets}: "
                "their number cannot change; start with a new checkpoint"
            )
        rules.load({**json.loads(stored[2]), "counts": json.loads(stored[3])})
        return rules


def _in_order(frames: Iterator[pd.DataFrame]) -> list[Event]:
    columns: list[list[Any]] = [[] for _ in EVENT_COLUMNS]
    for frame in frames:
        for values, name in zip(columns, EVENT_COLUMNS, strict=True):
            values.extend(frame[name].tolist())
    # All by a stable sort of plain numbers: two rows of one place stay as they came.
    events = list(map(Event._make, zip(*columns, strict=True)))
    events.sort(key=_place)
    return events


def _place(event: Event) -> tuple[int, int, int]:
    return event[:3]

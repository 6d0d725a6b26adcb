"""The stateful processor of all operators: a bucket of keys is one value of state.

Spark's Python state costs a round trip for each key and each access. A bucket of many keys, read
and written once a micro-batch, costs that once for all of them
(``docs/adr/0009-bucketed-state.md``).
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from spark_queue.errors import InvalidArgumentError, SchemaMismatchError
from spark_queue.streaming.stream_rules import CLOCK, BucketRules, Event, Outgoing

BUCKET = "bucket"

#: The column of packed rows.
PACKED = "packed"


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack the rows of each batch by their ``bucket``, one value for each bucket that it has."""
    for batch in batches:
        ordered = batch.take(pc.sort_indices(batch.column(BUCKET)))
        buckets, values, start = [], [], 0
        for entry in ordered.column(BUCKET).value_counts():
            bucket, rows = entry["values"].as_py(), entry["counts"].as_py()
            buckets.append(bucket)
            values.append(to_bytes(ordered.slice(start, rows).drop_columns([BUCKET])))
            start += rows
        columns = [pa.array(buckets, pa.int32()), pa.array(values, pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, names=[BUCKET, PACKED])


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the rows of packed values."""
    for batch in batches:
        for value in batch.column(PACKED):
            yield from from_bytes(value.as_buffer()).to_batches()


def to_bytes(rows: pa.RecordBatch) -> bytes:
    """Pack rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write(rows)
    return bytes(sink.getvalue())


def from_bytes(value: bytes | pa.Buffer) -> pa.Table:
    """Return packed rows."""
    return pa.ipc.open_stream(value).read_all()


#: The column that has the rows themselves, as a struct.
ROW = "row"


class BucketRows:
    """Rows that are added in order and taken by number.

    Parameters
    ----------
    stored : pyarrow.Array, optional
        The rows that were kept.
    numbers : list of int
        Their numbers.
    following : int
        The number of the next row.
    """

    def __init__(
        self, stored: pa.Array | None = None, numbers: Iterable[int] = (), following: int = 0
    ) -> None:
        self._rows = stored
        self._places = {number: place for place, number in enumerate(numbers)}
        self._first_new = self._next = following

    @classmethod
    def restore(cls, plain: Any, packed: bytes | None) -> BucketRows:
        """Go on where :meth:`plain` and :meth:`pack` were written."""
        rows = None if packed is None else from_bytes(packed)[ROW].combine_chunks()
        return cls(rows, *plain)

    def add(self, rows: pa.ChunkedArray) -> int:
        """Add the rows of a micro-batch, and return the number of the first."""
        new = pa.concat_arrays(rows.chunks)
        known = None if self._rows is None else _cast(self._rows, new.type)
        self._rows = new if known is None else pa.concat_arrays([known, new])
        self._first_new, self._next = self._next, self._next + len(new)
        return self._first_new

    def take(self, numbers: Iterable[int]) -> pa.Array:
        """Return rows, in the order in which they are asked for."""
        assert self._rows is not None  # noqa: S101 - for the type checker: numbers are of rows
        return self._rows.take(pa.array([self._place(number) for number in numbers], pa.int64()))

    def select(self, numbers: Iterable[int]) -> BucketRows:
        """Return some of the rows, under the same numbers."""
        later = list(numbers)
        return BucketRows(self.take(later) if later else None, later, self._next)

    def plain(self) -> tuple[list[int], int]:
        """Return the numbers for JSON: of the rows, and of the next one."""
        return list(self._places), self._next

    def pack(self) -> bytes | None:
        """Return the rows as one value."""
        if self._rows is None:
            return None
        return to_bytes(pa.RecordBatch.from_arrays([self._rows], names=[ROW]))

    def _place(self, number: int) -> int:
        if number < self._first_new:
            return self._places[number]
        return len(self._places) + number - self._first_new


def _cast(rows: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return stored rows in the type of those that come now: a zone, or a null, may differ.

    Raises
    ------
    SchemaMismatchError
        When the columns of the arrivals have changed.
    """
    try:
        return rows if rows.type == wanted else rows.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as exc:
        raise SchemaMismatchError(
            ROW, f"rows that wait were stored as {rows.type}, and now come as {wanted}: {exc}"
        ) from exc


#: The version of what is stored; a release reads its own and older ones. Before version 2 texts of
#: keys had times within structs and arrays as JSON cuts them, and a distinct key had no place.
FORMAT = 2

#: The name of the state variable.
STATE = "bucket"

STATE_SCHEMA = StructType(
    [
        StructField("format", IntegerType()),
        StructField("buckets", IntegerType()),
        StructField("body", StringType()),
        StructField("counts", StringType()),
        StructField("rows", BinaryType()),
    ]
)

#: The columns of an event, beside its row.
EVENT_COLUMNS = Event._fields[:-1]

#: The column that is added to rows that go out: what the rules say of them.
NUMBER = "__spark_queue_number"

_ORDER = [("at", "ascending"), ("kind", "ascending"), ("seq", "ascending")]


class BucketProcessor(StatefulProcessor):
    """Brings the events of a micro-batch to the rules of their bucket.

    Parameters
    ----------
    make : callable
        Makes the empty rules of a bucket.
    buckets : int
        Into how many buckets the keys are divided; kept in the state, since it must not change.
    oldest : int
        The first format in which keys have the texts that they have now.
    """

    def __init__(self, make: Callable[[], BucketRules], buckets: int, oldest: int = 1) -> None:
        self._make = make
        self._buckets = buckets
        self._oldest = oldest

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the one value of state."""
        self._state = handle.getValueState(STATE, STATE_SCHEMA)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ARG002 - the bucket; its rows are all that matters
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's name
    ) -> Iterator[Row]:
        """Apply the events of a bucket, in order, and write its state down once."""
        events = pa.concat_tables([from_bytes(row[PACKED]) for row in rows])
        stored = self._state.get()
        if stored is None and pc.all(pc.equal(events["kind"], CLOCK)).as_py():
            return
        events = events.take(pc.sort_indices(events, sort_keys=_ORDER))
        with _without_gc():
            rules, known = self._load(stored)
            first = known.add(events[ROW])
            answers = rules.apply(_events(events, first))
            self._store(rules, known.select(rules.pending()))
        if answers:
            yield Row(**{PACKED: _pack(answers, known)})

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _store(self, rules: BucketRules, later: BucketRows) -> None:
        plain = rules.dump()
        counts = json.dumps(plain.pop("counts"))
        body = json.dumps({"rules": plain, "rows": later.plain()})
        self._state.update((FORMAT, self._buckets, body, counts, later.pack()))

    def _load(self, stored: Any) -> tuple[BucketRules, BucketRows]:
        rules = self._make()
        if stored is None:
            return rules, BucketRows()
        if stored[0] > FORMAT:
            raise InvalidArgumentError(
                f"the state has format {stored[0]}, this release reads up to {FORMAT}: upgrade"
            )
        if stored[1] != self._buckets:
            raise InvalidArgumentError(
                f"the state has {stored[1]} buckets, the operator {self._buckets}: "
                "their number cannot change; start with a new checkpoint"
            )
        plain = json.loads(stored[2])
        rules.load({**plain["rules"], "counts": json.loads(stored[3])})
        if stored[0] < self._oldest:
            require_no_keys(stored[0], rules)
        return rules, BucketRows.restore(plain["rows"], stored[4])


def require_no_keys(written: int, rules: BucketRules) -> None:
    """Raise where a state of an older format has keys, which have other texts now.

    Raises
    ------
    InvalidArgumentError
        It names the format and the ways out.
    """
    if rules.remembers_keys():
        raise InvalidArgumentError(
            f"the state has format {written}, in which the text of a struct or an array with a "
            "time depends on the session, and keys in flight would not be found: let the release "
            "that wrote it complete them, or start with a new checkpoint"
        )


@contextmanager
def _without_gc() -> Iterator[None]:
    """Leave the garbage collector out: a bucket makes many objects, and drops all of them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _events(events: pa.Table, first: int) -> Iterator[Event]:
    """Return the events of a table, in its order; their rows are numbered from ``first`` on."""
    columns = [events[name].to_pylist() for name in EVENT_COLUMNS]
    numbers = range(first, first + events.num_rows)
    return map(Event._make, zip(*columns, numbers, strict=True))


def _pack(answers: Sequence[Outgoing], rows: BucketRows) -> bytes:
    """Return the rows that go out, with what is said of them."""
    taken = pa.RecordBatch.from_struct_array(rows.take(answer.row for answer in answers))
    numbers = pa.array([answer.number for answer in answers], pa.float64())
    return to_bytes(taken.append_column(NUMBER, numbers))

"""The stateful processor of all operators: a bucket of keys is a value, and a map of pages.

Spark's Python state costs a round trip for each access. A micro-batch reads and writes the value of
each bucket, and the pages with the keys that it touches (``docs/adr/0046-pages-of-state.md``).
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row, types as T
from pyspark.sql.streaming.stateful_processor import (
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
)

from spark_queue.errors import InvalidArgumentError, SchemaMismatchError
from spark_queue.streaming.stream_pages import Stored
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
    """Rows that are added in order and taken by number."""

    def __init__(self) -> None:
        self._chunks: list[pa.Array] = []
        self._next = 0

    def add(self, rows: pa.Array) -> range:
        """Add rows, in the type of the first ones, and return their numbers."""
        known = self._chunks[0].type if self._chunks else rows.type
        self._chunks.append(_cast(rows, known))
        first, self._next = self._next, self._next + len(rows)
        return range(first, self._next)

    def take(self, numbers: Iterable[int]) -> pa.Array:
        """Return rows, in the order in which they are asked for."""
        if len(self._chunks) > 1:
            self._chunks = [pa.concat_arrays(self._chunks)]
        return self._chunks[0].take(pa.array(numbers, pa.int64()))


class StoredPages:
    """The pages of a bucket in Spark's state, written at the end.

    Parameters
    ----------
    state : MapState
        Has the text of each page, and its rows.
    rows : BucketRows
        Where the rows of a page go when it is read.
    """

    def __init__(self, state: MapState, rows: BucketRows) -> None:
        self._state = state
        self._rows = rows
        self._new: dict[int, Stored] = {}

    def get(self, number: int) -> Stored | None:
        """Return a page."""
        if number in self._new:
            return self._new[number]
        found = self._state.getValue((number,))
        if found is None:
            return None
        text, packed = found
        return text, () if packed is None else self._rows.add(unpack_rows(packed))

    def __setitem__(self, number: int, page: Stored) -> None:
        self._new[number] = page

    def pop(self, number: int) -> None:
        """Take a page out."""
        self._new.pop(number, None)
        self._state.removeKey((number,))

    def write(self) -> None:
        """Write the new pages."""
        numbers = [row for _, rows in self._new.values() for row in rows]
        taken = self._rows.take(numbers) if numbers else None
        start = 0
        for number, (text, rows) in self._new.items():
            packed = None
            if taken is not None and len(rows):
                packed = to_bytes(
                    pa.RecordBatch.from_arrays([taken.slice(start, len(rows))], names=[ROW])
                )
                start += len(rows)
            self._state.updateValue((number,), (text, packed))


def unpack_rows(packed: bytes) -> pa.Array:
    """Return the rows of a value of state."""
    return from_bytes(packed)[ROW].combine_chunks()


def _cast(rows: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return stored rows in the present type; only zones and nulls may differ.

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


#: The version of the state; a release reads its own and older ones. Before version 3 a bucket
#: was one value; before version 2 texts of keys had times within structs and arrays as JSON cuts
#: them, and a distinct key had no place.
FORMAT = 3

#: The names of the state variables: the facts of a bucket, and its pages.
STATE, PAGES = "bucket", "pages"

STATE_SCHEMA = T.StructType(
    [
        T.StructField("format", T.IntegerType()),
        T.StructField("buckets", T.IntegerType()),
        T.StructField("body", T.StringType()),
        T.StructField("counts", T.StringType()),
        T.StructField("rows", T.BinaryType()),
    ]
)

PAGE_KEY = T.StructType([T.StructField("page", T.LongType())])

PAGE_SCHEMA = T.StructType(
    [T.StructField("body", T.StringType()), T.StructField("rows", T.BinaryType())]
)

#: The columns of an event, without its row.
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
        Into how many buckets the keys are divided; kept in the state, to which it belongs.
    oldest : int
        The first format in which keys have the texts that they have now.
    """

    def __init__(self, make: Callable[[], BucketRules], buckets: int, oldest: int = 1) -> None:
        self._make = make
        self._buckets = buckets
        self._oldest = oldest

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the value, and the pages."""
        self._state = handle.getValueState(STATE, STATE_SCHEMA)
        self._pages = handle.getMapState(PAGES, PAGE_KEY, PAGE_SCHEMA)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ARG002 - the bucket; its rows are all that matters
        rows: Iterator[Row],
        timerValues: Any,  # noqa: ARG002, N803 - Spark's name
    ) -> Iterator[Row]:
        """Apply the events of a bucket, in order, and write down what they have changed."""
        events = pa.concat_tables([from_bytes(row[PACKED]) for row in rows])
        stored = self._state.get()
        if stored is None and pc.all(pc.equal(events["kind"], CLOCK)).as_py():
            return
        events = events.take(pc.sort_indices(events, sort_keys=_ORDER))
        with _without_gc():
            known = BucketRows()
            first = known.add(pa.concat_arrays(events[ROW].chunks)).start
            pages = StoredPages(self._pages, known)
            rules = self._make()
            rules.load(self._plain(stored, known), pages)
            answers = rules.apply(_events(events, first))
            plain = rules.dump()
            pages.write()
            counts = json.dumps(plain.pop("counts"))
            self._state.update((FORMAT, self._buckets, json.dumps(plain), counts, None))
        if answers:
            yield Row(**{PACKED: _pack(answers, known)})

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _plain(self, stored: Any, known: BucketRows) -> dict[str, Any]:
        """Return the stored state of a bucket as its rules take it."""
        if stored is None:
            return {"counts": {}}
        written, buckets, body, counts, packed = stored
        if written > FORMAT:
            raise InvalidArgumentError(
                f"the state has format {written}, this release reads up to {FORMAT}: upgrade"
            )
        if buckets != self._buckets:
            raise InvalidArgumentError(
                f"the state has {buckets} buckets, the operator {self._buckets}: name its "
                "checkpoint=, and the query goes on with those that the state has"
            )
        plain = {**plain_of(written, body), "counts": json.loads(counts)}
        if written < self._oldest:
            require_no_keys(written, plain)
        if packed is not None:
            numbers, _ = plain.pop("rows")
            plain["numbers"] = dict(zip(numbers, known.add(unpack_rows(packed)), strict=True))
        return plain


def plain_of(written: int, body: str) -> dict[str, Any]:
    """Return the plain data of a bucket, in the format in which it was written."""
    plain = json.loads(body)
    return plain if written >= FORMAT else {**plain["rules"], "rows": plain["rows"]}


def require_no_keys(written: int, plain: Mapping[str, Any]) -> None:
    """Raise where a state of an older format has keys, which have other texts now.

    Raises
    ------
    InvalidArgumentError
        It names the format and the ways out.
    """
    if any(plain.get(keys) for keys in ("live", "last", "groups")):
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
    """Return outgoing rows with their numbers, as bytes."""
    taken = pa.RecordBatch.from_struct_array(rows.take(answer.row for answer in answers))
    numbers = pa.array([answer.number for answer in answers], pa.float64())
    return to_bytes(taken.append_column(NUMBER, numbers))

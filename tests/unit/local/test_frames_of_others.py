"""Frames of other libraries as rows of a queue, by Arrow's C interface."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import arro3.core
import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from spark_queue.errors import InvalidArgumentError, SchemaMismatchError
from tests.unit.local.conftest import Make

SCHEMA = (
    "at timestamp, day date, ratio double, less float, amount decimal(38,18), large bigint, "
    "small smallint, raw binary, text string, flag boolean"
)

ROWS = pa.table(
    {
        "at": pa.array(
            [
                datetime(9999, 12, 31, 23, 59, 59, 999999, timezone.utc),
                datetime(1, 1, 1, tzinfo=timezone.utc),
                None,
            ],
            pa.timestamp("us", "UTC"),
        ),
        "day": pa.array([date(9999, 12, 31), date(1, 1, 1), None]),
        "ratio": pa.array([float("nan"), -0.0, None]),
        "less": pa.array([float("inf"), -0.0, None], pa.float32()),
        "amount": pa.array(
            [Decimal("9" * 20 + "." + "9" * 18), Decimal("-1e-18"), None], pa.decimal128(38, 18)
        ),
        "large": pa.array([2**63 - 1, -(2**63), None], pa.int64()),
        "small": pa.array([2**15 - 1, -(2**15), None], pa.int16()),
        "raw": pa.array([b"\x00\xff", b"", None]),
        "text": pa.array(["a", "", None]),
        "flag": pa.array([True, False, None]),
    }
)


#: A relation of DuckDB 1.4 goes with its connection.
BESIDE = duckdb.connect()


class Stream:
    """Rows of a library that has the interface and nothing else."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the stream."""
        return self._rows.__arrow_c_stream__(requested_schema)


class Array:
    """One batch of a library that has the interface and nothing else."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows.combine_chunks().to_batches()[0]

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
        """Return the schema and the batch."""
        return self._rows.__arrow_c_array__(requested_schema)


def _with(**kinds: pa.DataType) -> pa.Table:
    """Return the rows with other layouts of some columns."""
    schema = pa.schema([(one.name, kinds.get(one.name, one.type)) for one in ROWS.schema])
    return ROWS.cast(schema)


def _with_dictionaries(kind: pa.DataType) -> pa.Table:
    words = pa.array(["a", ""]).cast(kind)
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.uint32()), words)
    return ROWS.set_column(ROWS.column_names.index("text"), "text", coded)


def _with_runs() -> pa.Table:
    runs = pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 2, 3], pa.int32()), pa.array(["a", "", None])
    )
    return ROWS.set_column(ROWS.column_names.index("text"), "text", runs)


FRAMES: dict[str, Callable[[], Any]] = {
    "table": lambda: ROWS,
    "batch": lambda: ROWS.to_batches()[0],
    "reader": ROWS.to_reader,
    "data set": lambda: ds.dataset(ROWS),
    "chunks": lambda: pa.concat_tables([ROWS.slice(0, 1), ROWS.slice(1)]),
    "large types": lambda: _with(raw=pa.large_binary(), text=pa.large_string()),
    "views": lambda: _with(raw=pa.binary_view(), text=pa.string_view()),
    "dictionary": lambda: _with_dictionaries(pa.string()),
    "dictionary of views": lambda: _with_dictionaries(pa.string_view()),
    "runs": _with_runs,
    "wider digits": lambda: _with(amount=pa.decimal256(38, 18)),
    "pandas of Arrow": lambda: ROWS.to_pandas(types_mapper=_arrow_dtype),
    "DuckDB": lambda: BESIDE.from_arrow(ROWS),
    "arro3": lambda: arro3.core.Table.from_arrow(ROWS),
    "a stream alone": lambda: Stream(ROWS),
    "an array alone": lambda: Array(ROWS),
}


def _arrow_dtype(kind: pa.DataType) -> Any:
    import pandas as pd  # noqa: PLC0415 - takes a while

    return pd.ArrowDtype(kind)


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_of_any_library_is_taken(make: Make, name: str) -> None:
    """Values at the edges of all types come through, and null."""
    queue = make(SCHEMA)
    assert queue.enqueue(FRAMES[name]()).inserted == ROWS.num_rows

    got = [{column: row[column] for column in ROWS.column_names} for row in queue.claim(9).rows]
    # The text of a value tells -0.0 from 0.0, and has NaN equal to itself.
    assert [_texts(row) for row in got] == [_texts(row) for row in ROWS.to_pylist()]


def _texts(row: dict[str, Any]) -> dict[str, str]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else repr(value)
        for name, value in row.items()
    }


def test_a_stream_is_read_once(make: Make) -> None:
    """Rows of a stream are there for the order, and for each try of a step."""
    queue = make("n bigint, text string", dedup_key="text")
    rows = pa.table({"n": [2, 1, 3], "text": ["b", "a", "b"]})
    done = queue.enqueue(rows.to_reader(), order_by="n")
    assert (done.inserted, done.duplicates) == (2, 1)
    assert [row["n"] for row in queue.claim(9).rows] == [1, 2]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (pa.array([1, 2]), "Int64Array, not read by Arrow"),
        (BESIDE, "a frame that has Arrow's stream"),
        (iter([{"n": 1}]), "a frame that has Arrow's stream"),
        (pa.Table, "a frame that has Arrow's stream"),
    ],
)
def test_what_has_no_rows_is_refused(make: Make, rows: Any, said: str) -> None:
    """The error names the type, and what can be enqueued."""
    queue = make("n bigint")
    with pytest.raises(InvalidArgumentError, match=said):
        queue.enqueue(rows)
    assert queue.counts()["ready"] == 0


def test_a_frame_of_spark_is_collected_by_its_caller(make: Make) -> None:
    """Also one of Spark Connect, as Sail's; the error says how."""
    pytest.importorskip("grpc")
    from pyspark.sql.connect.dataframe import DataFrame  # noqa: PLC0415 - takes a while

    queue = make("n bigint")
    # Its constructor asks a server.
    frame = object.__new__(DataFrame)
    with pytest.raises(InvalidArgumentError, match=r"type DataFrame: .* Spark by toArrow\(\)"):
        queue.enqueue(frame)
    assert queue.counts()["ready"] == 0


def test_a_frame_that_derives_from_one_of_pandas_is_read_as_one(make: Make) -> None:
    """Its index is no column, and whole numbers beside nulls are no floats."""
    import pandas as pd  # noqa: PLC0415 - takes a while

    class Frame(pd.DataFrame):  # type: ignore[misc]
        """A frame of a library that builds on pandas."""

    queue = make("n bigint")
    queue.enqueue(Frame({"n": [1.0, None]}, index=[7, 9]))
    assert [row["n"] for row in queue.claim(9).rows] == [1, None]


def test_a_frame_has_to_fit_the_queue(make: Make) -> None:
    """Columns and types of others are checked as those of a table are."""
    queue = make("n bigint")
    with pytest.raises(SchemaMismatchError, match="'n': is uint64"):
        queue.enqueue(Stream(pa.table({"n": pa.array([2**63], pa.uint64())})))
    with pytest.raises(SchemaMismatchError, match="'other'"):
        queue.enqueue(BESIDE.sql("SELECT 1::BIGINT AS n, 2 AS other"))
    assert queue.counts()["ready"] == 0


def test_an_error_of_the_library_is_its_own(make: Make) -> None:
    """A query that fails while it is read changes nothing."""
    queue = make("n bigint")
    failing = BESIDE.sql("SELECT CAST(v AS BIGINT) AS n FROM (VALUES ('1'), ('q')) t(v)")
    with pytest.raises(duckdb.ConversionException, match="'q'"):
        queue.enqueue(failing)
    assert queue.counts()["ready"] == 0

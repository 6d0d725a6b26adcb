"""What the statistics of a file say of its rows."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_queue.log.delta.commits import LogFile, files_of, read_file

_FILE = LogFile(path="a", gen=0, size=1, rows=3, ranges={"_seq": (4, 9)})


@pytest.mark.parametrize(
    ("least", "most", "may"),
    [(1, 3, False), (1, 4, True), (5, 6, True), (9, 12, True), (10, 12, False)],
)
def test_a_file_is_skipped_where_its_ends_say_so(least: int, most: int, *, may: bool) -> None:
    """A file may have what lies between its ends, both included, and nothing else."""
    assert _FILE.may_have("_seq", least, most) is may


def test_an_open_end_asks_for_one_side_only() -> None:
    """Without one bound, only the other is compared; nothing is known of other columns."""
    assert _FILE.may_have("_seq", 9)
    assert not _FILE.may_have("_seq", 10)
    assert _FILE.may_have("_seq", most=4)
    assert not _FILE.may_have("_seq", most=3)
    assert _FILE.may_have("_round", 1e9)


def test_what_is_not_told_of_a_file_is_not_known() -> None:
    """A file without counts or ends has any number of rows, with any values."""
    facts = {"path": ["b"], "partition._gen": [-1], "size_bytes": [7], "min._seq": [3]}
    columns = {**facts, "max._seq": pa.array([None], pa.int64())}
    (file,) = files_of(pa.table(columns))
    assert (file.gen, file.size, file.rows, file.ranges) == (-1, 7, math.inf, {})


def test_times_that_spark_writes_may_be_far_away(tmp_path: Path) -> None:
    """A year 9999, as of what never expires, is read as it is: not wrapped, and no error."""
    times = [datetime(9999, 12, 31, tzinfo=timezone.utc), datetime(2026, 1, 1, tzinfo=timezone.utc)]
    path = tmp_path / "far.parquet"
    written = pa.table({"at": pa.array(times, pa.timestamp("us", "UTC"))})
    pq.write_table(written, path, use_deprecated_int96_timestamps=True)

    read = read_file(path, ["at"], path.stat().st_size)["at"]

    assert [at.replace(tzinfo=timezone.utc) for at in read.to_pylist()] == times

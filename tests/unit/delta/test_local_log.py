"""What a log says at a glance: its newest head, a row of its settings, its highest seq."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from spark_queue import LocalQueue
from spark_queue.errors import SparkNeededError
from spark_queue.log.addresses import TableAddress
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.session_options import PlainSession

_STATS = "_step,_kind,_seq"

_SCHEMA = pa.schema(
    [
        ("_gen", pa.int32()),
        ("_step", pa.int64()),
        ("_kind", pa.string()),
        ("_seq", pa.int64()),
        ("_body", pa.string()),
    ]
)

_Row = tuple[int, int, str, int | None, str | None]


def _write(directory: Path, *rows: _Row, stats: str = _STATS) -> None:
    columns = zip(*rows, strict=True)
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)], _SCHEMA)
    options = {"delta.dataSkippingStatsColumns": stats}
    write_deltalake(
        str(directory), table, mode="append", partition_by=["_gen"], configuration=options
    )


def _seen(directory: Path) -> Any:
    """Return a log whose heads have a text."""

    def parse(text: str) -> Any:
        return SimpleNamespace(text=text, step=0)

    return DeltaLog(PlainSession(), TableAddress.of(str(directory)), parse)


def test_the_newest_head_is_found_whatever_was_merged(tmp_path: Path) -> None:
    """The head of the last step is the answer, in a file of its own or among others."""
    _write(tmp_path, (-1, 1, "head", None, "one"), (-1, 1, "config", None, "settings"))
    _write(tmp_path, (-1, 2, "head", None, "two"), (0, 2, "item", 7, None))
    assert _seen(tmp_path).head().text == "two"
    DeltaTable(str(tmp_path)).optimize.compact()
    assert _seen(tmp_path).head().text == "two"
    _write(tmp_path, (-1, 3, "head", None, "three"))
    seen = _seen(tmp_path)
    assert (seen.head().text, seen.text("config", 1), seen.text("config", 2)) == (
        "three",
        "settings",
        None,
    )
    assert seen.last_seq(9) == 7


def test_settings_are_found_whatever_was_merged(tmp_path: Path) -> None:
    """A row of settings is that of its step, wherever in a file it is."""
    for step in (1, 2, 3):
        _write(tmp_path, (-1, step, "config", None, f"settings {step}"))
    DeltaTable(str(tmp_path)).optimize.compact()
    seen = _seen(tmp_path)
    assert [seen.text("config", step) for step in (1, 2, 3, 4)] == [
        "settings 1",
        "settings 2",
        "settings 3",
        None,
    ]


def test_a_log_without_a_step_has_no_head(tmp_path: Path) -> None:
    """Rows that are no steps, or none at all, are no head."""
    _write(tmp_path, (0, 1, "item", 1, None))
    assert _seen(tmp_path).head() is None


def test_what_is_not_known_is_not_guessed(tmp_path: Path) -> None:
    """Without statistics of the files a query has to tell."""
    _write(tmp_path, (-1, 1, "head", None, "one"), (0, 1, "item", 1, None), stats="_kind")
    with pytest.raises(SparkNeededError, match="without statistics"):
        _seen(tmp_path).head()
    with pytest.raises(SparkNeededError, match="without statistics"):
        _seen(tmp_path).last_seq(9)


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    """A table whose files have gone gives no answer that looks like one."""
    _write(tmp_path, (-1, 1, "head", None, "one"))
    seen = _seen(tmp_path)
    assert seen.head().text == "one"
    for file in tmp_path.rglob("*.parquet"):
        file.unlink()
    with pytest.raises(OSError, match="parquet"):
        seen.head()


def test_what_is_no_table_is_left_to_spark(tmp_path: Path) -> None:
    """An empty place, and a path with an escape, are not looked at."""
    assert not _seen(tmp_path).may_look()
    assert not DeltaLog.at(tmp_path / "100%").may_look()


def test_a_listing_that_misses_a_commit_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two commits that are made meanwhile a list may have the second only: one look more."""
    _write(tmp_path, (-1, 1, "head", None, "one"))
    failures = [DeltaError("found gap"), DeltaError("found gap")]

    def opened(place: str) -> DeltaTable:
        if failures:
            raise failures.pop()
        return DeltaTable(place)

    monkeypatch.setattr(deltalake, "DeltaTable", opened)

    assert _seen(tmp_path).head().text == "one"


def test_a_file_lacks_the_columns_that_are_null_in_all_its_rows(tmp_path: Path) -> None:
    """Each costs a small step its time; to readers of Delta what is missing is null."""
    place = tmp_path / "q"
    queue = LocalQueue.create(place, "id long, note string", durability="process")
    queue.enqueue([{"id": 1, "note": None}])
    (item,) = place.glob("queue/_gen=0/*.parquet")
    (head,) = place.glob("queue/_gen=-1/*.parquet")
    assert pq.read_schema(head).names == ["_step", "_kind", "_body"]
    assert {"note", "_fair_key"}.isdisjoint(pq.read_schema(item).names)
    assert [row["note"] for row in queue.claim(1).rows] == [None]
    written = DeltaTable(str(place / "queue")).to_pyarrow_table().filter(pc.field("_seq") == 1)
    assert written.select(["id", "note", "_fair_key"]).to_pylist() == [
        {"id": 1, "note": None, "_fair_key": None}
    ]

"""Times that UTC cannot name: refused as they come, and readable where a queue has one."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_queue import DurableQueue, LocalQueue, SchemaMismatchError, journaled_queue
from spark_queue.columns.arrow.arrow_types import parse_fields
from spark_queue.columns.arrow.rows import fit_rows, table_of_dicts
from spark_queue.log import instants
from spark_queue.testing import memory_queue
from tests.conftest import CommandLine

LATE = datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))
EARLY = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))
LAST = datetime.max.replace(tzinfo=timezone.utc)
FIRST = datetime.min.replace(tzinfo=timezone.utc)

SHAPES: list[tuple[str, Callable[[datetime], Any]]] = [
    ("timestamp", lambda at: at),
    ("struct<at: timestamp>", lambda at: {"at": at}),
    ("array<timestamp>", lambda at: [FIRST, at]),
    ("map<string, timestamp>", lambda at: {"a": at}),
    ("array<struct<at: timestamp>>", lambda at: [{"at": None}, {"at": at}]),
]


@pytest.mark.parametrize("at", [LATE, EARLY])
@pytest.mark.parametrize("home", ["memory", "disk"])
def test_a_time_that_utc_cannot_name_is_refused(home: str, at: datetime, queue_path: str) -> None:
    """Rows, tables and puts with one are refused by their column, and nothing is written."""
    queue = (
        memory_queue("at timestamp")
        if home == "memory"
        else LocalQueue.create(queue_path, "at timestamp", durability="process")
    )
    with pytest.raises(SchemaMismatchError, match=r"'at'.* years 1 to 9999"):
        queue.enqueue([{"at": FIRST}, {"at": at}])
    with DurableQueue(queue) as front, pytest.raises(SchemaMismatchError, match="years 1 to 9999"):
        front.put({"at": at}).result(10)
    with journaled_queue(queue) as journal, pytest.raises(SchemaMismatchError, match="years 1"):
        journal.put(at).result(10)
    assert queue.status().num_rows == 0
    queue.enqueue([{"at": FIRST}, {"at": LAST}])
    assert [row["at"] for row in queue.claim(2).rows] == [FIRST, LAST]


@pytest.mark.parametrize("column", ["at", "available_at", "expires_at"])
def test_a_table_with_such_a_time_is_refused(column: str) -> None:
    """A table of Arrow counts microseconds beyond the years of Python: that column is named."""
    queue = memory_queue("at timestamp")
    beyond = pa.array([253_402_300_800_000_000], pa.timestamp("us", "UTC"))
    now = pa.array([0], pa.timestamp("us", "UTC"))
    with pytest.raises(SchemaMismatchError, match=rf"'{column}'.* years 1 to 9999"):
        queue.enqueue(pa.table({"at": now} | {column: beyond}))
    assert queue.status().num_rows == 0


@pytest.mark.parametrize(("kind", "shape"), SHAPES)
def test_a_time_inside_of_a_value_is_refused(kind: str, shape: Callable[[datetime], Any]) -> None:
    """In a struct, an array or a map it is found as well; what is already stored is clamped."""
    columns = parse_fields(f"at {kind}")
    with pytest.raises(SchemaMismatchError, match=r"'at'.* years 1 to 9999"):
        fit_rows([{"at": shape(FIRST)}, {"at": shape(LATE)}], columns)
    stored = table_of_dicts(
        [{"at": None}, {"at": shape(LATE)}, {"at": shape(FIRST)}], {"at": columns[0]}, ["at"]
    )
    shown = instants.clamp(stored.slice(1))
    good = table_of_dicts([{"at": shape(LAST)}, {"at": shape(FIRST)}], {"at": columns[0]}, ["at"])
    assert shown.to_pylist() == good.to_pylist()
    assert instants.clamp(stored)["at"].to_pylist()[0] is None


def test_a_queue_that_has_one_is_readable(
    queue_path: str,
    monkeypatch: pytest.MonkeyPatch,
    command_line: CommandLine,
) -> None:
    """An item of an older release is shown at the last instant, claimed, cancelled and read."""
    queue = LocalQueue.create(queue_path, "at timestamp", durability="process")
    with monkeypatch.context() as old:
        old.setattr(instants, "require_named", lambda _rows: None)
        queue.enqueue([{"at": LATE} for _ in range(3)])
    queue.close()
    queue = LocalQueue.open(queue_path)
    claim = queue.claim(1)
    assert claim.rows[0]["at"] == LAST
    claim.ack()
    assert queue.status().to_pylist()[0]["_state"] == "acked"
    with DurableQueue(queue) as front:
        front.ack(front.get(10)).result(10)
    for command in (
        ["status", queue_path],
        ["report", queue_path],
        ["report", queue_path, "--item", "3"],
        ["history", queue_path, "3"],
        ["cancel", queue_path, "--where", "_seq = 3"],
    ):
        ended = command_line(*command, "--engine", "local", "--json")
        assert not ended.code
        assert json.loads(ended.out)
    assert queue.counts()["cancelled"] == 1


def test_a_reader_of_a_journal_gets_past_one(
    queue_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal of an older release delivers such an item, and the one behind it."""
    queue = LocalQueue.create(queue_path, "at timestamp", durability="process")
    with monkeypatch.context() as old:
        old.setattr(instants, "require_named", lambda _rows: None)
        queue.enqueue([{"at": LATE}, {"at": FIRST}])
    assert Path(queue_path).is_dir()
    with journaled_queue(LocalQueue.open(queue_path)) as journal:
        reader = journal.reader("r", start="beginning")
        assert [reader.get(10).item, reader.get(10).item] == [LAST, FIRST]

"""Limits of failures that items have of their own, without Spark."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from spark_queue import LocalQueue
from spark_queue.clock import ManualClock
from spark_queue.commands.admin import checkpoint
from spark_queue.errors import SchemaMismatchError
from spark_queue.log import schema
from spark_queue.reader_config import ReaderConfig
from spark_queue.retry_policy import RetryPolicy
from tests.unit.delta.test_sql_steps import every_step_is_large
from tests.unit.local.conftest import Make

AT_ONCE = RetryPolicy(delay=timedelta(0))

#: Values that are no limit, and what is said of each.
WRONG: list[Any] = [
    *([{"id": "a", "max_attempts": value}] for value in (True, 1.5, 0, -1, "2", 2**63)),
    *(pa.table({"id": ["a"], "max_attempts": [value]}) for value in (True, 1.5, 0, -1)),
    *(pd.DataFrame({"id": ["a"], "max_attempts": [value]}) for value in (True, 1.5, 0)),
]


@pytest.mark.parametrize("rows", WRONG, ids=repr)
def test_what_is_no_limit_is_refused(make: Make, rows: Any) -> None:
    """A whole number of at least one is: nothing is enqueued, and the column is named."""
    queue = make()

    with pytest.raises(SchemaMismatchError, match="max_attempts") as refused:
        queue.enqueue(rows)

    assert refused.value.column == "max_attempts"
    assert queue.stats().ready == 0


@pytest.mark.parametrize("most", [1, 2**63 - 1, None])
def test_a_limit_may_be_as_high_as_the_setting(make: Make, most: int | None) -> None:
    """It is kept to the last digit, and none is none."""
    queue = make()

    queue.enqueue({"id": "a", "max_attempts": most})

    entry = queue.report_item(1).entry
    assert entry is not None
    assert (queue.status()["_max_attempts"].to_pylist(), entry.max_attempts) == ([most], most)


@pytest.mark.parametrize("large", [False, True])
def test_a_reader_that_punts_allows_no_more(
    make: Make, tmp_path: Path, clock: ManualClock, *, large: bool
) -> None:
    """A limit below that holds; decided in memory and by SQL alike."""
    target = LocalQueue.create(tmp_path / "target", "id string", clock=clock)
    queue = make(retry=AT_ONCE, max_attempts=None)
    punts = ReaderConfig(punt_many_to=target.name, punt_many_at=2)
    reader = queue.reader("mail", config=punts)
    queue.enqueue([{"id": "a", "max_attempts": 9}, {"id": "b", "max_attempts": 1}, {"id": "c"}])

    with every_step_is_large() if large else nullcontext():
        reader.claim(10).nack("no")
        assert sorted(row["id"] for row in reader.dead().to_pylist()) == ["b"]
        reader.claim(10).nack("no")

    assert sorted(row["id"] for row in reader.dead().to_pylist()) == ["a", "b", "c"]


def test_a_limit_outlives_an_undo_a_checkpoint_and_a_clone(make: Make, tmp_path: Path) -> None:
    """An item that was cancelled and is back, and one that the clone has, die by it."""
    queue = make(retry=AT_ONCE)
    queue.enqueue({"id": "a", "max_attempts": 1})
    queue.undo(queue.cancel({"id": "a"}).step)
    queue.claim(1).release()
    checkpoint(queue._store)

    other = queue.clone(tmp_path / "clone")

    for one in (queue, other):
        with every_step_is_large():
            one.claim(1).nack("no")
        assert [row["_max_attempts"] for row in one.status().to_pylist()] == [1, 1]
        assert one.stats().dead == 1


def test_a_column_of_that_name_is_the_users_where_it_is_older(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds what it held, limits nothing, and goes with an item that is redriven."""
    with monkeypatch.context() as older:
        older.setattr("spark_queue.columns.kinds.INPUTS", {})
        queue = make("id string, max_attempts string", max_attempts=2, retry=AT_ONCE)

    queue.enqueue({"id": "a", "max_attempts": "few"})
    queue.enqueue(pa.table({"id": ["b"], "max_attempts": ["1"]}))
    queue.claim(10).nack("no")
    assert queue.stats().ready == 2
    queue.claim(10).nack("no")
    assert queue.redrive({"id": "a"}) == 1

    assert [row["max_attempts"] for row in queue.claim(10).rows] == ["few"]
    assert queue.status()["_max_attempts"].null_count == 3
    assert "max_attempts" not in schema.inputs_of(["id", "max_attempts"])

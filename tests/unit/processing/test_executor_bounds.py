"""What a handler is given, and what is kept of what it does, called as Spark calls it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext

from spark_queue.processing.executor import run_batches, run_items
from tests.unit.processing.test_executor import batch, fail, outcomes


def test_a_failure_in_no_group_stops_nothing() -> None:
    """Items in no group have nothing to do with each other."""
    calls: list[int] = []

    def first_fails(item: dict[str, Any]) -> None:
        calls.append(item["_seq"])
        if item["_seq"] == 1:
            fail()

    found = outcomes(run_items(first_fails, None)([batch((1, None), (2, None)), batch((3, None))]))
    assert [(seq, outcome) for seq, outcome, _ in found] == [(1, "nack"), (2, "ack"), (3, "ack")]
    assert calls == [1, 2, 3]


@pytest.mark.parametrize("run", [run_items, run_batches])
@pytest.mark.parametrize(("attempt", "worked"), [(0, [1]), (1, [])])
def test_a_handler_runs_once_for_a_lease(
    run: Any, attempt: int, worked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When Spark runs a task again, nobody knows what was done: the items get no outcome."""
    monkeypatch.setattr(TaskContext, "get", lambda: SimpleNamespace(attemptNumber=lambda: attempt))
    calls: list[object] = []
    found = outcomes(run(calls.append, None)([batch((1, None))]))

    assert [seq for seq, _, _ in found] == worked
    assert len(calls) == len(worked)


@pytest.mark.parametrize("run", [run_items, run_batches])
def test_a_long_error_is_cut(run: Any) -> None:
    """An error that holds all of a document does not fill the log of the queue."""

    def shout(_: object) -> None:
        raise ValueError("x" * 1_000_000)

    ((_, outcome, error),) = outcomes(run(shout, None)([batch((1, None))]))
    assert outcome == "nack"
    assert error is not None
    assert error.startswith("ValueError: xxx")
    assert len(error) < 5_000


def test_a_handler_sees_the_columns_of_the_queue() -> None:
    """The group by which items are kept together is no column of theirs."""
    seen: list[list[str]] = []

    def look(given: Any) -> None:
        seen.append(list(given.column_names if isinstance(given, pa.Table) else given))

    for run in (run_items, run_batches):
        assert outcomes(run(look, None)([batch((1, "g"))])) == [(1, "ack", None)]
    assert seen == [["_seq", "name"], ["_seq", "name"]]

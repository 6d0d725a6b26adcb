"""What runs on an executor, called as Spark calls it: record batches in, outcomes out."""

from __future__ import annotations

import os
import signal
import time
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_queue.errors import Reject, RetryAfter
from spark_queue.log.spark import spark_types
from spark_queue.processing import executor
from spark_queue.processing.executor import run_batches, run_items

SIZES = StructType([StructField("size", LongType())])


def batch(*items: tuple[int, str | None]) -> pa.RecordBatch:
    """Make a batch of items: their seq and group."""
    rows = [{"_seq": seq, "name": f"item-{seq}", "_group_key": group} for seq, group in items]
    types = [("_seq", pa.int64()), ("name", pa.string()), ("_group_key", pa.string())]
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema(types))


def outcomes(batches: Any) -> list[tuple[int, str, str | None]]:
    """Return the outcomes as (seq, outcome, error)."""
    rows = [row for found in batches for row in found.to_pylist()]
    return [(row["_seq"], row["outcome"], row["error"]) for row in rows]


def fail(*_: object) -> None:
    """Raise, as a handler may."""
    raise ValueError("no")


def reject(*_: object) -> None:
    """Send what is given to the dead letters."""
    raise Reject("never")


async def _awaited(_: object) -> None: ...


@pytest.mark.parametrize("run", [run_items, run_batches])
def test_what_nothing_awaits_is_no_success(run: Any) -> None:
    """A function that returns a coroutine fails its items, with what to do instead."""
    ((_, outcome, error),) = outcomes(run(_awaited, None)([batch((1, None))]))

    assert outcome == "nack"
    assert error is not None
    assert "executors do not await" in error


@pytest.mark.parametrize("apart", [None, {}])
def test_no_item_begins_when_the_time_is_over(apart: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those behind it go back uncharged, and those that began in time are told."""
    instants, called = [5.0], list[object]()
    clock = SimpleNamespace(
        time=lambda: instants.pop() if instants else 10.0, monotonic=lambda: 0.0
    )
    monkeypatch.setattr(executor, "time", clock)

    run = run_items(called.append, None, until=10.0, apart=apart)
    told = [outcome for _, outcome, _ in outcomes(run([batch((1, None), (2, "g"), (3, "g"))]))]
    assert told == ["ack", "release", "release"]
    instants.clear()
    late = run_batches(called.append, None, until=10.0, apart=apart)
    assert outcomes(late([batch((4, None))])) == [(4, "release", None)]
    assert len(called) == (1 if apart is None else 0)


def test_no_item_begins_after_so_many_seconds_of_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task has as many from its first batch on, and says what each item took of its batch."""
    now = [100.0]
    clock = SimpleNamespace(time=lambda: 0.0, monotonic=lambda: now[0])
    monkeypatch.setattr(executor, "time", clock)

    def handle(_: object) -> None:
        now[0] += 4

    for _ in range(2):
        found = list(run_items(handle, None, most=6)([batch((1, None), (2, None), (3, None))]))
        told = [(row["outcome"], row["seconds"]) for one in found for row in one.to_pylist()]
        assert told == [("ack", 8 / 3), ("ack", 8 / 3), ("release", 8 / 3)]


def test_an_item_that_takes_too_long_is_killed_and_has_failed() -> None:
    """Those of its group go back, and others are done by another child."""

    def handle(item: dict[str, Any]) -> None:
        if item["_seq"] == 1:
            time.sleep(60)

    run = run_items(handle, None, limit=1.5)
    assert outcomes(run([batch((1, "g"), (2, "g"), (3, None))])) == [
        (1, "nack", "it took longer than its item_time_limit, 1.5 s"),
        (2, "release", None),
        (3, "ack", None),
    ]


def test_every_item_of_a_batch_is_acked() -> None:
    """A batch handler that returns nothing acks all items of the batch."""
    run = run_batches(lambda _: None, None)
    assert outcomes(run([batch((1, None), (2, None)), batch((3, None))])) == [
        (1, "ack", None),
        (2, "ack", None),
        (3, "ack", None),
    ]


def test_results_have_instants_on_older_releases_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Spark 4.2 the schema of Arrow takes no zone: it is in UTC, as it is after that."""

    def of_old(
        schema: StructType,
        error_on_duplicated_field_names_in_struct: bool = False,  # noqa: FBT001, FBT002, ARG001
        timestamp_utc: bool = True,  # noqa: FBT001, FBT002
    ) -> pa.Schema:
        return to_arrow_schema(schema, timezone="UTC" if timestamp_utc else None)

    monkeypatch.setattr(spark_types, "to_arrow_schema", of_old)
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    returns = StructType([StructField("at", TimestampType())])
    (found,) = run_items(lambda _: {"at": at}, returns)([batch((1, None))])
    assert found.to_pylist()[0]["result"] == {"at": at}


@pytest.mark.parametrize(
    ("handler", "outcome", "error"),
    [(fail, "nack", "ValueError: no"), (reject, "dead", "Reject: never")],
)
def test_a_batch_fails_as_one(handler: Any, outcome: str, error: str) -> None:
    """What a batch handler raises is the outcome of all items of that batch, and of no other."""
    calls: list[int] = []

    def second_fails(table: pa.Table) -> None:
        calls.append(table.num_rows)
        if len(calls) == 2:
            handler(table)

    run = run_batches(second_fails, None)
    assert outcomes(run([batch((1, None)), batch((2, None), (3, None)), batch((4, None))])) == [
        (1, "ack", None),
        (2, outcome, error),
        (3, outcome, error),
        (4, "ack", None),
    ]


def test_results_of_a_batch_go_to_their_items() -> None:
    """A table with ``_seq`` gives each item its result; one that is not named has none."""

    def sizes(_: pa.Table) -> pa.Table:
        return pa.table({"_seq": [2, 1], "size": [20, 10]})

    rows = [
        row
        for found in run_batches(sizes, SIZES)([batch((1, None), (2, None), (3, None))])
        for row in found.to_pylist()
    ]
    assert [row["result"] for row in rows] == [{"size": 10}, {"size": 20}, None]


def test_a_failed_batch_has_no_results() -> None:
    """Items that failed have the column of results, and nothing in it."""
    (found,) = run_batches(fail, SIZES)([batch((1, None))])
    nothing = dict.fromkeys(("after", "pause", "together", "result"))
    assert found.drop_columns("seconds").to_pylist() == [
        {"_seq": 1, "outcome": "nack", "error": "ValueError: no", **nothing}
    ]


# rule: deferral of an item
@pytest.mark.parametrize("charge", [False, True])
def test_a_handler_says_how_long_its_item_waits(charge: bool) -> None:  # noqa: FBT001
    """In microseconds, with the key that it pauses: the empty text is the fair key."""

    def handle(_: object) -> None:
        raise RetryAfter(1.5, "busy", pause=True, charge=charge)

    told = ("nack" if charge else "defer", "RetryAfter: busy", 1_500_000, "")
    for run in (run_items, run_batches):
        (found,) = run(handle, None)([batch((1, None))])
        names = ("outcome", "error", "after", "pause")
        assert [tuple(row[name] for name in names) for row in found.to_pylist()] == [told]


# rule: work of a group
def test_a_group_stops_at_its_first_failure() -> None:
    """Items behind a failed one of their group are released; other groups go on."""

    def second_fails(item: dict[str, Any]) -> None:
        if item["_seq"] == 2:
            fail()

    run = run_items(second_fails, None)
    assert outcomes(run([batch((1, "a"), (2, "a"), (3, "a")), batch((4, "a"), (5, "b"))])) == [
        (1, "ack", None),
        (2, "nack", "ValueError: no"),
        (3, "release", None),
        (4, "release", None),
        (5, "ack", None),
    ]


def test_a_rejected_item_holds_nobody_up() -> None:
    """A rejected item is dead, and its group goes on."""

    def first_is_bad(item: dict[str, Any]) -> None:
        if item["_seq"] == 1:
            reject()

    assert outcomes(run_items(first_is_bad, None)([batch((1, "a"), (2, "a"))])) == [
        (1, "dead", "Reject: never"),
        (2, "ack", None),
    ]


FEES = StructType([StructField("fee", DoubleType()), StructField("who", StringType())])


def _fee_of(item: dict[str, Any]) -> Any:
    return {
        1: {"fee": 1.5, "who": "ann"},
        2: {"fee": "n/a", "who": "bob"},
        3: {"fee": 1.5, "wo": "cid"},
        4: {"fee": 1.5},
        5: (1.5, "eve"),
        6: None,
    }[item["_seq"]]


def test_a_result_that_does_not_fit_is_its_item_s_failure() -> None:
    """A wrong type, an unknown or missing column, no dict: that item fails, and says why."""
    items = batch(*[(seq, None) for seq in range(1, 7)])
    (found,) = run_items(_fee_of, FEES)([items])
    rows = found.to_pylist()
    assert [(row["_seq"], row["outcome"]) for row in rows] == [
        (1, "ack"), (2, "nack"), (3, "nack"), (4, "nack"), (5, "nack"), (6, "ack"),
    ]  # fmt: skip
    assert [row["result"] for row in rows] == [{"fee": 1.5, "who": "ann"}, *[None] * 5]
    errors = [row["error"] for row in rows]
    assert errors[1] == (
        "ResultMismatchError: the handler's result for seq 2 does not fit returns: "
        "column 'fee' is 'n/a' (str), which does not fit into double"
    )
    assert errors[2].endswith(
        "column 'wo' is unknown: returns does not name it; did you mean 'who'?"
    )
    assert errors[3].endswith("column 'who' is missing; give None where there is no value")
    assert errors[4].endswith(
        "it is (1.5, 'eve') (tuple): give a dict of the columns ['fee', 'who']"
    )


def test_a_result_that_does_not_fit_stops_its_group() -> None:
    """An item that failed by its result holds up its group like any failure."""
    run = run_items(_fee_of, FEES)
    assert [row[:2] for row in outcomes(run([batch((1, "a"), (2, "a"), (6, "a"))]))] == [
        (1, "ack"),
        (2, "nack"),
        (6, "release"),
    ]


def test_a_row_of_a_table_that_does_not_fit_is_its_item_s_failure() -> None:
    """In a batch the item with the wrong value fails alone."""

    def fees(_: pa.Table) -> pa.Table:
        return pa.table({"_seq": [1, 2], "fee": [2.5, 1.5], "who": pa.array([None, b"\xff"])})

    found = list(run_batches(fees, FEES)([batch((1, None), (2, None))]))
    assert [row[:2] for row in outcomes(found)] == [(1, "ack"), (2, "nack")]
    assert "for seq 2 does not fit returns: column 'who' is b'\\xff'" in str(outcomes(found)[1][2])


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"_seq": [1], "fee": [1.0], "who": ["a"]}, "it is a dict: give a pyarrow.Table"),
        (pa.table({"fee": [1.0], "who": ["a"]}), "it has no column _seq, only fee, who"),
        (pa.table({"_seq": [1], "fee": [1.0]}), "column 'who' is missing"),
        (pa.table({"_seq": [1], "fee": [1.0], "who": ["a"], "x": [1]}), "column 'x' is unknown"),
        (pa.table({"_seq": [3], "fee": [1.0], "who": ["a"]}), "it has _seq 3"),
        (pa.table({"_seq": [1, 1], "fee": [1.0, 2.0], "who": ["a", "b"]}), "2 rows for 1 items"),
    ],
)
def test_a_table_that_does_not_fit_fails_its_batch(answer: Any, problem: str) -> None:
    """Where a table is not one of results for these items, all of them fail, and say why."""
    found = outcomes(run_batches(lambda _: answer, FEES)([batch((1, None), (2, None))]))
    assert [row[:2] for row in found] == [(1, "nack"), (2, "nack")]
    assert problem in str(found[0][2])


def test_rows_that_nobody_asked_for_are_noted() -> None:
    """Without ``returns`` an item is done all the same, and it is known that it gave a row."""
    given: dict[int, Any] = {1: {"a": 1}, 2: 7}
    of_items = run_items(lambda item: given[item["_seq"]], None)
    of_batches = run_batches(lambda _: pa.table({"a": [1]}), None)
    both = [batch((1, None), (2, None))]
    assert [
        (row["outcome"], row["unasked"])
        for run in (of_items, of_batches)
        for found in run(both)
        for row in found.to_pylist()
    ] == [("ack", True), ("ack", False), ("ack", True), ("ack", True)]


def test_an_item_that_cannot_be_read_is_its_own_failure() -> None:
    """A value that Python has no word for fails its item, and the others run."""
    times = pa.array([0, 1 << 61, 0], pa.timestamp("us", "UTC"))
    items = pa.RecordBatch.from_pydict(
        {"_seq": [1, 2, 3], "at": times, "_group_key": pa.array(["g", "g", None])}
    )
    (first, second, third) = outcomes(run_items(lambda _: None, None)([items]))
    assert (first, third) == ((1, "ack", None), (3, "ack", None))
    assert second[1] == "nack"
    assert "out of range" in str(second[2])


class _MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("says nothing")


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (_MuteError(), "_MuteError"),
        (ValueError("a\ud800b"), "ValueError: a?b"),
    ],
)
def test_whatever_a_handler_raises_is_the_item_s_failure(raised: Any, error: str) -> None:
    """An exit, an error without a text, one that is no text: the item fails, and nothing else."""

    def second(item: dict[str, Any]) -> None:
        if item["_seq"] == 2:
            raise raised

    assert outcomes(run_items(second, None)([batch((1, None), (2, None), (3, None))])) == [
        (1, "ack", None),
        (2, "nack", error),
        (3, "ack", None),
    ]


def test_an_interruption_is_not_the_item_s_failure() -> None:
    """Who interrupts a worker stops it."""

    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    for run in (run_items(interrupted, None), run_batches(interrupted, None)):
        with pytest.raises(KeyboardInterrupt):
            list(run([batch((1, None))]))


def _kill_on(seqs: set[int]) -> Any:
    def handle(item: dict[str, Any]) -> None:
        if item["_seq"] in seqs:
            os._exit(7)

    return handle


def test_apart_only_the_item_that_kills_is_lost() -> None:
    """In a child, what came before is done, the culprit is lost, and the others go on."""
    run = run_items(_kill_on({2, 3, 6}), None, apart={})
    items = [batch((1, None), (2, None), (3, None), (4, "g"), (5, "g")), batch((6, "h"), (7, "h"))]
    died = "the worker died of it (exit code 7)"
    assert outcomes(run(items)) == [
        (1, "ack", None),
        (2, "lose", died),
        (3, "lose", died),
        (4, "ack", None),
        (5, "ack", None),
        (6, "lose", died),
        (7, "release", None),
    ]


def test_apart_an_item_fails_rejects_and_returns_as_ever() -> None:
    """What a handler returns and raises in a child is what its item gets, as ever."""

    def handle(item: dict[str, Any]) -> dict[str, Any]:
        if item["_seq"] == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if item["_seq"] == 3:
            raise Reject("never")
        if item["_seq"] == 4:
            raise ValueError("no")
        return {"size": item["_seq"]}

    run = run_items(handle, SIZES, apart={})
    rows = [
        row
        for found in run([batch((1, None), (2, None), (3, "g"), (4, "g"), (5, "g"))])
        for row in found.to_pylist()
    ]
    assert [(row["_seq"], row["outcome"], row["error"], row["result"]) for row in rows] == [
        (1, "ack", None, {"size": 1}),
        (2, "lose", "the worker died of it (SIGKILL)", None),
        (3, "dead", "Reject: never", None),
        (4, "nack", "ValueError: no", None),
        (5, "release", None, None),
    ]


def _kill_batch_with(seq: int) -> Any:
    def handle(table: pa.Table) -> None:
        if seq in table.column("_seq").to_pylist():
            os._exit(1)

    return handle


def test_apart_a_batch_that_kills_is_divided_until_the_culprit_is_alone() -> None:
    """A killed batch goes back uncharged, in halves the next time; alone, its item is lost."""
    together: dict[int, int] = {}
    left = list(range(1, 9))
    history = []
    while len(left) > 1:
        run = run_batches(_kill_batch_with(6), None, apart=together)
        rows = [row for b in run([batch(*[(seq, None) for seq in left])]) for row in b.to_pylist()]
        left = [row["_seq"] for row in rows if row["outcome"] == "release"]
        history.append([(row["_seq"], row["outcome"]) for row in rows])
        if not left:
            break
        together = {row["_seq"]: row["together"] // 2 for row in rows if row["together"]}
    assert history[0] == [(seq, "release") for seq in range(1, 9)]
    assert history[1] == [
        *[(n, "ack") for n in range(1, 5)],
        *[(n, "release") for n in range(5, 9)],
    ]
    assert history[2] == [(5, "release"), (6, "release"), (7, "ack"), (8, "ack")]
    assert history[3] == [(5, "ack"), (6, "lose")]


def test_apart_items_under_no_suspicion_stay_together() -> None:
    """Only items of a call that a worker died of are divided."""
    run = run_batches(lambda _: None, None, apart={2: 1, 3: 1})
    found = run([batch(*[(seq, None) for seq in range(1, 6)])])
    calls = [part.column("_seq").to_pylist() for part in found]
    assert sorted(calls) == [[1, 4, 5], [2], [3]]


def test_with_skip_a_group_goes_on_behind_a_failure() -> None:
    """Where later items may pass a failed one, they do so inside a claim."""

    def second_fails(item: dict[str, Any]) -> None:
        if item["_seq"] == 2:
            fail()

    items = [batch((1, "a"), (2, "a"), (3, "a"))]
    assert outcomes(run_items(second_fails, None, on_failure="skip")(items)) == [
        (1, "ack", None),
        (2, "nack", "ValueError: no"),
        (3, "ack", None),
    ]
    assert [
        o[1] for o in outcomes(run_items(_kill_on({2}), None, on_failure="skip", apart={})(items))
    ] == [
        "ack",
        "lose",
        "ack",
    ]

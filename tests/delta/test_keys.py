"""Idempotency keys in a Delta table: the rules of the store in memory, through any restart."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest
from pyspark.sql import SparkSession

from spark_queue.clock import ManualClock
from spark_queue.errors import InvalidArgumentError
from spark_queue.memory.idempotency import idempotent
from spark_queue.stores.keys import DeltaIdempotencyKeyStore
from tests.unit.threads import together

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def _opened(spark: SparkSession, place: str, clock: ManualClock) -> DeltaIdempotencyKeyStore:
    return DeltaIdempotencyKeyStore(spark, f"{place}/keys", MINUTE, DAY, clock=clock)


def test_a_key_is_locked_accepted_and_released(
    spark: SparkSession, place: str, clock: ManualClock
) -> None:
    """IS-01…04, IS-06, IS-13: once locked or accepted a key is not free; a stranger frees none."""
    store = _opened(spark, place, clock)
    token = store.try_lock("k")
    other = store.try_lock("l")

    assert token is not None
    assert other is not None
    assert store.try_lock("k") is None
    assert not store.release("k", other)
    assert not store.accept("unknown", token)
    assert store.accept("k", token)
    assert not store.release("k", token)
    assert store.try_lock("k") is None
    assert store.release("l", other)
    assert store.try_lock("l") is not None


def test_keys_survive_a_restart(spark: SparkSession, place: str, clock: ManualClock) -> None:
    """IS-14, IS-15: locks and acceptances are there after a restart, each until its own time."""
    before = _opened(spark, place, clock)
    locked, done = before.try_lock("locked"), before.try_lock("done")
    assert locked is not None
    assert done is not None
    before.accept("done", done)
    before.close()

    after = _opened(spark, place, clock)

    assert after.try_lock("locked") is None
    clock.advance(MINUTE)
    assert after.try_lock("done") is None
    taken = after.try_lock("locked")
    assert taken is not None
    assert not after.accept("locked", locked)
    clock.advance(DAY)
    assert after.try_lock("done") is not None


def test_one_of_many_gets_the_key(spark: SparkSession, place: str, clock: ManualClock) -> None:
    """IS-05: of many simultaneous calls for one key exactly one gets a token; calls share steps."""
    stores = [_opened(spark, place, clock), _opened(spark, place, clock)]
    tokens: list[str | None] = []

    def race(number: int) -> None:
        tokens.append(stores[number % 2].try_lock(("order", 7)))

    together(*(partial(race, number) for number in range(8)))

    assert len(tokens) == 8
    assert sum(token is not None for token in tokens) == 1


def test_a_handler_runs_once_for_a_key(spark: SparkSession, place: str, clock: ManualClock) -> None:
    """IS-07, IS-08: the wrapper works over the table; a failure frees the key."""
    done: list[int] = []

    @idempotent(
        store=_opened(spark, place, clock),
        key=lambda order: order,
        default_result=lambda _order: "before",
    )
    def ship(order: int) -> str:
        done.append(order)
        if done == [7]:
            raise ValueError("no ship")
        return "shipped"

    with pytest.raises(ValueError, match="no ship"):
        ship(7)
    assert (ship(7), ship(7)) == ("shipped", "before")
    assert done == [7, 7]


def test_equal_keys_are_one_key(spark: SparkSession, place: str, clock: ManualClock) -> None:
    """Keys compare as Python compares them, and a key that no table can hold is refused."""
    store = _opened(spark, place, clock)

    assert store.try_lock(1) is not None
    assert store.try_lock(1.0) is None
    assert store.try_lock("1") is not None
    assert store.try_lock((1, None)) is not None
    with pytest.raises(InvalidArgumentError, match="key is"):
        store.try_lock(frozenset({1}))
    with pytest.raises(InvalidArgumentError, match="timeout"):
        store.try_lock("k", timedelta(0))


def test_what_has_ended_is_forgotten(
    spark: SparkSession, place: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table keeps what is locked or accepted, and drops the rest from time to time."""
    monkeypatch.setattr("spark_queue.stores.keys._LONG", 4)
    store = _opened(spark, place, clock)
    for number in range(4):
        token = store.try_lock(number)
        assert token is not None
        store.release(number, token)

    kept = store.try_lock("kept")
    rows = spark.read.format("delta").load(f"{place}/keys").where("_kind = 'key'")

    assert kept is not None
    assert rows.count() < 8
    store.close()
    assert _opened(spark, place, clock).try_lock("kept") is None

"""Single items in and out of a queue on Delta, with leases kept and outcomes written together."""

from __future__ import annotations

import asyncio
import queue
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import pytest
from pyspark.sql import SparkSession

from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import LeaseLostError, QueueShutDownError, SchemaMismatchError
from spark_queue.front.durable import DurableQueue, FrontOptions
from spark_queue.queue_views import store_of
from spark_queue.retry_policy import RetryPolicy
from spark_queue.views import items
from tests.unit.threads import together

CONFIG = QueueConfig(
    dedup_key="id",
    fair_key="tenant",
    group_key="grp",
    retry=RetryPolicy(delay=timedelta(0)),
    max_attempts=2,
)
PATIENCE = 60.0


@pytest.fixture
def files(spark: SparkSession, queue_path: str) -> DeltaQueue:
    """Return a queue with all three semantics, by the machine's clock."""
    return DeltaQueue.create(spark, queue_path, "id long, tenant string, grp string", CONFIG)


@pytest.fixture
def front(files: DeltaQueue) -> Iterator[DurableQueue]:
    """Return a front that looks again quickly."""
    with DurableQueue(files, options=FrontOptions(poll_every=timedelta(milliseconds=50))) as made:
        yield made


def _item(number: int, tenant: str = "a", group: str | None = None) -> dict[str, object]:
    return {"id": number, "tenant": tenant, "grp": group}


def test_items_go_in_and_come_out_in_the_queues_order(front: DurableQueue) -> None:
    """Fair by key: with one big tenant, the small one is next, and each put gets its seq."""
    futures = [front.put(_item(n)) for n in range(3)] + [front.put(_item(9, "b"))]

    seqs = [future.result(PATIENCE).seq for future in futures]
    order = [int(str(front.get(PATIENCE).item["id"])) for _ in range(4)]

    assert seqs == [1, 2, 3, 4]
    assert sorted(order[:2]) == [0, 9]
    assert order[2:] == [1, 2]


def test_a_duplicate_says_of_which_item(front: DurableQueue) -> None:
    """A put of a key that is taken resolves to the item that has it; acked, the key is free."""
    first = front.put(_item(1)).result(PATIENCE)
    again = front.put(_item(1)).result(PATIENCE)

    assert (again.outcome, again.duplicate_of) == ("duplicate", first.seq)
    front.ack(front.get(PATIENCE)).result(PATIENCE)
    assert front.put(_item(1)).result(PATIENCE).outcome == "inserted"


def test_what_a_front_had_that_has_ended_comes_at_once(
    spark: SparkSession, files: DeltaQueue
) -> None:
    """Items in the hands of a process of this machine that is gone need no lease to run out."""
    files.enqueue(spark.createDataFrame([(1, "a", None)], files.schema))
    files.claim(1, worker_id=f"{socket.gethostname()}/{2**22 + 1}/0badc0de")
    files.close()

    with DurableQueue(DeltaQueue.open(spark, files.name)) as front:
        assert front.get(timeout=0).item["id"] == 1


def test_a_group_waits_for_its_first(front: DurableQueue) -> None:
    """Serial per group: the second item comes out once the first is settled, a failed one again."""
    front.put(_item(1, group="g"))
    front.put(_item(2, group="g"))
    front.sync()
    first = front.get(PATIENCE)

    with pytest.raises(queue.Empty):
        front.get(timeout=0)
    front.nack(first, "not now")
    again = front.get(PATIENCE)
    front.ack(again)

    assert (again.seq, again.attempts) == (first.seq, 1)
    assert front.get(PATIENCE).item["id"] == 2


def test_a_scope_settles(front: DurableQueue, files: DeltaQueue) -> None:
    """The end of a scope acks, an error nacks, and an interruption gives the item back."""
    for number in range(3):
        front.put(_item(number))
    with front.receive(PATIENCE):
        pass
    with pytest.raises(ValueError, match="broken"), front.receive(PATIENCE) as broken:
        raise ValueError("broken")
    with pytest.raises(KeyboardInterrupt), front.receive(PATIENCE):
        raise KeyboardInterrupt
    front.dead(front.get(PATIENCE), "of no use")
    front.sync()
    front.close()

    assert broken.seq in (2, 3)
    stats = files.stats()
    assert (stats.acked, stats.dead, stats.ready, stats.claimed) == (1, 1, 1, 0)


def test_what_is_settled_twice_or_lost_says_so(front: DurableQueue, files: DeltaQueue) -> None:
    """The second outcome of an item, and one of an item that was cancelled, fail by name."""
    front.put(_item(1))
    front.put(_item(2))
    one, two = front.get(PATIENCE), front.get(PATIENCE)
    first, second = front.ack(one), front.ack(one)
    assert first.result(PATIENCE) is None
    files.cancel("id = 2")

    with pytest.raises(LeaseLostError):
        second.result(PATIENCE)
    with pytest.raises(LeaseLostError, match=str(two.seq)):
        front.ack(two).result(PATIENCE)


def test_bad_items_fail_alone(front: DurableQueue) -> None:
    """An item without a column, or with one too many, fails its own future and no other."""
    good = front.put(_item(1))
    none = front.put(None)  # type: ignore[arg-type]
    typed = front.put({**_item(4), "id": "four"})
    short = front.put({"id": 2})
    long = front.put({**_item(3), "size": 1})

    assert good.result(PATIENCE).outcome == "inserted"
    assert not good.cancel()
    with pytest.raises(SchemaMismatchError, match="an item is a mapping"):
        none.result(PATIENCE)
    with pytest.raises(SchemaMismatchError, match="'id': is 'four' in the item"):
        typed.result(PATIENCE)
    with pytest.raises(SchemaMismatchError, match="tenant"):
        short.result(PATIENCE)
    with pytest.raises(SchemaMismatchError, match="size"):
        long.result(PATIENCE)


def test_closing_writes_and_gives_back(files: DeltaQueue) -> None:
    """Close writes what was put, gives back what is out, and ends every wait and every call."""
    front = DurableQueue(files)
    put = front.put(_item(1))
    front.put(_item(2))
    front.get(PATIENCE)
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            front.get()
            front.get()
        except (queue.Empty, QueueShutDownError) as exc:
            ended.append(exc)

    waiter = threading.Thread(target=wait)
    waiter.start()
    front.close()
    waiter.join(PATIENCE)

    assert put.result(PATIENCE).seq == 1
    assert len(ended) == 1
    assert (files.stats().ready, files.stats().claimed) == (2, 0)
    with pytest.raises(QueueShutDownError):
        front.put(_item(3))


def test_many_threads_share_steps(front: DurableQueue, files: DeltaQueue) -> None:
    """Four producers and four consumers: each item once, and far fewer steps than items."""
    done: list[int] = []

    def produce(start: int) -> None:
        for number in range(start, start + 50):
            front.put(_item(number, tenant=f"t{number % 5}"))

    def consume() -> None:
        for _ in range(50):
            delivery = front.get(PATIENCE)
            front.ack(delivery)
            done.append(int(str(delivery.item["id"])))

    together(*(partial(produce, k * 50) for k in range(4)), *[consume] * 4)
    front.sync()

    assert sorted(done) == list(range(200))
    assert files.stats().acked == 200
    assert store_of(files).status_head().step < 100


def test_coroutines_share_the_queue(front: DurableQueue) -> None:
    """The asyncio twin puts, gets and settles over the same threads."""

    async def run() -> tuple[str, object]:
        result = await front.aio.put(_item(1))
        delivery = await front.aio.get(PATIENCE)
        await front.aio.nack(delivery, "again")
        again = await front.aio.get(PATIENCE)
        await front.aio.ack(again)
        return result.outcome, again.attempts

    assert asyncio.run(run()) == ("inserted", 1)


def test_items_that_are_read_here_are_those_of_a_query(
    spark: SparkSession, queue_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that makes no query has the values, of the same types, that one would have given."""
    columns = "n int, x double, f float, ok boolean, d decimal(10, 2), b binary, day date"
    more = ", at timestamp, name string"
    made = DeltaQueue.create(spark, queue_path, columns + more)
    at = "timestamp'2026-07-01 12:00:00.000001+05:00'"
    full = f"(1, 0.5D, 0.1F, true, 1.50BD, X'00FF', date'2026-07-01', {at}, 'a')"
    nothing = f"({', '.join(['null'] * 9)})"
    made.enqueue(spark.sql(f"values {full}, {nothing}").toDF(*made.schema.names).to(made.schema))
    store, lease = store_of(made), made.claim(2).lease
    by_query = [row.asDict(recursive=True) for row in items.in_order(store, lease).collect()]
    with monkeypatch.context() as patched:
        patched.setattr(items, "in_order", lambda *_: pytest.fail("it makes a query"))
        here = items.collect(store, lease)

    assert [row["n"] for row in here] == [1, None]
    assert here == by_query
    kinds = [[type(value) for value in row.values()] for row in here]
    assert kinds == [
        [type(row[name]) for name in found] for row, found in zip(by_query, here, strict=True)
    ]

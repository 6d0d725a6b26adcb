"""A queue on an object store: its requests, and what processes on several machines see of it.

A store may be named in two ways, and this process remembers by the name what it knows of a queue:
so two handles are as two processes.
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import LocalStore

import spark_queue
from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.errors import (
    InvalidArgumentError,
    LeaseLostError,
    QueueExistsError,
    QueueNotFoundError,
    SchemaMismatchError,
    SetupError,
    SparkNeededError,
)
from spark_queue.local_queue import LocalQueue
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk import append_files
from spark_queue.log.object.object_storage import ObjectStorage
from tests.logs.stores import ShakyStore
from tests.unit.threads import together

_SOON = timedelta(seconds=10)


class Machines:
    """One store, and handles of the queue on it."""

    def __init__(self, config: QueueConfig | None = None) -> None:
        self.store, self.clock = ShakyStore(), ManualClock()
        schema, here = "path string", "s3://bucket/team/files"
        self.one = LocalQueue.create(here, schema, config, clock=self.clock, storage=self.store)
        self.other = LocalQueue.open(
            "s3a://bucket/team/files", clock=self.clock, storage=self.store
        )

    def asked(self, act: Callable[[], Any]) -> dict[str, int]:
        """Return how often what was asked for something."""
        self.store.asked.clear()
        act()
        return dict(self.store.asked)

    def before(self, request: str, act: Callable[[], Any]) -> None:
        """Have something done just before the next request that begins so."""

        def fault(ask: Callable[[], Any]) -> Any:
            act()
            return ask()

        self.store.fail_next(request, fault)

    def holding(self, text: str) -> list[str]:
        """Return the objects with a text in them, or in rows of them."""
        return [name for name in self.store.found() if text in _shown(self.store.get(name).bytes())]


def _shown(content: bytes) -> str:
    is_table = bytes(content[:4]) == b"PAR1"
    return str(pq.read_table(pa.BufferReader(content)).to_pylist() if is_table else bytes(content))


@pytest.fixture
def machines() -> Machines:
    """Return a queue of two machines."""
    return Machines()


def paths(queue: LocalQueue, limit: int = 10, **options: Any) -> list[str]:
    """Claim items, and return their paths."""
    return [row["path"] for row in queue.claim(limit, **options).rows]


def test_a_step_is_two_requests_and_a_claim_three(machines: Machines) -> None:
    """A claim asks whether others have enqueued; each step is a file and its commit."""
    queue = machines.one
    queue.enqueue([{"path": "a"}, {"path": "b"}])
    queue.claim().ack()

    assert machines.asked(lambda: queue.enqueue([{"path": "c"}])) == {"PUT": 2}
    claims = []
    assert machines.asked(lambda: claims.append(queue.claim())) == {"GET": 1, "PUT": 2}
    assert machines.asked(lambda: claims[0].rows) == {}
    assert machines.asked(claims[0].ack) == {"PUT": 2}


def test_an_enqueue_that_depends_on_what_ended_asks() -> None:
    """A key that was freed on another machine is free here; so costs one request more."""
    keyed = Machines(QueueConfig(dedup_key="path"))
    keyed.one.enqueue([{"path": "a"}])
    assert keyed.other.enqueue([{"path": "a"}]).duplicates == 1
    keyed.one.claim().ack()
    asked = keyed.asked(lambda: keyed.other.enqueue([{"path": "b"}]))
    assert asked["GET"] > 1  # what was done meanwhile
    assert keyed.other.enqueue([{"path": "a"}]).duplicates == 0
    assert keyed.asked(lambda: keyed.other.enqueue([{"path": "c"}])) == {"GET": 1, "PUT": 2}


@pytest.mark.parametrize(
    "act",
    [lambda queue: queue.enqueue([{"path": "c"}]), LocalQueue.claim],
    ids=["enqueue", "claim"],
)
def test_a_look_is_beside_the_write_of_the_file(act: Callable[[LocalQueue], Any]) -> None:
    """So a step that depends on the other log takes the time of two requests."""
    keyed = Machines(QueueConfig(dedup_key="path"))
    keyed.one.enqueue([{"path": "a"}, {"path": "b"}])
    keyed.one.claim()
    keyed.store.delay, keyed.store.at_once = 0.2, 0
    assert keyed.asked(lambda: act(keyed.one)) == {"GET": 1, "PUT": 2}
    assert keyed.store.at_once == 2


# rule again: lost step
def test_what_others_do_while_the_file_is_written_counts() -> None:
    """A key that is freed then is free, and an item that enters then is claimed."""
    keyed = Machines(QueueConfig(dedup_key="path"))
    one, other = keyed.one, keyed.other
    one.enqueue([{"path": "a"}])
    assert other.enqueue([{"path": "a"}]).duplicates == 1

    keyed.before("GET team/files/status", lambda: one.claim().ack())
    assert other.enqueue([{"path": "a"}, {"path": "b"}]).inserted == 2
    keyed.before("GET team/files/queue", lambda: one.enqueue([{"path": "c"}]))
    assert paths(other) == ["a", "b", "c"]
    assert one.counts()["claimed"] == 3


def test_machines_see_each_others_steps(machines: Machines) -> None:
    """What one has enqueued, claimed, settled or set is so for the other."""
    one, other = machines.one, machines.other
    one.enqueue([{"path": "a"}, {"path": "b"}, {"path": "c"}])
    assert paths(other, 1) == ["a"]
    held = one.claim(1)
    assert held.rows[0]["path"] == "b"
    held.release()
    assert paths(other) == ["b", "c"]
    assert paths(one) == []
    one.pause()
    other.enqueue([{"path": "d"}])
    assert paths(other) == []
    assert one.counts() == other.counts()


def test_what_came_and_went_unseen_is_not_given_out(machines: Machines) -> None:
    """An item that others entered and acked is over for one who was looking at the other log."""
    one, other = machines.one, machines.other
    one.enqueue([{"path": "a"}])
    held = other.claim()
    one.enqueue([{"path": "b"}])
    one.claim().ack()
    assert other.counts()["acked"] == 1  # it has seen that others write
    one.enqueue([{"path": "c"}])
    one.claim().ack()
    held.ack()
    one.enqueue([{"path": "d"}])
    assert paths(other) == ["d"]
    assert other.counts()["acked"] == 3


def test_who_settles_by_an_old_view_is_refused(machines: Machines) -> None:
    """The lease went to another machine meanwhile."""
    one, other = machines.one, machines.other
    one.enqueue([{"path": "a"}, {"path": "b"}])
    late = one.claim(lease=timedelta(seconds=5))
    machines.clock.advance(timedelta(seconds=6))
    assert paths(other, 1) == ["a"]

    with pytest.raises(LeaseLostError):
        late.ack()
    assert one.counts()["acked"] == 0


def test_an_error_by_an_old_view_is_looked_at_again(machines: Machines) -> None:
    """A column that another machine has added is there; one that nobody added is not."""
    machines.other.enqueue([{"path": "a"}])
    machines.one.add_columns("note string")
    machines.other.enqueue([{"path": "b", "note": "n"}])
    with pytest.raises(SchemaMismatchError):
        machines.other.enqueue([{"path": "c", "other": "n"}])
    assert [row["note"] for row in machines.one.claim(10).rows] == [None, "n"]


def test_steps_of_many_threads_are_one_line() -> None:
    """Whatever the store fails to answer: each item is claimed once, and all are acked."""
    machines = Machines()
    machines.store.lost = machines.store.refused = 0.05
    done: list[str] = []

    def work(queue: LocalQueue, name: str) -> None:
        for number in range(10):
            queue.enqueue([{"path": f"{name}{number}"}])
            with queue.claim(1) as claim:
                done.extend(row["path"] for row in claim.rows)

    queues = (machines.one, machines.other)
    together(*(partial(work, queue, name) for queue, name in zip(queues, "ab", strict=True)))
    assert sorted(done) == sorted(f"{name}{number}" for name in "ab" for number in range(10))
    assert machines.one.counts()["acked"] == len(done)


def test_one_who_waits_looks_more_and_more_rarely(machines: Machines) -> None:
    """He gets what another machine enqueues within the pause, and the store little to do."""
    queue = machines.one
    asked = machines.asked(lambda: queue.claim(wait=timedelta(seconds=2)))
    assert 8 < asked["GET"] < 60

    def enqueue() -> None:
        time.sleep(0.3)
        machines.other.enqueue([{"path": "a"}])

    thread = threading.Thread(target=enqueue)
    thread.start()
    assert paths(queue, wait=_SOON) == ["a"]
    thread.join()


def test_one_who_waits_is_woken_by_a_step_of_his_process(machines: Machines) -> None:
    """The queue was idle for so long that the store is asked every other second."""
    queue = machines.one
    for log in (queue._store.queue, queue._store.status):
        assert isinstance(log, DeltaLog)
        assert log._copy is not None
        log._copy._changed -= 3_600
        assert log.pause() == 2.0
    woken: list[float] = []

    def wait() -> None:
        woken.extend(time.monotonic() for _ in paths(queue, wait=_SOON))

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    queue.enqueue([{"path": "a"}])
    began = time.monotonic()
    thread.join()
    assert woken[0] - began < 1.5


def test_more_items_than_fit_into_memory_are_claimed() -> None:
    """They are read from the files that are in reach, in their order."""
    machines = Machines()
    machines.one.enqueue([{"path": f"{number:06}"} for number in range(60_000)])
    assert paths(machines.other, 2) == ["000000", "000001"]
    claim = machines.one.claim(8_000)
    assert (claim.count, claim.rows[-1]["path"]) == (8_000, "008001")
    claim.ack()
    assert machines.other.counts()["acked"] == 8_000


def test_upkeep_beside_another_machine_changes_nothing(machines: Machines) -> None:
    """Small files are merged and the log is summed up, and both go on."""
    one, other = machines.one, machines.other
    for number in range(12):
        one.enqueue([{"path": f"{number:02}"}])
    assert paths(other, 3) == ["00", "01", "02"]
    assert one.maintain().merged_files > 0
    assert paths(other, 3) == ["03", "04", "05"]
    assert paths(one) == [f"{number:02}" for number in range(6, 12)]
    assert one.stats().claimed == 12


def test_what_was_purged_a_week_ago_is_in_no_object(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of a person are off the store at the next upkeep, whoever has asked for it."""
    machines.one.enqueue([{"path": "of a person"}, {"path": "of another"}])
    machines.one.claim(2).ack()
    ago = timedelta(days=8)
    with monkeypatch.context() as then:
        millis = int((time.time() - ago.total_seconds()) * 1000)
        then.setattr(append_files, "_millis", lambda: millis)
        assert machines.one.purge("path = 'of a person'") == 1
    assert machines.holding("of a person")
    names = ObjectStorage.list
    monkeypatch.setattr(
        ObjectStorage, "list", lambda bucket: {name: at - ago for name, at in names(bucket).items()}
    )

    machines.other.maintain()

    assert not machines.holding("of a person")
    assert machines.holding("of another")


def test_what_is_purged_now_is_in_no_object(machines: Machines) -> None:
    """Nor in the copy of the process that purges; another machine goes on."""
    machines.one.enqueue([{"path": "of a person"}, {"path": "of another"}])
    machines.one.claim(2).ack()
    assert machines.one.purge("path = 'of a person'", now=True) == 1
    assert not machines.holding("of a person")
    assert machines.other.status()["path"].to_pylist() == ["of another"]


def test_it_is_opened_where_it_is(tmp_path: Path) -> None:
    """By one of its names, and the store; elsewhere there is none."""
    store = LocalStore(tmp_path)
    LocalQueue.create("s3://bucket/team/files", "path string", storage=store)
    queue = spark_queue.open("s3a://bucket/team/files", storage=store)
    queue.enqueue([{"path": "a"}])
    assert (tmp_path / "team" / "files" / "queue" / "_delta_log").is_dir()
    assert LocalQueue.exists("s3://bucket/team/files", storage=store)
    with pytest.raises(QueueNotFoundError):
        spark_queue.open("s3://bucket/team/other", storage=store)
    LocalQueue.drop("s3://bucket/team/files", storage=store)
    assert not LocalQueue.exists("s3://bucket/team/files", storage=store)


@pytest.mark.parametrize("name", ["files#eu", "files?", "f%69les", "of/files#"])
def test_a_place_that_is_read_as_another_is_refused(tmp_path: Path, name: str) -> None:
    """Neither is the other one opened, or dropped; nor does an output go there."""
    store = LocalStore(tmp_path)
    queue = LocalQueue.create("s3://bucket/files", "n long", storage=store)
    queue.enqueue({"n": 1})
    for verb in (LocalQueue.open, LocalQueue.drop, LocalQueue.exists):
        with pytest.raises(InvalidArgumentError, match="behind which clients of stores read"):
            verb(f"s3://bucket/{name}", storage=store)
    with pytest.raises(InvalidArgumentError, match="behind which clients of stores read"):
        queue.process(dict, returns="n long", output=f"s3://bucket/{name}")
    assert queue.counts()["ready"] == 1


def test_a_password_in_a_place_is_refused_and_not_repeated(tmp_path: Path) -> None:
    """It would be in each error and log; a container of Azure's is no user."""
    for place in ("s3://ann:secret@bucket/files", "s3://ann@bucket/files"):
        with pytest.raises(InvalidArgumentError, match="has a user or a password") as told:
            LocalQueue.create(place, "n long", storage=LocalStore(tmp_path))
        assert "ann" not in str(told.value)
    queue = LocalQueue.create("s3://bucket/others", "n long", storage=LocalStore(tmp_path))
    with pytest.raises(InvalidArgumentError, match="has a user or a password"):
        queue.process(dict, returns="n long", output="s3://ann:secret@bucket/out")
    azure = "abfss://container@account.dfs.core.windows.net/files"
    assert LocalQueue.create(azure, "n long", storage=LocalStore(tmp_path)).name == azure


def test_a_queue_that_others_may_write_is_not_written(tmp_path: Path) -> None:
    """One that Delta commits to, as on a disk, may get a commit over one that was told."""
    LocalQueue.create(tmp_path / "files", "path string").enqueue([{"path": "a"}])
    queue = spark_queue.open("s3://bucket/files", storage=LocalStore(tmp_path))
    assert queue.counts()["ready"] == 1
    with pytest.raises(SparkNeededError):
        queue.enqueue([{"path": "b"}])


def test_options_say_how_a_store_is_reached() -> None:
    """They are those of the library, and an option that it does not know is named."""
    with pytest.raises(InvalidArgumentError, match="no_such_option"):
        spark_queue.open("s3://bucket/files", storage={"no_such_option": "x"})
    with pytest.raises(InvalidArgumentError, match="client_options"):
        spark_queue.open("s3://bucket/files", storage={"allow_http": "true"})


def test_a_child_of_a_fork_is_refused(machines: Machines) -> None:
    """It would wait for threads for ever that only its parent has."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            machines.one.enqueue([{"path": "a"}])
        except SetupError as exc:
            os.write(writing, pickle.dumps(str(exc)))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        assert "fork" in pickle.loads(told.read())  # noqa: S301 - of this test
    os.waitpid(child, 0)
    assert machines.one.enqueue([{"path": "a"}]).inserted == 1


@pytest.mark.spark
def test_spark_reads_the_queue_and_does_not_write_it(spark: Any, tmp_path: Path) -> None:
    """Delta would commit over told steps: it is refused by name, and so is the queue of Spark."""
    here = LocalQueue.create("s3://b/files", "path string", storage=LocalStore(tmp_path))
    here.enqueue([{"path": "a"}])
    queue = spark_queue.DeltaQueue.open(spark, str(tmp_path / "files"))

    assert queue.stats().ready == 1
    rows = spark.read.format("delta").load(str(tmp_path / "files" / "queue"))
    assert rows.where("_kind = 'item'").count() == 1
    with pytest.raises(InvalidArgumentError, match="conditional"):
        queue.enqueue(spark.createDataFrame([("b",)], "path string"))
    with pytest.raises(Exception, match="sparkQueueConditionalCommits"):
        rows.write.format("delta").mode("append").save(str(tmp_path / "files" / "queue"))
    assert here.counts()["ready"] == 1


@pytest.mark.parametrize("wrong", [7, "http://127.0.0.1", ["a"], object()])
def test_storage_of_a_wrong_kind_is_refused_at_once(wrong: object) -> None:
    """It is neither options nor a store: no request is made."""
    for ask in (LocalQueue.open, LocalQueue.exists):
        with pytest.raises(InvalidArgumentError, match=r"storage is .*a mapping, or a store"):
            ask("s3://bucket/files", storage=wrong)


def _create(store: ShakyStore, name: str = "s3://bucket/q", **options: Any) -> LocalQueue:
    config = QueueConfig(lease=options.pop("lease", _SOON), **options)
    return LocalQueue.create(name, "path string", config, storage=store, exist_ok=True)


@pytest.mark.parametrize("log", ["queue", "status"])
def test_who_is_second_to_create_a_queue_opens_it(log: str) -> None:
    """Another process makes it between two requests: both have it, with the first one's lease."""
    store, first = ShakyStore(), []

    def be_late(put: Callable[[], Any]) -> Any:
        first.append(_create(store, "s3a://bucket/q", lease=timedelta(seconds=30)))
        return put()

    store.fail_next(f"PUT q/{log}/_delta_log/", be_late)
    second = _create(store)
    first[0].enqueue({"path": "a"})

    assert second.config == first[0].config
    assert second.claim().rows[0]["path"] == "a"


def test_who_is_second_to_create_another_queue_is_told_the_difference() -> None:
    """The first one's queue stays as it is."""
    store, first = ShakyStore(), []

    def be_late(put: Callable[[], Any]) -> Any:
        first.append(_create(store, "s3a://bucket/q", dedup_key="path"))
        return put()

    store.fail_next("PUT q/status/_delta_log/", be_late)
    with pytest.raises(QueueExistsError, match="it exists, and its dedup_key is 'path', not None"):
        _create(store)

    assert spark_queue.open("s3://bucket/q", storage=store).config == first[0].config

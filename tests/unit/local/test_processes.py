"""Several handles and processes work with one queue without Spark, and see each other's steps."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from spark_queue.local_queue import LocalQueue
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk.file_scans import Part
from spark_queue.log.disk.open_table import OpenTable
from spark_queue.state import catch_up
from tests.unit.local.conftest import Make, Worker
from tests.unit.threads import together


def test_two_handles_see_each_others_steps(make: Make, again: Callable[[], LocalQueue]) -> None:
    """What one has enqueued the other claims, and the first sees it in flight."""
    one, other = make(dedup_key="id"), again()
    one.enqueue([{"id": "a"}, {"id": "b"}])

    held = other.claim(1)

    assert (one.counts()["ready"], one.counts()["claimed"]) == (1, 1)
    assert one.enqueue({"id": "a"}).duplicates == 1
    held.ack()
    assert one.enqueue({"id": "a"}).inserted == 1


def test_a_handle_is_sent_to_another_process(make: Make) -> None:
    """A copy by pickle sees the queue as it is, and works with it."""
    queue = make(dedup_key="id")
    queue.enqueue([{"id": "a"}, {"id": "b"}])

    copy = pickle.loads(pickle.dumps(queue))  # noqa: S301 - it is our own

    assert [row["id"] for row in copy.claim(1).rows] == ["a"]
    assert [row["id"] for row in queue.claim(1).rows] == ["b"]


def test_threads_share_a_handle(make: Make) -> None:
    """Each item is given to one of them, however many claim at the same time."""
    queue = make()
    queue.enqueue([{"id": str(number)} for number in range(12)])
    served: list[str] = []

    def work() -> None:
        while (claim := queue.claim(2)).count:
            served.extend(row["id"] for row in claim.rows)
            claim.ack()

    together(*[work] * 3)

    assert sorted(served, key=int) == [str(number) for number in range(12)]


def test_two_processes_see_each_others_steps_at_once(
    make: Make, start: Callable[..., Worker]
) -> None:
    """Whatever one has done, the other's next step is on top of it; so is a promise of the disk."""
    queue, worker = make(dedup_key="id"), start("disk")
    queue.enqueue([{"id": "a"}, {"id": "b"}])

    assert worker.says("[row['id'] for row in queue.claim(1).rows]") == "['a']"
    assert queue.counts()["claimed"] == 1
    assert [row["id"] for row in queue.claim(2).rows] == ["b"]
    assert worker.says("queue.counts()['claimed']") == "2"
    assert worker.says("queue.enqueue([{'id': 'a'}, {'id': 'c'}]).inserted") == "1"
    assert [row["id"] for row in queue.claim(2).rows] == ["c"]
    queue.pause()
    assert worker.says("queue.paused") == "True"


def test_what_a_killed_process_held_comes_back_at_once(
    make: Make, start: Callable[..., Worker]
) -> None:
    """The next claim gets it, long before the lease ends, and counts what was lost."""
    queue, worker = make(), start()
    queue.enqueue([{"id": "a"}, {"id": "b"}, {"id": "c"}])
    assert worker.says("queue.claim(2).count") == "2"
    assert queue.claim(3).count == 1
    assert queue.claim(3).count == 0

    worker.kill()

    assert [row["id"] for row in queue.claim(3).rows] == ["a", "b"]
    losses = {row["id"]: row["_losses"] for row in queue.status().to_pylist()}
    assert losses == {"a": 1, "b": 1, "c": 0}


def test_a_claim_with_an_id_outlives_its_process(make: Make, start: Callable[..., Worker]) -> None:
    """Whoever comes next asks for it again, has the same items, and settles them."""
    queue, worker = make(), start()
    queue.enqueue([{"id": "a"}, {"id": "b"}, {"id": "c"}])
    assert worker.says("queue.claim(2, claim_id='run 7').count") == "2"

    worker.kill()

    assert [row["id"] for row in queue.claim(3).rows] == ["c"]
    with queue.claim(2, claim_id="run 7") as claim:
        assert [row["id"] for row in claim.rows] == ["a", "b"]
    assert (queue.counts()["acked"], queue.counts()["claimed"]) == (2, 1)


def test_what_a_process_with_a_name_of_its_own_held_waits_for_its_lease(
    make: Make, start: Callable[..., Worker]
) -> None:
    """A worker that was named by the user may be more than one process."""
    queue, worker = make(), start()
    queue.enqueue({"id": "a"})
    assert worker.says("queue.claim(worker_id='crew').count") == "1"

    worker.kill()

    assert queue.claim().count == 0
    assert queue.explain(1).detail.startswith("leased by crew until")


def test_a_disk_that_takes_no_more_is_told_by_its_own_error(
    make: Make, monkeypatch: pytest.MonkeyPatch, start: Callable[..., Worker]
) -> None:
    """A step that cannot be written fails as the system says; what is there can be seen."""
    queue = make()
    queue.enqueue({"id": "a"})

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", refuse)
        for step in (lambda: queue.enqueue({"id": "b"}), queue.claim, queue.pause):
            with pytest.raises(OSError, match="Read-only"):
                step()
        assert queue.counts()["ready"] == 1

    queue.enqueue({"id": "c"})
    assert start().says("[row['id'] for row in queue.claim(9).rows]") == "['a', 'c']"


@pytest.mark.parametrize("moment", range(5))
def test_a_queue_is_opened_while_others_go_on(
    make: Make,
    again: Callable[[], LocalQueue],
    monkeypatch: pytest.MonkeyPatch,
    moment: int,
) -> None:
    """Whatever enters, and is taken, between two of the looks that open a queue is no damage."""
    queue = make()
    queue.enqueue({"id": "0"})
    queue.claim(1)
    theirs, looks, find = dict(catch_up._caches), [0], DeltaLog._find_table

    def looked(log: DeltaLog[Any], known: int | None = None) -> OpenTable | None:
        looks[0] += 1
        if looks[0] == moment + 1:
            with monkeypatch.context() as patch:
                patch.setattr(catch_up, "_caches", theirs)
                queue.enqueue({"id": "1"})
                queue.claim(1)
        return find(log, known)

    monkeypatch.setattr(catch_up, "_caches", {})
    monkeypatch.setattr(DeltaLog, "_find_table", looked)

    assert again().counts()["claimed"] == (2 if moment < looks[0] else 1)
    assert looks[0] >= 3


@pytest.mark.parametrize("step", ["first claim", "settle"])
def test_others_write_while_a_step_reads(
    queue_path: str, start: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whoever has much to read before a step reads it while others claim; none waits for it."""
    queue = LocalQueue.create(queue_path, "id string", durability="process")
    queue.enqueue([{"id": str(number)} for number in range(4)])
    other = start()
    mine = queue.claim(1)
    assert other.says("queue.claim(1).count") == "1"
    told: list[str] = []
    read = Part.read_own

    def reading(*args: Any, **options: Any) -> Any:
        if not told:
            told.append("")
            told[0] = other.says("queue.claim(1).rows[0]['id']")
        return read(*args, **options)

    monkeypatch.setattr(Part, "read_own", reading)
    if step == "settle":
        mine.ack()
    else:
        queue._store.forget()
        assert [row["id"] for row in queue.claim(1).rows] == ["3"]

    assert told == ["2"]


def test_what_a_first_claim_reads_may_be_purged_by_another_process(
    queue_path: str, start: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds up no purge that removes files at once, and reads what took their place."""
    queue = LocalQueue.create(queue_path, "id string", durability="process")
    queue.enqueue([{"id": str(number)} for number in range(4)])
    queue.claim(2).ack()
    queue._store.forget()
    other = start()
    told: list[str] = []
    read = Part.read_own

    def reading(part: Part, *args: Any, **options: Any) -> Any:
        if part.file.gen >= 0 and not told:
            told.append(other.says("queue.purge('true', now=True)"))
            assert not part.path.exists()
        return read(part, *args, **options)

    monkeypatch.setattr(Part, "read_own", reading)
    assert [row["id"] for row in queue.claim(1).rows] == ["2"]
    assert told == ["2"]

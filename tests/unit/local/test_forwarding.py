"""What a reader sends to another queue, while others do so at the same moment."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_queue.clock import ManualClock
from spark_queue.commands import forward_items
from spark_queue.local_queue import LocalQueue
from spark_queue.queue_views import store_of
from spark_queue.reader_config import ReaderConfig
from tests.programs import run_python
from tests.unit.local.conftest import Make


@pytest.fixture
def late(make: Make) -> LocalQueue:
    """Return a queue whose reader sends what fails to another one, which is returned."""
    queue = make()
    target = LocalQueue.create(f"{queue.name}-late", "id string", durability="process")
    queue.reader("r", config=ReaderConfig(punt_to=target.name))
    return target


def test_of_two_that_send_at_once_each_item_is_sent_by_one(
    late: LocalQueue, again: Callable[[], LocalQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looked later, and is overtaken by who looked before, sends only what is left."""
    queue = again()
    queue.enqueue([{"id": "x"}, {"id": "a"}, {"id": "b"}])
    queue.open_reader("r").claim(1).nack("no")
    first, second = (again().open_reader("r").claim(1) for _ in range(2))
    real, has_looked = forward_items._leaving, [threading.Event(), threading.Event()]
    others: list[threading.Thread] = []

    def look(*args: Any) -> Any:
        rows = real(*args)
        if threading.current_thread() in others:
            has_looked[0].set()
            assert has_looked[1].wait(30)
        elif not has_looked[1].is_set():
            has_looked[1].set()
            others[0].join(30)
        return rows

    monkeypatch.setattr(forward_items, "_leaving", look)
    others.append(threading.Thread(target=first.nack, args=("no",)))
    others[0].start()
    assert has_looked[0].wait(30)
    second.nack("no")

    assert sorted(row["id"] for row in late.status().to_pylist()) == ["a", "b", "x"]


def test_a_claim_looks_for_what_ended_since_the_last_one(
    late: LocalQueue, again: Callable[[], LocalQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nothing is sent, no claim looks through all that ended before."""
    queue = again()
    reader = queue.open_reader("r")
    queue.enqueue([{"id": str(n)} for n in range(10)])
    real, looked = forward_items._leaving, list[int]()

    def look(at: Any, limits: Any, target: str, since: Any) -> Any:
        looked.append(at.status.step + 1 - since.step)
        return real(at, limits, target, since)

    monkeypatch.setattr(forward_items, "_leaving", look)
    for _ in range(10):
        reader.claim(1).ack()

    assert looked[1:] == [2] * 9
    assert late.stats().ready == 0


def _ids(queue: LocalQueue) -> list[str]:
    return [row["id"] for row in queue.status().sort_by("_seq").to_pylist()]


def _fail(queue: LocalQueue, *ids: str) -> None:
    """Let items end in the queue, in steps of their own."""
    queue.enqueue([{"id": id_} for id_ in ids])
    for _ in ids:
        queue.open_reader("r").claim(1).nack("no")


def test_a_source_that_is_made_again_in_its_place_is_another_one(
    late: LocalQueue, again: Callable[[], LocalQueue], clock: ManualClock
) -> None:
    """Its steps begin at one, and what ended in its first ones is nowhere yet."""
    queue = again()
    _fail(queue, "a", "b")
    config = queue.config
    LocalQueue.drop(queue.name)
    queue = LocalQueue.create(queue.name, "id string", config, durability="process", clock=clock)
    queue.reader("r", config=ReaderConfig(punt_to=late.name))
    _fail(queue, "c", "d")

    assert _ids(late) == ["a", "b", "c", "d"]


def test_a_reader_that_is_made_again_under_its_name_is_another_one(
    late: LocalQueue, again: Callable[[], LocalQueue]
) -> None:
    """Its log is not that of the one before."""
    queue = again()
    _fail(queue, "a", "b", "c")
    queue.drop_reader("r")
    queue.reader("r", config=ReaderConfig(punt_to=late.name))
    _fail(queue, "d")

    assert _ids(late) == ["a", "b", "c", "d"]


#: Lets an item end in a process of its own, as one that has seen later steps goes no further.
_FAILS = """
import sys, spark_queue
queue = spark_queue.open(sys.argv[1], durability="process")
queue.enqueue([{"id": sys.argv[2]}])
queue.open_reader("r").claim(1).nack("no")
"""


@pytest.mark.parametrize("lost", ["b", "bcf"])
def test_a_source_that_is_put_back_from_a_backup_sends_what_is_new(
    late: LocalQueue, again: Callable[[], LocalQueue], clock: ManualClock, tmp_path: Path, lost: str
) -> None:
    """What ended before the backup is there; behind it the steps are others, and it is said.

    Also where they have the numbers of those that were lost.
    """
    queue = again()
    _fail(queue, "a")
    shutil.copytree(queue.name, tmp_path / "backup")
    clock.advance(timedelta(minutes=1))
    _fail(queue, *lost)
    assert _ids(late) == ["a", *lost]

    shutil.rmtree(queue.name)
    shutil.copytree(tmp_path / "backup", queue.name)
    said = []
    for id_ in "de":
        done = run_python("-c", _FAILS, queue.name, id_, check=True)
        said.append(done.stderr)
    assert _ids(late) == ["a", *lost, "d", "e"]
    assert ["it was put back or made again" in text for text in said] == [True, False]


@pytest.mark.parametrize(
    ("sent", "minutes", "found"),
    [(3, 0, ["old", "b"]), (3, 2, ["old", "a", "b"]), (9, 2, ["old", "a", "b"])],
)
def test_the_mark_of_an_earlier_release_is_taken_over_by_a_log_that_goes_so_far(
    late: LocalQueue,
    again: Callable[[], LocalQueue],
    clock: ManualClock,
    sent: int,
    minutes: int,
    found: list[str],
) -> None:
    """It names the place, and the last step that was sent; of a log made later it tells nothing."""
    queue = again()
    reader = store_of(queue.open_reader("r"))
    place = f"{reader.handle.place.location()}+{reader.reader}"
    LocalQueue.open(late.name, clock=clock).enqueue([{"id": "old"}], batch=(place, sent))
    clock.advance(timedelta(minutes=minutes))
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    shutil.move(late.name, f"{late.name}-away")
    for _ in range(2):
        queue.open_reader("r").claim(1).nack("no")
    assert reader.status_head().step == 5
    shutil.move(f"{late.name}-away", late.name)

    again().open_reader("r").claim(1)
    assert _ids(late) == found
    assert [name for name in store_of(late).queue_head().streams if "+" in name] == []


def test_what_fits_goes_and_the_rest_follows(
    late: LocalQueue, again: Callable[[], LocalQueue], caplog: pytest.LogCaptureFixture
) -> None:
    """A target has room for two of four that ended in one step: the others wait, said once."""
    queue = again()
    small = late.reader("small", config=ReaderConfig(max_items=2))
    queue.enqueue([{"id": id_} for id_ in "abcd"])
    with caplog.at_level(logging.WARNING):
        queue.open_reader("r").claim(4).nack("no")
        for _ in range(3):
            queue.open_reader("r").claim(1)
    assert _ids(late) == ["a", "b"]
    assert [record.exc_info for record in caplog.records] == [None]
    assert "reader 'small'" in caplog.text

    small.claim(1).ack()
    queue.enqueue([{"id": "e"}])
    again().open_reader("r").claim(1).nack("no")
    assert _ids(late) == ["a", "b", "c"]
    small.claim(9).ack()
    queue.open_reader("r").claim(1)
    assert _ids(late) == ["a", "b", "c", "d", "e"]

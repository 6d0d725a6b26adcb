"""Progress of items: said by handlers, written with a renewal, shown by ``explain``."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_queue import ItemProgress, current_item
from spark_queue.clock import ManualClock
from spark_queue.commands import admin
from spark_queue.commands.admin import checkpoint
from spark_queue.errors import InvalidArgumentError, LeaseLostError
from spark_queue.local_queue import LocalQueue
from spark_queue.report.sheets import sheets
from spark_queue.retry_policy import RetryPolicy
from tests.unit.local.conftest import Make

MINUTE = timedelta(minutes=1)

#: A third of it is what a test waits for; on the clock of the queue it never ends.
LEASE = timedelta(seconds=0.3)

AT_ONCE = RetryPolicy(delay=timedelta(0))


@pytest.fixture
def queue(make: Make) -> LocalQueue:
    """Four items; what fails is retried at once."""
    made = make("id long", retry=AT_ONCE, lease=10 * MINUTE)
    made.enqueue([{"id": number} for number in range(4)])
    return made


def _rows(queue: LocalQueue) -> list[dict[str, Any]]:
    """Return the rows of progress, and of renewals, by step."""
    log = queue._store.native("status")
    assert log is not None
    rows = log.rows_of(log.files(), ("_kind", "_gen", "_step", "_seq", "_lease", "_body"))
    kept = rows.filter(pc.is_in(rows["_kind"], pa.array(["renewal", "progress"])))
    found: list[dict[str, Any]] = kept.sort_by(
        [("_step", "ascending"), ("_seq", "ascending")]
    ).to_pylist()
    return found


def _said(queue: LocalQueue) -> list[tuple[int, str]]:
    """Return what is written, by item."""
    return [(row["_seq"], row["_body"]) for row in _rows(queue) if row["_kind"] == "progress"]


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_renewal_says_how_far_items_are(queue: LocalQueue, clock: ManualClock) -> None:
    """In its own step; ``explain`` and the report of an item show the newest of each."""
    held = queue.claim(3)
    held.renew(progress={1: 0.1, 2: (0.5, "half of it")})
    clock.advance(MINUTE)
    held.renew(progress={1: (1 / 3, "page 10 of 30")})

    first, second, third = (queue.explain(seq) for seq in (1, 2, 3))

    assert first.progress == ItemProgress(fraction=1 / 3, note="page 10 of 30", at=clock.now())
    assert second.progress == ItemProgress(fraction=0.5, note="half of it", at=clock.now() - MINUTE)
    assert third.progress is None
    (worker,) = queue.report().workers
    assert worker.said == "item 1: 33% done: page 10 of 30"
    (panel,) = (sheet for sheet in sheets(queue.report()) if sheet.name == "workers")
    assert worker.said in panel.rows[0]
    assert first.detail.endswith("; 33% done: page 10 of 30")
    report = queue.report_item(1)
    assert report.chain[0] == first
    assert "(33% done: page 10 of 30), and may be taken over in 10 min" in report.text
    assert "33% done: page 10 of 30" in report.html()


def test_it_is_rows_of_the_step_of_the_renewal(queue: LocalQueue) -> None:
    """One for each item that has news, in the lane of renewals."""
    held = queue.claim(3)
    held.renew(progress={1: 0.25, 3: (1, "done\n  soon")})

    step = held.lease + 1
    assert [tuple(row.values()) for row in _rows(queue)] == [
        ("progress", -4, step, 1, held.lease, '{"fraction": 0.25, "note": null}'),
        ("progress", -4, step, 3, held.lease, '{"fraction": 1.0, "note": "done soon"}'),
        ("renewal", -4, step, None, held.lease, None),
    ]


def test_a_handler_says_it_and_the_next_renewal_writes_it(
    queue: LocalQueue, again: Callable[[], LocalQueue]
) -> None:
    """The newest alone, once, and for other processes to see."""
    seen: list[str] = []

    def handle(item: dict[str, Any]) -> None:
        if item["id"] != 1:
            return
        for page in range(1, 13):
            current_item().progress(page / 30, f"page {page} of 30")
        until(lambda: bool(_said(queue)))
        seen.append(again().explain(item["_seq"]).detail.partition("; ")[2])
        renewals = len(_rows(queue))
        until(lambda: len(_rows(queue)) > renewals)

    assert queue.process(handle, lease=LEASE).acked == 4
    assert seen == ["40% done: page 12 of 30"]
    assert _said(queue) == [(2, '{"fraction": 0.4, "note": "page 12 of 30"}')]


def test_a_child_says_it_as_well(queue: LocalQueue, tmp_path: Path) -> None:
    """From any of its threads; nothing that it says is taken for an answer."""
    seen = tmp_path / "seen"

    def handle(item: dict[str, Any]) -> dict[str, Any]:
        current = current_item()
        with ThreadPoolExecutor() as helpers:
            list(helpers.map(lambda n: current.progress(n / 400, "x" * n), range(201)))
        current.progress(0.75, f"of {item['id']}")
        until(lambda: item["id"] != 1 or seen.exists())
        return {"n": item["id"]}

    def see() -> None:
        until(lambda: (2, '{"fraction": 0.75, "note": "of 1"}') in _said(queue))
        seen.touch()

    operator = threading.Thread(target=see)
    operator.start()
    done = queue.process(handle, returns="n bigint", lease=LEASE, using="processes")
    operator.join()

    assert (done.acked, done.failed) == (4, 0)


def test_a_child_has_no_more_time_for_what_it_says(make: Make) -> None:
    """It is killed at the end of its time, however often it says how far it is."""
    queue = make("id long", max_attempts=1)
    queue.enqueue({"id": 1})

    def handle(_item: dict[str, Any]) -> None:
        while True:
            current_item().progress(0.1)

    done = queue.process(handle, using="processes", item_time_limit=timedelta(seconds=0.3))

    assert done.dead == 1


def test_handlers_that_run_at_the_same_time_say_it_of_their_own_items(queue: LocalQueue) -> None:
    """Also those that are awaited."""
    said: list[int] = []

    async def handle(item: dict[str, Any]) -> None:
        current_item().progress(item["id"] / 4)
        said.append(item["id"])
        while len(said) < 4:  # noqa: ASYNC110 - the others come to say it
            await asyncio.sleep(0)
        until(lambda: len(_said(queue)) >= 4)

    done = queue.process(handle, lease=LEASE, max_workers=4)

    assert (done.acked, done.failed) == (4, 0)
    assert sorted(_said(queue)) == [
        (seq, f'{{"fraction": {(seq - 1) / 4}, "note": null}}') for seq in range(1, 5)
    ]


def test_what_was_said_under_a_lease_ends_with_it(queue: LocalQueue, clock: ManualClock) -> None:
    """The next holder begins at nothing, and what is over has no progress."""
    held = queue.claim(2)
    held.renew(progress={1: 0.9, 2: 0.9})
    held.settle_each({1: ("nack", "no"), 2: "ack"})
    queue.claim(1)

    first, second = queue.explain(1), queue.explain(2)

    assert (first.reason, first.progress) == ("leased", None)
    assert (second.reason, second.progress) == ("finished", None)
    then = queue.report_item(1, as_of=held.lease + 1).chain[0].progress
    assert then == ItemProgress(fraction=0.9, note=None, at=clock.now())
    assert queue.report_item(1, as_of=held.lease).chain[0].progress is None


def test_a_lost_item_says_nothing(queue: LocalQueue) -> None:
    """Of the others of its claim it is written."""
    held = queue.claim(3)
    queue.cancel({"id": 1})

    with pytest.raises(LeaseLostError):
        held.renew(progress={1: 0.1, 2: 0.2})

    assert [seq for seq, _ in _said(queue)] == [1]


def test_a_queue_of_an_older_format_keeps_none(queue: LocalQueue) -> None:
    """Its renewals go on as they are."""
    admin.configure(queue._main, lambda old, _: type(old)(config=old.config, format=5))
    held = queue.claim(1)

    held.renew(progress={1: 0.5})

    assert [row["_kind"] for row in _rows(queue)] == ["renewal"]
    assert queue.explain(1).progress is None


@pytest.mark.parametrize(
    ("is_large", "other", "summed_up", "merged"), list(product((False, True), repeat=4))
)
def test_readers_of_the_log_go_by_it_as_if_it_were_not_there(
    queue: LocalQueue,
    again: Callable[[], LocalQueue],
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_large: bool,
    other: bool,
    summed_up: bool,
    merged: bool,
) -> None:
    """In memory or by SQL, in this process or another, before a checkpoint and after it."""
    held = queue.claim(2)
    held.renew(20 * MINUTE, progress={1: 0.5, 2: (0.6, "so far")})
    if summed_up:
        checkpoint(queue._store)
    if merged:
        queue.maintain()
    reader = again() if other else queue
    monkeypatch.setattr("spark_queue.state.replica_choice.LARGE", 0 if is_large else 5_000)

    assert reader.explain(2).progress == ItemProgress(fraction=0.6, note="so far", at=clock.now())
    assert [row["id"] for row in reader.claim(1).rows] == [2]
    assert reader.history(1)["_state"].to_pylist() == ["ready", "claimed", "claimed"]
    assert reader.status()["_state"].to_pylist() == ["claimed"] * 3 + ["ready"]
    assert [found.id for found in reader.doctor().findings] == ["unsafe-session"]
    held.settle_each({1: "nack"})
    held.renew(progress={2: 0.7})
    assert held.ack().acked == 1
    assert reader.counts()["acked"] == 1
    clock.advance(MINUTE)
    assert [row["id"] for row in reader.claim(4).rows] == [0, 3]


def test_what_is_no_progress_fails_the_item_that_says_it(make: Make) -> None:
    """With an error that names it."""
    queue = make("id long", max_attempts=1)
    queue.enqueue({"id": 1})

    queue.process(lambda _: current_item().progress(40, "percent"))

    (error,) = queue.dead()["_error"].to_pylist()
    assert error == "InvalidArgumentError: fraction is 40: it must be a number from 0 to 1"


@pytest.mark.parametrize(
    ("progress", "problem"),
    [
        ({1: 1.5}, "fraction of seq 1 is 1.5: it must be a number from 0 to 1"),
        ({1: float("nan")}, "fraction of seq 1 is nan"),
        ({1: True}, "fraction of seq 1 is True"),
        ({1: "half"}, "fraction of seq 1 is 'half'"),
        ({1: (0.5, 7)}, "note of seq 1 is 7: it must be a text"),
        ({1: (0.5,)}, r"fraction of seq 1 is \(0.5,\)"),
        ({"1": 0.5}, "_seq in progress is '1'"),
        ([(1, 0.5)], "progress is .*: it must be a Mapping"),
    ],
)
def test_what_is_no_progress_is_refused(queue: LocalQueue, progress: Any, problem: str) -> None:
    """Nothing is written."""
    held = queue.claim(1)
    with pytest.raises(InvalidArgumentError, match=problem):
        held.renew(progress=progress)
    assert _rows(queue) == []


def test_a_note_is_one_line_of_two_hundred_characters(queue: LocalQueue) -> None:
    """What is more is cut, and what no text can hold is a question mark."""
    held = queue.claim(2)
    held.renew(progress={1: (0, "a\n\tb  \udc80" + "c" * 1_000), 2: (1, " \n")})

    progress = [queue.explain(seq).progress for seq in (1, 2)]

    assert [said and said.note for said in progress] == ["a b ?" + "c" * 195, None]


def test_outside_a_handler_it_goes_nowhere() -> None:
    """So a handler can be called without a queue; what is no progress is refused all the same."""
    current_item().progress(0.5, "half")
    with pytest.raises(InvalidArgumentError, match="fraction is -1"):
        current_item().progress(-1)

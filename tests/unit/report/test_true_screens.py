"""What screens say of ages, rates, estimates and what was redriven."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from spark_queue.acting import acting_as
from spark_queue.clock import ManualClock
from spark_queue.errors import CannotUndoError
from spark_queue.local_queue import LocalQueue
from spark_queue.metrics import instruments
from spark_queue.metrics.metric_samples import samples
from spark_queue.report import condition, sheets
from spark_queue.report.condition import Condition, judge_condition
from spark_queue.report.page import tiles
from spark_queue.retry_policy import RetryPolicy
from tests.unit.report.conftest import Make

_SECOND = timedelta(seconds=1)
_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)


def _rows(count: int, path: str | None = None, tenant: str = "a") -> list[dict[str, str | None]]:
    return [{"id": f"{path}{n}", "tenant": tenant, "path": path} for n in range(count)]


def per_key(queue: LocalQueue, column: str) -> list[object]:
    """Return a column of the statistics of fair keys."""
    keys = queue.stats().per_key
    assert isinstance(keys, pa.Table)
    found: list[object] = keys[column].to_pylist()
    return found


def _work(queue: LocalQueue, clock: ManualClock, rounds: int, items: int) -> None:
    for _ in range(rounds):
        queue.claim(items).ack()
        clock.advance(10 * _SECOND)


def test_a_batch_that_falls_steadily_has_an_end(make: Make, clock: ManualClock) -> None:
    """The estimate is right from the first minutes on, though all entered in the window."""
    queue = make()
    queue.enqueue(_rows(600))
    for _ in range(5):
        _work(queue, clock, 6, 5)

        seen = queue.report().overview

        left = (600 - seen.acked) / 0.5
        assert seen.trend == "falls"
        assert seen.time_left == pytest.approx(left, rel=0.1)
        assert seen.time_left_least is not None
        assert seen.time_left_most is not None
        assert seen.time_left_least <= left <= seen.time_left_most * 1.01
        assert seen.done_per_second_now == pytest.approx(0.5, rel=0.1)


def test_only_what_rises_is_never_done(make: Make, clock: ManualClock) -> None:
    """Items that enter faster than they end rise; where nothing happens it is unknown."""
    queue = make()
    assert queue.report().overview.trend == "done"
    for _ in range(4):
        queue.enqueue(_rows(6))
        _work(queue, clock, 2, 2)
    seen = queue.report()
    assert (seen.overview.trend, seen.overview.time_left) == ("rises", None)
    assert next(one for one in tiles(seen) if one.label == "done in").value == "never"

    clock.advance(11 * _MINUTE)
    seen = queue.report()
    assert (seen.overview.trend, seen.overview.time_left) == ("stays", None)
    assert next(one for one in tiles(seen) if one.label == "done in").value == "unknown"
    queue.claim(99).ack()
    seen = queue.report()
    assert (seen.overview.trend, seen.overview.time_left) == ("done", 0.0)


def test_a_count_names_the_time_that_it_is_divided_by(make: Make, clock: ManualClock) -> None:
    """Ninety items in ninety seconds are one a second, and not ninety in an hour."""
    queue = make()
    queue.enqueue(_rows(90))
    _work(queue, clock, 9, 10)

    report = queue.report()

    told = {one.label: (one.value, one.note) for one in tiles(report)}
    assert told["acked in 90 s"] == ("90", "1.0 / s, now 1.0 / s")
    rows = {row[0]: row[2] for row in sheets.sheets(report)[0].rows}
    assert rows["acked"] == "90 in 90 s, 1.00 a second; now 1.00"
    clock.advance(timedelta(hours=2))
    assert condition.window_text(queue.report()) == "60 min"


def test_what_was_redriven_is_neither_dead_nor_failing(make: Make, clock: ManualClock) -> None:
    """After a redrive that helped no face counts its items among the dead ones."""
    queue = make(fair_key="tenant")
    queue.enqueue(_rows(5))
    queue.claim(4).dead("boom")
    clock.advance(_SECOND)
    queue.redrive({"_seq": [1, 2, 3]})
    queue.claim(4).ack()

    report, stats = queue.report(), queue.stats()

    assert (report.overview.dead, report.overview.redriven) == (1, 3)
    assert [one.dead for one in report.tenants] == [1]
    assert [one.dead for one in report.errors] == [1]
    assert (stats.dead, stats.redriven) == (4, 3)
    assert per_key(queue, "redriven") == [3]
    depth = {
        one.labels["state"]: one.value for one in samples(queue) if one.metric is instruments.DEPTH
    }
    assert (depth["dead"], depth["redriven"], depth["acked"]) == (1, 3, 4)


def test_what_an_undo_brought_back_was_enqueued_once(make: Make, clock: ManualClock) -> None:
    """A cancel that was taken back leaves as many items as entered, and no more."""
    queue = make()
    queue.enqueue(_rows(5))
    clock.advance(_SECOND)
    step = queue.cancel("true").step
    clock.advance(_SECOND)
    assert step is not None
    queue.undo(step)

    report = queue.report()

    assert report.overview.enqueued_in_window == 5
    assert sum(point.entered for point in report.flow) == 5
    assert report.overview.ready == 5


def test_an_item_waits_from_when_it_may_run(make: Make, clock: ManualClock) -> None:
    """Before its time, and during the delay of a retry, an item does not wait, in any face."""
    queue = make(fair_key="tenant", retry=RetryPolicy(delay=10 * _MINUTE))
    later = clock.now() + 30 * _MINUTE
    queue.enqueue([{**_rows(1)[0], "available_at": later}])
    clock.advance(29 * _MINUTE)
    assert _ages(queue) == [None] * 5

    clock.advance(3 * _MINUTE)
    assert _ages(queue) == [120.0] * 5
    queue.claim(1).nack("boom")
    clock.advance(9 * _MINUTE)
    assert _ages(queue) == [None] * 5
    clock.advance(4 * _MINUTE)
    assert _ages(queue) == [180.0] * 5
    # It waited for two minutes until its first claim, not for 32.
    assert [one.wait_p50 for one in queue.report().tenants] == [120.0]
    assert per_key(queue, "wait_p50") == [120.0]


def test_an_item_waits_behind_its_group_and_a_limit(make: Make, clock: ManualClock) -> None:
    """What others keep from running waits as what could run does."""
    queue = make(group_key="path", max_in_flight=1)
    queue.enqueue(_rows(2, "x"))
    queue.claim(1)
    clock.advance(4 * _MINUTE)

    report = queue.report()

    assert report.overview.oldest_age == 240.0
    assert [one.oldest_age for one in report.groups] == [240.0]


def test_the_headline_is_the_worst_finding(make: Make, clock: ManualClock) -> None:
    """Work that nobody goes on with stalls by minutes, and not by the window that is shown."""
    queue = make(max_attempts=1)
    queue.enqueue(_rows(9))
    assert str(_condition(queue)) == "✓ OK: 9 items wait, 0 in flight"

    claim = queue.claim(2, worker_id="w", lease=_MINUTE)
    clock.advance(90 * _SECOND)
    assert _condition(queue).word == "OK"
    clock.advance(_MINUTE)
    stalled = _condition(queue)
    assert (stalled.word, _warnings(queue)) == ("STALLED", ["leases-overdue"])
    assert stalled.why.startswith("2 leases of w ran out, and their items wait")
    claim.release()
    assert _condition(queue).word == "OK"
    clock.advance(10 * _MINUTE)
    assert (_condition(queue).word, _warnings(queue)) == ("STALLED", ["nobody-claims"])
    queue.claim(1).nack("boom")
    assert (_condition(queue).word, _warnings(queue)) == ("FAILING", ["dead-growing"])
    queue.redrive("true")
    assert (_condition(queue).word, _warnings(queue)) == ("OK", [])
    queue.pause()
    assert str(_condition(queue)).startswith("‖ PAUSED: claims get nothing: it was paused by ")


def test_items_that_died_are_told_with_the_error_that_they_died_of(
    make: Make, clock: ManualClock
) -> None:
    """Number and error are of one set: those that died in the window, and were not redriven."""
    queue = make(max_attempts=1)
    queue.enqueue(_rows(8))
    queue.claim(4).nack("old: gone")
    clock.advance(timedelta(hours=2))
    queue.claim(3).nack("new: boom")
    queue.redrive({"_seq": [5, 6]})

    (found,) = [one for one in queue.doctor().findings if one.id == "dead-growing"]

    assert found.what == "1 item died in 1 h, with: new: boom"
    assert "new: boom" in found.command
    assert "".join(one.redrive for one in queue.report().errors).count("redrive") == 2


def _warnings(queue: LocalQueue) -> list[str]:
    return [one.id for one in queue.doctor().findings if one.severity == "warning"]


def _condition(queue: LocalQueue) -> Condition:
    return judge_condition(queue.report())


def _ages(queue: LocalQueue) -> list[float | None]:
    """Return how long the oldest item has waited, as each face says it."""
    report, stats = queue.report(), queue.stats()
    told = stats.oldest_age
    (metric,) = [one.value for one in samples(queue) if one.metric is instruments.OLDEST]
    return [
        report.overview.oldest_age,
        report.tenants[0].oldest_age,
        report.readers[0].oldest_age,
        None if told is None else told.total_seconds(),
        metric or None,
    ]


def test_a_slow_worker_and_a_slow_tenant_are_seen(make: Make, clock: ManualClock) -> None:
    """From claim to settle, by worker and tenant; what was given back or lost is no work."""
    queue = make(fair_key="tenant", retry=RetryPolicy(delay=timedelta(0)))
    queue.enqueue([*_rows(6), *_rows(6, "x", tenant="b")])
    for worker, seconds in (("quick", 2), ("slow", 30), ("quick", 4), ("slow", 60), ("slow", 90)):
        claim = queue.claim(2, worker_id=worker)
        clock.advance(seconds * _SECOND)
        first, second = (row["_seq"] for row in claim.rows)
        claim.settle_each({first: "ack", second: ("nack", "boom")})
    given = queue.claim(2, worker_id="idle")
    clock.advance(_HOUR / 4)
    given.release()

    report = queue.report()

    workers = {one.worker_id: one for one in report.workers}
    slow, quick, idle = workers["slow"], workers["quick"], workers["idle"]
    assert (slow.acked, slow.work_p50, slow.work_p95) == (3, 60.0, 90.0)
    assert (quick.acked, quick.work_p50, quick.work_p95) == (2, 2.0, 4.0)
    assert (idle.acked, idle.work_p50, idle.work_p95) == (0, None, None)
    assert {one.fair_key: one.work_p95 for one in report.tenants} == {"a": 90.0, "b": 90.0}
    found = {
        (one.labels["worker"], one.labels["quantile"]): one.value
        for one in samples(queue)
        if one.metric is instruments.WORKER_WORK
    }
    assert found[("slow", "0.5")] == 60.0
    assert "work p50" in sheets.panel("workers", report.workers, report.as_of).heads[-3][0]


def test_a_purge_is_a_step_of_somebody_and_hides_no_other(make: Make, clock: ManualClock) -> None:
    """It has a step, a number and a name; a cancel and a redrive before stay in the list."""
    queue = make(max_attempts=1)
    queue.enqueue(_rows(6))
    _operate(queue, clock)
    before = _steps(queue)
    clock.advance(_MINUTE)

    with acting_as("cyd"):
        queue.purge("true")
    clock.advance(_MINUTE)
    queue.enqueue(_rows(1, "later"))
    queue.claim(1).ack()
    with acting_as("dee"):
        queue.purge("true")

    steps = _steps(queue)
    assert steps[2:] == before
    assert [one[1:] for one in steps[:2]] == [("purged", 1, "dee"), ("purged", 7, "cyd")]
    with pytest.raises(CannotUndoError, match=r"changed no setting.*a purge took items away"):
        queue.undo(steps[0][0])
    newest = queue.report().steps[0]
    assert (newest.log, newest.at, newest.undo) == ("status", clock.now(), "")
    assert queue.report().steps[2].detail == "its items are gone"


def _operate(queue: LocalQueue, clock: ManualClock) -> None:
    """Cancel two items, redrive one that died, and work the rest off."""
    with acting_as("ann"):
        queue.cancel({"_seq": [1, 2]})
    queue.claim(2).nack("boom")
    clock.advance(_SECOND)
    with acting_as("bob"):
        queue.redrive({"_seq": 3})
    queue.claim(9).ack()


def _steps(queue: LocalQueue) -> list[tuple[int, str, int, str | None]]:
    return [
        (one.step, one.action, one.items, one.who)
        for one in queue.report().steps
        if one.action != "created"
    ]

"""How many items of a group ``process`` claims together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from spark_queue.clock import ManualClock
from spark_queue.errors import Reject
from spark_queue.local_queue import LocalQueue
from spark_queue.processing.loop import ProcessResult
from spark_queue.retry_policy import RetryPolicy
from tests.unit.local.conftest import Make

Handler = Callable[[dict[str, Any]], None]

#: As in a session, and more than any group has.
LIMIT = 10_000


@pytest.fixture
def deep(make: Make) -> Callable[..., LocalQueue]:
    """Make a queue of groups of given depths; what fails is retried at once."""

    def build(*depths: int, **settings: Any) -> LocalQueue:
        queue = make("n long, grp string", group_key="grp", **{"retry": _after(0), **settings})
        groups = enumerate(depths)
        queue.enqueue([{"n": n, "grp": f"g{at}"} for at, depth in groups for n in range(depth)])
        return queue

    return build


def _after(seconds: float) -> RetryPolicy:
    return RetryPolicy(backoff="fixed", delay=timedelta(seconds=seconds))


def _failing(every: int, times: int = 1) -> Handler:
    """Return a handler that each so-many-th item makes fail so many times."""

    def handle(item: dict[str, Any]) -> None:
        if item["n"] % every == every - 1 and item["_attempts"] < times:
            raise ValueError("not yet")

    return handle


def _rows(results: Sequence[ProcessResult]) -> int:
    """Return the rows of status of claims and settles: each item of a claim is in both."""
    return 2 * sum(one.acked + one.failed + one.released + one.dead for one in results)


def _claims(queue: LocalQueue, handler: Handler, **options: Any) -> list[int]:
    """Process a queue, and return how many items each claim had."""
    told: list[int] = []
    queue.process(handler, **options, on_claim=lambda so_far: told.append(_rows([so_far]) // 2))
    return [now - before for before, now in zip([0, *told], told, strict=False)]


@pytest.mark.parametrize(("every", "times", "most"), [(20, 1, 6), (50, 1, 6), (50, 3, 10)])
def test_a_deep_group_with_failures_costs_few_rows(
    deep: Callable[..., LocalQueue], every: int, times: int, most: int
) -> None:
    """A claim takes about as much of a group as it works off before the next failure."""
    queue = deep(1_500)

    done = queue.process(_failing(every, times), limit=LIMIT)

    failures = 1_500 // every * times
    assert (done.acked, done.failed, done.stopped) == (1_500, failures, "empty")
    assert _rows([done]) <= most * 1_500
    assert done.claims <= failures + 1_500 // every + 3


def test_one_bad_group_costs_few_rows_beside_many_good_ones(
    deep: Callable[..., LocalQueue],
) -> None:
    """What goes back of a bad group is soon less than what is done of all."""
    queue = deep(1_000, *[3] * 500)

    done = queue.process(_failing(50), limit=1_000)

    assert done.acked == 2_500
    assert _rows([done]) <= 6 * 2_500


def test_a_group_without_failures_is_claimed_in_a_few_claims(
    deep: Callable[..., LocalQueue],
) -> None:
    """Runs grow fourfold while they are worked off; rejected items stop no group."""

    def handle(item: dict[str, Any]) -> None:
        if item["n"] % 3 == 0:
            raise Reject("never")

    assert _claims(deep(3_000), handle, limit=LIMIT) == [500, 2_000, 500]


def test_a_given_number_of_items_of_a_group_is_never_exceeded(
    deep: Callable[..., LocalQueue],
) -> None:
    """``max_per_group`` is a limit, and what a claim with less of it taught stays known."""
    queue = deep(500, 40)
    assert _claims(queue, lambda _: None, max_per_group=20, limit=60)[:5] == [40, 40, 20, 20, 20]

    queue.enqueue([{"n": n, "grp": "g"} for n in range(1_000)])
    assert _claims(queue, lambda _: None, limit=LIMIT) == [500, 500]


def test_what_was_learnt_holds_for_the_next_call(
    deep: Callable[..., LocalQueue], clock: ManualClock
) -> None:
    """A group that waits for its retry ends a call, and the next one begins where it ended."""
    queue = deep(1_500, retry=_after(10))
    done: list[ProcessResult] = []

    while not done or done[-1].stopped == "waiting":
        done.append(queue.process(_failing(20), limit=LIMIT))
        clock.advance(timedelta(seconds=10))

    assert (done[-1].stopped, sum(one.acked for one in done)) == ("empty", 1_500)
    assert _rows(done) <= 6 * 1_500


def test_a_run_ends_before_its_lease_is_renewed(
    deep: Callable[..., LocalQueue], clock: ManualClock
) -> None:
    """Runs of slow items are short; a claim that is full of other items says nothing of runs."""
    queue = deep(1_000, lease=timedelta(seconds=150))

    def handle(_: dict[str, Any]) -> None:
        clock.advance(timedelta(seconds=0.2))

    found = _claims(queue, handle, limit=LIMIT)
    assert found == [500, 250, 250]

    queue.enqueue([{"n": 0, "grp": f"h{number}"} for number in range(900)])
    assert _claims(queue, handle, limit=300) == [300] * 3
    queue.enqueue([{"n": n, "grp": "i"} for n in range(300)])
    assert _claims(queue, handle, limit=LIMIT) == [250, 50]


def test_a_short_lease_does_not_make_runs_of_single_items(
    deep: Callable[..., LocalQueue], clock: ManualClock
) -> None:
    """Where not even a few items are done in time, claims keep a length that is worth a claim."""
    queue = deep(700, lease=timedelta(seconds=3))

    def handle(_: dict[str, Any]) -> None:
        clock.advance(timedelta(seconds=1))

    assert _claims(queue, handle, limit=LIMIT) == [500, 100, 100]


def test_a_run_of_one_batch_teaches_nothing(deep: Callable[..., LocalQueue]) -> None:
    """With ``per="batch"`` a claim takes one item of a group, and runs stay as they were."""
    queue = deep(5, 5)
    assert queue.process(lambda _: None, per="batch").acked == 10

    queue.enqueue([{"n": n, "grp": "g"} for n in range(1_000)])
    assert _claims(queue, lambda _: None, limit=LIMIT) == [500, 500]

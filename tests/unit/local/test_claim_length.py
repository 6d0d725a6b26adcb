"""How many items a claim of ``process`` takes where nobody says: as many as take a target time."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from spark_queue.clock import ManualClock
from spark_queue.commands import admin
from spark_queue.errors import InvalidArgumentError
from spark_queue.flow import Rate
from spark_queue.local_queue import LocalQueue
from spark_queue.log.heads import to_json
from spark_queue.log.schema import CHAINED
from spark_queue.metrics.instruments import CLAIM_SIZE
from spark_queue.metrics.metric_samples import samples
from spark_queue.processing.claim_length import Way
from spark_queue.processing.loop import ProcessResult
from spark_queue.queue_views import store_of
from spark_queue.report import sheets
from spark_queue.sql import file_rows
from spark_queue.state.store import Store
from tests.unit.local.conftest import Make

#: Of which the target time is a 20th: ten seconds.
LEASE = timedelta(seconds=200)


@pytest.fixture
def filled(make: Make) -> Callable[[int], LocalQueue]:
    """Make a queue of so many items."""

    def build(items: int) -> LocalQueue:
        queue = make("n long", lease=LEASE)
        queue.enqueue([{"n": n} for n in range(items)])
        return queue

    return build


def _claims(
    queue: LocalQueue, handler: Callable[[dict[str, Any]], None], **options: Any
) -> list[int]:
    """Process a queue, and return how many items were done of each claim."""
    done = [0]
    queue.process(handler, **options, on_claim=lambda so_far: done.append(so_far.acked))
    return [now - before for before, now in itertools.pairwise(done)]


def test_short_items_come_in_large_claims(filled: Callable[[int], LocalQueue]) -> None:
    """The first claim is small, as nothing is known; the next ones are 512 times as long."""
    assert _claims(filled(3_000), lambda _: None) == [16, 2_984]


# rule: length of a claim
@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.1, [16, 100, 84]), (4, [3, 2, 2]), (30, [1] * 4)]
)
def test_a_claim_takes_the_target_time(
    filled: Callable[[int], LocalQueue], clock: ManualClock, seconds: float, expected: list[int]
) -> None:
    """What is not begun in that time goes back, and the next claim is as long as was worked off."""
    queue = filled(sum(expected))

    def handle(_: dict[str, Any]) -> None:
        clock.advance(timedelta(seconds=seconds))

    assert _claims(queue, handle) == expected


@pytest.mark.parametrize("slow", [0.5, 3, 30])
def test_a_kill_repeats_a_target_time_at_most(
    filled: Callable[[int], LocalQueue], clock: ManualClock, slow: float
) -> None:
    """What was done and is not settled took no longer, also where slow items follow fast ones."""
    queue, unsettled = filled(540), []
    begun: list[float] = []

    def handle(item: dict[str, Any]) -> None:
        begun.append(0.001 if item["n"] < 500 else slow)
        unsettled.append(sum(begun[queue.counts()["acked"] : -1]))
        clock.advance(timedelta(seconds=begun[-1]))

    queue.process(handle)
    assert len(begun) == 540
    assert 0 < max(unsettled) <= LEASE.total_seconds() / 20


# rule: calls at a rate
@pytest.mark.parametrize(
    ("milliseconds", "hands", "expected"),
    [(0, 1, [1, 73]), (30, 1, [1, 3, 3, 3]), (200, 1, [1] * 4), (200, 3, [3, 3])],
)
def test_rated_items_begin_within_the_time_of_one_unit(
    make: Make, clock: ManualClock, milliseconds: int, hands: int, expected: list[int]
) -> None:
    """A claim counts its items as started: each hand is late with one at most, or one unit."""
    rate = Rate(limit=10, per=timedelta(seconds=1), burst=100)
    queue = make("n long", lease=LEASE, rates=(rate,))
    queue.enqueue([{"n": n} for n in range(sum(expected))])

    def handle(_: dict[str, Any]) -> None:
        clock.advance(timedelta(milliseconds=milliseconds))

    assert _claims(queue, handle, max_workers=hands) == expected


def test_each_child_is_late_with_one_item_at_most(make: Make, clock: ManualClock) -> None:
    """What a hand that is a process has begun, the others do not know."""
    rate = Rate(limit=10, per=timedelta(seconds=1), burst=100)
    queue = make("n long", lease=LEASE, rates=(rate,))
    queue.enqueue([{"n": n} for n in range(9)])

    def handle(_: dict[str, Any]) -> None:
        clock.advance(timedelta(milliseconds=200))

    assert _claims(queue, handle, max_workers=3, using="processes") == [3, 3, 3]


def test_a_rate_of_bytes_lets_each_hand_begin_one_item(make: Make) -> None:
    """The time of one byte is no time; what the handler was called for is acked all the same."""
    rate = Rate(limit=10**8, per=timedelta(seconds=1), units="n")
    queue = make("n long", lease=LEASE, rates=(rate,))
    queue.enqueue([{"n": n} for n in (100, 200, 300)])
    assert queue.process(lambda _: None).acked == 3


@pytest.mark.parametrize(
    ("slow", "limit", "quick", "expected"),
    [
        ([2], 9, 0, [1, 4, 5, 6, 9, 10]),
        (range(99), 2, 20, [*range(1, 23, 2), *range(23, 31), *range(31, 40, 2)]),
    ],
)
def test_a_hand_is_late_for_what_a_claim_was_held_up(
    make: Make,
    clock: ManualClock,
    slow: Sequence[int],
    limit: int,
    quick: int,
    expected: list[int],
) -> None:
    """From the claim to the handler it takes 80 ms more than before; in time that is usual."""
    rate = Rate(limit=10, per=timedelta(seconds=1), burst=100)
    queue = make("n long", lease=LEASE, rates=(rate,))
    queue.enqueue([{"n": n} for n in range(expected[-1])])
    claims = list[int]()

    def note(so_far: ProcessResult) -> None:
        claims.append(so_far.acked)
        if len(claims) in slow:
            clock.advance(timedelta(milliseconds=80))

    def handle(item: dict[str, Any]) -> None:
        clock.advance(timedelta(milliseconds=10 if item["n"] < quick else 30))

    queue.process(handle, limit=limit, on_claim=note)
    assert claims == expected


@pytest.fixture
def reading(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Callable[[float, float], None]:
    """Let the items of a claim take seconds to be read: some for all, and some for each."""
    require_items = file_rows.require_items

    def take(whole: float, each: float) -> None:
        def read(store: Store, grant: pa.Table, count: int, claim_id: str) -> pa.Table:
            clock.advance(timedelta(seconds=whole + count * each))
            return require_items(store, grant, count, claim_id)

        monkeypatch.setattr(file_rows, "require_items", read)

    return take


@pytest.mark.parametrize(
    ("whole", "each", "expected"),
    [(0.15, 0, [1, 3, 3, 3]), (0, 0.02, [1, 3, 3, 3, 2])],
)
def test_a_fast_rate_is_reached_where_it_takes_time_to_read_a_claim(
    make: Make,
    clock: ManualClock,
    reading: Callable[[float, float], None],
    whole: float,
    each: float,
    expected: list[int],
) -> None:
    """Among many processes a claim of one item would not keep up; time for each item counts."""
    rate = Rate(limit=10, per=timedelta(seconds=1), burst=100)
    queue = make("n long", lease=LEASE, rates=(rate,))
    queue.enqueue([{"n": n} for n in range(sum(expected))])
    reading(whole, each)

    def handle(_: dict[str, Any]) -> None:
        clock.advance(timedelta(milliseconds=30))

    assert _claims(queue, handle) == expected


# rule: length of a claim
def test_what_takes_long_to_be_read_is_claimed_as_far_as_it_begins(
    make: Make, reading: Callable[[float, float], None]
) -> None:
    """Two claims that came too late, and went back but for an item, are enough to say it."""
    queue = make(
        "n long", lease=LEASE, rates=(Rate(limit=10, per=timedelta(seconds=1), burst=100),)
    )
    queue.enqueue([{"n": n} for n in range(100)])
    reading(0.1, 0.02)

    done = queue.process(lambda _: None, limit=20)

    assert (done.acked, done.released) == (100, 2 * 19)


def test_a_clock_that_was_set_back_says_nothing_of_the_way() -> None:
    """It would count as no time at all, and the way from then on as the items' own."""
    way, took, target = Way(), timedelta(seconds=0.05), timedelta(seconds=0.1)
    assert way.note(8, -took, target) == timedelta(0)
    assert way.note(8, took, target) == took
    assert way.note(8, -took, target) == took
    assert [way.note(8, took, target) for _ in range(3)] == [took] * 3
    assert way.each == timedelta(0)


def test_the_time_to_read_an_item_is_part_of_its_own(
    filled: Callable[[int], LocalQueue],
    clock: ManualClock,
    reading: Callable[[float, float], None],
) -> None:
    """A claim that took longer to be read than it is to take would go back, item by item."""
    queue = filled(4_000)
    reading(0, 0.005)

    def handle(_: dict[str, Any]) -> None:
        clock.advance(timedelta(microseconds=100))

    assert _claims(queue, handle) == [16, 1_960, 1_960, 64]


def test_hands_are_never_idle_for_a_target_time(
    filled: Callable[[int], LocalQueue], clock: ManualClock
) -> None:
    """An item that takes longer than a claim is to take is no reason to take fewer than begin."""

    def handle(_: dict[str, Any]) -> None:
        clock.advance(timedelta(seconds=60))

    claims = _claims(filled(40), handle, max_workers=4)
    assert min(claims[:-1]) >= 4


def test_lengths_are_known_by_handler_until_the_process_ends(
    filled: Callable[[int], LocalQueue], clock: ManualClock
) -> None:
    """The next call begins where the last one ended; another handler begins anew."""

    def slow(_: dict[str, Any]) -> None:
        clock.advance(timedelta(seconds=2))

    queue = filled(60)
    stop = threading.Event()
    queue.process(slow, stop=stop, on_claim=lambda _: stop.set())
    assert queue.counts()["acked"] == 5

    assert _claims(queue, slow)[:2] == [5, 5]

    queue.enqueue([{"n": n} for n in range(40)])
    assert _claims(queue, lambda _: None)[:2] == [16, 24]


def test_workers_share_what_waits(filled: Callable[[int], LocalQueue], clock: ManualClock) -> None:
    """While another one holds a claim, each takes half of its part, but no claim of no time."""
    queue = filled(100)
    held = queue.claim(20)

    def handle(_: dict[str, Any]) -> None:
        clock.advance(timedelta(seconds=0.1))

    assert _claims(queue, handle) == [16, 16, 12, 9, 6, 5, 5, 5, 5, 1]
    held.release()
    assert _claims(queue, handle) == [20]


def test_a_length_is_reported_with_its_reason(
    filled: Callable[[int], LocalQueue], clock: ManualClock
) -> None:
    """``explain_step``, reports and metrics say how many items a claim got, and why so many."""
    queue = filled(30)

    def sizes(**options: Any) -> list[str]:
        """Process a queue, and return what is said of its new claims."""
        before = store_of(queue).status_head().step
        queue.process(lambda _: clock.advance(timedelta(seconds=0.1)), **options)
        steps = range(before + 1, store_of(queue).status_head().step + 1)
        return [str(size) for step in steps if (size := queue.explain_step(step))]

    assert sizes() == [
        "16 of at most 16 items: the first claim of its handler, to learn how many take 10 s",
        "14 of at most 100 items: as many as take 10 s",
    ]
    assert "the last claim got 14 of at most 100 items: as" in str(sheets.overview(queue.report()))
    (shown,) = (one for one in samples(queue) if one.metric is CLAIM_SIZE)
    assert (shown.value, shown.labels["reason"]) == (100, "measured")

    queue.enqueue([{"n": n} for n in range(30)])
    held = queue.claim(10)
    assert sizes()[0] == "5 of at most 5 items: a share of what waits, as others hold claims"
    held.release()
    assert sizes(max_bytes=1)[0] == "1 of at most 1 item: more have too many bytes"

    queue.enqueue({"n": 1})
    assert sizes(limit=7) == []
    assert queue.report().service.claim_size is None


def test_an_older_queue_keeps_no_length(filled: Callable[[int], LocalQueue]) -> None:
    """What reads its heads may be older, too: an upgrade brings it."""
    queue = filled(1)
    admin.configure(store_of(queue), lambda old, _: replace(old, format=CHAINED - 1))
    queue.process(lambda _: None)
    assert "claim_size" not in to_json(store_of(queue).status_head())
    queue.upgrade()
    queue.enqueue({"n": 1})
    queue.process(lambda _: None)
    assert queue.report().service.claim_size is not None


def test_a_length_is_a_number_or_the_word(filled: Callable[[int], LocalQueue]) -> None:
    """A number stays what it is."""
    queue = filled(30)
    assert _claims(queue, lambda _: None, limit=7) == [7, 7, 7, 7, 2]
    with pytest.raises(InvalidArgumentError, match=r"limit is 'many': .* a number .* or 'auto'"):
        queue.process(lambda _: None, limit="many")  # type: ignore[call-overload]

"""The rules of the operators on streams, without Spark: events in, answers out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from itertools import chain, pairwise
from typing import Any, TypeVar, cast

from hypothesis import given, strategies as st

from spark_queue.config import QueueConfig
from spark_queue.retry_policy import RetryPolicy
from spark_queue.rules.rule_model import Ack, Dead, Nack, NewItem, Outcome, Release
from spark_queue.rules.scheduler import Scheduler
from spark_queue.streaming.stream_groups import SerialRules
from spark_queue.streaming.stream_rules import (
    ARRIVAL,
    CLOCK,
    COMPLETION,
    BucketRules,
    DistinctRules,
    Event,
    FairRules,
    Outgoing,
)

SECOND = 1_000_000

T = TypeVar("T")


def arrival(seq: int, key: str | None, at: int = 0, cost: float = 1.0) -> Event:
    """Make the arrival of a row that is named by its sequence."""
    return Event(at * SECOND, ARRIVAL, seq, key, cost, None, seq)


def done(
    seq: int, key: str | None, at: int = 0, outcome: str | None = None, run: float = 0.0
) -> Event:
    """Make the completion of a row."""
    return Event(at * SECOND, COMPLETION, seq, key, run, outcome, -1)


def served(number: float) -> Event:
    """Make a row that says which round was served."""
    return Event(0, COMPLETION, 0, None, number, None, -1)


def beat(at: int) -> Event:
    """Let time pass."""
    return Event(at * SECOND, CLOCK, 0, None, 0.0, None, -1)


def played(
    make: Callable[[], BucketRules], batches: Iterable[Sequence[Event]]
) -> list[list[Outgoing]]:
    """Apply batches, and write the rules down and read them back between any two."""
    answers = []
    rules = make()
    store: dict[int, Any] = {}
    rules.load({"counts": {}}, store)
    for batch in batches:
        answers.append(rules.apply(sorted(batch, key=lambda event: event[:3])))
        plain = json.loads(json.dumps(rules.dump()))
        rules = make()
        rules.load(plain, store)
    return answers


def written(rules: BucketRules) -> tuple[dict[str, Any], dict[int, Any]]:
    """Return the head that a bucket writes, and its pages."""
    return rules.dump(), dict(rules.pages.store)  # type: ignore[call-overload]


def rows(answers: Iterable[Outgoing]) -> list[int]:
    """Return the sequence of each row that went out."""
    return [answer.row for answer in answers]


def serial(**options: Any) -> Callable[[], SerialRules]:
    """Make serial rules that retry at once and time out never, unless options say otherwise."""
    defaults = {"retry": RetryPolicy(delay=timedelta(0)), "lease": timedelta(days=9999)}
    sizes = {name: options.pop(name) for name in ("page", "near") if name in options}
    return partial(SerialRules, QueueConfig(group_key="g", **{**defaults, **options}), **sizes)


def test_a_key_passes_again_after_its_completion() -> None:
    """A key that is in flight is refused; completed, it passes once more."""
    first, second, third = played(
        DistinctRules,
        [
            [arrival(1, "a", 1), arrival(2, "a", 2), arrival(3, None, 3), arrival(4, None, 4)],
            [done(0, "a", 5), done(0, "a", 6), arrival(5, "a", 7)],
            [arrival(6, "a", 8), done(0, "b", 9)],
        ],
    )
    assert (rows(first), rows(second), rows(third)) == ([1, 3, 4], [5], [])


def test_completions_that_change_nothing_are_counted() -> None:
    """A second completion and one of an unknown key are counted, and a key in flight stays."""
    rules = DistinctRules()
    rules.apply([arrival(1, "a"), done(0, "a"), done(0, "a"), done(0, "x"), arrival(2, "a")])
    assert rules.counts == {"passed": 2, "completed": 1, "unknown": 2}


def test_a_completion_frees_what_came_before_it_once() -> None:
    """In an order, a completion that comes again leaves a newer run of its key in flight."""
    make = partial(DistinctRules, ordered=True)
    batches = [
        [arrival(1, "a", 1)],
        [done(0, "a", 2)],
        [arrival(3, "a", 3), done(0, "a", 3)],
        [done(0, "a", 2)],
        [arrival(4, "a", 4)],
        [done(0, "a", 5), arrival(5, "a", 5)],
    ]
    assert [rows(found) for found in played(make, batches)] == [[1], [], [3], [], [], [5]]
    rules = make()
    rules.apply([event for batch in batches for event in sorted(batch)])
    assert rules.counts == {"passed": 3, "completed": 2, "unknown": 1, "stale": 1, "refused": 1}


def test_a_key_of_an_older_state_is_freed_by_any_completion() -> None:
    """An earlier release kept no place of a key in flight: the next completion is its."""
    rules = DistinctRules(ordered=True)
    rules.load({"live": ["a", "b"], "counts": {"passed": 2}}, {})
    assert rows(rules.apply([done(0, "a", -7), arrival(1, "a", 1), arrival(2, "b", 2)])) == [1]


def test_a_key_that_is_free_is_not_remembered() -> None:
    """The state of a distinct stream is its keys in flight, and the counts."""
    rules = DistinctRules()
    for number in range(1_000):
        rules.apply([arrival(number, f"k{number}"), done(0, f"k{number}")])
    head, pages = written(rules)
    assert head == {
        "pages": 1,
        "weight": 0,
        "due": [],
        "counts": {"passed": 1_000, "completed": 1_000},
    }
    assert not pages


def test_rounds_go_on_where_a_key_ended() -> None:
    """A key goes on from its last round, a new one from the round that is being served."""
    first, second = played(
        partial(FairRules, {}, at_once=False),
        [
            [arrival(1, "big"), arrival(2, "big"), arrival(3, "big"), arrival(4, None)],
            [served(2.0), arrival(5, "late"), arrival(6, "big"), arrival(7, None)],
        ],
    )
    assert [answer.number for answer in first] == [1.0, 2.0, 3.0, 1.0]
    assert [answer.number for answer in second] == [3.0, 4.0, 3.0]


def test_a_silent_key_costs_nothing_after_its_rounds() -> None:
    """Once the last round of a key was served, nothing is remembered of it."""
    rules = FairRules({}, at_once=False)
    rules.apply([arrival(n, f"k{n}") for n in range(100)] + [arrival(100, "k1")])
    assert rules.dump()["weight"] == 200
    rules.apply([served(1.0)])
    assert rules.dump()["weight"] == 2
    rules.apply([served(2.0)])
    head, pages = written(rules)
    assert (head["weight"], head["due"], pages) == (0, [], {})


def test_a_served_row_without_a_round_changes_nothing() -> None:
    """A round that is null or has no end is counted, and the next tag is as it was."""
    rules = FairRules({}, at_once=False)
    rules.apply([served(cast("float", None)), served(float("inf")), served(float("nan"))])
    assert [answer.number for answer in rules.apply([arrival(1, "a")])] == [1.0]
    assert rules.counts == {"invalid": 3, "tagged": 1}


def test_only_a_later_round_is_progress() -> None:
    """A round that was served already moves nothing on, and is not counted again."""
    rules = FairRules({}, at_once=False)
    rules.apply([arrival(1, "a"), arrival(2, "a"), served(2.0), served(1.0), served(2.0)])
    assert rules.counts == {"tagged": 2, "served": 1}
    assert [answer.number for answer in rules.apply([arrival(3, "b")])] == [3.0]


def test_a_row_that_waits_behind_others_is_taken_once() -> None:
    """An arrival whose like has not been admitted yet is a duplicate, and the first is kept."""
    rules = serial()()
    rules.apply([arrival(1, "g"), arrival(2, "g"), arrival(2, "g")._replace(row=99)])
    assert rules.counts == {"started": 1, "duplicate": 1}
    assert rows(rules.apply([done(1, "g", 1)])) == [2]


def test_without_served_rows_a_batch_begins_behind_the_one_before() -> None:
    """Where each batch is worked off by itself, nothing but the round is kept."""
    make = partial(FairRules, {}, at_once=True)
    first, second = played(
        make, [[arrival(1, "a"), arrival(2, "a"), arrival(3, "b")], [arrival(4, "b")]]
    )
    assert [answer.number for answer in first] == [1.0, 2.0, 1.0]
    assert [answer.number for answer in second] == [3.0]


def test_weights_and_costs_move_a_key_by_cost_over_weight() -> None:
    """A row of cost 3 of a key of weight 2 takes one and a half rounds."""
    rules = FairRules({"a": 2.0}, at_once=False)
    answers = rules.apply([arrival(1, "a"), arrival(2, "a", cost=3.0), arrival(3, "b")])
    assert [answer.number for answer in answers] == [0.5, 2.0, 1.0]


def test_the_next_of_a_group_comes_when_the_one_before_is_over() -> None:
    """One row of a group runs; rows in no group pass at once."""
    batches = [
        [arrival(1, "g"), arrival(2, "g"), arrival(3, "h"), arrival(4, None)],
        [],
        [done(1, "g", 1)],
        [done(2, "g", 2), done(3, "h", 2)],
    ]
    assert [rows(found) for found in played(serial(), batches)] == [[4, 1, 3], [], [2], []]


def test_a_deep_group_costs_what_may_start() -> None:
    """Of a group only as many rows are looked at as may run; the others wait in pieces."""
    read: list[int] = []

    class Read(dict[int, Any]):
        def get(self, number: int, _: Any = None) -> Any:
            read.append(number)
            return super().get(number)

    make, store = serial(group_limit=2, near=10), Read()
    rules = make()
    rules.load({"counts": {}}, store)
    rules.apply([arrival(number, "g") for number in range(1, 101)])
    head = rules.dump()
    assert sorted(row for _, kept in store.values() for row in kept) == list(range(1, 101))
    assert sorted(store) == [-3, -2, -1, 0]
    rules = make()
    rules.load(head, store)
    read.clear()
    assert rows(rules.apply([arrival(101, "g"), done(1, "g", 1)])) == [3]
    rules.dump()
    assert read == [0, -1]


def test_a_batch_goes_on_in_the_midst_of_a_piece() -> None:
    """A deep group of which one row a batch runs gives each of them once, in order."""
    batches = [[arrival(n, "g") for n in range(1, 10)], *([done(n, "g", n)] for n in range(1, 10))]
    found = [rows(answers) for answers in played(serial(near=1), batches)]
    assert found == [[1], [2], [3], [4], [5], [6], [7], [8], [9], []]


def test_rows_that_are_late_in_a_deep_group_are_looked_for() -> None:
    """A row that waits in a piece is a duplicate; one between those of a piece is not."""
    rules = serial(near=2)()
    rules.apply([arrival(number, "g") for number in range(0, 100, 2)])
    rules.dump()
    rules.apply([arrival(n, "g", 1) for n in (10, 11, 98, 99, 101)])
    assert rules.counts == {"started": 1, "duplicate": 2}
    found = [rows(rules.apply([done(n, "g", 2 + n)])) for n in (*range(0, 100, 2), 11, 99)]
    assert [row for one in found for row in one] == [*range(2, 100, 2), 11, 99, 101]
    written(rules)
    assert rows(rules.apply([done(101, "g", 200)])) == []
    head, pages = written(rules)
    assert (head["weight"], pages) == (0, {})


def test_a_failed_head_blocks_or_is_skipped() -> None:
    """With block the failed row is next; with skip it waits its time while others go on."""
    batches = [
        [arrival(1, "g", 1), arrival(2, "g", 1)],
        [done(1, "g", 2, "nack")],
        [done(2, "g", 5)],
        [beat(61)],
        [beat(62)],
    ]
    later = RetryPolicy(backoff="fixed", delay=timedelta(minutes=1))
    block = played(serial(retry=later), batches)
    assert [rows(found) for found in block] == [[1], [], [], [], [1]]
    skip = played(serial(retry=later, on_failure="skip"), batches)
    assert [rows(found) for found in skip] == [[1], [2], [], [], [1]]
    assert [answer.number for found in skip for answer in found] == [1.0, 1.0, 2.0]


def test_a_row_that_fails_too_often_is_given_up() -> None:
    """After the last attempt the group goes on without the row."""
    rules = serial(max_attempts=2)()
    rules.apply([arrival(1, "g"), arrival(2, "g")])
    assert rows(rules.apply([done(1, "g", 1, "nack")])) == [1]
    assert rows(rules.apply([done(1, "g", 2, "nack")])) == [2]
    assert rules.counts == {"started": 3, "nack": 2, "buried": 1}


def test_a_run_that_times_out_comes_again() -> None:
    """A run without a completion is lost after its time-out, and given up after the last one."""
    rules = serial(lease=timedelta(seconds=10), max_losses=2)()
    rules.apply([arrival(1, "g", 1), arrival(2, "g", 1)])
    assert rows(rules.apply([beat(10)])) == []
    assert rules.apply([beat(11)]) == [Outgoing(1, 2.0)]
    assert rows(rules.apply([beat(21)])) == [2]
    assert rules.counts == {"started": 3, "buried": 1}


def test_late_repeated_and_unknown_completions_change_nothing() -> None:
    """A completion counts once, for the run that it names, of a row that runs."""
    rules = serial()()
    rules.apply([arrival(1, "g"), arrival(2, "g")])
    assert rules.apply([done(2, "g"), done(9, "g"), done(1, "x"), done(1, None)]) == []
    rules.apply([done(1, "g", 1, "nack")])
    assert rules.apply([done(1, "g", 2, "ack", run=1)]) == []
    assert rows(rules.apply([done(1, "g", 4, "ack", run=2)])) == [2]
    assert rules.apply([done(1, "g", 5)]) == []
    assert rules.counts == {
        "started": 3,
        "unknown": 5,
        "nack": 1,
        "stale": 1,
        "ack": 1,
    }


def test_a_row_that_waits_or_runs_is_not_taken_twice() -> None:
    """A second arrival of a row is left out while the first waits or runs, also after a restart."""
    first, second, third = played(
        serial(),
        [
            [arrival(1, "g", 1), arrival(1, "g", 2), arrival(2, "g", 2)],
            [arrival(1, "g", 3), arrival(2, "g", 3)],
            [done(1, "g", 4), arrival(1, "g", 5), done(2, "g", 6)],
        ],
    )
    assert (rows(first), rows(second), rows(third)) == ([1], [], [2, 1])


def test_groups_that_are_done_leave_no_state() -> None:
    """The state of a serial stream is what waits or runs, and the counts."""
    rules = serial()()
    empty, _ = written(rules)
    for number in range(200):
        rules.apply([arrival(number, f"g{number}", number), done(number, f"g{number}", number + 1)])
        rules.apply([done(number, f"g{number}", number + 1)])
    left, pages = written(rules)
    assert len(json.dumps(left)) < len(json.dumps(empty)) + 200
    assert not pages


def test_pages_split_and_merge_with_what_they_hold() -> None:
    """There are as many pages as entries need, and a batch reads those of its keys."""
    rules = DistinctRules(page=20)
    rules.apply([arrival(n, f"k{n}") for n in range(1_000)])
    head, pages = written(rules)
    assert head["pages"] == 100
    assert len(pages) > 90
    assert max(text.count("\n") for text, _ in pages.values()) < 40
    store = dict(pages)
    rules = DistinctRules(page=20)
    rules.load(head, store)
    assert all(rules.pages.find(f"k{n}") for n in range(1_000))
    for start in range(0, 1_000, 100):
        rules.apply([done(0, f"k{n}") for n in range(start, start + 100)])
        rules.dump()
    head, _ = written(rules)
    assert (head["pages"], head["weight"], store) == (1, 0, {})
    assert rules.counts == {"passed": 1_000, "completed": 1_000}


keys = st.sampled_from([*"abcde", '\t\nü"', None])


@st.composite
def histories(draw: Any) -> tuple[list[Event], list[int]]:
    """Draw a history of one group of operators, an event an instant, and where to cut it."""
    events = []
    known: list[tuple[int, str | None]] = []
    for at in range(1, draw(st.integers(1, 40))):
        if known and draw(st.booleans()):
            seq, key = draw(st.sampled_from(known))
            outcome = draw(st.sampled_from([None, "ack", "nack", "release", "dead"]))
            events.append(done(seq, key, at, outcome))
        else:
            known.append((at, draw(keys)))
            events.append(arrival(*known[-1], at))
    cuts = draw(st.lists(st.integers(0, len(events)), max_size=6))
    return events, sorted(cuts)


def pieces(events: list[T], cuts: list[int]) -> list[list[T]]:
    """Cut a history into batches."""
    ends = [0, *cuts, len(events)]
    return [events[a:b] for a, b in pairwise(ends)]


def _with_small_pages(skip: RetryPolicy) -> list[Callable[[], BucketRules]]:
    return [
        partial(DistinctRules, ordered=True, page=2),
        serial(page=2, near=1),
        serial(group_limit=2, max_attempts=2, page=3, near=2),
        serial(
            on_failure="skip", retry=skip, lease=timedelta(seconds=5), max_losses=2, page=2, near=1
        ),
        partial(FairRules, {"a": 2.0}, at_once=False, page=2),
    ]


@given(histories())
def test_the_cut_of_a_history_does_not_matter(drawn: tuple[list[Event], list[int]]) -> None:
    """However a history is cut, with a restart at each cut, the same rows come in one order."""
    events, cuts = drawn
    skip = RetryPolicy(backoff="fixed", delay=timedelta(seconds=3))
    makes: list[Callable[[], BucketRules]] = [
        DistinctRules,
        partial(DistinctRules, ordered=True),
        serial(),
        serial(group_limit=2, max_attempts=2),
        serial(on_failure="skip", retry=skip, lease=timedelta(seconds=5)),
        partial(FairRules, {"a": 2.0}, at_once=False),
        *_with_small_pages(skip),
    ]
    for make in makes:
        whole = [answer for found in played(make, [events]) for answer in found]
        cut = [answer for found in played(make, pieces(events, cuts)) for answer in found]
        assert cut == whole


@given(histories())
def test_a_distinct_stream_does_what_the_scheduler_does(
    drawn: tuple[list[Event], list[int]],
) -> None:
    """What passes is what a scheduler with that key admits, when each completion acks its item."""
    events, cuts = drawn
    scheduler = Scheduler(QueueConfig(dedup_key="k"))
    running: dict[str | None, tuple[int, int]] = {}
    passed = []
    for event in events:
        if event.kind == ARRIVAL:
            item = NewItem(payload=event.seq, dedup_key=event.key)
            scheduler.admit([item], 0.0)
            grant = scheduler.claim(0.0, 100)
            passed += [leased.payload for leased in grant.items]
            for leased in grant.items:
                running[event.key] = (leased.seq, grant.lease)
        elif event.key in running and event.key is not None:
            seq, lease = running.pop(event.key)
            scheduler.settle(lease, {seq: Ack()}, 0.0)
    found = played(partial(DistinctRules, page=2), pieces(events, cuts))
    assert [seq for batch in found for seq in rows(batch)] == passed


@given(
    histories(),
    st.sampled_from(["block", "skip"]),
    st.integers(1, 2),
    st.integers(0, 4),
    st.sampled_from([2, 256]),
)
def test_a_serial_stream_does_what_the_scheduler_does(  # noqa: PLR0915 - the oracle beside it
    drawn: tuple[list[Event], list[int]], on_failure: Any, limit: int, delay: int, page: int
) -> None:
    """What goes out is what a scheduler grants that has all rows and is asked at every instant."""
    events, cuts = drawn
    retry = RetryPolicy(backoff="fixed", delay=timedelta(seconds=delay))
    options: dict[str, Any] = {
        "group_limit": limit,
        "on_failure": on_failure,
        "retry": retry,
        "max_attempts": 3,
        "lease": timedelta(seconds=12),
        "max_losses": 2,
    }
    scheduler = Scheduler(QueueConfig(group_key="g", **options), keep_finished=False)
    outcomes: dict[str | None, Outcome] = {
        None: Ack(),
        "ack": Ack(),
        "nack": Nack(),
        "release": Release(),
        "dead": Dead(),
    }
    running: dict[int, tuple[int, int]] = {}
    granted: list[int] = []
    at_once: list[list[int]] = []
    for event in events:
        now = event.at / SECOND
        if event.kind == ARRIVAL and event.key is None:
            granted.append(event.row)
        elif event.kind == ARRIVAL:
            scheduler.admit([NewItem(payload=event.row, group_key=event.key)], now)
        elif event.seq in running and event.key is not None:
            seq, lease = running.pop(event.seq)
            scheduler.settle(lease, {seq: outcomes[event.outcome]}, now)
        grant = scheduler.claim(now, 100)
        for item in grant.items:
            running[int(str(item.payload))] = (item.seq, grant.lease)
            granted.append(int(str(item.payload)))
        running = {row: run for row, run in running.items() if run[0] not in grant.dead}
        at_once.append(sorted(granted))
        granted.clear()
    found = played(serial(**options, page=page, near=1), pieces(events, cuts))
    each = pieces(at_once, cuts)
    assert [sorted(rows(batch)) for batch in found] == [sorted(chain(*batch)) for batch in each]


@given(st.lists(st.tuples(keys, st.integers(0, 6)), max_size=40), st.lists(st.integers(0, 40)))
def test_a_fair_stream_serves_in_the_order_of_the_scheduler(
    steps: list[tuple[str | None, int]], cuts: list[int]
) -> None:
    """Sorted by round, the rows come in the order in which a fair scheduler serves them."""
    scheduler = Scheduler(QueueConfig(fair_key="k"))
    rules: BucketRules = FairRules({}, at_once=False, page=3)
    store: dict[int, Any] = {}
    rules.load({"counts": {}}, store)
    waiting: list[tuple[float, int]] = []
    for seq, (key, claims) in enumerate(steps):
        (answer,) = rules.apply([arrival(seq, key)])
        waiting = sorted([*waiting, (answer.number, seq)])
        scheduler.admit([NewItem(payload=seq, fair_key=key)], 0.0)
        grant = scheduler.claim(0.0, claims)
        taken, waiting = waiting[:claims], waiting[claims:]
        assert [item.payload for item in grant.items] == [place for _, place in taken]
        rules.apply([served(number) for number, _ in taken])
        if seq in cuts:
            plain = json.loads(json.dumps(rules.dump()))
            rules = FairRules({}, at_once=False, page=3)
            rules.load(plain, store)

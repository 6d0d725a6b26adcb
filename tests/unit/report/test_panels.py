"""What the panels of a report say."""

from __future__ import annotations

import json
import shlex
from datetime import timedelta

import duckdb
import pytest

import spark_queue
from spark_queue.clock import ManualClock
from spark_queue.commands import readers
from spark_queue.errors import InvalidArgumentError
from spark_queue.flow import Limit, Rate
from spark_queue.local_queue import LocalQueue
from spark_queue.queue_views import store_of
from spark_queue.reader_config import ReaderConfig
from spark_queue.report.condition import kept_back
from spark_queue.report.model import HOUR
from spark_queue.report.sheets import sheets
from spark_queue.retry_policy import RetryPolicy
from spark_queue.wording import instant
from tests.unit.report.conftest import Make

_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)


def _rows(*names: str, tenant: str = "a", path: str | None = None) -> list[dict[str, str | None]]:
    return [{"id": name, "tenant": tenant, "path": path} for name in names]


def _fail(queue: LocalQueue, error: str, outcome: str = "nack") -> int:
    """Claim the next item and fail it; return its seq."""
    claim = queue.claim(1, worker_id="w")
    seq: int = claim.rows[0]["_seq"]
    claim.settle_each({seq: (outcome, error)})
    return seq


def test_overview_counts_what_waits_by_its_reason(make: Make, clock: ManualClock) -> None:
    """Runnable, delayed, held and claimed items, rates of the window and the time left add up."""
    queue = make(dedup_key="id", group_key="path")
    queue.enqueue([*_rows("1", "2", "3", "8", path="x"), *_rows("4", "5", "6"), *_rows("1")])
    queue.enqueue([{**_rows("7")[0], "available_at": clock.now() + _MINUTE}])
    queue.claim(1).ack()
    clock.advance(20 * _SECOND)
    queue.claim(2).ack()
    queue.claim(1)

    told = queue.report()

    seen = told.overview
    assert (seen.runnable, seen.delayed, seen.held_by_group, seen.claimed) == (2, 1, 1, 1)
    assert (seen.acked, seen.refused, seen.ready, seen.late) == (3, 1, 4, 0)
    assert (seen.oldest_age, seen.enqueued_per_second, seen.done_per_second) == (20.0, 0.4, 0.15)
    assert seen.time_left is None
    assert [point.items for point in told.depth][-2:] == [0, 5]
    clock.advance(timedelta(hours=1))
    later = queue.report().overview
    assert (later.late, later.enqueued_in_window, later.done_in_window) == (1, 0, 0)
    queue.claim(2).ack()
    # Two in an hour, of which half counts: there was most all the time.
    seen = queue.report().overview
    assert seen.trend == "falls"
    times = [seen.time_left_least, seen.time_left, seen.time_left_most]
    assert times == pytest.approx([1350, 2700, 5400])


def test_a_paused_queue_says_so_of_all_that_waits(make: Make) -> None:
    """Nothing of a paused queue is runnable."""
    queue = make()
    queue.enqueue(_rows("1", "2"))
    queue.pause()

    told = queue.report()

    assert told.paused
    assert (told.overview.runnable, told.overview.paused_items) == (0, 2)


def test_tenants_name_the_slow_and_the_noisy_first(make: Make, clock: ManualClock) -> None:
    """The key that waited longest is first, the one that failed most second; shares add up to 1."""
    queue = make(fair_key="tenant", retry=RetryPolicy(delay=timedelta(0)))
    queue.enqueue(_rows("1", tenant="noisy"))
    for _ in range(3):
        _fail(queue, "no")
    queue.enqueue([*_rows("2", tenant="slow"), *_rows("3", "4", tenant="calm")])
    clock.advance(30 * _SECOND)
    queue.enqueue(_rows("5", tenant="idle"))

    tenants = queue.report().tenants

    assert [one.fair_key for one in tenants[1:3]] == ["noisy", "calm"] or tenants[1].failures == 3
    noisy = next(one for one in tenants if one.fair_key == "noisy")
    assert (noisy.failures, noisy.turns, noisy.share, noisy.wait_max) == (3, 3, 1.0, 0.0)
    assert {one.fair_key: one.oldest_age for one in tenants} == {
        "slow": 30.0,
        "calm": 30.0,
        "noisy": 30.0,
        "idle": 0.0,
    }
    assert [one.keys for one in tenants] == [4] * 4


@pytest.mark.parametrize(
    ("one", "other", "wording"),
    [
        ("ValueError: row 17 of 2.50", "ValueError: row 4 of 31", "ValueError: row <n> of <n>"),
        ("no /data/a/1.csv", "no /b.parquet", "no <path>"),
        ("s3://bucket/x gone", "s3://other/y/z gone", "<path> gone"),
        ("commit 9fceb02d0ae5", "commit deadbeefab12", "commit <id>"),
        (
            "of 123e4567-e89b-12d3-a456-426614174000 at 0x7f3a",
            "of 00000000-aaaa-bbbb-cccc-0123456789ab at 0xff",
            "of <id> at <id>",
        ),
        ("first\nrow 1", "first\nrow 2", "first"),
        ("'/it/x' or \"/y\"", "'/a/b' or \"/c\"", "'<path>' or \"<path>\""),
    ],
)
def test_errors_are_one_where_only_ids_paths_and_numbers_differ(
    make: Make, one: str, other: str, wording: str
) -> None:
    """Numbers, ids, hexadecimal numbers and paths do not tell one error from another."""
    queue = make()
    queue.enqueue(_rows("1", "2"))
    _fail(queue, one)
    _fail(queue, other)

    (found,) = queue.report().errors

    assert (found.wording, found.failures, found.items, found.sample) == (wording, 2, 2, other)


def test_an_error_names_its_time_its_items_and_the_command_that_redrives_them(
    make: Make, clock: ManualClock
) -> None:
    """First, last, count and samples are there; the command means its dead items and no others."""
    queue = make()
    queue.enqueue(_rows(*"abcdef"))
    began = clock.now()
    dead = [_fail(queue, f"ValueError: it's row {n} of /x/{n}", "dead") for n in range(3)]
    clock.advance(timedelta(hours=2))
    dead += [_fail(queue, "ValueError: it's row 9 of /y", "dead")]
    _fail(queue, "KeyError: 'x'", "dead")
    queue.redrive({"_seq": dead[0]})

    other, found = sorted(queue.report().errors, key=lambda one: one.failures)

    assert (found.failures, found.in_window, found.items, found.dead) == (4, 1, 4, 3)
    assert (found.first_at, found.last_at) == (began, clock.now())
    assert found.samples == (dead[0], dead[3])
    assert other.wording == "KeyError: 'x'"
    words = shlex.split(found.redrive)
    assert words[:4] == ["spark-queue", "redrive", queue.name, "--where"]
    items = queue.status()
    asking = duckdb.connect().register("items", items)
    meant = asking.execute(f"SELECT _seq FROM items WHERE {words[4]}").fetchall()  # noqa: S608
    assert sorted(seq for (seq,) in meant) == dead


@pytest.mark.parametrize("error", ["", "\nTraceback", "42", " 7 /a/b ", "100% ''"])
def test_an_error_of_no_words_has_no_command(make: Make, error: str) -> None:
    """Where nothing is said but what differs, a pattern would mean the dead items of all errors."""
    queue = make()
    queue.enqueue(_rows("1"))
    _fail(queue, error, "dead")

    (found,) = queue.report().errors

    assert (found.dead, found.redrive) == (1, "")


def test_retries_are_counted_by_the_minute(make: Make, clock: ManualClock) -> None:
    """Each minute of the window has its failures, the final ones, and what was claimed again."""
    queue = make(max_attempts=2, retry=RetryPolicy(delay=timedelta(0)))
    queue.enqueue(_rows("1"))
    clock.advance(_MINUTE)
    _fail(queue, "no")
    clock.advance(_MINUTE)
    _fail(queue, "no")
    clock.advance(_MINUTE / 2)

    told = queue.report().retries

    assert len(told) == 60
    seen = [(one.failures, one.dead, one.claimed, one.claimed_again) for one in told]
    assert seen[-3:] == [(0, 0, 0, 0), (1, 0, 1, 0), (1, 1, 1, 1)]
    assert told[-1].at == clock.now() - _MINUTE


def test_groups_name_the_head_that_is_in_the_way(make: Make, clock: ManualClock) -> None:
    """A held group says for whom it waits, why, since and until when, and how many wait."""
    queue = make(group_key="path", retry=RetryPolicy(delay=40 * _SECOND))
    queue.enqueue([*_rows("1", "2", "3", path="x"), *_rows("4", "5", path="y")])
    failed = _fail(queue, "ValueError: no")
    queue.claim(1, worker_id="w2")
    clock.advance(10 * _SECOND)

    delayed, held = queue.report().groups

    assert (delayed.group_key, delayed.head, delayed.why, delayed.behind) == (
        "x",
        failed,
        "delayed",
        2,
    )
    assert delayed.until == clock.now() + 30 * _SECOND
    assert (delayed.since, delayed.attempts) == (clock.now() - 10 * _SECOND, 1)
    assert delayed.error == "ValueError: no"
    assert (held.group_key, held.why, held.worker_id, held.behind) == ("y", "leased", "w2", 1)
    assert held.oldest_age == 10.0


def test_a_tenant_has_how_many_of_its_limit_it_holds(make: Make) -> None:
    """By the number of its key, where it has one by the fair key; else there is only a count."""
    limits = (Limit(by="tenant", default=4, overrides={"b": 20, "c": None}), Limit(by="path"))
    queue = make(fair_key="tenant", limits=limits)
    queue.enqueue([row for tenant in "abc" for row in _rows(*"12345", tenant=tenant)])
    queue.enqueue([{"id": "none", "tenant": None, "path": None}])
    assert queue.claim(11).count == 11

    report = queue.report()

    assert {one.fair_key: one.most for one in report.tenants} == {
        "a": 4,
        "b": 20,
        "c": None,
        None: None,
    }
    (sheet,) = [sheet for sheet in sheets(report) if sheet.name == "tenants"]
    at = [head for head, _ in sheet.heads].index("claimed")
    shown = {row[0]: row[at] for row in sheet.rows}
    assert shown == {"a": "4 of 4", "b": "3 of 20", "c": "3", "(none)": "1"}


def test_what_keeps_keys_back_is_said_in_lines(make: Make, clock: ManualClock) -> None:
    """Pauses by key and end, how many items wait for a limit, and the next start of each rate."""
    rates = (Rate(by="tenant", limit=60, per=HOUR), Rate(limit=3, per=_MINUTE, burst=3))
    limits = (Limit(by="tenant", default=9, overrides={"c": 1, "d": 0}),)
    queue = make(fair_key="tenant", limits=limits, rates=rates)
    assert kept_back(queue.report()) == ()
    for tenant in "abcd":
        queue.enqueue(_rows("1", "2", tenant=tenant))
    assert queue.claim(9).count == 3
    queue.pause(key="a")
    queue.pause(key="b", for_=60)

    until = instant(clock.now() + _MINUTE)
    assert kept_back(queue.report()) == (
        f"paused: tenant 'a' until it is resumed, tenant 'b' until {until}",
        "3 items of 2 keys wait for a limit",
        "1 key lacks units of the rate by tenant; the next of 'c' may start in 60 s",
        "the queue may start 3/60s,burst=3, the next in 20 s",
    )


def test_a_rate_keeps_a_key_back_until_the_first_that_waits_has_its_units(
    make: Make, clock: ManualClock
) -> None:
    """By the units of that item, of which the key may have some; no key of which none waits."""
    rates = (Rate(by="tenant", limit=60, per=_MINUTE, burst=10, units="size"),)
    queue = make("tenant string, size int", fair_key="tenant", rates=rates)
    queue.enqueue([{"size": 8, "tenant": tenant} for tenant in "aab"])
    assert queue.claim(9).count == 2
    (line,) = queue.report().rates
    ((key, next_at),) = ((one.key, one.next_at) for one in line.keys)
    assert (key, next_at, line.paced) == ("a", clock.now() + timedelta(seconds=6), 1)
    assert [one.next_at for one in queue.report().tenants] == [next_at, None]
    assert next_at == queue.explain(2).until

    clock.advance(timedelta(seconds=6))
    assert kept_back(queue.report()) == ()
    assert queue.claim(9).count == 1
    assert kept_back(queue.report()) == ()


def test_what_starts_of_keys_without_a_number_is_none_of_the_rate(make: Make) -> None:
    """A rate that one key has counts that key's units."""
    rates = (Rate(by="tenant", limit=None, per=_MINUTE, burst=9, overrides={"a": 60}),)
    queue = make(fair_key="tenant", rates=rates)
    queue.enqueue(_rows("1", "2", tenant="a") + _rows("3", tenant="b"))
    assert queue.claim(9).count == 3
    assert [line.started for line in queue.report().rates] == [2]


def test_who_waits_for_a_limit_of_its_key_is_in_no_held_group(make: Make) -> None:
    """Items of a full key are in the way of their own group alone."""
    queue = make(fair_key="tenant", group_key="path", limits=(Limit(by="tenant", default=1),))
    queue.enqueue(_rows("1", "2", tenant="a"))
    assert queue.claim(2).count == 1
    assert queue.report().groups == ()

    queue.enqueue(_rows("3", tenant="a", path="x"))
    queue.enqueue(_rows("4", tenant="b", path="x"))
    (held,) = queue.report().groups
    assert (held.group_key, held.head, held.why, held.behind) == ("x", 3, "key limit", 1)


def test_an_item_says_what_it_waits_for_to_the_end(make: Make, clock: ManualClock) -> None:
    """The chain goes from the item to one that waits for none; the time line has every step."""
    queue = make(dedup_key="id", group_key="path", retry=RetryPolicy(delay=40 * _SECOND))
    queue.enqueue(_rows("1", "2", path="x"))
    queue.enqueue(_rows("2", path="x"))
    _fail(queue, "ValueError: no")

    told = queue.report_item(3)

    assert told.text == (
        "item 3 was refused, as it has the key of item 2, which waits for item 1, "
        "which failed once with 'ValueError: no', next attempt in 40 s"
    )
    assert [(one.seq, one.reason, one.by) for one in told.chain] == [
        (3, "duplicate", 2),
        (2, "held by group", 1),
        (1, "delayed", None),
    ]
    moves = queue.report_item(1).history
    assert [(move.log, move.state) for move in moves] == [
        ("queue", "ready"),
        ("status", "claimed"),
        ("status", "ready"),
    ]
    assert (moves[1].worker_id, moves[2].error) == ("w", "ValueError: no")
    assert queue.report_item(99).text == "item 99 is none of this queue"
    clock.advance(40 * _SECOND)
    queue.claim(1, worker_id="w").ack()
    assert queue.report_item(1).text.startswith("item 1 is acked at ")
    assert queue.report_item(2).text == "item 2 may run at the next claim"


def test_an_item_over_the_limit_says_how_many_are_in_flight(make: Make, clock: ManualClock) -> None:
    """As the rule counts them: what the next claim ends takes no slot, and is none of them."""
    queue = make(max_in_flight=1, max_losses=1)
    queue.enqueue(_rows("1", "2", "3"))
    queue.claim(1, lease=_SECOND)
    queue.configure(max_in_flight=2)
    queue.claim(1)
    queue.configure(max_in_flight=1)
    clock.advance(5 * _SECOND)

    (link,) = queue.report_item(3).chain

    assert link.detail == "1 items are in flight, 1 are allowed"
    assert link == queue.explain(3)


def test_workers_are_named_with_what_they_hold_and_lost(make: Make, clock: ManualClock) -> None:
    """Who holds items, since when, whose leases are late, and who lost some, is told."""
    queue = make()
    queue.enqueue(_rows("1", "2", "3"))
    queue.claim(2, worker_id="late", lease=5 * _SECOND)
    queue.claim(1, worker_id="well")
    clock.advance(10 * _SECOND)

    late, well = queue.report().workers

    assert (late.worker_id, late.items, late.late, late.lost) == ("late", 2, 2, 0)
    assert (well.items, well.late, well.since) == (1, 0, clock.now() - 10 * _SECOND)
    queue.claim(1, worker_id="new")
    lost = {one.worker_id: (one.items, one.lost, one.claimed) for one in queue.report().workers}
    assert lost == {"late": (1, 1, 2), "well": (1, 0, 1), "new": (1, 0, 1)}


def test_readers_say_how_far_each_is_behind(make: Make, clock: ManualClock) -> None:
    """A report of one reader has a line of each, which says what its lag does."""
    queue = make()
    seen = [queue.reader(name, start="beginning") for name in ("first", "second")]
    queue.enqueue(_rows("1", "2"))
    queue.enqueue(_rows("3"))
    seen[1].claim(2).ack()
    clock.advance(5 * _SECOND)
    seen[1].pause()

    told = seen[0].report()

    assert (told.reader, told.overview.runnable, told.paused) == ("first", 3, False)
    for line, reader in zip(told.readers, seen, strict=True):
        there = reader.lag()
        assert (line.reader, line.items, line.open_items) == (
            there.reader,
            there.items,
            there.open_items,
        )
        assert (line.steps, line.lost) == (there.steps, there.lost)
        assert timedelta(seconds=line.oldest_age or 0) == there.age
    assert [line.paused for line in told.readers] == [False, True]


def test_steps_say_what_operators_did_and_when(make: Make, clock: ManualClock) -> None:
    """Pauses, changed settings, cancelled and redriven items are told, the newest first."""
    queue = make()
    queue.enqueue(_rows("1", "2", "3"))
    for act in (
        queue.pause,
        queue.resume,
        lambda: queue.configure(lease=_MINUTE, retry=RetryPolicy(delay=5 * _SECOND)),
        lambda: queue.cancel({"_seq": [1, 2]}),
        lambda: queue.redrive({"_seq": 1}),
    ):
        clock.advance(_SECOND)
        act()

    told = queue.report().steps

    assert [(one.action, one.items) for one in told] == [
        ("redriven", 1),
        ("cancelled", 2),
        ("configured", 0),
        ("resumed", 0),
        ("paused", 0),
        ("created", 0),
    ]
    queue.purge({"_seq": 2})
    assert [one.action for one in queue.report().steps].count("purged") == 1
    assert told[2].detail == "lease 300 s -> 60 s, retry.delay 1 -> 5"
    assert told[0].at == clock.now()


def test_a_report_looks_back(make: Make, clock: ManualClock) -> None:
    """As of a step, or an instant, a queue is reported as it was; a bad window is refused."""
    queue = make()
    queue.enqueue(_rows("1", "2"))
    queue.claim(1).ack()
    then = clock.now()
    clock.advance(_MINUTE)
    before = queue.report()
    queue.pause()
    queue.claim(1)
    clock.advance(timedelta(hours=2))

    assert queue.report(then + _MINUTE / 2).overview.acked == 1
    assert not queue.report(before.step).paused
    assert queue.report(then).as_of == then
    assert queue.report(window=_SECOND).overview.done_in_window == 0
    with pytest.raises(InvalidArgumentError, match="window"):
        queue.report(window=timedelta(0))
    with pytest.raises(InvalidArgumentError, match="as_of"):
        queue.report(then - timedelta(days=1))


def test_a_report_of_then_has_no_number_of_now(make: Make, clock: ManualClock) -> None:
    """Refused rows, and what the reader allows, are as they were."""
    queue = make(dedup_key="id")
    first = queue.reader("first")
    queue.enqueue(_rows("1", "1"))
    then, before = clock.now(), first.report()
    clock.advance(_MINUTE)
    queue.enqueue(_rows("1", "2"))
    queue.reader("first", config=ReaderConfig(max_age=_SECOND))

    told = first.report(then + _MINUTE / 2).overview

    assert (told.refused, first.report().overview.refused) == (1, 2)
    assert (told.runnable, told.past_their_time) == (1, 0)
    assert first.report(then).overview == before.overview


def test_a_report_of_then_has_the_readers_of_then(make: Make, clock: ManualClock) -> None:
    """Each is as far as it was, a stream, too; who came later, or was dropped, is left out."""
    queue = make()
    first, other = queue.reader("first"), queue.reader("second")
    queue.enqueue(_rows("1", "2"))
    stream = readers.register(store_of(first), "stream", None, "beginning", streams=True)
    then, before = clock.now(), first.report()
    clock.advance(_MINUTE)
    readers.advance(stream, store_of(first).queue_head().step)
    other.claim(1).ack()
    queue.reader("later", start="beginning")
    readers.register(store_of(first), "late stream", None, "beginning", streams=True)

    told = first.report(then).readers

    assert told == before.readers
    assert [(one.reader, one.items) for one in told] == [("first", 2), ("second", 2), ("stream", 2)]
    assert [one.items for one in first.report().readers] == [2, 1, 0, 2, 2]
    queue.drop_reader("second")
    assert [one.reader for one in first.report(then).readers] == ["first", "stream"]


def test_a_report_is_plain_data(make: Make, clock: ManualClock) -> None:
    """``as_dict`` is what JSON can hold; an empty queue has a report, too, read from its path."""
    queue = make()

    told = spark_queue.open_report(queue.name, clock=clock)

    plain = json.loads(json.dumps(told.as_dict()))
    assert plain["window"] == HOUR.total_seconds()
    assert plain["condition"] == {"word": "OK", "why": "nothing is open"}
    assert plain["as_of"] == "2026-01-01T00:00:00+00:00"
    assert plain["overview"]["enqueued_per_second"] is None
    assert plain["overview"]["time_left"] == 0.0
    assert plain["tenants"] == []

"""A queue's own past under other weights and limits, by hand and on a real queue."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError, InvalidConfigError
from spark_queue.flow import Limit, Rate
from spark_queue.local_queue import LocalQueue
from spark_queue.replay import Past, PastItem, Rehearsal, history, rehearse
from tests.conftest import CommandLine

SECOND = timedelta(seconds=1)


def _make(path: str, clock: ManualClock, **settings: Any) -> LocalQueue:
    config = QueueConfig(**settings)
    columns = "id string, t string, g string"
    return LocalQueue.create(path, columns, config, durability="process", clock=clock)


def _put(queue: LocalQueue, tenant: str, count: int, group: str | None = None) -> None:
    queue.enqueue([{"id": f"{tenant}{n}", "t": tenant, "g": group} for n in range(count)])


def _worked_off(queue: LocalQueue, clock: ManualClock, seconds: int = 10) -> None:
    """Have one worker work all off, one after another."""
    while (claim := queue.claim(1)).count:
        clock.advance(seconds * SECOND)
        claim.ack()


def _p95(done: Rehearsal) -> dict[str, tuple[float, float]]:
    return {one.key: (one.before.wait_p95, one.after.wait_p95) for one in done.tenants}


def test_the_past_is_what_happened(queue_path: str, clock: ManualClock) -> None:
    """Arrivals, work and waits are those of the logs; a play under the same settings repeats it."""
    queue = _make(queue_path, clock, fair_key="t")
    _put(queue, "a", 4)
    clock.advance(5 * SECOND)
    _put(queue, "b", 1)
    _worked_off(queue, clock)

    past = history(queue)

    assert (len(past.items), past.workers, past.guessed, past.left_out) == (5, 1, 0, 0)
    assert [item.submitted for item in past.items] == [0, 0, 0, 0, 5]
    assert {item.runs_for for item in past.items} == {10.0}
    assert {item.number: item.waited for item in past.items} == {1: 5, 5: 10, 2: 25, 3: 35, 4: 45}
    # Nobody had come before the worker did: in the play it is there from the beginning.
    done = rehearse(past)
    assert [one.before for one in done.tenants] == [one.after for one in done.tenants]
    assert done.changed == {}
    assert {one.key: one.was_max for one in done.tenants} == {"a": 45, "b": 10}


def test_a_weight_shifts_waits(queue_path: str, clock: ManualClock) -> None:
    """Who gets more turns waits less, and the others more; the work stays the same."""
    queue = _make(queue_path, clock, fair_key="t")
    _put(queue, "a", 9)
    _put(queue, "b", 9)
    _worked_off(queue, clock)
    past = history(queue)

    found = _p95(rehearse(past, weights={"b": 3.0}))

    assert found["b"][1] < found["b"][0]
    assert found["a"][1] >= found["a"][0]


def test_limits_and_workers_count(queue_path: str, clock: ManualClock) -> None:
    """More workers wait for a limit of the queue, or of a group, as they would have to."""
    queue = _make(queue_path, clock, fair_key="t", group_key="g")
    _put(queue, "a", 4, "one")
    _worked_off(queue, clock)
    past = history(queue)

    def longest(**settings: Any) -> float:
        return rehearse(past, **settings).tenants[0].after.wait_max

    assert longest() == 30
    assert longest(workers=4) == 30
    assert longest(workers=4, group_limit=2) == 10
    assert longest(workers=4, group_limit=4) == 0
    assert longest(workers=4, group_limit=4, max_in_flight=2) == 10


def test_a_claim_is_worked_off_item_by_item(queue_path: str, clock: ManualClock) -> None:
    """What was settled together took equally long; a lost lease is no work; waiting is guessed."""
    queue = _make(queue_path, clock, max_losses=5)
    _put(queue, "a", 6)
    claim = queue.claim(3)
    clock.advance(4 * SECOND)
    claim.settle_each({1: "ack"})
    clock.advance(20 * SECOND)
    claim.ack()
    lost = queue.claim(1)
    clock.advance(lost.lease_expires_at - clock.now() + SECOND)
    again = queue.claim(2)
    clock.advance(6 * SECOND)
    again.settle_each({4: "ack", 5: ("nack", "bad")})
    queue.cancel("_seq = 6")
    _put(queue, "b", 1)

    past = history(queue)

    works = {item.number: item.runs_for for item in past.items}
    assert works == {1: 4, 2: 10, 3: 10, 4: 3, 5: 3, 7: 6}
    assert (past.guessed, past.left_out, past.workers) == (1, 1, 1)
    assert {item.user for item in past.items} == {"(none)"}


def test_workers_are_counted_by_their_claims(queue_path: str, clock: ManualClock) -> None:
    """As many as held one at the same time; one after another they are one."""
    queue = _make(queue_path, clock)
    _put(queue, "a", 5)
    _worked_off(queue, clock)
    _put(queue, "b", 3)
    claims = [queue.claim(1) for _ in range(3)]
    clock.advance(SECOND)
    for claim in claims:
        claim.ack()

    assert history(queue).workers == 3


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"weights": {"a": 0}}, InvalidConfigError),
        ({"dedup_key": "id"}, InvalidConfigError),
        ({"workers": 0}, InvalidArgumentError),
    ],
)
def test_what_cannot_be_is_refused(settings: Any, error: type[Exception]) -> None:
    """Settings are checked as those of a queue are."""
    item = PastItem(1, "a", 0.0, 1.0)
    config = QueueConfig(fair_key="t")
    past = Past(items=(item,), config=config, workers=1, guessed=0, left_out=0)

    with pytest.raises(error):
        rehearse(past, **settings)


def test_a_queue_without_a_past_is_none(queue_path: str, clock: ManualClock) -> None:
    """Nothing can be said of work that nobody has done."""
    queue = _make(queue_path, clock)
    _put(queue, "a", 1)

    with pytest.raises(InvalidArgumentError, match="no past"):
        history(queue)


def test_the_command_plays_a_queue(
    queue_path: str, clock: ManualClock, command_line: CommandLine
) -> None:
    """Beside what was it shows both plays, and what was changed; weights are changed key by key."""
    queue = _make(queue_path, clock, fair_key="t", weights={"c": 2.0})
    _put(queue, "a", 6)
    _put(queue, "b", 6)
    _worked_off(queue, clock)

    said = []
    for options in (
        ("--weight", "b=4"),
        ("--weight", "b=4", "--json"),
        ("--max-in-flight", "none", "--servers", "3"),
        ("--plot", "x.png"),
        ("--weight", "b"),
    ):
        ended = command_line("replay", queue_path, *options, "--engine", "local")
        said.append((ended.code, ended.out + ended.err))

    assert [code for code, _ in said] == [0, 0, 0, 2, 2]
    assert "after: weights is c=2 b=4" in said[0][1]
    assert max(len(line) for line in said[0][1].splitlines()) <= 80
    found = json.loads(said[1][1])
    b = next(one for one in found["tenants"] if one["key"] == "b")
    assert b["after"]["wait_p95"] < b["before"]["wait_p95"]
    assert "before: 1 worker; after: 3" in said[2][1]


def test_progress_is_told_of_both(queue_path: str, clock: ManualClock) -> None:
    """First of the one play, then of the other, and never backwards."""
    queue = _make(queue_path, clock)
    _put(queue, "a", 5)
    _worked_off(queue, clock)
    told: list[tuple[str, int]] = []

    rehearse(history(queue), on_progress=lambda name, begun: told.append((name, begun)))

    assert [name for name, _ in told] == ["before"] * 5 + ["after"] * 5
    assert all(one < other for one, other in pairwise(begun for _, begun in told[:5]))


def test_a_play_that_is_far_from_what_was_says_so(
    queue_path: str, clock: ManualClock, command_line: CommandLine
) -> None:
    """Retries are no part of a play: how far off it is, and that it is not trusted, is said."""
    queue = _make(queue_path, clock, fair_key="t", max_attempts=9)
    _put(queue, "a", 20)
    for _ in range(3):
        claim = queue.claim(20)
        clock.advance(600 * SECOND)
        claim.settle_each({row["_seq"]: ("nack", "bad") for row in claim.rows})
        clock.advance(86_400 * SECOND)
    claim = queue.claim(20)
    clock.advance(600 * SECOND)
    claim.ack()

    done = rehearse(history(queue))

    assert (done.retries, done.is_trusted) == (60, False)
    (tenant,) = done.tenants
    assert (tenant.was_p95, done.off > 10) == (0, True)
    assert tenant.before.wait_p95 > 1_000
    assert "not to be trusted" in done._repr_html_()
    said = " ".join(command_line("replay", queue_path, "--engine", "local").out.split())
    assert f"off from what was by {done.off:,.1f} times; retries (60)" in said


def test_a_play_that_repeats_what_was_is_trusted(
    queue_path: str, clock: ManualClock, command_line: CommandLine
) -> None:
    """Nothing is said of it."""
    queue = _make(queue_path, clock, fair_key="t")
    _put(queue, "a", 9)
    _worked_off(queue, clock)

    done = rehearse(history(queue))

    assert (done.retries, done.off, done.is_trusted) == (0, 1.0, True)
    assert "trusted" not in command_line("replay", queue_path, "--engine", "local").out


def _worked_off_by_two(queue: LocalQueue, clock: ManualClock) -> None:
    """Have two workers work all off, ten seconds an item."""
    while (claims := [queue.claim(1), queue.claim(1)])[0].count:
        clock.advance(10 * SECOND)
        for claim in claims:
            claim.ack()


def test_a_limit_of_a_key_makes_that_key_wait(queue_path: str, clock: ManualClock) -> None:
    """One item of a tenant at a time: it waits as long as with one worker, others no longer."""
    queue = _make(queue_path, clock, fair_key="t", limits=(Limit(by="g", default=9),))
    _put(queue, "a", 4, "one")
    _put(queue, "b", 1, "two")
    _put(queue, "c", 1)
    queue.enqueue([{"id": "none", "t": None, "g": None}] * 2)
    _worked_off_by_two(queue, clock)
    past = history(queue)
    assert past.workers == 2

    def longest(**settings: Any) -> dict[str, float]:
        return {one.key: one.after.wait_max for one in rehearse(past, **settings).tenants}

    free = longest(workers=8)
    assert set(free.values()) == {0}
    alone = {"a": 30, "b": 0, "c": 0, "(none)": 0}
    assert longest(workers=8, limits=(Limit(by="t", default=1),)) == alone
    assert longest(workers=8, limits=(Limit(by="t", default=2, overrides={"a": 1}),)) == alone
    # The key of a limit of the queue is known of each item.
    assert longest(workers=8, limits=(Limit(by="g", default=1),)) == alone
    assert longest(workers=8, limits=(Limit(by="g", overrides={"two": 1}),)) == free
    with pytest.raises(InvalidConfigError, match="limits by 'id': by which keys there are limits"):
        rehearse(past, limits=(Limit(by="id", default=1),))


def test_limits_in_force_count_in_both_plays(queue_path: str, clock: ManualClock) -> None:
    """The first play has the limits that the queue has, and the second what is changed of them."""
    queue = _make(queue_path, clock, fair_key="t", limits=(Limit(by="t", default=1),))
    _put(queue, "a", 4)
    _put(queue, "b", 4)
    _worked_off_by_two(queue, clock)

    done = rehearse(history(queue), workers=8, limits=(Limit(by="t", default=4),))

    assert _p95(done) == {"a": (30, 0), "b": (30, 0)}
    assert done.is_trusted
    assert done.changed == {"limits": [{"by": "t", "default": 4, "overrides": {}}]}


def test_a_rate_makes_its_key_wait_for_its_units(
    queue_path: str, clock: ManualClock, command_line: CommandLine
) -> None:
    """Items start one by one as units come back, also where nothing else happens by then."""
    queue = _make(queue_path, clock, fair_key="t")
    _put(queue, "a", 4)
    _put(queue, "b", 1)
    _worked_off(queue, clock, seconds=1)

    rate = Rate(by="t", limit=6, per=timedelta(minutes=1))
    done = rehearse(history(queue), workers=9, rates=(rate,))

    longest = {one.key: one.after.wait_max for one in done.tenants}
    assert longest == {"a": 30.0, "b": 0.0}
    assert (done.stuck_after, done.is_trusted) == (0, True)
    options = ("--servers", "9", "--rate", "t=6/60s", "--rate-of", "b=none", "--engine", "local")
    shown = command_line("replay", queue_path, *options, "--json").out
    found = {one["key"]: one["after"]["wait_max"] for one in json.loads(shown)["tenants"]}
    assert found == longest
    shown = command_line("replay", queue_path, *options).out
    assert "after: rates is t=6/60s" in " ".join(shown.split())
    wrong = command_line("replay", queue_path, "--rate", "t=6", "--engine", "local")
    assert (wrong.code, "rate is 't=6'" in wrong.err) == (2, True)


def test_pauses_are_played_as_they_were(queue_path: str, clock: ManualClock) -> None:
    """A pause of a key ends by time alone, or by a resume; one of the queue holds all."""
    queue = _make(queue_path, clock, fair_key="t")
    _put(queue, "a", 1)
    _put(queue, "b", 1)
    _put(queue, "c", 1)
    queue.pause()
    queue.pause(key="a", for_=60)
    queue.pause(key="b")
    clock.advance(10 * SECOND)
    queue.resume()
    _worked_off(queue, clock, seconds=1)
    clock.advance(19 * SECOND)
    queue.resume(key="b")
    _worked_off(queue, clock, seconds=1)
    clock.advance(29 * SECOND)
    _worked_off(queue, clock, seconds=1)

    done = rehearse(history(queue))

    assert {one.key: one.before.wait_max for one in done.tenants} == {"a": 60, "b": 30, "c": 10}
    assert (done.off, done.stuck_before) == (1.0, 0)


def test_what_may_never_run_is_counted(
    queue_path: str, clock: ManualClock, command_line: CommandLine
) -> None:
    """A key of which no item may run is told of, and counts as if it waited until the end."""
    queue = _make(queue_path, clock, fair_key="t")
    _put(queue, "a", 3)
    _put(queue, "b", 2)
    _worked_off(queue, clock)

    done = rehearse(history(queue), limits=(Limit(by="t", overrides={"a": 0}),))

    assert (done.stuck_before, done.stuck_after) == (0, 3)
    assert {one.key: one.after.wait_max for one in done.tenants} == {"a": 20, "b": 10}
    options = ("--limit-of", "a=0", "--limit", "t=2", "--engine", "local")
    shown = command_line("replay", queue_path, *options).out
    assert "after: limits is t=2 t:a=0" in shown
    assert "after: 3 items would never run: of a key whose limit is 0" in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80

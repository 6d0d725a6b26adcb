"""Whether the doctor sees that items do not get done, on queues to which that really happens."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from spark_queue import journaled_queue
from spark_queue.acting import acting_as
from spark_queue.clock import ManualClock
from spark_queue.flow import Limit, Rate
from spark_queue.local_queue import LocalQueue
from spark_queue.log.disk import liveness
from spark_queue.retry_policy import RetryPolicy
from tests.programs import run_python
from tests.unit.doctor.conftest import Make, only, paste, with_limits

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def test_leases_that_ran_out_are_found(make: Make, clock: ManualClock) -> None:
    """They are counted, dated from the end of the first, and their holder is named."""
    queue = make(lease=5 * MINUTE)
    queue.enqueue([{"id": name} for name in "abc"])
    queue.claim(2, worker_id="crew 7")
    over = clock.now() + 5 * MINUTE
    clock.advance(5 * MINUTE + 59 * SECOND)
    assert queue.doctor().findings == ()

    clock.advance(SECOND)
    found = only(queue.doctor(), "leases-overdue")

    assert (found.severity, found.since) == ("warning", over)
    assert found.what == "2 leases of crew 7 ran out, and their items wait: no worker claims"
    assert found.command == f"spark-queue process {queue.name} MODULE:FUNCTION"
    queue.claim(2)
    assert queue.doctor().findings == ()


def test_items_that_wait_longer_than_they_may_are_found(make: Make, clock: ManualClock) -> None:
    """The oldest is named with what keeps it, dated from when it was too old."""
    queue = make()
    begun = clock.now()
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    clock.advance(MINUTE)

    assert with_limits(queue, oldest=MINUTE).findings == ()
    found = only(with_limits(queue, oldest=MINUTE - SECOND), "items-too-old")

    assert found.since == begun + MINUTE - SECOND
    assert "item 1 has waited for 1 min, and is runnable" in found.what
    paste(found)


def test_items_wait_from_when_their_time_has_come(make: Make, clock: ManualClock) -> None:
    """One that is for later is not too old by then, whether the queue is paused or not."""
    queue = make()
    queue.enqueue([{"id": "a", "available_at": clock.now() + 9 * HOUR}])
    clock.advance(9 * HOUR - SECOND)
    assert with_limits(queue, oldest=HOUR).findings == ()
    queue.pause()
    assert with_limits(queue, oldest=HOUR).ids() == ["paused"]

    clock.advance(2 * HOUR)
    found = only(with_limits(queue, oldest=HOUR), "items-too-old")

    assert found.since == clock.now() - HOUR + SECOND
    assert "item 1 has waited for 2 h, and is paused" in found.what


def test_a_storm_of_retries_is_found(make: Make, clock: ManualClock) -> None:
    """Many failures, and fewer successes, are dated from their first minute; the error is named."""
    queue = make(max_attempts=None, retry=RetryPolicy(backoff="fixed", delay=SECOND))
    queue.enqueue([{"id": name} for name in "abcd"])
    queue.claim(1).ack()
    clock.advance(10 * MINUTE)
    begun = clock.now()
    for attempt in range(3):
        queue.claim(3).nack(f"no host 10.0.0.{attempt}")
        clock.advance(MINUTE)

    assert with_limits(queue, failures=10).findings == ()
    found = only(with_limits(queue, failures=9), "retry-storm")

    assert found.since is not None
    assert begun - MINUTE < found.since <= begun
    assert "9 attempts failed in 1 h, and 1 went well; 9 with: no host" in found.what
    paste(found)
    assert queue.paused


def test_a_storm_that_is_over_is_none(make: Make, clock: ManualClock) -> None:
    """What failed before the window counts no more."""
    queue = make(max_attempts=None, retry=RetryPolicy(backoff="fixed", delay=timedelta(0)))
    queue.enqueue({"id": "a"})
    for _ in range(3):
        queue.claim().nack("no host")
    assert with_limits(queue, failures=3).ids() == ["retry-storm"]

    clock.advance(HOUR + SECOND)
    assert "retry-storm" not in with_limits(queue, failures=3).ids()


def test_dead_letters_that_grow_are_found(make: Make, clock: ManualClock) -> None:
    """They are counted, with the error of the most and the command that enqueues them again."""
    queue = make(max_attempts=1)
    queue.enqueue([{"id": name} for name in "abc"])
    clock.advance(10 * MINUTE)
    queue.claim(2).nack("no such table: 'files'")
    queue.claim(1).ack()

    assert with_limits(queue, dead=3).findings == ()
    found = only(queue.doctor(), "dead-growing")

    assert found.since is not None
    assert clock.now() - MINUTE < found.since + MINUTE <= clock.now() + MINUTE
    assert "2 items died in 1 h, all of them with: no such table" in found.what
    assert found.command.startswith(f"spark-queue redrive {queue.name} --where ")
    clock.advance(HOUR + SECOND)
    assert queue.doctor().findings == ()


def test_dead_letters_that_were_redriven_grow_no_more(make: Make, clock: ManualClock) -> None:
    """The command means those that died of late alone; once it was pasted nothing is found."""
    queue = make(max_attempts=1)
    queue.enqueue([{"id": name} for name in "abcdefgh"])
    queue.claim(5).nack("bad file")
    clock.advance(HOUR + SECOND)
    queue.claim(3).nack("timeout")

    paste(only(queue.doctor(), "dead-growing"))

    assert queue.counts()["ready"] == 3
    assert "dead-growing" not in queue.doctor().ids()


def test_dead_letters_of_no_words_are_shown_and_not_redriven(
    make: Make, clock: ManualClock
) -> None:
    """Where an error says nothing that tells its items from others, the command only looks."""
    queue = make(max_attempts=1)
    queue.enqueue([{"id": name} for name in "ab"])
    queue.claim(1).nack("bad file")
    clock.advance(HOUR + SECOND)
    queue.claim(1).nack("42")

    found = only(queue.doctor(), "dead-growing")

    assert found.command == f"spark-queue dead {queue.name}"
    paste(found)
    assert queue.counts()["dead"] == 2


def test_a_tenant_that_gets_no_turn_is_found(make: Make, clock: ManualClock) -> None:
    """One of too small a weight gets it back by the command; a delayed or a new one is none."""
    queue = make("id string, tenant string", fair_key="tenant", weights={"slow": 0.001})
    queue.enqueue([{"id": "x", "tenant": "slow"}])
    begun = clock.now()
    queue.enqueue([{"id": str(n), "tenant": "quick"} for n in range(20)])
    later = {"id": "y", "tenant": "later", "available_at": clock.now() + 9 * HOUR}
    queue.enqueue([later])
    for _ in range(9):
        clock.advance(10 * MINUTE)
        queue.claim(1).ack()

    found = only(queue.doctor(), "tenant-starves")

    assert (found.severity, found.since) == ("warning", begun)
    assert "tenant 'slow' got no turn in 1 h, others got 6; 1 of its items could run" in found.what
    assert found.command == f"spark-queue configure {queue.name} --weight slow=1"
    paste(found)
    with queue.claim(2) as claim:
        assert "slow" in [row["tenant"] for row in claim.rows]
    assert "tenant-starves" not in queue.doctor().ids()


def test_a_limit_that_was_full_for_an_hour_is_told(make: Make, clock: ManualClock) -> None:
    """It names the key, what it has in flight and what waits; one with room again is none."""
    limits = (Limit(by="tenant", default=1),)
    queue = make("tenant string", fair_key="tenant", limits=limits, lease=9 * HOUR)
    queue.enqueue([{"tenant": "a"}, {"tenant": "a"}, {"tenant": "a"}, {"tenant": "b"}])
    begun = clock.now()
    held = queue.claim(9)
    clock.advance(30 * MINUTE)
    assert "limit-full" not in queue.doctor().ids()
    clock.advance(31 * MINUTE)

    found = only(queue.doctor(), "limit-full")

    assert (found.severity, found.since) == ("info", begun)
    assert found.what == (
        "tenant 'a' has 1 of 1 items in flight, and 2 items wait for its limit, for 1 h and longer"
    )
    held.ack()
    assert "limit-full" not in queue.doctor().ids()


@pytest.mark.parametrize(
    ("limit", "overrides", "typed"),
    [(60, {}, "60"), (6, {"a": 60}, "6"), (None, {"a": 60}, "none")],
    ids=["of each key", "of a faster key", "of one key alone"],
)
def test_a_rate_that_claims_come_too_seldom_for_is_told(
    make: Make, clock: ManualClock, limit: int | None, overrides: dict[str, int], typed: str
) -> None:
    """It names the burst that would do, by the command that sets it; with that it is none."""
    rate = Rate(by="tenant", limit=limit, per=MINUTE, overrides=overrides)
    queue = make("tenant string", fair_key="tenant", rates=(rate,))
    queue.enqueue([{"tenant": "a"}] * 99)
    for _ in range(5):
        queue.claim(9)
        clock.advance(7 * SECOND)

    found = only(queue.doctor(), "rate-unreached")

    assert found.what == (
        "the rate by tenant allows 60/60s, but claims are 7.0 s apart: with a burst of 1 at most "
        "14% of that can start; a burst of 8 would do, or claims each 1.0 s"
    )
    assert found.command == f"spark-queue configure {queue.name} --rate tenant={typed},burst=8"
    paste(found)
    assert queue.config.rates == (replace(rate, burst=8),)
    assert "rate-unreached" not in queue.doctor().ids()


@pytest.mark.parametrize(
    ("rate", "name", "units"),
    [
        (Rate(by="tenant", limit=60, per=HOUR, overrides={"b": None}), "of tenant 'a'", 1),
        (Rate(limit=60, per=HOUR), "of the queue", 1),
        (Rate(by="host", limit=60, per=HOUR), "of host 'x'", 1),
        (Rate(by="host", limit=60, per=HOUR, burst=9, units="size"), "of host 'x'", 2),
    ],
)
def test_a_rate_below_what_comes_is_told(
    make: Make, clock: ManualClock, rate: Rate, name: str, units: int
) -> None:
    """It says in which time what waits doubles, where items come all the time, and not at once."""
    columns = "tenant string, host string, size double"
    queue = make(columns, fair_key="tenant", rates=(rate,))
    item = {"tenant": "a", "host": "x", "size": units}
    queue.enqueue([item] * (180 // units))
    clock.advance(40 * MINUTE)
    assert "rate-below-inflow" not in queue.doctor().ids()
    queue.enqueue([item] * (200 // units))

    found = only(queue.doctor(), "rate-below-inflow")

    assert found.what == (
        f"the rate {name} lets 1 a minute start, and 6 a minute come: what waits "
        f"(380 {'items' if units == 1 else 'units'}) doubles in 76.0 min"
    )
    queue.cancel({"tenant": "a"})
    assert "rate-below-inflow" not in queue.doctor().ids()


def test_a_rate_below_what_comes_is_told_of_one_key_of_many(make: Make, clock: ManualClock) -> None:
    """A hundred busier keys, of which as much may start as comes, leave none out."""
    many = {f"k{n:03}": None if n else 3_600 for n in range(101)}
    rates = (Rate(by="tenant", limit=60, per=HOUR, overrides=many), Rate(limit=60_000, per=HOUR))
    queue = make("tenant string", fair_key="tenant", rates=rates)
    busy = [{"tenant": key} for key in many for _ in range(60)]
    slow = [{"tenant": "a"}] * 45
    queue.enqueue(busy + slow)
    clock.advance(40 * MINUTE)
    queue.enqueue(busy + slow)

    found = only(queue.doctor(), "rate-below-inflow")

    assert found.what == (
        "the rate of tenant 'a' lets 1 a minute start, and 1.5 a minute come: what waits "
        "(90 items) doubles in 3.0 h"
    )


def test_workers_whose_clocks_differ_by_more_than_a_burst_are_named(
    make: Make, clock: ManualClock
) -> None:
    """FC-23: both are named, with the difference, where one charged a rate in the future."""
    rate = Rate(by="tenant", limit=60, per=HOUR)
    queue = make("tenant string", fair_key="tenant", rates=(rate,))
    queue.enqueue([{"tenant": "a"}] * 9)
    queue.claim(1, worker_id="near")
    clock.advance(2 * HOUR)
    queue.claim(1, worker_id="far ahead")
    assert "rate-clocks" not in queue.doctor().ids()
    late = LocalQueue.open(queue.name, clock=ManualClock(clock.now() - HOUR))
    late.claim(1, worker_id="near")

    found = only(queue.doctor(), "rate-clocks")

    assert found.what.startswith(
        "the clock of far ahead is 60.0 min ahead of that of near, by step "
    )


def test_a_key_that_is_paused_for_days_or_again_and_again_is_told(
    make: Make, clock: ManualClock
) -> None:
    """Who paused it is named, and the command resumes it."""
    queue = make("tenant string", fair_key="tenant")
    begun = clock.now()
    with acting_as("ann"):
        queue.pause(key="a b")
    assert "key-paused" not in queue.doctor().ids()
    clock.advance(25 * HOUR)
    found = only(queue.doctor(), "key-paused")
    assert (found.severity, found.since) == ("info", begun)
    assert found.what == "tenant 'a b' is paused by ann: nothing of it starts"
    assert found.command == f"spark-queue resume {queue.name} --key 'a b' --by tenant"
    queue.resume(key="a b")
    for seconds in range(1, 23):
        queue.pause(key="c", for_=60 + seconds)
    assert "22 times in a row" in only(queue.doctor(), "key-paused").what
    clock.advance(2 * MINUTE)
    assert "key-paused" not in queue.doctor().ids()


def test_a_tenant_of_low_priority_that_starves_is_explained(make: Make, clock: ManualClock) -> None:
    """Where no weight is in the way the command tells what is."""
    queue = make("p int, tenant string", fair_key="tenant", priority="p")
    queue.enqueue([{"p": 1, "tenant": "b"}, *({"p": 2, "tenant": "a"} for _ in range(9))])
    for _ in range(8):
        clock.advance(10 * MINUTE)
        queue.claim(1).ack()

    found = only(queue.doctor(), "tenant-starves")

    assert found.command == f"spark-queue explain {queue.name} 1"
    queue.pause()
    assert queue.doctor().ids() == ["paused"]


@pytest.mark.parametrize("fails", [True, False])
def test_a_group_that_waits_for_its_head_is_found(
    make: Make, clock: ManualClock, *, fails: bool
) -> None:
    """A head that fails again and again, or goes on and on, is named; without it others go on."""
    queue = make(group_key="id", lease=9 * HOUR, max_attempts=None)
    queue.enqueue([{"id": "g"}, {"id": "g"}, {"id": "g"}])
    begun = clock.now()
    if fails:
        queue.claim().nack("no lock")
        queue.configure(retry=RetryPolicy(delay=9 * HOUR, cap=9 * HOUR))
        clock.advance(MINUTE)
        queue.claim().nack("no lock")
    else:
        queue.claim()
    clock.advance(HOUR - 2 * MINUTE)
    assert queue.doctor().findings == ()
    clock.advance(2 * MINUTE)

    found = only(queue.doctor(), "group-starves")

    assert found.since is not None
    assert abs(found.since - begun) < SECOND
    why = "delayed, failed with: no lock" if fails else "leased by one that is alive"
    assert f"2 items of group 'g' wait for item 1, which is {why}" in found.what
    # What somebody works on is shown, and never cancelled.
    cancel = f"spark-queue cancel {queue.name} --where '_seq = 1'"
    assert found.command == (cancel if fails else f"spark-queue report {queue.name} --item 1")
    queue.cancel({"_seq": 1})
    assert queue.doctor().findings == ()
    assert [row["_seq"] for row in queue.claim().rows] == [2]


#: Claims an item, and is killed with it.
_KILLED = """
import os, signal, sys
from spark_queue import LocalQueue

claim = LocalQueue.open(sys.argv[1]).claim(1)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("failures", [0, 1])
def test_a_lost_head_of_a_group_is_not_said_to_have_failed(
    make: Make, clock: ManualClock, failures: int
) -> None:
    """A loss is counted beside the failures, and the error is that of the last of these."""
    queue = make(group_key="id", lease=9 * HOUR, retry=RetryPolicy(delay=timedelta(0)))
    queue.enqueue([{"id": "g"}, {"id": "g"}])
    for _ in range(failures):
        queue.claim().nack("no lock")
    run_python("-c", _KILLED, queue.name)
    queue.claim()
    clock.advance(2 * HOUR)

    found = only(queue.doctor(), "group-starves")

    failed = ", failed with: no lock" * failures
    assert found.what.endswith(f"leased by one that is alive{failed}, was lost 1 time")


def test_a_worker_that_is_gone_is_found(make: Make) -> None:
    """At once, by its process; a group waits for no cancel."""
    queue = make(group_key="id", lease=9 * HOUR)
    queue.enqueue([{"id": "g"}, {"id": "g"}])
    run_python("-c", _KILLED, queue.name)
    found = only(queue.doctor(), "workers-gone")

    assert found.severity == "warning"
    assert " is gone; its 1 item waits for the next claim" in found.what
    assert found.command == f"spark-queue process {queue.name} MODULE:FUNCTION"
    assert not [one for one in queue.doctor().findings if "cancel" in one.command]
    queue.pause()
    paused = only(queue.doctor(), "workers-gone")
    assert paused.command == f"spark-queue resume {queue.name}"
    assert paused.what.endswith("but the queue is paused")


def test_a_queue_on_which_nobody_works_is_found(make: Make, clock: ManualClock) -> None:
    """How many could run, since when nobody claims, and that no worker lives; until a claim."""
    queue = make(group_key="id")
    queue.enqueue([{"id": str(at)} for at in range(701)])
    queue.claim(1).ack()
    liveness.leave(Path(queue.name, "status"))
    begun = clock.now()
    clock.advance(10 * MINUTE - SECOND)
    assert queue.doctor().findings == ()

    clock.advance(9 * HOUR - 10 * MINUTE + SECOND)
    found = only(queue.doctor(), "nobody-claims")

    assert (found.severity, found.since) == ("warning", begun)
    said = "700 items could run, and no worker has claimed for 9 h; no worker is alive"
    assert found.what == said
    assert found.command == f"spark-queue process {queue.name} MODULE:FUNCTION"
    claim = queue.claim(1, lease=9 * HOUR)
    clock.advance(2 * HOUR)
    assert queue.doctor().findings == ()
    claim.ack()
    clock.advance(HOUR)
    assert f"worker process {os.getpid()} is alive" in only(queue.doctor(), "nobody-claims").what


def test_what_a_front_gives_out_is_no_idleness(make: Make, clock: ManualClock) -> None:
    """A journaled queue claims nothing, and logs only what is done: it may be worked off."""
    queue = make()
    queue.enqueue({"id": "a"})
    clock.advance(HOUR)
    with journaled_queue(queue) as front:
        front.reader("mail")
        assert "nobody-claims" not in queue.doctor().ids()

    assert "nobody-claims" in queue.doctor().ids()


def test_a_pause_and_a_delay_are_no_idleness(make: Make, clock: ManualClock) -> None:
    """Where nothing can run nobody has to claim; from a resume on the time counts afresh."""
    queue = make()
    queue.enqueue({"id": "a", "available_at": clock.now() + 9 * HOUR})
    clock.advance(9 * HOUR)
    queue.pause()
    assert queue.doctor().ids() == ["paused"]

    clock.advance(2 * HOUR)
    queue.resume()

    assert queue.doctor().findings == ()
    assert with_limits(queue, idle=SECOND).findings == ()
    clock.advance(SECOND)
    assert with_limits(queue, idle=SECOND).ids() == ["nobody-claims"]


def test_a_tenant_that_gets_almost_no_turn_is_found(make: Make, clock: ManualClock) -> None:
    """One turn of a hundred is none to speak of; a small weight that is a share is meant."""
    queue = make("tenant string", fair_key="tenant")
    tenants = ["slow"] * 30 + ["small"] * 100 + ["quick"] * 300
    queue.enqueue([{"tenant": tenant} for tenant in tenants])
    clock.advance(2 * HOUR)
    queue.claim(3).ack()
    queue.configure(weights={"slow": 0.001, "small": 0.25})
    queue.claim(100).ack()

    found = only(queue.doctor(), "tenant-starves")

    said = "tenant 'slow' got 1 turn in 1 h, others got 102; 29 of its items could run"
    assert found.what == said
    assert found.command == f"spark-queue configure {queue.name} --weight slow=1"
    paste(found)
    queue.claim(60).ack()
    assert "tenant-starves" not in queue.doctor().ids()


def test_tenants_that_starve_are_one_finding(make: Make, clock: ManualClock) -> None:
    """The first of them is told of in full, the others by name; one command feeds them all."""
    names = ["a", "b", "c", "d", "e"]
    weights = dict.fromkeys(names, 0.0001)
    queue = make("tenant string", fair_key="tenant", weights=weights)
    queue.enqueue([{"tenant": tenant} for tenant in [*names, *["quick"] * 50]])
    clock.advance(2 * HOUR)
    queue.claim(40).ack()

    found = only(queue.doctor(), "tenant-starves")

    assert found.what.startswith("tenant 'a' got no turn in 1 h, others got 40")
    assert found.what.endswith("; likewise tenant 'b', tenant 'c', tenant 'd' and 1 more")
    paste(found)
    assert set(queue.config.weights.values()) == {1.0}


def test_a_priority_that_starves_is_found(make: Make, clock: ManualClock) -> None:
    """Where ones of higher priority always go first; once it had a turn it starves no more."""
    queue = make("p int", priority="p")
    queue.enqueue([{"p": 1}, {"p": 1}, *({"p": 5} for _ in range(9))])
    begun = clock.now()
    for _ in range(8):
        clock.advance(10 * MINUTE)
        queue.claim(1).ack()

    found = only(queue.doctor(), "priority-starves")

    assert (found.severity, found.since) == ("warning", begun)
    assert (
        found.what == "priority 1 got no turn in 1 h, higher ones got 6; 2 of its items could run"
    )
    assert found.command == f"spark-queue explain {queue.name} 1"
    paste(found)
    queue.claim(2).ack()
    assert queue.doctor().findings == ()

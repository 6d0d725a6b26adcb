"""The scheduler against the naive queue, and against the laws, in random scenarios."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from spark_queue.config import QueueConfig
from spark_queue.flow import Limit, Rate, key_texts
from spark_queue.retry_policy import RetryPolicy
from spark_queue.rules.pacing import Debt
from spark_queue.rules.replacing import Replacing
from spark_queue.rules.rule_model import Ack, Dead, Defer, Grant, Nack, NewItem, Outcome, Release
from spark_queue.rules.scheduler import Scheduler
from tests.properties.naive import TERMINAL, NaiveQueue, Thing

# Powers of two, whose sums and quotients are exact, so that both sides must agree to the last bit.
WEIGHTS = st.dictionaries(st.sampled_from("ab"), st.sampled_from([0.5, 1.0, 2.0, 4.0]))

NUMBERS = st.sampled_from([0, 1, 1, 2, 3, None])
OF_ENDS = st.builds(
    Limit, by=st.just("e"), default=NUMBERS, overrides=st.dictionaries(st.just("x"), NUMBERS)
)
OF_KEYS = st.builds(
    Limit, by=st.just("f"), default=NUMBERS, overrides=st.dictionaries(st.just("a"), NUMBERS)
)
LIMITS = st.sampled_from([0, 0, 1, 1, 2]).flatmap(lambda n: st.tuples(*(OF_ENDS, OF_KEYS)[:n]))

SPEEDS = st.sampled_from([0.5, 1, 3, 7, None])
RATES = st.lists(st.sampled_from([None, "e", "f"]), max_size=2, unique=True).flatmap(
    lambda keys: st.tuples(
        *(
            st.builds(
                Rate,
                by=st.just(by),
                limit=SPEEDS,
                per=st.just(timedelta(seconds=3)),
                burst=st.sampled_from([None, 1, 2.5, 4]),
                units=st.sampled_from([None, "u"]),
                overrides=st.just({}) if by is None else st.just({"a": 2.0, "x": 1 / 3}),
            )
            for by in keys
        )
    )
)

CONFIGS = st.builds(
    QueueConfig,
    dedup_key=st.just("d"),
    dedup_scope=st.sampled_from(["live", "live", "forever", timedelta(seconds=8)]),
    fair_key=st.just("f"),
    group_key=st.sampled_from([None, "g", "g"]),
    priority=st.sampled_from([None, "p"]),
    weights=WEIGHTS,
    max_in_flight=st.sampled_from([None, None, 2, 4]),
    limits=LIMITS,
    rates=st.one_of(st.just(()), RATES),
    lease=st.sampled_from([timedelta(seconds=3), timedelta(seconds=9)]),
    max_attempts=st.sampled_from([None, 2, 3]),
    max_losses=st.sampled_from([None, 2, 3]),
    max_deferrals=st.sampled_from([None, 1, 2, 100]),
    retry=st.sampled_from(
        [RetryPolicy(delay=timedelta(0)), RetryPolicy(backoff="linear", jitter=0.5)]
    ),
    on_failure=st.sampled_from(["block", "skip"]),
)

NEW_ITEMS = st.builds(
    NewItem,
    payload=st.integers(0, 9),
    dedup_key=st.sampled_from([None, None, None, 1, 2, 3, 4]),
    fair_key=st.sampled_from([None, "a", "b", "c"]),
    group_key=st.sampled_from([None, None, "", "x", "y"]),
    flow_keys=st.sampled_from([(None,), ("x",), ("x",), ("y",)]),
    units=st.sampled_from([(), (1,), (0.5,), (3,), (0.1,)]),
    priority=st.sampled_from([0, 0, 1]),
    cost=st.sampled_from([1.0, 1.0, 1.0, 2.0, 0.5]),
    available_at=st.sampled_from([None, None, None, 5.0, 20.0]),
    expires_at=st.sampled_from([None, None, None, None, 12.0, 30.0]),
)

OUTCOMES = st.sampled_from(
    [
        Ack(),
        Ack(),
        Nack("no"),
        Nack("no", 3.0),
        Defer(0.0),
        Defer(2.0, "later"),
        Release(),
        Dead("bad"),
    ]
)


class SchedulerMachine(RuleBasedStateMachine):
    """Does the same to both queues, and compares what they answer and what they are left with."""

    @initialize(config=CONFIGS)
    def open_queues(self, config: QueueConfig) -> None:
        """Open both queues."""
        self.now = 0.0
        self.scheduler = Scheduler(config)
        self.naive = NaiveQueue(config)
        self.lean: Scheduler | None = Scheduler(config, keep_finished=False)
        self.grants: list[Grant] = []
        self.finished: dict[int, str] = {}
        self.follower = Scheduler(config, keep_finished=False)
        self.told: dict[int, Any] = {}

    @rule(items=st.lists(NEW_ITEMS, max_size=6), replaces=st.booleans())
    def admit(self, items: list[NewItem], *, replaces: bool = False) -> None:
        """Rows get the same seqs and the same holders; what has too many units has one."""
        items = [self.fitting(item) for item in items]
        how = Replacing() if replaces else None
        admitted = self.scheduler.admit(items, self.now, replacing=how)
        assert admitted == self.naive.admit(items, self.now, replaces=replaces)
        if self.lean is not None:
            assert self.lean.admit(items, self.now, replacing=how) == admitted

    def fitting(self, item: NewItem) -> NewItem:
        """Return an item with no more units than may start."""
        rates = [one for one in self.scheduler.config.rates if one.units is not None]
        fits = all(item.units <= (one.burst or 1,) for one in rates)
        return item if fits else dataclasses.replace(item, units=())

    @rule(
        limit=st.integers(0, 6),
        run=st.sampled_from([1, 1, 2, 3]),
        lease=st.sampled_from([None, 1.0, 5.0]),
    )
    def claim(self, limit: int, run: int, lease: float | None) -> None:
        """Claims serve the same items at the same turns, and end the same ones."""
        before, keyed = self.in_flight_by_group(), self.in_flight_by_key()
        older = self.naive.replaced()
        running = {thing.seq for thing in self.naive.things if thing.state == "claimed"}
        proposed = self.proposed(limit, run, lease)
        grant = self.scheduler.claim(self.now, limit, run=run, lease=lease)
        assert proposed == grant
        served, expired, dead = self.naive.claim(self.now, limit, run=run, lease=lease)
        assert [(item.seq, item.turn) for item in grant.items] == served
        assert (list(grant.expired), list(grant.dead)) == (expired, dead)
        assert grant.lease == self.naive.step
        ended = {*grant.expired, *grant.dead}
        if not self.scheduler.paused:
            assert list(grant.replaced) == [one for one in older if one[0] not in ended]
        if self.lean is not None:
            assert self.lean.claim(self.now, limit, run=run, lease=lease) == grant
        self.grants = [grant, *self.grants][:4]
        self.check_groups(grant, before, running, run)
        self.check_limits(keyed)
        self.check_places(grant)

    def proposed(self, limit: int, run: int, lease: float | None) -> Grant:
        """What a claim would get leaves no trace, however often it is asked for."""
        before = self.scheduler.snapshot()
        grant = self.scheduler.propose(self.now, limit, run=run, lease=lease)
        assert self.scheduler.propose(self.now, limit, run=run, lease=lease) == grant
        after = self.scheduler.snapshot()
        assert {**after, "clock": None} == {**before, "clock": None}
        return grant

    @rule(
        items=st.lists(NEW_ITEMS, min_size=3, max_size=10),
        limits=st.lists(st.integers(1, 4), min_size=1, max_size=4),
        run=st.sampled_from([1, 1, 1, 2]),
        outcomes=st.lists(OUTCOMES, min_size=4, max_size=4),
        by=st.sampled_from([0.0, 0.0, 1.0, 4.0]),
    )
    def work(
        self,
        items: list[NewItem],
        limits: list[int],
        run: int,
        outcomes: list[Outcome],
        by: float,
    ) -> None:
        """Work as a worker does: take and settle what comes, and let a lease run out at times."""
        self.admit(items)
        for limit in limits:
            self.claim(limit, run, None)
            seqs = [item.seq for item in self.grants[0].items]
            what = dict(zip(seqs[: limit if by else limit - 1], outcomes, strict=False))
            self.finish(self.grants[0], what)
            self.now += by

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), outcomes=st.lists(OUTCOMES, min_size=1, max_size=6))
    def settle(self, data: st.DataObject, outcomes: list[Outcome]) -> None:
        """Settles count for the same items; a second settle of one lease is lost."""
        grant = data.draw(st.sampled_from(self.grants))
        seqs = [item.seq for item in grant.items]
        what = dict(zip(seqs, outcomes, strict=False))
        self.finish(grant, what)

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), by=st.sampled_from([1.0, 6.0]))
    def renew(self, data: st.DataObject, by: float) -> None:
        """Renewals lose the same items."""
        grant = data.draw(st.sampled_from(self.grants))
        seqs = [item.seq for item in grant.items]
        lost = self.scheduler.renew(grant.lease, self.now, by, seqs)
        assert list(lost) == self.naive.renew(grant.lease, self.now, by, seqs)
        if self.lean is not None:
            assert self.lean.renew(grant.lease, self.now, by, seqs) == lost

    @rule(by=st.sampled_from([0.5, 1.0, 3.0, 10.0]))
    def advance(self, by: float) -> None:
        """Let time pass."""
        self.now += by

    @rule(seqs=st.lists(st.integers(1, 40), max_size=3, unique=True))
    def cancel(self, seqs: list[int]) -> None:
        """Cancel: both take the same items out."""
        cancelled = self.scheduler.cancel(seqs, self.now)
        assert list(cancelled) == self.naive.cancel(seqs, self.now)
        if self.lean is not None:
            assert self.lean.cancel(seqs, self.now) == cancelled

    @rule(seqs=st.lists(st.integers(1, 40), max_size=4), again=st.booleans())
    def redrive(self, seqs: list[int], *, again: bool) -> None:
        """Redrive: both enqueue the same items again; a lean scheduler has forgotten them."""
        self.lean = None
        ours = self.scheduler.redrive(seqs, self.now, again=again)
        assert ours == self.naive.redrive(seqs, self.now, again=again)

    @rule()
    def expire(self) -> None:
        """Expire: both find the same items past their deadline."""
        expired = self.scheduler.expire(self.now)
        assert list(expired) == self.naive.expire(self.now)
        if self.lean is not None:
            assert self.lean.expire(self.now) == expired

    @rule(paused=st.booleans())
    def pause(self, *, paused: bool) -> None:
        """Pause, or resume."""
        for scheduler in filter(None, (self.scheduler, self.lean)):
            (scheduler.pause if paused else scheduler.resume)()
        self.naive.begin()
        self.naive.paused = paused

    @rule(
        by=st.sampled_from("ffeg"),
        key=st.sampled_from(["a", "b", "x", "y", ""]),
        seconds=st.sampled_from([None, 1.0, 4.0, 20.0, -1.0, -1.0]),
    )
    def pause_key(self, by: str, key: str, seconds: float | None) -> None:
        """Pause a key, or resume it."""
        config = self.scheduler.config
        if by not in key_texts(config):
            return
        self.naive.begin()
        if seconds is not None and seconds < 0:
            self.naive.pauses.pop((by, key), None)
        else:
            until = math.inf if seconds is None else self.now + seconds
            self.naive.pauses[by, key] = max(until, self.naive.pauses.get((by, key), until))
        for scheduler in filter(None, (self.scheduler, self.lean, self.follower)):
            scheduler.pause_keys(self.naive.pauses.copy())

    @rule(
        weights=WEIGHTS,
        group_limit=st.sampled_from([1, 1, 2, 3]),
        max_in_flight=st.sampled_from([None, None, 1, 3]),
        max_losses=st.sampled_from([None, 1, 3]),
        max_deferrals=st.sampled_from([None, 1, 3]),
        on_failure=st.sampled_from(["block", "skip"]),
        of_ends=OF_ENDS,
        of_keys=st.sampled_from([None, None, 0, 1, 2]),
        speed=SPEEDS,
        burst=st.sampled_from([None, 1, 2.5]),
    )
    def configure(
        self,
        group_limit: int,
        of_ends: Limit,
        of_keys: int | None,
        speed: float | None,
        burst: float | None,
        **changes: Any,
    ) -> None:
        """Change what may be changed."""
        rates = self.scheduler.config.rates
        changes["rates"] = tuple(
            dataclasses.replace(one, limit=speed, burst=burst) for one in rates
        )
        limits = [of_ends for one in self.scheduler.config.limits if one.by == "e"]
        if of_keys is not None:
            limits.append(Limit(by="f", default=of_keys))
        changes["limits"] = tuple(limits)
        if self.scheduler.config.group_key is not None:
            changes["group_limit"] = group_limit
        config = self.scheduler.config.changed(**changes)
        for scheduler in filter(None, (self.scheduler, self.lean)):
            scheduler.configure(config, self.now)
        self.naive.configure(config, self.now)

    @rule()
    def restart(self) -> None:
        """Restart: a scheduler restored from its snapshot, as JSON, goes on in its place."""
        plain = json.loads(json.dumps(self.scheduler.snapshot()))
        again = Scheduler.restore(self.scheduler.config, plain)
        assert again.snapshot() == plain
        self.scheduler = again

    @rule()
    def explain(self) -> None:
        """Explain: what is called runnable is what a claim of everything takes."""
        runnable = {
            thing.seq
            for thing in self.naive.things
            if self.scheduler.explain(thing.seq, self.now).reason == "runnable"
        }
        plain = self.scheduler.snapshot()
        copy = Scheduler.restore(self.scheduler.config, plain)
        taken = {item.seq for item in copy.claim(self.now, 1000).items}
        assert taken == runnable
        assert self.scheduler.snapshot() == plain

    @invariant()
    def states_agree(self) -> None:
        """Both queues have the same items in the same states."""
        for thing in self.naive.things:
            item = self.scheduler.item(thing.seq)
            assert item is not None
            assert (item.state, item.attempts, item.losses, item.deferrals) == (
                thing.state,
                thing.attempts,
                thing.losses,
                thing.deferrals,
            )
            if thing.state not in TERMINAL:
                assert (item.tag, item.priority) == (thing.tag, thing.priority)

    @invariant()
    def facts_are_enough(self) -> None:
        """Who only follows what was decided proposes what the one proposes who decided it."""
        if self.follower.config != self.scheduler.config:
            self.follower, self.told = Scheduler(self.scheduler.config, keep_finished=False), {}
            self.follower.pause_keys(self.naive.pauses.copy())
        plain = self.scheduler.snapshot()
        items = {item["seq"]: item for item in plain["items"]}
        changed = [item for seq, item in items.items() if self.told.get(seq) != item]
        self.told = items
        # With its last item a line may be forgotten, which others then open anew.
        self.follower.apply(item for item in changed if item.get("state") in TERMINAL)
        self.tell_turns(plain)
        self.follower.apply(item for item in changed if item.get("state") not in TERMINAL)
        for by, key, *debt in plain.get("debts", ()):
            self.follower.owe(by, key, Debt(*debt))
        if not self.scheduler.paused:
            ours = self.scheduler.propose(self.now, 4)
            theirs = self.follower.propose(self.now, 4)
            assert dataclasses.replace(theirs, lease=ours.lease) == ours

    def tell_turns(self, plain: dict[str, Any]) -> None:
        """Tell the follower what each line was served, and where the pointers stand."""
        for level in plain["levels"]:
            for account in level["accounts"]:
                key, *_, regular, overdue = account
                self.follower.open_line(level["priority"], account)
                for turn, late in ((regular, False), (overdue, True)):
                    if turn is not None:
                        self.follower.serve(level["priority"], key, turn, overdue=late)
            self.follower.point(level["priority"], level["turn"], level["seq"])

    @invariant()
    def nothing_is_lost(self) -> None:
        """Law 1: every accepted item is in exactly one state."""
        counts = self.scheduler.counts()
        assert counts == self.naive.counts()
        states = ("ready", "claimed", *TERMINAL)
        assert counts["enqueued"] == sum(counts[state] for state in states)

    @invariant()
    def keys_are_distinct(self) -> None:
        """Law 3: at most one item of a key has begun."""
        busy = [t for t in self.naive.live() if t.is_busy and t.new.dedup_key is not None]
        keys = [thing.new.dedup_key for thing in busy]
        assert self.scheduler.config.dedup_key is None or len(keys) == len(set(keys))

    @invariant()
    def leases_exclude(self) -> None:
        """Law 2: an item is under the one lease that its last claim gave it."""
        for grant in self.grants:
            for item in grant.items:
                view = self.scheduler.item(item.seq)
                assert view is not None
                assert view.lease is None or view.lease >= grant.lease

    @invariant()
    def ends_are_final(self) -> None:
        """Law 8: a terminal state is never left."""
        now = {t.seq: t.state for t in self.naive.things if t.state in TERMINAL}
        assert self.finished.items() <= now.items()
        self.finished = now

    def finish(self, grant: Grant, what: dict[int, Outcome]) -> None:
        """Settle a grant in all queues, and compare what was lost."""
        settled = self.scheduler.settle(grant.lease, what, self.now)
        assert list(settled.lost) == self.naive.settle(grant.lease, what, self.now)
        if self.lean is not None:
            assert self.lean.settle(grant.lease, what, self.now) == settled

    def check_places(self, grant: Grant) -> None:
        """Law 6: without groups and limits, the items of a key are served in their own order."""
        config = self.scheduler.config
        kept = config.max_in_flight is not None or config.limits or config.rates
        if config.group_key is not None or kept:
            return
        # One that has replaced another stands at its place.
        tags = {thing.seq: thing.tag for thing in self.naive.things}
        for item in grant.items:
            for thing in self.naive.live():
                is_before = thing.seq < item.seq and thing.tag <= tags[item.seq]
                if thing.key == (item.priority, item.fair_key) and is_before:
                    assert thing.state == "claimed" or self.is_kept(thing)

    def is_kept(self, thing: Thing) -> bool:
        """Tell whether an item waits for its time, its key, or one that it follows."""
        is_delayed = thing.available_at > self.now or self.naive.is_paused(thing)
        return is_delayed or self.naive.follows(thing)

    def in_flight_by_key(self) -> Counter[tuple[str, Any]]:
        """Count the claimed items of each key of the limits."""
        found: Counter[tuple[str, Any]] = Counter()
        for thing in self.naive.things:
            if thing.state == "claimed":
                found["f", thing.new.fair_key] += 1
                found["e", thing.new.flow_keys[0]] += 1
        return found

    def check_limits(self, before: Counter[tuple[str, Any]]) -> None:
        """Law F1: no claim goes over the limit of a key."""
        for limit in self.scheduler.config.limits:
            for (by, key), count in self.in_flight_by_key().items():
                most = limit.most(key)
                if by == limit.by and most is not None:
                    assert count <= max(most, before[by, key])

    def in_flight_by_group(self) -> dict[Any, int]:
        """Count the claimed items of each group."""
        found: dict[Any, int] = {}
        for thing in self.naive.things:
            if thing.state == "claimed" and thing.new.group_key is not None:
                found[thing.new.group_key] = found.get(thing.new.group_key, 0) + 1
        return found

    def check_groups(
        self, grant: Grant, before: dict[Any, int], running: set[int], run: int
    ) -> None:
        """Law 4: no claim goes over the group's limit, and members start in seq order."""
        config = self.scheduler.config
        if config.group_key is None:
            return
        after = self.in_flight_by_group()
        for group in {item.group_key for item in grant.items} - {None}:
            assert after[group] <= max(config.group_limit * run, before.get(group, 0))
            started = {item.seq for item in grant.items if item.group_key == group} - running
            left = [
                thing.seq
                for thing in self.naive.things
                if thing.new.group_key == group and thing.state == "ready"
                if config.on_failure == "block" or not self.is_kept(thing)
            ]
            assert not started or not left or max(started) < min(left)


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = settings(
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
)

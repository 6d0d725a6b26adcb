"""One long history under all settings at once, against the naive queue and the laws of flow."""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from datetime import timedelta
from fractions import Fraction
from typing import Any

from spark_queue.config import QueueConfig
from spark_queue.flow import Limit, Rate
from spark_queue.retry_policy import RetryPolicy
from spark_queue.rules.rule_model import Ack, Dead, Defer, Grant, Nack, NewItem, Release
from spark_queue.rules.scheduler import Scheduler
from tests.properties.naive import TERMINAL, Thing
from tests.properties.test_scheduler_machine import SchedulerMachine

#: How long the history is; ``SPARK_QUEUE_STEPS=100000`` is the long one.
_STEPS = int(os.environ.get("SPARK_QUEUE_STEPS", "300"))

_PER = timedelta(seconds=3)
_CONFIG = QueueConfig(
    dedup_key="d",
    on_duplicate="replace",
    fair_key="f",
    group_key="g",
    priority="p",
    weights={"a": 4.0, "b": 0.5},
    max_in_flight=9,
    limits=(Limit(by="f", default=3), Limit(by="e", default=5)),
    rates=(Rate(by="f", limit=7, per=_PER, burst=4, units="u"), Rate(limit=9, per=_PER, burst=6)),
    lease=timedelta(seconds=3),
    max_attempts=3,
    max_losses=3,
    max_deferrals=4,
    retry=RetryPolicy(backoff="linear", jitter=0.5),
)

_OUTCOMES = (Ack(), Ack(), Ack(), Nack("no"), Nack("no", 3.0), Defer(2.0), Release(), Dead("bad"))
#: Items that are open at most.
_OPEN = 40


class _History(SchedulerMachine):
    """A history that is drawn without end; the two queues forget what is long over."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.draw = random.Random(seed)  # noqa: S311 - of a test
        self.open_queues(config=_CONFIG)
        self.scheduler, self.lean = Scheduler(_CONFIG, keep_finished=False), None
        self.starts: dict[Any, list[tuple[float, Fraction]]] = defaultdict(list)
        self.did: Counter[str] = Counter()

    def step(self) -> None:
        """Do one thing, and judge the laws."""
        what = self.draw.choices(
            ("put", "take", "give", "wait", "hold", "change", "leave_out", "restart"),
            (20, 30, 25, 20, 2, 1, 1, 1),
        )[0]
        getattr(self, what)()
        self.did[what] += 1
        over = self.naive.seq - 50
        kept = [t for t in self.naive.things if t.state not in TERMINAL or t.seq > over]
        self.naive.things = kept
        for thing in self.naive.live():
            item = self.scheduler.item(thing.seq)
            assert item is not None
            counts = (item.state, item.attempts, item.losses, item.deferrals, item.tag)
            assert counts == _facts(thing)
        self.keys_are_distinct()

    def put(self) -> None:
        draw = self.draw
        if len(self.naive.live()) < _OPEN:
            items = [self._item() for _ in range(draw.randint(1, 5))]
            self.admit(items=items, replaces=draw.random() < 0.7)

    def _item(self) -> NewItem:
        draw = self.draw
        return NewItem(
            dedup_key=draw.choice((None, None, *range(9))),
            fair_key=draw.choice((None, "a", "a", "b", "c")),
            group_key=draw.choice((None, None, None, None, "x", "y", "z")),
            flow_keys=(draw.choice((None, "x", "y")),),
            units=(draw.choice((1, 1, 0.5, 3)),),
            priority=draw.choice((0, 0, 1)),
            cost=draw.choice((1.0, 1.0, 2.0)),
            available_at=self.now + 4 if draw.random() < 0.1 else None,
            expires_at=self.now + draw.choice((6, 30)) if draw.random() < 0.2 else None,
        )

    def take(self) -> None:
        """F1 to F4: a claim takes what may start, ends what is over, and leaves all others be."""
        reasons = {t.seq: self.reason(t) for t in self.naive.live()}
        before = {t.seq: (t, _facts(t)) for t in self.naive.live()}
        ends = dict(self.naive.replaced())
        self.claim(limit=self.draw.randint(1, 6), run=1, lease=None)
        grant = self.grants[0]
        taken = {item.seq for item in grant.items}
        # Of a full queue lapsed items are served as if no head of their group waited.
        said = {reasons[seq] for seq in taken if before[seq][1][0] == "ready"}
        assert said <= {"runnable"}, "F4"
        for seq, (thing, facts) in before.items():
            if seq in taken:
                continue
            if thing.state in TERMINAL:
                self.require_end(thing, facts, ends)
            else:
                assert _facts(thing) == facts, "F2"
        self.require_windows(grant)

    def reason(self, thing: Thing) -> str:
        """Return why an item is not running."""
        return self.scheduler.explain(thing.seq, self.now).reason

    def require_end(self, thing: Thing, facts: Any, ends: dict[int, int]) -> None:
        """F3: a deadline, a last loss and a row that replaces end an item, and no rule of flow."""
        by_deadline = thing.new.expires_at is not None and thing.new.expires_at <= self.now
        by_loss = facts[0] == "claimed" and facts[2] + 1 >= (_CONFIG.max_losses or 0)
        by_row = thing.seq in ends and facts[0] == "ready"
        causes = {"expired": by_deadline, "dead": by_loss, "cancelled": by_row}
        assert causes[thing.state], "F3"

    def require_windows(self, grant: Grant) -> None:
        """F1: in no window of a rate do more units start than its limit and its burst."""
        for taken in grant.items:
            thing = self.naive.find(taken.seq)
            assert thing is not None
            for (by, key), _, _ in self.naive._prices(thing):
                units = Fraction(thing.new.units[0]) if by == "f" else Fraction(1)
                self.starts[by, key].append((self.now, units))
        for (by, key), starts in self.starts.items():
            rate = next(one for one in self.scheduler.config.rates if one.by == by)
            recent = [one for one in starts if one[0] > self.now - _PER.total_seconds()]
            self.starts[by, key] = recent
            most = Fraction(rate.limit or 0) + Fraction(max(rate.burst or 1, 3))
            assert sum(units for _, units in recent) <= most, "F1"

    def give(self) -> None:
        if self.grants:
            grant = self.draw.choice(self.grants)
            seqs = [item.seq for item in grant.items if self.draw.random() < 0.8]
            self.finish(grant, {seq: self.draw.choice(_OUTCOMES) for seq in seqs})

    def wait(self) -> None:
        self.now += self.draw.choice((0.25, 0.5, 0.5, 1.0, 4.0))

    def leave_out(self) -> None:
        self.cancel(seqs=[self.draw.randint(1, self.naive.seq + 1)])
        self.expire()

    def hold(self) -> None:
        by, key = self.draw.choice((("f", "a"), ("f", "b"), ("e", "x"), ("g", "y")))
        self.pause_key(by=by, key=key, seconds=self.draw.choice((1.0, 4.0, 9.0, -1.0, -1.0)))

    def change(self) -> None:
        """F5: a changed number takes nothing from what runs, and moves nothing that waits."""
        draw = self.draw
        before = [(t.seq, _facts(t)[:-1], t.lease) for t in self.naive.live()]
        self.configure(
            weights={"a": draw.choice((1.0, 2.0, 4.0))},
            group_limit=draw.choice((1, 1, 2)),
            max_in_flight=draw.choice((None, 4, 9)),
            max_losses=3,
            max_deferrals=4,
            on_failure=draw.choice(("block", "skip")),
            of_ends=Limit(by="e", default=draw.choice((1, 3, None))),
            of_keys=draw.choice((1, 2, 4)),
            speed=draw.choice((3, 7, 11)),
            burst=draw.choice((3, 4, 6)),
        )
        assert before == [(t.seq, _facts(t)[:-1], t.lease) for t in self.naive.live()], "F5"
        self.starts.clear()


def _facts(thing: Thing) -> tuple[Any, ...]:
    return thing.state, thing.attempts, thing.losses, thing.deferrals, thing.tag


def test_a_long_history_of_all_settings_keeps_the_laws() -> None:
    """FC-57: limits, rates, pauses, rows that replace, groups, weights and losses at once."""
    history = _History(seed=57)
    for _ in range(_STEPS):
        history.step()
    assert history.did["take"] > _STEPS / 5
    assert history.naive.seq > _STEPS / 10

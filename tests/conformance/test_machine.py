"""Random scenarios: the durable queue against the scheduler, step by step."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pyspark.sql import SparkSession

from spark_queue.config import QueueConfig
from spark_queue.errors import LeaseLostError
from spark_queue.flow import Limit, Rate
from spark_queue.retry_policy import RetryPolicy
from spark_queue.session import SMALL_STEPS
from tests.conformance.engines import KEYS, DeltaEngine, Engine, Held, Row, SchedulerEngine
from tests.conformance.local import LocalEngine
from tests.conformance.memory import MemoryEngine
from tests.conftest import HISTORIES, histories_of, memory_place

#: How many scenarios of those that Spark plays, which takes it seconds each.
EXAMPLES = histories_of(10)

STEPS = 10

_PER = timedelta(seconds=10)

CONFIGS = st.builds(
    QueueConfig,
    dedup_key=st.just(KEYS["dedup_key"]),
    dedup_scope=st.sampled_from(["live", "forever", timedelta(seconds=20)]),
    fair_key=st.just(KEYS["fair_key"]),
    group_key=st.sampled_from([None, KEYS["group_key"]]),
    priority=st.sampled_from([None, KEYS["priority"]]),
    weights=st.sampled_from([{}, {"a": 2.0}, {"b": 0.5}]),
    max_in_flight=st.sampled_from([None, None, 4]),
    limits=st.sampled_from([(), (), (Limit(by=KEYS["fair_key"], default=2),)]),
    rates=st.sampled_from(
        [
            (),
            (),
            (Rate(by=KEYS["fair_key"], limit=2, per=_PER, burst=2),),
            (Rate(by=KEYS["fair_key"], limit=3, per=_PER), Rate(limit=5, per=_PER, burst=3)),
        ]
    ),
    lease=st.just(timedelta(seconds=10)),
    max_attempts=st.sampled_from([None, 2]),
    max_losses=st.sampled_from([None, 2]),
    retry=st.sampled_from([RetryPolicy(delay=timedelta(0)), RetryPolicy(backoff="linear")]),
    on_failure=st.sampled_from(["block", "skip"]),
)

NEW_ROWS = st.builds(
    Row,
    id=st.just(""),
    key=st.sampled_from([None, None, "k", "l", "m"]),
    tenant=st.sampled_from([None, "a", "b", "c"]),
    group=st.sampled_from([None, None, "x", "y"]),
    priority=st.sampled_from([0, 0, 1]),
    cost=st.sampled_from([1.0, 1.0, 2.0]),
    delay=st.sampled_from([None, None, None, 15.0]),
    ttl=st.sampled_from([None, None, None, 25.0]),
)

VERBS = st.sampled_from(["ack", "ack", "nack", "release", "dead"])


class QueueMachine(RuleBasedStateMachine):
    """Does the same to both engines, and compares what they answer and what they are left with."""

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.mkdtemp(prefix="spark-queue-", dir=memory_place())
        self.names = (f"i{number:03}" for number in itertools.count())
        self.held: list[tuple[Held, Held]] = []

    @initialize(config=CONFIGS)
    def open_queues(self, config: QueueConfig) -> None:
        """Open both queues."""
        self.oracle: Engine = SchedulerEngine(config)
        self.delta: Engine = self.made(f"{self.place}/queue", config)

    def made(self, path: str, config: QueueConfig) -> Engine:
        """Make the durable queue."""
        raise NotImplementedError

    @rule(rows=st.lists(NEW_ROWS, min_size=1, max_size=8))
    def enqueue(self, rows: list[Row]) -> None:
        """The same rows are refused, for the same holders."""
        named = [_named(row, next(self.names)) for row in rows]
        self.both(lambda engine: engine.enqueue(named))

    @rule(limit=st.integers(1, 6), run=st.sampled_from([1, 1, 2]))
    def claim(self, limit: int, run: int) -> None:
        """The same items are served, in the same order."""
        theirs, ours = (e.claim(limit, run=run) for e in (self.oracle, self.delta))
        assert ours.ids == theirs.ids
        if theirs.ids:
            self.held = [(theirs, ours), *self.held][:3]

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 2), verb=VERBS, part=st.sampled_from([0, 0, 1]))
    def settle(self, which: int, verb: str, part: int) -> None:
        """The same items count, also for a holder who comes late or for the second time."""
        theirs, ours = self.held[which % len(self.held)]
        ids = theirs.ids[: len(theirs.ids) // 2] if part else None
        if ids == []:
            return
        lost = [_lost(held.settle, verb, ids) for held in (theirs, ours)]
        assert lost[0] == lost[1]

    @precondition(lambda self: self.held)
    @rule(which=st.integers(0, 2))
    def renew(self, which: int) -> None:
        """The same items are lost to a renewal."""
        theirs, ours = self.held[which % len(self.held)]
        lost = [_lost(held.renew, 10) for held in (theirs, ours)]
        assert lost[0] == lost[1]

    @rule(seconds=st.sampled_from([1.0, 10.0, 16.0]))
    def advance(self, seconds: float) -> None:
        """Time passes: leases run out, delays and lives end."""
        self.both(lambda engine: engine.advance(seconds))

    @rule()
    def pause_and_resume(self) -> None:
        """A paused queue serves nothing."""
        self.both(lambda engine: engine.pause())
        assert self.delta.claim(5).ids == self.oracle.claim(5).ids == []
        self.both(lambda engine: engine.resume())

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """A cancelled item is gone for both."""
        live = [n for n, state in self.oracle.states().items() if state in ("ready", "claimed")]
        if live:
            name = data.draw(st.sampled_from(sorted(live)))
            self.both(lambda engine: engine.cancel(name))

    @rule(data=st.data(), again=st.booleans())
    def redrive(self, data: st.DataObject, *, again: bool) -> None:
        """A redriven item is a new one for both, or refused by both."""
        over = [n for n, state in self.oracle.states().items() if state in ("dead", "cancelled")]
        if over:
            name = data.draw(st.sampled_from(sorted(over)))
            self.both(lambda engine: engine.redrive(name, again=again))

    # rule again: reason of an item
    @rule(data=st.data())
    def explain(self, data: st.DataObject) -> None:
        """Both say the same of an item that is not over: why it waits, for whom, how long."""
        live = [n for n, state in self.oracle.states().items() if state in ("ready", "claimed")]
        if live:
            name = data.draw(st.sampled_from(sorted(live)))
            self.both(lambda engine: (engine.why(name), engine.frees(name)))

    @rule(weights=st.sampled_from([{}, {"a": 4.0}, {"b": 2.0}]))
    def reweigh(self, weights: dict[str, float]) -> None:
        """A weight counts for what waits already, for both."""
        self.both(lambda engine: engine.configure(weights=weights))

    def both(self, do: Callable[[Engine], Any]) -> None:
        """Do something to both engines, which must answer the same."""
        assert do(self.delta) == do(self.oracle)

    def teardown(self) -> None:
        """Compare the states of all items at the end."""
        if hasattr(self, "delta"):
            assert self.delta.states() == self.oracle.states()
        shutil.rmtree(self.place, ignore_errors=True)


class SparkMachine(QueueMachine):
    """The same for the queue of a session."""

    spark: SparkSession

    def __init__(self) -> None:
        super().__init__()
        self.planner = self.spark.conf.get(SMALL_STEPS, "memory") or "memory"

    def made(self, path: str, config: QueueConfig) -> Engine:
        """Make the durable queue."""
        return DeltaEngine(self.spark, path, config)

    @rule(planner=st.sampled_from(["memory", "spark"]))
    def change_planner(self, planner: str) -> None:
        """Who decides the steps of the durable queue changes nothing."""
        self.spark.conf.set(SMALL_STEPS, planner)

    def teardown(self) -> None:
        """Let the next scenario begin with the same planner."""
        super().teardown()
        self.spark.conf.set(SMALL_STEPS, self.planner)


class LocalMachine(QueueMachine):
    """The same for the queue without Spark, which others work with meanwhile."""

    local: LocalEngine

    def made(self, path: str, config: QueueConfig) -> Engine:
        """Make the durable queue."""
        self.local = LocalEngine(path, config)
        return self.local

    @rule()
    def change_handle(self) -> None:
        """Another handle of the process goes on where the last one was."""
        self.local.queue = self.local.opened()

    @rule()
    def forget(self) -> None:
        """A process that knows nothing of the queue goes on as one that does."""
        self.local.forget()


class MemoryMachine(QueueMachine):
    """The same for the queue in memory that is for users' own tests."""

    def made(self, path: str, config: QueueConfig) -> Engine:
        """Make the queue; it needs no place."""
        del path
        return MemoryEngine(config)


def _named(row: Row, name: str) -> Row:
    values = {field: getattr(row, field) for field in Row.__slots__}
    return Row(**{**values, "id": name})


def _lost(do: Callable[..., None], *args: object) -> Sequence[int]:
    try:
        do(*args)
    except LeaseLostError as exc:
        return sorted(exc.seqs)
    return []


#: A scenario is played as it was found: to make one of Spark's shorter takes half an hour.
_AS_FOUND = settings(
    stateful_step_count=STEPS,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize="SPARK_QUEUE_HISTORIES" not in os.environ,
    database=None,
)


pytestmark = pytest.mark.histories


@pytest.mark.slow
def test_the_durable_queue_does_what_the_scheduler_does(spark: SparkSession) -> None:
    """Laws 1-9: whatever is done, in whatever order, both engines answer the same."""
    machine = type("Machine", (SparkMachine,), {"spark": spark})
    run_state_machine_as_test(machine, settings=settings(_AS_FOUND, max_examples=EXAMPLES))


def test_the_queue_without_spark_does_what_the_scheduler_does() -> None:
    """Laws 1-9: without Spark the same, with longer scenarios, as its steps take milliseconds."""
    longer = settings(_AS_FOUND, max_examples=histories_of(2), stateful_step_count=3 * STEPS)
    run_state_machine_as_test(LocalMachine, settings=longer)


def test_the_queue_for_tests_does_what_the_scheduler_does() -> None:
    """Laws 1-9: what a test learns of a queue in memory holds for the durable ones."""
    longer = settings(_AS_FOUND, max_examples=HISTORIES, stateful_step_count=3 * STEPS)
    run_state_machine_as_test(MemoryMachine, settings=longer)

"""Random groups that ``process`` works off while items fail: order, places and counts."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from spark_queue.clock import ManualClock
from spark_queue.config import OnFailure, QueueConfig
from spark_queue.errors import Reject
from spark_queue.local_queue import LocalQueue
from spark_queue.processing.loop import ProcessResult
from spark_queue.retry_policy import RetryPolicy
from tests.conftest import histories_of, memory_place

#: What a handler does at an attempt.
OUTCOMES = st.sampled_from(["done", "done", "done", "fail", "reject"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Batches of items, what becomes of each attempt, and how they are worked off."""

    batches: list[list[tuple[str | None, list[str]]]]
    """Of each item its group, and what its attempts come to; at the end they are done."""
    limit: int
    max_per_group: int | None
    max_workers: int
    max_attempts: int | None
    delay: float
    on_failure: OnFailure


SCENARIOS = st.builds(
    Scenario,
    batches=st.lists(
        st.lists(
            st.tuples(
                st.sampled_from([None, "a", "b", "c"]), st.lists(OUTCOMES, min_size=1, max_size=4)
            ),
            min_size=1,
            max_size=30,
        ),
        min_size=1,
        max_size=4,
    ),
    limit=st.sampled_from([1, 3, 10, 1_000]),
    max_per_group=st.sampled_from([None, None, 1, 2, 5]),
    max_workers=st.sampled_from([1, 3]),
    max_attempts=st.sampled_from([None, 1, 3]),
    delay=st.sampled_from([0.0, 5.0]),
    on_failure=st.sampled_from(["block", "block", "skip"]),
)


@dataclass(slots=True)
class Seen:
    """What handlers saw, and what came of it."""

    scenario: Scenario
    plans: dict[int, list[str]]
    calls: list[tuple[str | None, int]] = field(default_factory=list)
    running: Counter[str] = field(default_factory=Counter)
    ended: Counter[int] = field(default_factory=Counter)
    at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def handle(self, item: dict[str, Any]) -> None:
        """Do with an item what is planned for the attempt."""
        group, number, attempt = item["grp"], item["n"], item["_attempts"]
        with self.lock:
            self.calls.append((group, number))
            if group is not None:
                self.running[group] += 1
                self.at_once = max(self.at_once, self.running[group])
        plan = self.plans[number]
        outcome = plan[attempt] if attempt < len(plan) else "done"
        with self.lock:
            if group is not None:
                self.running[group] -= 1
            self.ended[number] += outcome != "fail" or attempt + 1 == self.scenario.max_attempts
        if outcome != "done":
            raise Reject("never") if outcome == "reject" else ValueError("not now")


@settings(max_examples=histories_of(2), suppress_health_check=list(HealthCheck))
@given(scenario=SCENARIOS)
def test_groups_keep_their_order_and_every_item_ends_once(scenario: Scenario) -> None:
    """No member of a group overtakes another, failed and returned ones keep their place."""
    with TemporaryDirectory(dir=memory_place()) as root:
        seen, results, states = _work_off(scenario, Path(root))

    assert seen.at_once <= 1
    assert results[-1].stopped == "empty"
    assert seen.ended == Counter(dict.fromkeys(seen.plans, 1))
    assert sum(one.acked for one in results) == states["acked"]
    assert sum(one.dead for one in results) == states["dead"]
    assert states.total() == len(seen.plans)
    for group in ("a", "b", "c"):
        calls = [number for its, number in seen.calls if its == group]
        firsts = list(dict.fromkeys(calls))
        assert firsts == sorted(firsts)
        if scenario.on_failure == "block":
            assert calls == sorted(calls)


def _work_off(scenario: Scenario, root: Path) -> tuple[Seen, list[ProcessResult], Counter[str]]:
    """Enqueue batch after batch, and process what is there behind each; at the end all of it."""
    clock = ManualClock()
    config = QueueConfig(
        group_key="grp",
        max_attempts=scenario.max_attempts,
        retry=RetryPolicy(backoff="fixed", delay=timedelta(seconds=scenario.delay)),
        on_failure=scenario.on_failure,
    )
    path = str(root / "queue")
    queue = LocalQueue.create(path, "n long, grp string", config, durability="process", clock=clock)
    seen, results = Seen(scenario, {}), list[ProcessResult]()
    for batch in scenario.batches:
        first = len(seen.plans)
        seen.plans |= {first + at: plan for at, (_, plan) in enumerate(batch)}
        queue.enqueue([{"n": first + at, "grp": group} for at, (group, _) in enumerate(batch)])
        results.append(_processed(queue, scenario, seen))
        clock.advance(timedelta(seconds=1))
    while results[-1].stopped != "empty":
        clock.advance(timedelta(seconds=5))
        results.append(_processed(queue, scenario, seen))
    states = Counter(row["_state"] for row in queue.status().to_pylist())
    queue.close()
    return seen, results, states


def _processed(queue: LocalQueue, scenario: Scenario, seen: Seen) -> ProcessResult:
    return queue.process(
        seen.handle,
        limit=scenario.limit,
        max_per_group=scenario.max_per_group,
        max_workers=scenario.max_workers,
    )

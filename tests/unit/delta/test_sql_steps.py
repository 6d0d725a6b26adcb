"""A queue whose steps SQL decides writes what a queue writes that is decided in memory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from spark_queue.clock import ManualClock
from spark_queue.commands import claims
from spark_queue.commands.admin import checkpoint
from spark_queue.commands.settle import log_settle
from spark_queue.config import QueueConfig
from spark_queue.errors import LeaseLostError
from spark_queue.local_queue import LocalQueue
from spark_queue.log.step_events import LogName, StepFacts
from spark_queue.retry_policy import RetryPolicy
from spark_queue.sql import choosing, settlement
from spark_queue.sql.decisions import EvidenceFirst
from spark_queue.state import replica_choice
from spark_queue.state.commit_step import commit_status
from spark_queue.state.request import Request
from spark_queue.state.settle_decision import Every
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from tests.conftest import histories_of
from tests.unit.rules.test_exact import COSTS, WEIGHTS

LOGS: tuple[LogName, ...] = ("queue", "status")

#: Columns that differ between two queues with the same history.
_OWN = ("_claim_id", "_worker_id")

#: A cost of which a step may add up hundreds, stretched a thousand times.
_MUCH = 1_000.0

_SCOPES: list[Any] = ["live", "live", "forever", timedelta(seconds=40)]


@contextmanager
def every_step_is_large() -> Iterator[None]:
    """Let SQL decide steps of any size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replica_choice, "LARGE", 0)
        yield


def _config(draw: random.Random) -> QueueConfig:
    return QueueConfig(
        dedup_key=(key := draw.choice([None, "id"])),
        dedup_scope="live" if key is None else draw.choice(_SCOPES),
        fair_key=(fair := draw.choice([None, "tenant"])),
        weights={} if fair is None else draw.choice([{}, {"a": 3.0, "b": 0.7}]),
        group_key=draw.choice([None, "grp"]),
        priority=draw.choice([None, "prio"]),
        lease=timedelta(seconds=30),
        max_in_flight=draw.choice([None, 4]),
        max_attempts=draw.choice([None, 2]),
        max_losses=draw.choice([None, 2]),
        retry=RetryPolicy(delay=timedelta(seconds=10), jitter=0.5),
    )


def _row(draw: random.Random) -> dict[str, Any]:
    return {
        "tenant": draw.choice(["a", "b", None]),
        "grp": draw.choice(["g", "h", None]),
        "prio": draw.choice([0, 1]),
        "id": draw.choice([None, *"abcdefgh"]),
        "cost": draw.choice([1.0, 0.1, 2.5]),
        "max_attempts": draw.choice([None, None, 1, 3]),
    }


def _rows_of(queue: LocalQueue, which: LogName) -> list[dict[str, Any]]:
    log = queue._store.native(which)
    assert log is not None
    rows = log.rows_of(log.files(), log.columns()).to_pylist()
    kept = [{name: row[name] for name in row if name not in _OWN} for row in rows]
    return sorted((row for row in kept if row["_kind"] != "head"), key=repr)


@pytest.mark.histories
@pytest.mark.parametrize("seed", range(histories_of(6)))
def test_large_steps_are_those_of_memory(tmp_path: Path, seed: int) -> None:
    """Laws 1-8: both logs have the same rows after a random history."""
    draw, clock = random.Random(seed), ManualClock()  # noqa: S311 - a history to replay
    config, columns = _config(draw), "tenant string, grp string, prio int, id string"
    small, large = (
        LocalQueue.create(tmp_path / name, columns, config, durability="process", clock=clock)
        for name in ("small", "large")
    )
    held: list[tuple[Any, Any]] = []
    for _ in range(14):
        what = draw.random()
        if what < 0.3:
            rows = [_row(draw) for _ in range(draw.randint(1, 8))]
            told = small.enqueue(rows).outcomes
            with every_step_is_large():
                assert large.enqueue(rows).outcomes == told
        elif what < 0.6:
            limit, run = draw.randint(1, 6), draw.choice([1, 2]) if config.group_key else 1
            first = small.claim(limit, run=run, worker_id="w")
            with every_step_is_large():
                second = large.claim(limit, run=run, worker_id="w")
            assert [row["_seq"] for row in first.rows] == [row["_seq"] for row in second.rows]
            held += [(first, second)] if first.count else []
        elif what < 0.8 and held:
            _settle(draw, draw.choice(held))
        elif what < 0.95:
            clock.advance(timedelta(seconds=draw.choice([1, 12, 31])))
        else:
            for queue in (small, large):
                checkpoint(queue._store)
    assert _all_of(small) == _all_of(large)


@example(
    costs=[0.1, 1e-5, 1e-9], weights={"a": 0.3, "b": 0.001}, group=None, before=3e10, seed=19228
)
@settings(max_examples=histories_of(15), suppress_health_check=list(HealthCheck))
@given(
    costs=st.lists(COSTS.filter(lambda cost: cost < _MUCH), min_size=1, max_size=6),
    weights=st.dictionaries(st.sampled_from("abc"), WEIGHTS),
    group=st.sampled_from([None, "grp"]),
    before=st.sampled_from([0.1, 3e10]),
    seed=st.integers(0, 2**32),
)
def test_turns_are_the_same_in_whatever_order_they_are_added_up(
    tmp_path_factory: pytest.TempPathFactory,
    costs: list[float],
    weights: dict[str, float],
    group: str | None,
    before: float,
    seed: int,
) -> None:
    """Law 3: tags, turns of what came back, ends of lines and of groups, to the last digit.

    However far the lines have come before.
    """
    config = QueueConfig(
        fair_key="tenant", group_key=group, group_limit=3 if group else 1, weights=weights
    )
    logs = []
    for way in (nullcontext, every_step_is_large):
        draw = random.Random(seed)  # noqa: S311 - a history to replay
        place = tmp_path_factory.mktemp("turns") / "queue"
        queue = LocalQueue.create(
            place, "tenant string, grp string", config, durability="process", clock=ManualClock()
        )
        with way():
            queue.enqueue([_costly(draw, [before]) for _ in range(3)])
            queue.claim(3, worker_id="w").ack()
            for count in (200, 150):
                queue.enqueue([_costly(draw, costs) for _ in range(count)])
                queue.claim(80, worker_id="w").release()
                queue.claim(100, worker_id="w")
                queue.configure(weights={"b": 0.3, "c": 0.001})
        logs.append(_all_of(queue))
    assert logs[0] == logs[1]


def _costly(draw: random.Random, costs: list[float]) -> dict[str, Any]:
    tenant, group = draw.choice(["a", "b", "c", None]), draw.choice([None, "g", "h", "i"])
    return {"tenant": tenant, "grp": group, "cost": draw.choice(costs)}


def _all_of(queue: LocalQueue) -> list[Any]:
    """Return the heads and the rows of both logs."""
    store = queue._store
    heads = [replace(head, token="") for head in (store.queue_head(), store.status_head())]
    return [*heads, *(_rows_of(queue, which) for which in LOGS)]


def _settle(draw: random.Random, both: tuple[Any, Any]) -> None:
    """Settle or renew a claim of both queues in one of the ways that a holder has."""
    seqs = [row["_seq"] for row in both[0].rows]
    said = {seq: (draw.choice(["ack", "nack", "release", "dead"]), None) for seq in seqs}
    how = draw.choice(["each", "ack", "renew"])
    lost = []
    for claim in both:
        step = {"each": lambda claim=claim: claim.settle_each(said), "ack": claim.ack}
        with every_step_is_large() if claim is both[1] else nullcontext():
            try:
                step.get(how, claim.renew)()
                lost.append("")
            except LeaseLostError as error:
                lost.append(str(error))
    assert lost[0] == lost[1]


def test_an_enqueue_of_nothing_but_duplicates_moves_no_end(tmp_path: Path) -> None:
    """The highest tags of a queue are those of its items."""
    config = QueueConfig(dedup_key="id", fair_key="tenant", group_key="grp")
    queue = LocalQueue.create(tmp_path / "q", "id string, tenant string, grp string", config)
    queue.enqueue({"id": "a", "tenant": "t", "grp": "g"})
    with every_step_is_large():
        assert queue.enqueue([{"id": "a", "tenant": "t", "grp": "g"}] * 3).duplicates == 3
    assert queue._store.queue_head().tops == {0: 1.0}


def test_a_checkpoint_keeps_what_a_reader_has_passed_before_it_began(tmp_path: Path) -> None:
    """A reader that begins late takes over weights by which the first items had their turn."""
    config = QueueConfig(fair_key="t", weights={"a": 4.0})
    queue = LocalQueue.create(tmp_path / "q", "id int, t string", config, durability="process")
    queue.enqueue([{"id": n, "t": "a"} for n in range(10)])
    queue.claim(9).ack()
    queue.configure(weights={"a": 1.0})
    queue.reader("first")
    second = queue.reader("second", start="beginning")
    checkpoint(second._store)
    with every_step_is_large():
        assert [row["id"] for row in second.claim(99).rows] == [*range(10)]


def test_a_checkpoint_keeps_what_ended_before_its_turn(tmp_path: Path) -> None:
    """An item that was cancelled is not taken for one that nothing has touched."""
    queue = LocalQueue.create(tmp_path / "q", "id int", durability="process")
    queue.enqueue([{"id": n} for n in range(3)])
    queue.cancel({"id": 1})
    checkpoint(queue._store)
    with every_step_is_large():
        assert [row["id"] for row in queue.claim(9).rows] == [0, 2]


def test_a_listener_is_told_the_engine_and_the_times_of_a_step(tmp_path: Path) -> None:
    """It tells a step that was decided an item at a time from one of a set of items."""
    told: list[StepFacts] = []
    queue = LocalQueue.create(
        tmp_path / "q", "id string", durability="process", listener=told.append
    )
    queue.enqueue([{"id": name} for name in "abcd"])
    queue.claim(1).ack()
    with every_step_is_large():
        queue.claim(1)
    queue.cancel({"id": "d"})

    assert [(step.action, step.engine) for step in told] == [
        ("enqueue", "python"),
        ("claim", "python"),
        ("settle", "python"),
        ("claim", "duckdb"),
        ("cancel", "arrow"),
    ]
    parts = [(step.times.decide, step.times.commit, step.times.apply) for step in told]
    assert all(0 < sum(part) <= step.seconds for part, step in zip(parts, told, strict=True))


def test_a_claim_of_many_items_is_decided_by_sql(tmp_path: Path) -> None:
    """From a thousand items on that is sooner done than one by one."""
    told: list[StepFacts] = []
    queue = LocalQueue.create(tmp_path / "q", "id int", durability="process", listener=told.append)
    queue.enqueue([{"id": n} for n in range(2_001)])
    assert [queue.claim(limit).count for limit in (1_000, 1_001)] == [1_000, 1_001]
    assert [step.engine for step in told[1:]] == ["python", "duckdb"]


def test_a_claim_that_names_an_output_is_evidence_first(tmp_path: Path) -> None:
    """Where such a claim ran out, its output is asked before SQL takes an item over."""
    clock = ManualClock()
    queue = LocalQueue.create(tmp_path / "q", "id string", durability="process", clock=clock)
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    store, lease = queue._store, timedelta(seconds=5)
    request = Request(limit=1, lease=lease, worker_id="w", run=1, claim_id="c", output="out")
    with every_step_is_large():
        held = claims.claim(Snapshot(store), request)
    checkpoint(store)
    clock.advance(timedelta(seconds=6))
    at = Snapshot(store)
    with pytest.raises(EvidenceFirst) as raised:
        choosing.choose(at, request, clock.now())
    assert raised.value.claims == {held.step: "c"}
    found = choosing.choose(
        at, replace(request, limit=9, spared=frozenset({held.step})), clock.now()
    )
    assert found is not None
    assert found.table()["_seq"].to_pylist() == [2]


# rule: newest row of an item
def test_an_item_keeps_the_times_that_its_newest_row_leaves_out(tmp_path: Path) -> None:
    """A front writes rows without the time when an item entered, and when it expires."""
    clock = ManualClock()
    queue = LocalQueue.create(tmp_path / "q", "id string", durability="process", clock=clock)
    soon = clock.now() + timedelta(seconds=5)
    queue.enqueue([{"id": "a", "expires_at": soon}, {"id": "b"}])
    held = queue.claim(1)
    store = queue._store
    settle = _stage(store, held.lease, clock)
    lacking = settle.rows.drop_columns(["_expires_at", "_enqueued_at"])
    assert (
        commit_status(Snapshot(store), log_settle(store.status_head(), settle), lacking) is not None
    )
    clock.advance(timedelta(seconds=6))
    with every_step_is_large():
        assert [row["id"] for row in queue.claim(9).rows] == ["b"]
    assert queue.counts()["expired"] == 1


def _stage(store: Store, lease: int, clock: ManualClock) -> Any:
    return settlement.settle(Snapshot(store), lease, Every("release"), clock.now())


def test_a_claim_reads_no_file_of_items_that_all_come_later(tmp_path: Path) -> None:
    """Members that wait for their group are overdue: what may precede one is older than it."""
    config = QueueConfig(fair_key="tenant", group_key="parent")
    queue = LocalQueue.create(tmp_path / "q", "id int, tenant string, parent string", config)
    for first in (0, 12_000):
        ids = range(first, first + 12_000)
        rows = [{"id": n, "tenant": f"t{n % 10}", "parent": f"g{n // 3}"} for n in ids]
        before = {*(tmp_path / "q" / "queue").rglob("*.parquet")}
        queue.enqueue(rows)
    later = {*(tmp_path / "q" / "queue").rglob("*.parquet")} - before
    claim = queue.claim(1_500)
    claim.ack()
    for file in later:
        file.rename(f"{file}.away")

    with queue.claim(1_500) as claimed:
        served = [row["id"] for row in claimed.rows]

    assert max(served) < 12_000
    assert min(served) < 10  # a second member, whose group has let it wait

"""Steps decided in the process and by Spark: what they do is the same."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession

from spark_queue.claim import Claim
from spark_queue.clock import ManualClock
from spark_queue.columns.arrow.functions import hash_texts
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.flow import Limit, Rate
from spark_queue.local_queue import LocalQueue
from spark_queue.log.settings import UNWEIGHTED
from spark_queue.queue_views import store_of
from spark_queue.session import SMALL_STEPS
from spark_queue.state import replica_choice
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from tests.conftest import REMOTE

_BENCH = Path(__file__).parents[2] / "jobs" / "bench"

pytestmark = pytest.mark.skipif(REMOTE is not None, reason="over Spark Connect Spark decides all")


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let jobs be imported."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(_BENCH))
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(_BENCH)):
            del sys.modules[name]


@pytest.fixture(params=["memory", "spark"])
def decided(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """Return the session, whose small steps are decided by one planner."""
    spark.conf.set(SMALL_STEPS, request.param)
    yield spark
    spark.conf.unset(SMALL_STEPS)


@pytest.mark.slow
@pytest.mark.usefixtures("job")
def test_spark_decides_as_the_rules_do(spark: SparkSession, tmp_path: Path) -> None:
    """Law 1-9: each step is that of the rules, whether Spark reads or decides."""
    played = import_module("choices").Played(tmp_path / "queue", 44, is_thorough=False, spark=spark)
    counts = played.play(steps=10)
    told = ("enqueues", "duplicates", "claims", "overdue", "over", "settles")
    assert min(counts[what] for what in told) > 0


def test_turns_are_added_up_alike(spark: SparkSession, place: str) -> None:
    """Law 3: tags, and turns of what came back, are the same to the last digit."""
    config = QueueConfig(fair_key="t", group_key="g", weights={"a": 0.3, "b": 0.001})
    costs = [0.1, 0.7, 1 / 3, 1e-9]
    rows = [("abc"[n % 3], "gh"[n % 2], costs[n % 4]) for n in range(60)]
    seen = []
    for planner in ("memory", "spark"):
        spark.conf.set(SMALL_STEPS, planner)
        queue = DeltaQueue.create(spark, f"{place}/{planner}", "t string, g string", config)
        queue.enqueue(spark.createDataFrame(rows, "t string, g string, cost double"))
        queue.claim(20, run=20).release()
        assert queue.claim(30, run=20).count == 30
        rows_of_steps = spark.read.format("delta").load(f"{place}/{planner}/status")
        told = rows_of_steps.where("_seq IS NOT NULL").orderBy("_step", "_seq")
        seen.append(told.select("_step", "_seq", "_state", "_turn", "_overdue").collect())
        spark.conf.unset(SMALL_STEPS)
    assert seen[0] == seen[1]


#: Queues whose rows have no dedup key, turn or priority, but for the last: it replaces items.
_ONE_LINE = [
    QueueConfig(group_key="g", max_in_flight=2),
    QueueConfig(
        dedup_key="missing",
        limits=(Limit(by="t", default=1),),
        rates=(Rate(by="g", limit=3, per=timedelta(seconds=9), burst=9, units="n"),),
    ),
    QueueConfig(
        dedup_key="missing",
        on_duplicate="replace",
        debounce=timedelta(seconds=5),
        at_most=timedelta(seconds=8),
    ),
]


@pytest.mark.parametrize("config", _ONE_LINE)
def test_rows_that_are_only_numbered_are_those_of_the_rules(
    spark: SparkSession, place: str, clock: ManualClock, config: QueueConfig
) -> None:
    """Law 3: a frame without keys has the same rows, whichever planner decides it."""
    computed = (
        "concat('t', id % 2) AS t",
        "if(id % 3 = 0, NULL, concat('g', id % 2)) AS g",
        "cast(1 + id % 4 AS int) AS n",
        "cast(NULL AS string) AS missing",
        "if(id % 5 = 0, NULL, timestamp_seconds(id)) AS available_at",
        "if(id % 7 = 0, NULL, id + 0.5D) AS cost",
    )
    seen = []
    for planner in ("memory", "spark"):
        spark.conf.set(SMALL_STEPS, planner)
        target = f"{place}/{planner}"
        queue = DeltaQueue.create(
            spark, target, "t string, g string, n int, missing string", config, clock=clock
        )
        # Some of its parts are empty, in the second all but one.
        for kept in ("id > 20 AND id % 4 > 0", "id > 80"):
            parts = spark.range(90, numPartitions=6).where(kept)
            queue.enqueue(parts.selectExpr(*computed))
        items = spark.read.format("delta").load(f"{target}/queue").where("_kind = 'item'")
        seen.append([_given(row) for row in items.orderBy("_seq").collect()])
        spark.conf.unset(SMALL_STEPS)
    assert seen[0] == seen[1]
    assert [row["_seq"] for row in seen[0]] == list(range(1, len(seen[0]) + 1))


def _given(row: Row) -> dict[str, Any]:
    """Return the columns of a row that are not null."""
    return {name: value for name, value in row.asDict().items() if value is not None}


def test_an_undo_is_decided_alike(
    decided: SparkSession, queue_path: str, clock: ManualClock
) -> None:
    """Items keep their places in lines and groups, and are refused, by either planner."""
    config = QueueConfig(dedup_key="id", fair_key="t", group_key="g", weights={"x": 2.0})
    alone = LocalQueue.create(queue_path, "id int, t string, g string", config, clock=clock)
    groups = {4: "one", 5: "one", 6: "two"}
    alone.enqueue([{"id": n, "t": "xy"[n % 2], "g": groups.get(n)} for n in range(10)])
    alone.claim(3).ack()
    step = alone.cancel("id IN (1, 4, 6, 7, 8)").step
    alone.enqueue({"id": 7, "t": "x", "g": None})
    queue = DeltaQueue.open(decided, queue_path, clock=clock)

    done = queue.undo(step)

    items = alone.status().to_pylist()
    ended = [row for row in items if row["_state"] == "cancelled"]
    rounds = {row["_origin"]: row["_round"] for row in items if row["_origin"]}
    assert (done.restored, done.taken, len(done.holders)) == (len(ended) - 1, 1, 1)
    free = [row for row in ended if row["_group_key"] is None and row["_seq"] in rounds]
    assert {row["_seq"]: row["_round"] for row in free}.items() <= rounds.items()
    assert rounds.keys() == {row["_seq"] for row in ended} - {done.holders[0][0]}
    assert queue.undo(step).restored == 0
    told = queue.cancel("true", dry_run=True)
    assert (told.states, len(told.sample)) == ({"ready": int(told)}, min(int(told), 5))


def test_an_undo_by_spark_is_the_same(by_spark: None, place: str, spark: SparkSession) -> None:
    """What Spark alone decides restores as many items as it cancelled."""
    del by_spark
    LocalQueue.create(f"{place}/queue", "id int, t string").enqueue(
        [{"id": n, "t": "xy"[n % 2]} for n in range(4)]
    )
    queue = DeltaQueue.open(spark, f"{place}/queue")
    again = queue.cancel("t = 'x'")
    assert queue.undo(again.step).restored == again == 2


_GROUPED = "id string, grp string, urgency int"


def _grouped(place: str, config: QueueConfig, clock: ManualClock | None = None) -> LocalQueue:
    """Make a queue whose history is written without Spark: it is not what is compared."""
    return LocalQueue.create(f"{place}/queue", _GROUPED, config, clock=clock)


def _item(name: str, group: str | None, urgency: int) -> dict[str, Any]:
    return {"id": name, "grp": group, "urgency": urgency}


def _ids(claim: Claim) -> list[str]:
    return [row.id for row in claim.items.select("id").collect()]


@pytest.mark.parametrize("fair_key", [None, "id"])
def test_a_later_member_of_a_group_is_served_behind_an_earlier_one(
    decided: SparkSession, place: str, fair_key: str | None
) -> None:
    """Law 4: one that came back keeps its priority, and a higher one of the next does not count."""
    config = QueueConfig(fair_key=fair_key, group_key="grp", priority="urgency", group_limit=2)
    alone = _grouped(place, config)
    alone.enqueue(_item("a", "g", 0))
    held = alone.claim(1)
    # What is next lies further ahead than a claim looks first.
    later = [_item(f"later {n}", None, -1) for n in range(20)]
    alone.enqueue([_item("b", "g", 9), *later, _item("c", None, 9)])
    held.release()
    queue = DeltaQueue.open(decided, f"{place}/queue")
    assert [_ids(queue.claim(1)) for _ in range(3)] == [["c"], ["a"], ["b"]]


def test_a_later_member_of_a_group_takes_no_slot_before_an_earlier_one(
    decided: SparkSession, place: str
) -> None:
    """Law 4: where slots are few, one behind a lapsed item of low priority gets none of them."""
    config = QueueConfig(group_key="grp", priority="urgency", group_limit=2, max_in_flight=2)
    clock = ManualClock()
    alone = _grouped(place, config, clock)
    alone.enqueue(_item("a", "g", 0))
    alone.claim(1)
    alone.enqueue([_item("b", "g", 9), _item("c", None, 5)])
    clock.advance(config.lease)
    queue = DeltaQueue.open(decided, f"{place}/queue", clock=clock)
    assert sorted(_ids(queue.claim(3))) == ["a", "c"]


def test_a_later_member_of_a_group_has_no_earlier_turn(decided: SparkSession, place: str) -> None:
    """ADR 3: a turn is not below that of any earlier member of the priority, not only the last."""
    config = QueueConfig(
        fair_key="id", group_key="grp", priority="urgency", group_limit=3, weights={"a": 0.1}
    )
    alone = _grouped(place, config)
    alone.enqueue([_item("a", "g", 1), _item("b", "g", 0)])
    for _ in range(2):
        alone.claim(2).release()
    queue = DeltaQueue.open(decided, f"{place}/queue")
    queue.enqueue(decided.createDataFrame([("c", "g", 1)], _GROUPED))
    assert sorted(_ids(queue.claim(3))) == ["a", "b", "c"]


#: A queue with weights, groups and priorities, whose keys live as long as their items.
_CHECKPOINTED = 131


@pytest.mark.usefixtures("job")
def test_a_replica_from_the_checkpoint_is_that_of_all_rows(spark: SparkSession, place: str) -> None:
    """What a checkpoint leaves out does not count: what is known of open items is the same."""
    history = import_module("histories").History(spark, f"{place}/queue", _CHECKPOINTED)
    compared = 0
    for _ in range(3):
        history.play(5)
        history.queue.configure(weights={"a": 2.0 + compared})
        history.play(3)
        compared += _is_same_from_checkpoint(store_of(history.queue))
    assert compared == 3


def _is_same_from_checkpoint(store: Store) -> bool:
    """Compare both ways to read a replica; say whether there was a checkpoint to read from."""
    at = Snapshot(store)
    whole, recent = replica_choice._whole(at), replica_choice.build(at)
    assert whole is not None
    assert recent is not None
    assert recent.window is not None
    recent.window.source.as_of(at.queue.step, tuple(at.queue.tops))
    while recent.horizon() is not None:
        recent.come_nearer(1_000, 1_000)
    assert _known(recent.items) == _known(whole.items)
    held = {key: newest for key, newest in whole.keys.items() if newest[0] in whole.items}
    hashes = hash_texts(pa.array([*held], pa.string())).to_pylist()
    asked = dict(zip(held, hashes, strict=True))
    assert asked
    assert recent.holders(asked) == whole.holders(asked)
    assert recent.served == whole.served
    for (priority, key), tag in whole.ends.items():
        stretch = at.settings.stretches.get(key or "", UNWEIGHTED)
        stands = stretch.tag(priority, at.status.pointers.get(priority, (0.0, 0))[0])
        assert recent.ends.get((priority, key), 0.0) == tag or tag <= stands
    since = {lease for lease in whole.grants if lease > at.status.checkpoint.step}
    assert recent.grants == {lease: whole.grants[lease] for lease in since}
    assert recent.has_forgotten
    return at.status.checkpoint.step > 0


def _known(items: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return items without what only the rows by which they were leased say."""
    return {
        seq: {name: row[name] for name in row if name not in ("_turn", "_overdue")}
        for seq, row in items.items()
    }

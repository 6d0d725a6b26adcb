"""Both planners asked about the same steps, of random histories: their rows must be the same."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F

from spark_queue.claim import Claim
from spark_queue.clock import ManualClock
from spark_queue.commands import claims
from spark_queue.commands.claims import settle_and_claim
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import PlannersDifferError
from spark_queue.local_queue import LocalQueue
from spark_queue.log.settings import UNWEIGHTED
from spark_queue.looking import store_of
from spark_queue.session import SMALL_STEPS
from spark_queue.spark import spark_engines
from spark_queue.spark.frames import plain
from spark_queue.state import replica, replica_choice
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from spark_queue.state.verdicts import Every
from tests.conftest import REMOTE

_BENCH = Path(__file__).parents[2] / "jobs" / "bench"

#: A history with something of everything: keys, weights, groups, priorities, limits. What it does
#: after its second claim was once decided in two ways. Hundreds are a job: equivalence.py.
_SEEDS = (8,)
_STEPS = 12

pytestmark = pytest.mark.skipif(REMOTE is not None, reason="over Spark Connect Spark decides all")


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return the job that plays histories."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(_BENCH))
    yield import_module("equivalence")
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(_BENCH)):
            del sys.modules[name]


@pytest.fixture
def by_both(spark: SparkSession) -> Iterator[SparkSession]:
    """Return the session, which asks both planners."""
    spark.conf.set(SMALL_STEPS, "verify")
    yield spark
    spark.conf.unset(SMALL_STEPS)


@pytest.mark.slow
def test_random_histories_are_decided_alike(by_both: SparkSession, place: str, job: Any) -> None:
    """Law 1-9: whatever was done before, both planners would write the same rows and head."""
    report = job.Report()
    with job.counted(report.compared):
        for seed in _SEEDS:
            job.play(by_both, place, seed, _STEPS, report)
    assert report.differences == []
    assert report.steps == _STEPS * len(_SEEDS)
    assert {"enqueue", "claim", "settle", "settle and claim"} <= set(report.compared)


@pytest.mark.slow
@pytest.mark.usefixtures("job")
def test_spark_decides_as_the_rules_do(spark: SparkSession, tmp_path: Path) -> None:
    """Law 1-9: each step is that of the rules, whether Spark reads or decides."""
    played = import_module("choices").Played(tmp_path / "queue", 0, is_thorough=False, spark=spark)
    counts = played.play(steps=10)
    told = ("enqueues", "duplicates", "claims", "overdue", "over", "settles")
    assert min(counts[what] for what in told) > 0


def test_turns_are_added_up_alike(by_both: SparkSession, place: str) -> None:
    """Law 3: tags, and turns of what came back, are the same to the last digit."""
    config = QueueConfig(fair_key="t", group_key="g", weights={"a": 0.3, "b": 0.001})
    queue = DeltaQueue.create(by_both, f"{place}/queue", "t string, g string", config)
    costs = [0.1, 0.7, 1 / 3, 1e-9]
    rows = [("abc"[n % 3], "gh"[n % 2], costs[n % 4]) for n in range(60)]
    queue.enqueue(by_both.createDataFrame(rows, "t string, g string, cost double"))
    queue.claim(20, run=20).release()
    assert queue.claim(30, run=20).count == 30


def test_an_undo_is_decided_alike(
    by_both: SparkSession, queue_path: str, clock: ManualClock
) -> None:
    """Items keep their places in lines and groups, and are refused, by whoever decides it."""
    config = QueueConfig(dedup_key="id", fair_key="t", group_key="g", weights={"x": 2.0})
    alone = LocalQueue.create(queue_path, "id int, t string, g string", config, clock=clock)
    groups = {4: "one", 5: "one", 6: "two"}
    alone.enqueue([{"id": n, "t": "xy"[n % 2], "g": groups.get(n)} for n in range(10)])
    alone.claim(3).ack()
    step = alone.cancel("id IN (1, 4, 6, 7, 8)").step
    alone.enqueue({"id": 7, "t": "x", "g": None})
    queue = DeltaQueue.open(by_both, queue_path, clock=clock)

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


def _without_the_first(rows: DataFrame) -> DataFrame:
    return plain(rows).where("seq > 1")


def test_a_plan_that_goes_another_way_is_named(
    by_both: SparkSession, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule that only one planner has ends the step, with the rows of each, before it is made."""
    queue = DeltaQueue.create(by_both, f"{place}/queue", "id long", QueueConfig(fair_key="id"))
    queue.enqueue(by_both.range(3))
    monkeypatch.setattr(spark_engines, "plain", _without_the_first)
    with pytest.raises(PlannersDifferError, match=r"claim, step 2.*_seq=1.*_seq=2") as found:
        queue.claim(1)
    assert (found.value.queue, found.value.action, found.value.step) == (queue.name, "claim", 2)
    assert "_seq=1" in found.value.memory[0]
    assert "_seq=2" in found.value.spark[0]
    assert queue.stats().claimed == 0
    monkeypatch.undo()
    assert queue.claim(1).count == 1


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
    by_both: SparkSession, place: str, fair_key: str | None
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
    queue = DeltaQueue.open(by_both, f"{place}/queue")
    assert [_ids(queue.claim(1)) for _ in range(3)] == [["c"], ["a"], ["b"]]


def test_a_later_member_of_a_group_takes_no_slot_before_an_earlier_one(
    by_both: SparkSession, place: str
) -> None:
    """Law 4: where slots are few, one behind a lapsed item of low priority gets none of them."""
    config = QueueConfig(group_key="grp", priority="urgency", group_limit=2, max_in_flight=2)
    clock = ManualClock()
    alone = _grouped(place, config, clock)
    alone.enqueue(_item("a", "g", 0))
    alone.claim(1)
    alone.enqueue([_item("b", "g", 9), _item("c", None, 5)])
    clock.advance(config.lease)
    queue = DeltaQueue.open(by_both, f"{place}/queue", clock=clock)
    assert sorted(_ids(queue.claim(3))) == ["a", "c"]


def test_a_later_member_of_a_group_has_no_earlier_turn(by_both: SparkSession, place: str) -> None:
    """ADR 3: a turn is not below that of any earlier member of the priority, not only the last."""
    config = QueueConfig(
        fair_key="id", group_key="grp", priority="urgency", group_limit=3, weights={"a": 0.1}
    )
    alone = _grouped(place, config)
    alone.enqueue([_item("a", "g", 1), _item("b", "g", 0)])
    for _ in range(2):
        alone.claim(2).release()
    queue = DeltaQueue.open(by_both, f"{place}/queue")
    queue.enqueue(by_both.createDataFrame([("c", "g", 1)], _GROUPED))
    assert sorted(_ids(queue.claim(3))) == ["a", "b", "c"]


def test_steps_on_which_both_agree_are_told(by_both: SparkSession, place: str, job: Any) -> None:
    """The log of the library says of each step that memory and SQL, and SQL and Spark, agree."""
    compared: Counter[str] = Counter()
    with job.counted(compared):
        queue = DeltaQueue.create(by_both, f"{place}/queue", "id long")
        queue.enqueue(by_both.range(3))
        claim = queue.claim(2)
        claim.renew()
        claim.ack()
    assert compared == {"enqueue": 2, "claim": 2, "renew": 2, "settle": 2}


#: A queue with weights, groups and priorities, whose keys live as long as their items.
_CHECKPOINTED = 131


@pytest.mark.usefixtures("job")
def test_a_replica_from_the_checkpoint_is_that_of_all_rows(
    spark: SparkSession, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a checkpoint leaves out does not count: what is known of open items is the same."""
    history = import_module("histories").History(spark, f"{place}/queue", _CHECKPOINTED)
    compared = 0
    for _ in range(3):
        history.play(5)
        history.queue.configure(weights={"a": 2.0 + compared})
        history.play(3)
        compared += _is_same_from_checkpoint(store_of(history.queue), monkeypatch)
    assert compared == 3


def _is_same_from_checkpoint(store: Store, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Compare both ways to read a replica; say whether there was a checkpoint to read from."""
    at = Snapshot(store)
    whole = replica_choice._whole(at)
    with monkeypatch.context() as patch:
        patch.setattr(replica_choice, "_is_short", lambda _: False)
        recent = replica_choice._whole(at)
    assert whole is not None
    if recent is None:
        return False
    assert _known(recent.items) == _known(whole.items)
    held = {key: newest for key, newest in whole.keys.items() if newest[0] in whole.items}
    assert {key: n for key, n in recent.keys.items() if n[0] in recent.items} == held
    assert recent.served == whole.served
    for (priority, key), tag in whole.ends.items():
        stretch = at.settings.stretches.get(key or "", UNWEIGHTED)
        stands = stretch.tag(priority, at.status.pointers.get(priority, (0.0, 0))[0])
        assert recent.ends.get((priority, key), 0.0) == tag or tag <= stands
    since = {lease for lease in whole.grants if lease > at.status.checkpoint.step}
    assert recent.grants == {lease: whole.grants[lease] for lease in since}
    assert recent.has_forgotten
    return True


def _known(items: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return items without what only the rows by which they were leased say."""
    return {
        seq: {name: row[name] for name in row if name not in ("_turn", "_overdue")}
        for seq, row in items.items()
    }


def test_a_window_need_not_meet_what_expired_beyond_it(
    by_both: SparkSession, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ADR 24: what Spark's claim ends beyond the horizon is no difference; up to it, it is one."""
    monkeypatch.setattr(replica_choice, "_NEAR", 1)
    monkeypatch.setattr(replica, "_NEXT", 2)
    path, clock = f"{place}/queue", ManualClock()
    alone = LocalQueue.create(path, "id long", clock=clock)
    over = clock.now() + timedelta(seconds=1)
    alone.enqueue([{"id": n, "expires_at": over if n in (1, 6, 8) else None} for n in range(9)])
    clock.advance(timedelta(seconds=1))
    queue = DeltaQueue.open(by_both, path, clock=clock)

    # Spark sees eight turns ahead, the window six items.
    first = queue.claim(2)
    assert (_served(first), alone.counts()["expired"]) == ([0, 2], 1)
    store = store_of(queue)
    both = settle_and_claim(
        store, first.lease, Every("ack"), claims.request(Snapshot(store), 1, None, "w", 1, None)
    )
    assert both is not None
    assert (_served(Claim(store, both[1])), alone.counts()["expired"]) == ([3], 1)

    monkeypatch.setattr(spark_engines, "plain", _never_expiring)
    with pytest.raises(PlannersDifferError, match=r"_seq=7.*expired"):
        queue.claim(3)


def _never_expiring(rows: DataFrame) -> DataFrame:
    return plain(rows).withColumn("expires_at", F.lit(None).cast("long"))


def _served(claim: Claim) -> list[int]:
    return [row.id for row in claim.items.select("id").collect()]

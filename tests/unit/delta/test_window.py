"""A queue of which only the next turns are in memory decides as one that is there as a whole."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from spark_queue.claim import LocalClaim
from spark_queue.clock import ManualClock
from spark_queue.commands.readers import Start
from spark_queue.config import QueueConfig
from spark_queue.errors import LeaseLostError
from spark_queue.local_queue import LocalQueue, LocalVerbs
from spark_queue.log.step_events import LogName
from spark_queue.retry_policy import RetryPolicy
from spark_queue.state import catch_up, claim_decision, replica_choice, window
from tests.conftest import histories_of

_COLUMNS = "id string, tenant string, grp string, prio int"

_SCOPES: list[Any] = ["live", "live", "forever", timedelta(seconds=40)]

_SECOND = timedelta(seconds=1)

#: What differs between two queues with the same history.
_OWN = ("_claim_id", "_worker_id")


@contextmanager
def tiny() -> Iterator[None]:
    """Let a window have a handful of items."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replica_choice, "_NEAR", 1)
        patch.setattr(replica_choice, "_GROWS", 2)
        patch.setattr(replica_choice, "_AHEAD", 5)
        patch.setattr(window, "_NEXT", 2)
        yield


def _in_order(draw: random.Random) -> list[dict[str, Any]]:
    """Return keys by which items are served in the order of their places."""
    return [
        {},
        {"group_key": "grp", "group_limit": draw.choice([1, 2])},
        {"group_key": "grp", "on_failure": "skip"},
        {"priority": "prio"},
        {"fair_key": "tenant"},
        {"fair_key": "tenant", "priority": "prio"},
        {"fair_key": "tenant", "weights": {"a": 3.0, "b": 0.7}},
    ]


def _tangled(draw: random.Random) -> list[dict[str, Any]]:
    """Return keys by which groups stand in several lines, or priorities."""
    grouped = {
        "group_key": "grp",
        "group_limit": draw.choice([1, 2]),
        "on_failure": draw.choice(["block", "skip"]),
    }
    return [
        {**grouped, "fair_key": "tenant"},
        {**grouped, "fair_key": "tenant", "weights": {"a": 3.0, "b": 0.7}},
        {**grouped, "priority": "prio"},
        {**grouped, "fair_key": "tenant", "priority": "prio"},
        {**grouped, "fair_key": "tenant", "priority": "prio", "weights": {"a": 3.0, "b": 0.7}},
    ]


def _all_kinds(draw: random.Random) -> list[dict[str, Any]]:
    return [*_in_order(draw), *_tangled(draw)]


def _in_fair_order(draw: random.Random) -> list[dict[str, Any]]:
    """Return keys by which an item may have the turn of an earlier one of its line."""
    blocks: list[Any] = ["block", "skip"]
    return [
        {"fair_key": "tenant"},
        {"fair_key": "tenant", "priority": "prio"},
        {"fair_key": "tenant", "weights": {"a": 3.0, "b": 0.7}},
        {"fair_key": "tenant", "group_key": "tenant", "on_failure": draw.choice(blocks)},
        {
            "fair_key": "tenant",
            "group_key": "grp",
            "on_failure": draw.choice(blocks),
            "group_limit": draw.choice([1, 2]),
        },
    ]


Kinds = Callable[[random.Random], list[dict[str, Any]]]

Configure = Callable[[random.Random, Kinds, int], QueueConfig]


def _config(draw: random.Random, kinds: Kinds, readers: int) -> QueueConfig:
    """Return a configuration of some kind; of several readers none has chains in memory."""
    keyed = {"dedup_key": "id", "dedup_scope": draw.choice(_SCOPES)}
    waits = draw.choice([{}, {}, {"debounce": _SECOND * 5, "at_most": _SECOND * 12}])
    replaces = [keyed | waits | {"on_duplicate": "replace"}] if readers == 1 else []
    return QueueConfig(
        **draw.choice(kinds(draw)),
        **draw.choice([{}, keyed, *replaces]),
        lease=timedelta(seconds=30),
        max_in_flight=draw.choice([None, None, 4]),
        max_attempts=draw.choice([None, 2]),
        max_losses=draw.choice([None, 2]),
        retry=RetryPolicy(delay=timedelta(seconds=10), jitter=0.0),
    )


def _replacing(draw: random.Random, kinds: Kinds, readers: int) -> QueueConfig:
    """Return a configuration of a queue whose new items replace those that wait."""
    config = _config(draw, kinds, readers)
    if config.on_duplicate == "replace":
        return config
    scopes: list[Any] = ["live", "live", _SECOND * 40]
    scope = draw.choice(scopes)
    return replace(config, dedup_key="id", on_duplicate="replace", dedup_scope=scope)


class Two:
    """The same queue twice: one has all in memory, the other a window."""

    def __init__(self, place: Path, config: QueueConfig) -> None:
        self.clock = ManualClock()
        self.whole, self.cut = (
            LocalQueue.create(
                place / name, _COLUMNS, config, durability="process", clock=self.clock
            )
            for name in ("whole", "cut")
        )
        self.readers: list[tuple[LocalVerbs, LocalVerbs]] = [(self.whole, self.cut)]
        self.claims: list[tuple[LocalClaim, LocalClaim]] = []
        self.windows = 0

    def enqueue(self, rows: list[dict[str, Any]]) -> None:
        """Enqueue rows in both."""
        held = self.whole.enqueue(rows).outcomes
        with tiny():
            assert self.cut.enqueue(rows).outcomes == held

    def read(self, name: str, start: Start | None) -> None:
        """Let both have another reader; the first one is the default one, under a name."""
        if len(self.readers) == 1:
            self.readers = [(self.whole.reader("first"), self.cut.reader("first"))]
        with tiny():
            cut = self.cut.reader(name, start=start)
        self.readers.append((self.whole.reader(name, start=start), cut))

    def claim(self, limit: int, run: int = 1, reader: int = 0) -> None:
        """Claim from both; the items are the same, and are handed out at the same turns."""
        asked: dict[str, Any] = {"run": run, "worker_id": "w"}
        whole, cut = self.readers[reader]
        first = whole.claim(limit, **asked)
        with tiny():
            second = cut.claim(limit, **asked)
            known = cut._store.position().replica
            # Where all is over, nothing is read.
            assert known is not None or not first.count
            self.windows += known is not None and known.horizon() is not None
        assert second.count == first.count
        if first.count:
            assert second.rows == first.rows
            self.claims.append((first, second))

    def settle(self, which: int, said: dict[int, tuple[str, str | None]]) -> None:
        """Settle a claim of both."""
        first, second = self.claims[which]
        lost = _lost(first, said)
        with tiny():
            assert _lost(second, said) == lost

    def require_same(self) -> None:
        """Check that both logs have the same rows."""
        asked: list[tuple[LogName, tuple[LocalVerbs, LocalVerbs]]] = [("queue", self.readers[0])]
        asked += [("status", queues) for queues in self.readers]
        for which, queues in asked:
            logs = [queue._store.native(which) for queue in queues]
            rows = []
            for log in logs:
                assert log is not None
                table = log.rows_of(log.files(), log.columns())
                kept = [
                    {k: v for k, v in row.items() if k not in _OWN} for row in table.to_pylist()
                ]
                rows.append(sorted((r for r in kept if r["_kind"] != "head"), key=repr))
            assert rows[0] == rows[1]


def _lost(claim: LocalClaim, said: dict[int, tuple[str, str | None]]) -> str:
    """Settle items, and return which were not the holder's any more."""
    try:
        claim.settle_each(said)
    except LeaseLostError as error:
        return str(error)
    return ""


def _row(draw: random.Random, clock: ManualClock) -> dict[str, Any]:
    later = clock.now() + timedelta(seconds=draw.choice([5, 25]))
    return {
        "id": f"k{draw.randrange(40)}",
        "tenant": draw.choice(["a", "b", "c", "d", None]),
        "grp": draw.choice(["g", "h", "i", None]),
        "prio": draw.choice([0, 0, 1, 2]),
        "cost": draw.choice([1.0, 1.0, 2.5]),
        "available_at": later if draw.random() < 0.2 else None,
    }


def _play(
    place: Path, seed: int, kinds: Kinds, readers: int = 1, configure: Configure = _config
) -> Two:
    """Let two queues go through a history, and check that both have written the same."""
    draw = random.Random(seed)  # noqa: S311 - a history to replay
    two = Two(place, configure(draw, kinds, readers))
    two.enqueue([_row(draw, two.clock)])
    for _ in range(22):
        if len(two.readers) < readers and draw.random() < 0.2:
            two.read(f"r{len(two.readers)}", draw.choice(["tail", "beginning"]))
        what = draw.random()
        if what < 0.3:
            rows = [_row(draw, two.clock) for _ in range(draw.randint(1, 12))]
            two.enqueue(rows)
        elif what < 0.65:
            reader = draw.randrange(len(two.readers)) if readers > 1 else 0
            two.claim(draw.randint(1, 7), draw.choice([1, 1, 3]), reader)
        elif what < 0.85 and two.claims:
            which = draw.randrange(len(two.claims))
            seqs = [row["_seq"] for row in two.claims[which][0].rows]
            some = draw.sample(seqs, draw.randint(1, len(seqs)))
            outcomes = ["ack", "ack", "nack", "release", "dead"]
            two.settle(which, {seq: (draw.choice(outcomes), None) for seq in some})
        elif what < 0.95:
            two.clock.advance(timedelta(seconds=draw.choice([1, 12, 31])))
        else:
            two.readers[0][1]._store.forget()
    two.require_same()
    return two


@settings(
    max_examples=histories_of(4),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 10**9))
# An overdue turn, with the key's regular one of the same height beyond the horizon.
@example(seed=104)
# A turn of the horizon's height, beyond it, that an earlier item of its key takes.
@example(seed=1421)
# An item that has the tag of one it replaced, and an earlier one of its line beyond the horizon.
@example(seed=134217729)
def test_a_window_decides_as_the_whole(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Laws 1-8: whatever a queue is configured to and went through, the same rows are written."""
    _play(tmp_path_factory.mktemp("window"), seed, _in_order)


# rule: reach of a claim
@settings(
    max_examples=histories_of(4),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 10**9))
def test_a_window_decides_as_the_whole_where_groups_stand_in_several_lines(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Laws 1-8: so it does where who comes first may be beyond what is in memory."""
    _play(tmp_path_factory.mktemp("window"), seed, _tangled)


# rule: reach of a claim
@settings(
    max_examples=histories_of(4),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 10**9))
# A turn that an earlier item of its line takes, which is not in memory, in place of the next one.
@example(seed=100248)
# A turn of the horizon's height, in a line of which no item is in memory any more.
@example(seed=101618)
def test_a_window_decides_as_the_whole_where_items_have_the_turns_of_earlier_ones(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Laws 1-8: so it does where a line is served by seq, and its turns are in another order."""
    place = tmp_path_factory.mktemp("window")
    _play(place, seed, _in_fair_order, configure=_replacing)


@settings(
    max_examples=histories_of(6),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 10**9))
def test_windows_of_several_readers_decide_as_the_whole(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Laws 1-8: so they do where each reader has come to another place."""
    _play(tmp_path_factory.mktemp("window"), seed, _all_kinds, readers=3)


def _item(**given: Any) -> dict[str, Any]:
    return {"id": None, "tenant": None, "grp": None, "prio": None, **given}


def test_an_item_that_its_group_has_put_back_holds_a_turn_that_came_back(tmp_path: Path) -> None:
    """ADR 3: where one of a line is overdue the first takes its turn, and waits for its group."""
    config = QueueConfig(fair_key="tenant", group_key="grp", group_limit=99)
    two = Two(tmp_path, config)
    two.enqueue([_item(tenant="b", grp="g")] * 20)
    two.enqueue([_item(tenant="a", grp="g")])
    two.enqueue([_item(tenant="a")] * 10)
    two.claim(3)
    two.settle(0, {22: ("release", None)})
    two.claim(1)
    assert [row["_seq"] for row in two.claims[1][1].rows] == [3]
    assert two.windows == 2
    two.require_same()


def test_a_member_waits_for_an_earlier_one_of_a_priority_that_is_not_in_memory(
    tmp_path: Path,
) -> None:
    """Law 4: the order had passed the earlier one while it was delayed, so both keep their own."""
    two = Two(tmp_path, QueueConfig(fair_key="tenant", priority="prio", group_key="grp"))
    later = two.clock.now() + timedelta(seconds=10)
    two.enqueue([_item(prio=1, grp="g", available_at=later), _item(prio=1, tenant="a")])
    two.claim(1)
    two.enqueue([_item(prio=2, grp="g"), *[_item(prio=2)] * 20])
    two.cut._store.forget()
    two.claim(2)
    assert [row["_seq"] for row in two.claims[1][1].rows] == [4, 5]
    assert two.windows == 1
    two.require_same()


def test_a_new_member_of_a_group_is_placed_behind_one_that_is_not_in_memory(
    tmp_path: Path,
) -> None:
    """Law 4: its tag is not below that of the last one, whichever line that stands in."""
    two = Two(tmp_path, QueueConfig(fair_key="tenant", group_key="grp", weights={"b": 0.5}))
    two.enqueue([_item(tenant="b", grp="g")] * 20)
    two.claim(1)
    two.cut._store.forget()
    two.enqueue([_item(tenant="a", grp="g")])
    log = two.cut._store.native("queue")
    assert log is not None
    rows = log.rows_of(log.files(), ("_seq", "_kind", "_round")).to_pylist()
    assert [row["_round"] for row in rows if (row["_seq"], row["_kind"]) == (21, "item")] == [40.0]
    two.require_same()


# rule: replaced item of a key
@pytest.mark.parametrize("is_forgotten", [False, True])
def test_what_a_row_replaces_is_in_memory_with_it(tmp_path: Path, is_forgotten: bool) -> None:  # noqa: FBT001 - a case
    """Law 3: the next claim ends it, also where its own turn is beyond what is in memory."""
    config = QueueConfig(dedup_key="id", on_duplicate="replace", priority="prio")
    two = Two(tmp_path, config)
    two.enqueue([_item(id=str(number), prio=0) for number in range(20)])
    two.claim(1)
    two.enqueue([_item(id="19", prio=1)])
    if is_forgotten:
        two.cut._store.forget()
    two.claim(1)
    assert [row["_seq"] for row in two.claims[1][1].rows] == [21]
    assert two.cut.status()["_state"].to_pylist().count("cancelled") == 1
    assert two.windows == 2
    two.require_same()


@pytest.mark.parametrize("scope", ["live", "forever"])
def test_keys_beyond_those_remembered_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: Any
) -> None:
    """Law 3: a key is refused for who holds it, also where memory has only hashes of the keys."""
    monkeypatch.setattr(replica_choice, "_KEYS", 3)
    config = QueueConfig(dedup_key="id", dedup_scope=scope)
    queue = LocalQueue.create(tmp_path / "q", "id string", config, durability="process")
    for first in range(0, 20, 4):
        queue.enqueue([{"id": str(n)} for n in range(first, first + 4)])
    with queue.claim(2):
        pass
    found: Any = queue.enqueue([{"id": "1"}, {"id": "7"}, {"id": "new"}]).outcomes
    assert list(found["duplicate_of"].to_pylist()) == [2 if scope == "forever" else None, 8, None]
    known = queue._store.position().replica
    assert known is not None
    assert known.window is not None
    assert len(known.window.source.hashes) >= 20 - 2 * (scope == "live")


@contextmanager
def _elsewhere() -> Iterator[None]:
    """Work with a memory of its own, as another process does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catch_up, "_caches", {})
        yield


def test_a_key_whose_time_is_over_is_free_for_a_process_that_only_enqueues(
    tmp_path: Path,
) -> None:
    """Law 3: an item that has ended does not hold a key because it lies beyond a new horizon."""
    clock = ManualClock()
    config = QueueConfig(dedup_key="id", dedup_scope=timedelta(seconds=40))
    queue = LocalQueue.create(
        tmp_path / "q", "id string", config, durability="process", clock=clock
    )
    with tiny():
        queue.enqueue([{"id": str(n)} for n in range(20)])
        queue.claim(3).ack()
        queue.maintain()
        queue.claim(2).ack()
        queue._store.forget()
        clock.advance(timedelta(seconds=41))
        assert queue.explain(2).reason == "finished"
        asked = [{"id": name} for name in ("1", "4", "7")]
        found: Any = queue.enqueue(asked).outcomes
        assert found["duplicate_of"].to_pylist() == [None, None, 8]


def test_keys_are_free_again_for_a_window_that_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 3: what others have ended while the horizon stood still is not held by what was known."""
    monkeypatch.setattr(replica_choice, "_GONE", 2)
    config = QueueConfig(dedup_key="id")
    ours = LocalQueue.create(tmp_path / "q", "id string", config, durability="process")
    with tiny():
        ours.enqueue([{"id": str(n)} for n in range(20)])
        ours._store.forget()
        assert ours.enqueue({"id": "19"}).duplicates == 1
        with _elsewhere():
            LocalQueue.open(tmp_path / "q", durability="process").claim(5).ack()
        found: Any = ours.enqueue([{"id": str(n)} for n in (0, 4, 5)]).outcomes
        assert found["duplicate_of"].to_pylist() == [None, None, 6]


def test_a_claim_that_looks_too_far_keeps_nobody_from_settling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQL claims where more is in front than fits into memory; memory decides what it knows."""
    monkeypatch.setattr(claim_decision, "MOST_OPEN", 8)
    clock = ManualClock()
    queue = LocalQueue.create(tmp_path / "q", "id string", durability="process", clock=clock)
    later = clock.now() + timedelta(seconds=10)
    with tiny():
        queue.enqueue({"id": "first"})
        held = queue.claim(1)
        queue.enqueue([{"id": str(n), "available_at": later} for n in range(20)])
        assert queue.claim(1).count == 0
        held.ack()
        assert queue.enqueue({"id": "more"}).inserted == 1
        clock.advance(timedelta(seconds=11))
        assert queue.claim(3).count == 3


def test_more_that_was_touched_than_fits_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To begin anew would make it no less: steps go on with what is there."""
    queue = LocalQueue.create(tmp_path / "q", "id string", durability="process")
    queue.enqueue([{"id": str(n)} for n in range(30)])
    held = queue.claim(12)
    monkeypatch.setattr(replica_choice, "_OPEN", 8)
    built, real = [], replica_choice.build

    def noted(*asked: Any) -> Any:
        built.append(asked)
        return real(*asked)

    monkeypatch.setattr(replica_choice, "build", noted)
    with tiny():
        queue._store.forget()
        queue.enqueue({"id": "last"})
        held.settle_each(dict.fromkeys(range(1, 5), "ack"))
        held.renew()
    assert len(built) == 1


def test_each_reader_has_a_window_of_its_own(tmp_path: Path) -> None:
    """However much waits for one of them, it is served, and what is new is measured against all."""
    queue = LocalQueue.create(tmp_path / "q", "id string", QueueConfig(dedup_key="id"))
    with tiny():
        queue.enqueue([{"id": str(n)} for n in range(20)])
        queue._store.forget()
        first = queue.reader("first")
        first.claim(9).ack()
        second = queue.reader("second", start="beginning")
        assert second.claim(1).count == 1
        for reader in (first, second):
            known = reader._store.position().replica
            assert known is not None
            assert known.horizon() is not None
        found: Any = queue.enqueue([{"id": name} for name in ("8", "19", "new")]).outcomes
        assert found["duplicate_of"].to_pylist() == [9, 20, None]
        assert (first.claim(99).count, second.claim(99).count) == (12, 20)


def test_what_waits_in_the_tables_is_explained(tmp_path: Path) -> None:
    """An item that is not in memory yet waits for its turn, and one that has ended is over."""
    queue = LocalQueue.create(tmp_path / "q", "id string", durability="process")
    with tiny():
        queue.enqueue([{"id": str(n)} for n in range(20)])
        with queue.claim(1):
            pass
        assert queue.explain(20).reason == "runnable"
        assert queue.explain(1).reason == "finished"

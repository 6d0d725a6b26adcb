"""Items that a reader cannot keep, and that go to another queue."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from spark_queue.flow import Rate
from spark_queue.reader_config import ReaderConfig
from tests.conformance.engines import Row
from tests.conformance.twins import Twins

pytestmark = pytest.mark.needs("disk", "views")

_HOUR = timedelta(hours=1)


def _place(engine: Any, name: str) -> str:
    return f"{engine.queue.name}-{name}"


def _found(engine: Any, name: str) -> list[tuple[Any, ...]]:
    """Return the items of another queue, with their failures."""
    rows = engine.table(engine.open(_place(engine, name)).status())
    wanted = rows.select(["id", "tenant", "_state", "_attempts"]).sort_by("id").to_pylist()
    return [tuple(row.values()) for row in wanted]


def test_what_expires_goes_to_another_queue_once(twins: Twins) -> None:
    """Nothing moves until the reader is touched; then what is over is there, in its order."""
    engine = twins().engine
    engine.make(_place(engine, "late"))
    config = ReaderConfig(max_age=_HOUR, expire_to=_place(engine, "late"))
    reader = engine.queue.reader("r", config=config)
    engine.enqueue([Row(id="a", tenant="x"), Row(id="b", ttl=60)])
    engine.advance(30)
    assert _found(engine, "late") == []

    engine.advance(3600)
    for _ in range(2):
        assert reader.claim(5).count == 0
        assert _found(engine, "late") == [("a", "x", "ready", 0), ("b", None, "ready", 0)]


def test_what_fails_goes_on_with_its_failures(twins: Twins) -> None:
    """A failed item goes to one queue; failed too often it ends in another one."""
    engine = twins().engine
    for name in ("retry", "errors"):
        engine.make(_place(engine, name))
    config = ReaderConfig(
        punt_to=_place(engine, "retry"), punt_many_to=_place(engine, "errors"), punt_many_at=2
    )
    reader = engine.queue.reader("r", config=config)
    back = ReaderConfig(max_age=_HOUR, expire_to=engine.queue.name)
    retry = engine.open(_place(engine, "retry")).reader("back", config=back)
    engine.enqueue([Row(id="a", tenant="x")])

    reader.claim(1).nack("first")
    assert _found(engine, "retry") == [("a", "x", "ready", 1)]
    engine.advance(3600)
    assert retry.claim(1).count == 0
    reader.claim(1).nack("second")

    assert _found(engine, "errors") == [("a", "x", "ready", 2)]
    assert retry.lag().items == 0


def test_what_fits_goes_and_the_rest_follows(twins: Twins) -> None:
    """Items that ended in one step go as far as there is room, in the order of their numbers."""
    engine = twins().engine
    engine.make(_place(engine, "late"))
    small = engine.open(_place(engine, "late")).reader("small", config=ReaderConfig(max_items=2))
    reader = engine.queue.reader("r", config=ReaderConfig(punt_to=_place(engine, "late")))
    engine.enqueue([Row(id=id_) for id_ in "abcd"])
    reader.claim(3).nack("no")
    assert [row[0] for row in _found(engine, "late")] == ["a", "b"]

    small.claim(1).ack()
    reader.claim(1).nack("no")
    assert [row[0] for row in _found(engine, "late")] == ["a", "b", "c"]
    small.claim(2).ack()
    assert reader.claim(1).count == 0
    assert [row[0] for row in _found(engine, "late")] == ["a", "b", "c", "d"]


def test_a_target_that_was_made_again_has_nothing_yet(twins: Twins) -> None:
    """What ended before goes to it, too, with the next item that does."""
    engine = twins().engine
    engine.make(_place(engine, "late"))
    reader = engine.queue.reader("r", config=ReaderConfig(punt_to=_place(engine, "late")))
    engine.enqueue([Row(id="a"), Row(id="b")])
    reader.claim(1).nack("no")
    engine.drop(_place(engine, "late"))
    engine.make(_place(engine, "late"))

    reader.claim(1).nack("no")
    assert [row[0] for row in _found(engine, "late")] == ["a", "b"]


def test_a_target_that_is_gone_holds_up_nobody(twins: Twins) -> None:
    """The item ends where it is, and what ended meanwhile is sent when the target is there."""
    engine = twins().engine
    engine.make(_place(engine, "late"))
    config = ReaderConfig(punt_to=_place(engine, "late"))
    reader = engine.queue.reader("r", config=config)
    engine.enqueue([Row(id="a"), Row(id="b")])
    engine.drop(_place(engine, "late"))
    reader.claim(1).nack("no")

    engine.make(_place(engine, "late"))
    reader.claim(1).nack("no")
    assert [row[0] for row in _found(engine, "late")] == ["a", "b"]


# rule: replaced item of a key
@pytest.mark.parametrize("way", ["expire_to", "punt_to"])
def test_what_comes_from_another_queue_does_not_replace(twins: Twins, way: str) -> None:
    """Law 3: it gives way to who has its key there, which the row that was refused names."""
    engine: Any = twins().engine
    other = engine.make(_place(engine, "other"), dedup_key="key", on_duplicate="replace")
    there = pa.table(
        {name: ["k"] for name in ("id", "key", "tenant", "grp")}
        | {"prio": pa.array([0], pa.int32())}
    )
    other.enqueue(there)
    limits: dict[str, Any] = {way: other.name, "max_age": _HOUR}
    reader = engine.queue.reader("r", config=ReaderConfig(**limits))
    engine.enqueue([Row(id="a", key="k"), Row(id="b", key="l")])
    if way == "punt_to":
        reader.claim(2).nack("no")
    engine.advance(3600)
    reader.claim(1)
    assert [row[0] for row in _found(engine, "other")] == ["b", "k"]
    rows = engine.read(f"{other.name}/queue").sort_by("_seq").to_pylist()
    refused = [
        (row["id"], row["_duplicate_of"], row["_holder"])
        for row in rows
        if row["_kind"] == "refused"
    ]
    assert refused == [("a", 1, "waits")]


# rule: units of an item
def test_what_has_more_units_than_the_burst_there_goes_on_and_holds_up_nothing(
    twins: Twins,
) -> None:
    """Law 11: it is as one that was there when the burst was lowered, also redriven."""
    engine = twins().engine
    rate = Rate(by="tenant", limit=10, per=timedelta(seconds=10), burst=5, units="prio")
    target = engine.make(_place(engine, "late"), fair_key="tenant", rates=(rate,))
    reader = engine.queue.reader("r", config=ReaderConfig(punt_to=_place(engine, "late")))
    engine.enqueue([Row(id=name, tenant="a", priority=n) for name, n in (("a1", 5), ("a2", 8))])
    engine.enqueue([Row(id="b1", tenant="b", priority=1)])
    reader.claim(5).dead("no")
    assert [row[0] for row in _found(engine, "late")] == ["a1", "a2", "b1"]

    assert target.claim(5).count == 2
    engine.advance(4)
    assert target.claim(5).count == 0
    engine.advance(1)
    with target.claim(5) as claim:
        claim.dead("no")
    assert target.redrive({"id": "a2"}) == 1
    engine.advance(8)
    assert target.claim(5).count == 1

"""What others set on a queue's tables, or add to them: kept, refused by name, or told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from spark_queue import LocalQueue
from spark_queue.clock import ManualClock
from spark_queue.errors import InvalidConfigError, SchemaMismatchError, SparkNeededError
from spark_queue.log.delta.table_properties import PROPERTIES
from spark_queue.log.schema import OPEN_LANE
from tests.unit.delta import properties_page
from tests.unit.local.conftest import Make

Again = Callable[[], LocalQueue]


def _set(queue: LocalQueue, name: str, value: str, *logs: str) -> None:
    """Set a property of tables of a queue, as any writer of Delta may."""
    for log in logs or ("queue", "status"):
        DeltaTable(Path(queue.name, log)).alter.set_table_properties({name: value})


def _count_open(queue: LocalQueue) -> int:
    """Return how many rows of checkpoints the status log has."""
    adds = pa.table(DeltaTable(Path(queue.name, "status")).get_add_actions(flatten=True))
    open_ones = adds.filter(pc.equal(adds["partition._gen"], OPEN_LANE))
    return int(pc.sum(open_ones["num_records"]).as_py() or 0)


def _add_column(queue: LocalQueue, name: str) -> None:
    """Add a column to the item log, as any writer of Delta may."""
    field = Field(name, PrimitiveType("string"))
    DeltaTable(Path(queue.name, "queue")).alter.add_columns(field)


def test_the_page_is_what_the_tables_say() -> None:
    """It is made again by ``python -m tests.unit.delta.properties_page``."""
    assert properties_page.PAGE.read_text("utf-8") == properties_page.page()


def test_a_queue_is_made_with_what_it_depends_on(make: Make) -> None:
    """Both tables have each property that the page says ``create`` sets."""
    wanted = {one.name: one.value for one in PROPERTIES if one.treatment == "set"}
    name = make().name
    for log in ("queue", "status"):
        assert wanted.items() <= DeltaTable(Path(name, log)).metadata().configuration.items()


def test_a_quiet_queue_takes_its_next_step_though_delta_forgets_the_last(
    make: Make, again: Again
) -> None:
    """Where its tables forget transactions the step is that of the newest rows."""
    queue = make()
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    queue.claim(1).ack()
    _set(queue, "delta.setTransactionRetentionDuration", "interval 0 seconds")
    queue.close()
    assert DeltaTable(Path(queue.name, "queue")).transaction_version("spark_queue") is None

    late = again()
    assert late.enqueue({"id": "c"}).step == 2
    assert late.claim(2).ack().acked == 2
    for log in ("queue", "status"):
        DeltaTable(Path(queue.name, log)).create_checkpoint()
    late.close()

    last = again()
    assert last.maintain().checkpoint
    assert last.enqueue({"id": "d"}).inserted == 1
    assert last.counts() == {**last.counts(), "acked": 3, "ready": 1}


def test_rows_that_stay_are_not_removed(make: Make, again: Again, clock: ManualClock) -> None:
    """What would remove rows is refused by the property, in a dry run, too; nothing is written."""
    queue = make()
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    queue.claim(1).ack()
    _set(queue, "delta.appendOnly", "true", "status")
    queue.close()
    clock.advance(timedelta(days=9))
    kept, before = again(), queue.history(0)

    for refused in (
        lambda: kept.purge("true"),
        lambda: kept.purge("true", dry_run=True),
        lambda: kept.maintain(retention=timedelta(days=1)),
        lambda: kept.maintain(retention=timedelta(days=1), dry_run=True),
    ):
        with pytest.raises(InvalidConfigError, match=r"status.*delta.appendOnly = true.*= 'false'"):
            refused()
    assert kept.history(0).equals(before)

    kept.claim(1).release()
    assert kept.maintain().checkpoint
    rows = _count_open(kept)
    assert kept.claim(1).ack().acked == 1
    assert kept.maintain().checkpoint
    assert _count_open(kept) >= rows > 0
    _set(queue, "delta.appendOnly", "false", "status")
    assert kept.purge("true") == 2


def test_a_column_of_somebody_else_stops_nobody(make: Make, again: Again) -> None:
    """Producers go on, claims are as before, and ``add_columns`` makes it one of the queue."""
    queue, other = make(dedup_key="id"), again()
    queue.enqueue({"id": "a"})
    _add_column(queue, "extra")

    for handle in (queue, other, again()):
        assert handle.enqueue({"id": f"of {id(handle)}"}).inserted == 1
    assert set(queue.claim(1).rows[0]) >= {"id"}
    assert "extra" not in queue.claim(1).rows[0]
    with pytest.raises(SchemaMismatchError, match="'extra'"):
        queue.enqueue({"id": "b", "extra": "x"})
    queue.maintain()

    assert queue.add_columns("extra string") == ["extra"]
    assert queue.add_columns("extra string") == []

    assert other.enqueue({"id": "b", "extra": "x"}).inserted == 1
    with pytest.raises(SchemaMismatchError, match="'extra': is missing"):
        queue.enqueue({"id": "c"})
    assert [row["extra"] for row in again().claim(9).rows] == [None, None, "x"]


def test_a_column_is_adopted_by_its_type(make: Make) -> None:
    """Of another type it is refused, and stays a stranger."""
    queue = make()
    _add_column(queue, "extra")
    with pytest.raises(SchemaMismatchError, match="'extra': is string"):
        queue.add_columns("extra bigint")
    assert queue.enqueue({"id": "a"}).inserted == 1


def test_a_clone_knows_the_same_columns(make: Make) -> None:
    """What is a stranger to a queue is one to its clone."""
    queue = make()
    _add_column(queue, "extra")
    assert queue.clone(f"{queue.name}-clone").enqueue({"id": "a"}).inserted == 1


@pytest.mark.parametrize(
    ("name", "value", "back"),
    [
        ("delta.enableChangeDataFeed", "true", "UNSET TBLPROPERTIES"),
        ("delta.compatibility.symlinkFormatManifest.enabled", "true", "UNSET TBLPROPERTIES"),
        ("delta.constraints.known", "_step >= 0", "DROP CONSTRAINT known"),
    ],
)
def test_what_only_spark_keeps_is_refused_by_name(
    make: Make, again: Again, name: str, value: str, back: str
) -> None:
    """The error names the property, the table, and how to take it back; nothing is written."""
    queue = make()
    queue.enqueue({"id": "a"})
    table = DeltaTable(Path(queue.name, "queue"))
    if name.startswith("delta.constraints"):
        table.alter.add_constraint({"known": value})
    else:
        table.alter.set_table_properties({name: value}, raise_if_not_exists=False)
    queue.close()

    with pytest.raises(SparkNeededError, match=name.replace(".", r"\.")) as refused:
        again().enqueue({"id": "b"})
    assert back in str(refused.value)
    assert again().counts()["ready"] == 1

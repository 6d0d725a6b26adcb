"""Whether the doctor sees what others have set on the tables, or added to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from spark_queue.local_queue import LocalQueue
from tests.unit.doctor.conftest import only, paste


@pytest.mark.parametrize(
    ("name", "value", "severity"),
    [
        ("delta.appendOnly", "true", "error"),
        ("delta.setTransactionRetentionDuration", "interval 1 days", "warning"),
        ("delta.dataSkippingStatsColumns", "_kind", "warning"),
        ("delta.checkpointInterval", "7", "info"),
    ],
)
def test_a_property_that_was_changed_is_told_with_its_way_back(
    queue: LocalQueue, name: str, value: str, severity: str
) -> None:
    """It says what it is, what it was and what that does; a queue as it was made has none."""
    assert "property-changed" not in queue.doctor().ids()
    table = DeltaTable(Path(queue.name, "status"))
    was = table.metadata().configuration[name]
    table.alter.set_table_properties({name: value})

    found = only(queue.doctor(), "property-changed")

    assert found.severity == severity
    assert f"the status log has {name} = {value}, and was made with {was}" in found.what
    back = f"'{name}' = '{was}'"
    assert found.command == f"ALTER TABLE delta.`{queue.name}/status` SET TBLPROPERTIES ({back})"


def test_a_column_that_somebody_added_is_adopted_by_the_command(queue: LocalQueue) -> None:
    """It has the columns with their types, whatever their names, and makes them the queue's."""
    table = DeltaTable(Path(queue.name, "queue"))
    table.alter.add_columns([Field(one, PrimitiveType("long")) for one in ("a size", "it's")])

    found = only(queue.doctor(), "column-added")

    assert "'a size', \"it's\"" in found.what
    paste(found)
    assert queue.enqueue({"id": "d", "a size": 7, "it's": 8}).inserted == 1
    assert "column-added" not in queue.doctor().ids()

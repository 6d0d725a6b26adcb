"""Tables that are made without Spark, or left to it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql.types import StructType

from spark_queue.log.addresses import TableAddress
from spark_queue.log.delta import table_creation
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.heads import queue_head
from spark_queue.log.session_options import PlainSession
from spark_queue.session import SMALL_STEPS

_SCHEMA = StructType().add("_gen", "integer").add("n", "string", nullable=False).json()


def _made(directory: Path, **conf: str) -> bool:
    session: Any = SimpleNamespace(conf=SimpleNamespace(getAll=conf, get=conf.get))
    return table_creation.create(
        session, directory, _SCHEMA, {"delta.appendOnly": "false"}, ["_gen"]
    )


def test_a_table_is_made_as_a_statement_makes_it(tmp_path: Path) -> None:
    """It is empty, has the properties that were asked for, and columns that may be null."""
    assert _made(tmp_path / "log")
    table = DeltaTable(str(tmp_path / "log"))
    assert [(field.name, field.nullable) for field in table.schema().fields] == [
        ("_gen", True),
        ("n", True),
    ]
    assert table.metadata().configuration == {"delta.appendOnly": "false"}
    assert table.metadata().partition_columns == ["_gen"]
    assert not table.file_uris()


@pytest.mark.parametrize(
    "conf",
    [
        {SMALL_STEPS: "spark"},
        {"spark.databricks.delta.properties.defaults.checkpointInterval": "7"},
    ],
)
def test_a_session_may_have_wishes_of_its_own(tmp_path: Path, conf: dict[str, str]) -> None:
    """Where Spark is to decide, or to make tables of another kind, nothing is made here."""
    assert not _made(tmp_path / "log", **conf)
    assert not (tmp_path / "log").exists()


def test_a_table_that_was_begun_is_left_to_spark(tmp_path: Path) -> None:
    """A folder of commits without one is somebody's who is at it, or was."""
    (tmp_path / "_delta_log").mkdir()
    assert not _made(tmp_path)
    assert not list((tmp_path / "_delta_log").iterdir())


def test_a_table_that_was_looked_for_before_is_found_when_it_is_made(tmp_path: Path) -> None:
    """Whoever made a queue knows where its tables are, as those do who have opened it later."""
    log = DeltaLog(PlainSession({}), TableAddress(str(tmp_path / "log"), is_path=True), queue_head)
    assert log.find_directory() is None

    assert _made(tmp_path / "log")

    assert log.find_directory() == tmp_path / "log"

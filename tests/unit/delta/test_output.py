"""The output of a queue on this machine's disk: what is asked of it takes no query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql.types import StringType, StructField, StructType

from spark_queue.commands.evidence import Output
from spark_queue.errors import SchemaMismatchError

RESULTS = StructType([StructField(name, StringType()) for name in ("n", "_seq", "_claim_id")])


class Nothing:
    """A session that must not be asked for anything."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked of Spark")


def _output(place: Path, *columns: str) -> Output:
    write_deltalake(place, pa.table({name: pa.array(["1"]) for name in columns}))
    nothing: Any = Nothing()
    return Output(nothing, f"file:{place}")


def test_an_output_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    """To start again on the same output asks Spark for nothing, and changes nothing."""
    output = _output(tmp_path / "out", "n", "_seq", "_claim_id")
    output.ensure(RESULTS)
    assert output.lasting_name() == f"file:{tmp_path}/out"
    assert len(list((tmp_path / "out" / "_delta_log").glob("*.json"))) == 1


def test_an_output_without_its_marks_is_refused(tmp_path: Path) -> None:
    """A table of somebody else's is named before anything is claimed for it."""
    with pytest.raises(SchemaMismatchError, match="_claim_id"):
        _output(tmp_path / "out", "n", "_seq").ensure(RESULTS)

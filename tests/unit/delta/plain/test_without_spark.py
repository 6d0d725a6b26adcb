"""What is computed without Spark needs none to be installed, and knows the same of a queue."""

from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from spark_queue.columns import kinds
from spark_queue.columns.arrow.arrow_types import parse_fields, type_of
from spark_queue.columns.arrow.rows import OPTIONAL_COLUMNS
from spark_queue.columns.columns import of_spark
from spark_queue.errors import SparkNeededError
from spark_queue.log.schema import OPTIONAL_COLUMNS as OF_SPARK
from spark_queue.log.spark.spark_types import struct_of
from tests.programs import run_python

#: Marks two rows where whatever is Spark's, Java's or of pandas cannot be imported.
_ALONE = """
import importlib, pkgutil, sys

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "py4j", "delta", "pandas", "numpy", "deltalake"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, Refusing())
from spark_queue.config import QueueConfig
from spark_queue.columns import arrow as plain
for module in pkgutil.iter_modules(plain.__path__, plain.__name__ + "."):
    importlib.import_module(module.name)
from spark_queue.columns.arrow.arrow_types import parse_fields
from spark_queue.columns.arrow.arrow_keys import mark_rows
from spark_queue.columns.arrow.rows import fit_rows, sort_rows
columns = parse_fields("path string, at timestamp")
config = QueueConfig(dedup_key="struct(path, at)", fair_key="substring(path, 1, 1)")
rows = [{"path": "a/b", "at": None}, {"path": "c", "at": None}]
table = sort_rows(fit_rows(rows, columns), "path")
print(mark_rows(table, columns, config)["_dedup_key"].to_pylist())
"""


def test_rows_are_marked_where_there_is_no_spark() -> None:
    """Every module of the room works with neither pyspark nor numpy installed."""
    told = run_python("-c", _ALONE)

    assert (told.stdout, told.stderr) == ("""['["a/b",null]', '["c",null]']\n""", "")


def test_optional_columns_are_those_of_the_log() -> None:
    """What rows may have beside the queue's columns is what the log has a place for."""
    assert of_spark(struct_of(OF_SPARK)) == OPTIONAL_COLUMNS


def test_a_type_is_that_of_arrow_which_spark_takes() -> None:
    """Columns have the types of Arrow in which Spark hands them over."""
    ddl = (
        "a tinyint, b smallint, c int, d bigint, e float, f double, g decimal(38,10), h string, "
        "i binary, j boolean, k date, l timestamp, m timestamp_ntz, "
        "n array<struct<x: int not null, y: map<string, array<timestamp>>>>"
    )
    columns = parse_fields(ddl)

    for column, field in zip(columns, StructType.fromJson(kinds.to_json(columns)), strict=True):
        assert type_of(column) == to_arrow_type(field.dataType, timezone="UTC")


@pytest.mark.parametrize("form", ["variant", "interval day to second", "string collate UNICODE"])
def test_a_type_of_spark_alone_is_refused(form: str) -> None:
    """A column that Arrow cannot hold as Spark does is named, with its type."""
    with pytest.raises(
        SparkNeededError, match=f"column 'x' needs a session of Spark: it is {form}"
    ):
        type_of(kinds.Field("x", kinds.Kind(form)))

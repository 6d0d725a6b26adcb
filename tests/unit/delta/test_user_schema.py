from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import CharType, DataType, LongType, StringType, StructType, VarcharType

from spark_queue.columns.columns import require_user_schema, sql_expression
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError
from spark_queue.local_queue import LocalQueue


@pytest.mark.parametrize("kind", [VarcharType(5), CharType(5)])
def test_a_text_of_limited_length_is_refused(kind: DataType) -> None:
    """A queue takes no column whose values only a write could refuse."""
    with pytest.raises(SchemaMismatchError, match=r"column 'x': is (var)?char\(5\); .* string"):
        require_user_schema(StructType().add("id", LongType()).add("x", kind))


@pytest.mark.parametrize(
    ("ddl", "kind"),
    [
        ("x time", "time"),
        ("x interval day", "interval"),
        ("x array<interval day to second>", "interval"),
        ("x geometry(4326)", "geometry"),
        ("x struct<at: geography(4326)>", "geography"),
    ],
)
def test_a_type_that_no_table_keeps_is_refused(ddl: str, kind: str, tmp_path: Path) -> None:
    """With Spark and without it is named, with what to keep instead; no session would help."""
    with pytest.raises(SchemaMismatchError, match=rf"{kind}.*no table of Delta keeps.* make it"):
        LocalQueue.create(tmp_path / "q", ddl)
    try:
        schema = StructType.fromDDL(ddl)
    except PySparkException:
        # An older Spark has no such type.
        return
    assert isinstance(schema, StructType)
    with pytest.raises(SchemaMismatchError, match=rf"'x': is {kind}.*no table of Delta keeps"):
        require_user_schema(schema)


def test_plain_columns_are_taken() -> None:
    """Numbers and texts need no more than their names."""
    require_user_schema(StructType().add("id", LongType()).add("x", StringType()))


@pytest.mark.parametrize("text", [r"r'\' || (select 1) || ''", "a; drop", "a -- b", "(values 1)"])
def test_statement_is_no_expression(text: str) -> None:
    """It is refused before Spark reads it, also behind a raw text that ends with a backslash."""
    with pytest.raises(InvalidArgumentError, match="is not allowed"):
        sql_expression("where", text)

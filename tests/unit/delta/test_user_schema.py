from __future__ import annotations

import pytest
from pyspark.sql.types import CharType, DataType, LongType, StringType, StructType, VarcharType

from spark_queue.delta.input.columns import require_user_schema, sql_expression
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError


@pytest.mark.parametrize("kind", [VarcharType(5), CharType(5)])
def test_a_text_of_limited_length_is_refused(kind: DataType) -> None:
    """A queue takes no column whose values only a write could refuse."""
    with pytest.raises(SchemaMismatchError, match=r"column 'x': is (var)?char\(5\); .* string"):
        require_user_schema(StructType().add("id", LongType()).add("x", kind))


def test_plain_columns_are_taken() -> None:
    """Numbers and texts need no more than their names."""
    require_user_schema(StructType().add("id", LongType()).add("x", StringType()))


@pytest.mark.parametrize("text", [r"r'\' || (select 1) || ''", "a; drop", "a -- b", "(values 1)"])
def test_statement_is_no_expression(text: str) -> None:
    """It is refused before Spark reads it, also behind a raw text that ends with a backslash."""
    with pytest.raises(InvalidArgumentError, match="is not allowed"):
        sql_expression("where", text)

from __future__ import annotations

import pytest
from pyspark.sql.types import CharType, DataType, LongType, StringType, StructType, VarcharType

from spark_queue.delta.input.columns import require_user_schema
from spark_queue.errors import SchemaMismatchError


@pytest.mark.parametrize("kind", [VarcharType(5), CharType(5)])
def test_a_text_of_limited_length_is_refused(kind: DataType) -> None:
    """A queue takes no column whose values only a write could refuse."""
    with pytest.raises(SchemaMismatchError, match=r"column 'x': is (var)?char\(5\); .* string"):
        require_user_schema(StructType().add("id", LongType()).add("x", kind))


def test_plain_columns_are_taken() -> None:
    """Numbers and texts need no more than their names."""
    require_user_schema(StructType().add("id", LongType()).add("x", StringType()))

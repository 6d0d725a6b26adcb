"""Frames for the operators' tests, written as a user would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

#: Makes a frame of two partitions from rows and a schema.
Frame = Callable[..., DataFrame]


@pytest.fixture
def frame(spark: SparkSession) -> Frame:
    """Make frames of two partitions, so that no operator leans on there being one."""

    def build(rows: list[Any], schema: str) -> DataFrame:
        return spark.createDataFrame(rows, schema).repartition(2)

    return build

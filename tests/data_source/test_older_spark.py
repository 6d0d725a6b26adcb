"""The format on releases of Spark that have not all that it is made of."""

from __future__ import annotations

import sys

import pyspark.sql.datasource
import pytest
from pyspark.sql.datasource import DataSourceArrowWriter

from pyspark_spark_queue import DefaultSource
from spark_queue.errors import InvalidArgumentError, SetupError
from spark_queue.local_queue import LocalQueue


def test_what_an_older_spark_has_no_base_for_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, queue_path: str
) -> None:
    """Views and frames need Spark 4.0, streams a later one; the error names the way out."""
    monkeypatch.delattr(pyspark.sql.datasource, "DataSourceStreamArrowWriter")
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    for module in ("claiming", "stream_writing"):
        monkeypatch.delitem(sys.modules, f"spark_queue.data_source.{module}", raising=False)
    LocalQueue.create(queue_path, "id long")
    source = DefaultSource({"path": queue_path})
    nothing = pyspark.sql.types.StructType()

    assert isinstance(source.writer(nothing, overwrite=False), DataSourceArrowWriter)
    with pytest.raises(SetupError, match=r"needs Spark 4\.1: use enqueue_stream"):
        source.streamWriter(nothing, overwrite=False)
    with pytest.raises(SetupError, match=r"needs Spark 4\.2: use process_stream"):
        source.streamReader(nothing)


def test_a_queue_is_not_written_anew() -> None:
    """By a frame or by a stream."""
    source = DefaultSource({"path": "/data/files"})
    for writer in (source.writer, source.streamWriter):
        with pytest.raises(InvalidArgumentError, match="a queue is appended to"):
            writer(pyspark.sql.types.StructType(), overwrite=True)

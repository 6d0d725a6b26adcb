"""Versions of Spark that the library runs on."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from spark_queue import DeltaQueue, local_session
from spark_queue.errors import SetupError
from tests.programs import run_python

_NAMED = r"this is Spark {0}; spark_queue runs on Spark 4\.0, 4\.1 and 4\.2: install"


class _Other:
    """A session of a version of Spark, of which nothing else may be asked."""

    def __init__(self, version: str) -> None:
        self.version = version

    def sql(self, query: str) -> Any:
        raise AssertionError(query)


@pytest.mark.parametrize("version", ["3.5.9", "4.3.0", "5.0.0-SNAPSHOT"])
def test_a_session_of_another_spark_is_refused_before_anything_is_asked(version: str) -> None:
    """Whichever way leads into a queue, the error names what is there and what is supported."""
    other: Any = _Other(version)
    calls = (
        lambda: DeltaQueue.create(other, "/q", StructType([StructField("id", StringType())])),
        lambda: DeltaQueue.open(other, "/q"),
        lambda: DeltaQueue.exists(other, "/q"),
        lambda: DeltaQueue.drop(other, "/q"),
    )
    for call in calls:
        with pytest.raises(SetupError, match=_NAMED.format(version)):
            call()


def test_no_session_of_another_spark_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a Delta for it, ``local_session`` would start a JVM that can do nothing."""
    monkeypatch.setattr("importlib.metadata.version", lambda _: "4.3.0")

    def start(_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", start)
    with pytest.raises(SetupError, match=_NAMED.format("4.3.0")):
        local_session()


#: An older PySpark, as far as it differs by a type and by its version.
_OLDER = """
import importlib.metadata
import pyspark.sql.types

del pyspark.sql.types.VariantType
importlib.metadata.version = lambda _: "3.5.9"
from spark_queue.errors import SetupError
try:
    import spark_queue.operators
except SetupError as exc:
    print(exc)
"""


def test_an_import_that_an_older_spark_cannot_serve_names_the_version() -> None:
    """A type that Spark 3.5 has not got is no package that is missing."""
    told = run_python("-c", _OLDER)
    assert re.match(_NAMED.format("3.5.9"), told.stdout), told.stderr

"""Versions of Spark that the library runs on."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from spark_queue import DeltaIdempotencyKeyStore, DeltaQueue, extras, local_session, session
from spark_queue.errors import SetupError
from tests.programs import run_python

_NAMED = r"this is Spark {0}; spark_queue runs on Spark 4\.0, 4\.1 and 4\.2: install"
_NO_DELTA = (
    r"this is Spark {0}, for which there is no Delta yet; DeltaQueue .* on Spark 4\.0, 4\.1 and "
    r"4\.2: install .* or use LocalQueue, format\('spark_queue'\) and the operators"
)


class _Other:
    """A session of a version of Spark, of which nothing else may be asked."""

    def __init__(self, version: str) -> None:
        self.version = version

    def sql(self, query: str) -> Any:
        raise AssertionError(query)


@pytest.mark.parametrize(
    ("version", "said"),
    [("3.5.9", _NAMED), ("4.3.0", _NO_DELTA), ("5.0.0-SNAPSHOT", _NAMED)],
)
def test_a_session_of_another_spark_is_refused_before_anything_is_asked(
    version: str, said: str
) -> None:
    """Whichever way leads into a queue, the error names what is there and what is supported."""
    other: Any = _Other(version)
    calls = (
        lambda: DeltaQueue.create(other, "/q", StructType([StructField("id", StringType())])),
        lambda: DeltaQueue.open(other, "/q"),
        lambda: DeltaQueue.exists(other, "/q"),
        lambda: DeltaQueue.drop(other, "/q"),
        lambda: DeltaIdempotencyKeyStore(other, "/k"),
    )
    for call in calls:
        with pytest.raises(SetupError, match=said.format(version)):
            call()


def test_no_session_of_another_spark_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """``local_session`` would start a JVM that can do nothing."""
    monkeypatch.setattr("importlib.metadata.version", lambda _: "5.0.0")

    def start(_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", start)
    with pytest.raises(SetupError, match=_NAMED.format("5.0.0")):
        local_session()


@pytest.mark.parametrize("has_delta", [True, False])
def test_a_session_has_delta_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, *, has_delta: bool
) -> None:
    """Without, it has what the operators on streams need, and names no jar that is nowhere."""
    minor = (extras.SUPPORTED if has_delta else extras.WITHOUT_DELTA)[-1]
    monkeypatch.setattr("importlib.metadata.version", lambda _: f"{minor}.0")
    conf = session.local_conf({"spark.app.id": "mine"})
    assert {**session.STREAMING_CONF, "spark.app.id": "mine"}.items() <= conf.items()
    assert any("delta" in f"{name}={value}" for name, value in conf.items()) is has_delta


def test_settings_with_delta_are_refused_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who asks for Delta by name gets the way out, and no coordinate of a jar that is nowhere."""
    monkeypatch.setattr("importlib.metadata.version", lambda _: "4.3.0")
    with pytest.raises(SetupError, match=_NO_DELTA.format("4.3.0")):
        session.with_delta({})


def test_an_import_that_fails_is_not_laid_to_the_lack_of_delta(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that a Spark without Delta has not got is another fault."""
    monkeypatch.setattr("importlib.metadata.version", lambda _: "4.3.0")
    extras.explain(ImportError("cannot import name 'F'", name="pyspark.sql"), "operators")
    monkeypatch.setattr("importlib.metadata.version", lambda _: "3.5.9")
    with pytest.raises(SetupError, match=_NAMED.format("3.5.9")):
        extras.explain(ImportError("cannot import name 'F'", name="pyspark.sql"), "operators")


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

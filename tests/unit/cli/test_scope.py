from __future__ import annotations

import io
import logging
from typing import Any

import pytest
from pyspark.logger import PySparkLogger

from spark_queue.cli import scope
from spark_queue.cli.display import Display
from spark_queue.cli.scope import hush_pyspark
from spark_queue.errors import SetupError


def test_pyspark_does_not_print_what_the_command_will_say() -> None:
    """An error of a query is not printed by PySpark's own loggers while a command runs."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    screen = io.StringIO()
    handler = logging.StreamHandler(screen)
    logger.addHandler(handler)
    try:
        with hush_pyspark():
            logger.error("a typo")
        assert screen.getvalue() == ""
        logger.error("a typo")
        assert "a typo" in screen.getvalue()
    finally:
        logger.removeHandler(handler)


@pytest.mark.parametrize(("verbose", "level"), [(False, "OFF"), (True, None)])
def test_spark_logs_where_a_command_is_verbose(
    verbose: bool,  # noqa: FBT001 - a parameter
    level: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A command says an error in a line; what handlers print on Spark is seen beside it."""
    asked: dict[str, Any] = {}
    monkeypatch.setattr(scope, "java_problem", lambda: None)
    monkeypatch.setattr("spark_queue.session.local_session", lambda **given: asked.update(given))
    monkeypatch.setenv("PYTHONPATH", "")

    _ = scope.Scope(Display(json=True, verbose=verbose), None).spark

    assert (asked["quiet"], asked.get("spark.log.level")) == (not verbose, level)


def test_no_jvm_is_started_where_there_is_no_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue would refuse the session, seconds later."""
    monkeypatch.setattr("pyspark.version.__version__", "4.3.0")
    monkeypatch.setattr(scope, "java_problem", lambda: None)
    monkeypatch.setattr("spark_queue.session.local_session", pytest.fail)
    monkeypatch.setenv("PYTHONPATH", "")

    with pytest.raises(SetupError, match=r"Spark 4\.3\.0, for which there is no Delta yet"):
        _ = scope.Scope(Display(json=True, verbose=False), None).spark

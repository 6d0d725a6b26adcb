from __future__ import annotations

import io
import logging

from pyspark.logger import PySparkLogger

from spark_queue.cli.scope import hush_pyspark


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

"""Is there what Spark needs to run a handler: asked before a queue is touched."""

from __future__ import annotations

import sys

from spark_queue.errors import InvalidConfigError


def require_for_handlers() -> None:
    """Raise where this interpreter lacks a package by which Spark sends items to a handler.

    Spark itself asks when the handler is about to run: by then items are claimed.

    Raises
    ------
    InvalidConfigError
        When pandas or PyArrow is missing, or too old for the installed PySpark.
    """
    from pyspark.sql.pandas import utils  # noqa: PLC0415 - the library loads without Spark

    try:
        utils.require_minimum_pandas_version()
        utils.require_minimum_pyarrow_version()
    except ImportError as exc:
        raise InvalidConfigError(
            f"{sys.executable} cannot run handlers: {exc} pip install 'spark-queue[spark]', "
            "or let PYSPARK_DRIVER_PYTHON name an interpreter that has it"
        ) from exc

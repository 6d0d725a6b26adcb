"""Columns without Spark: types from DDL, keys and sizes over Arrow, rows of any kind.

Imports :mod:`spark_queue.columns`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_queue import extras

if TYPE_CHECKING:
    from spark_queue.columns.arrow import (
        arrow_keys as arrow_keys,
        arrow_types as arrow_types,
        rows as rows,
    )

__getattr__ = extras.submodules(__name__)

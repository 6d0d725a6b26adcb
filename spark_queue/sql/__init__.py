"""Rules over sets of items: views of SQL, their engines here, and planners by them.

Imports state, columns and logs; nothing of Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_queue import extras

if TYPE_CHECKING:
    from spark_queue.sql import (
        file_rows as file_rows,
        look as look,
        planner_choice as planner_choice,
        where as where,
    )

__getattr__ = extras.submodules(__name__)

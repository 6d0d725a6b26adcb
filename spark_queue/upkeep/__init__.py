"""Upkeep: it keeps the logs of a queue short, and copies them.

Imports views, commands, frames of Spark, SQL, state and logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_queue import extras

if TYPE_CHECKING:
    from spark_queue.upkeep import (
        clones as clones,
        maintain as maintain,
        purge_items as purge_items,
    )

__getattr__ = extras.submodules(__name__)

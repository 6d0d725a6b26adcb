"""Report to a queue's operator: where items are, failures, who waits and why.

Each panel is a view of the one catalogue (:mod:`spark_queue.sql.catalogue`), which SQL in
this process and Spark answer alike. Nothing here writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_queue import extras

if TYPE_CHECKING:
    from spark_queue.report import reading as reading

__getattr__ = extras.submodules(__name__)

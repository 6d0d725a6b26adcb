"""Functions of Arrow over columns, loaded by the first call of one."""

from __future__ import annotations

from typing import Any

from spark_queue import extras


def __getattr__(name: str) -> Any:
    # A process that only looks at heads calls none, and to load them takes longer than that look.
    return getattr(extras.import_late("pyarrow.compute"), name)

"""Functions of Arrow over columns, loaded by the first call of one."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    # A process that only looks at heads calls none, and to load them takes longer than that look.
    return getattr(import_module("pyarrow.compute"), name)

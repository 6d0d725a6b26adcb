"""Handlers: callables for one item, or for a table of items."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar


class Table(Protocol):
    """What a type checker is told of a ``pyarrow.Table``, whose package may have no types."""

    @property
    def num_rows(self) -> int:
        """How many items it has."""
        ...


TableT = TypeVar("TableT", bound=Table)

#: A handler of one item: the item as a dict; a dict with the columns of ``returns``, or nothing.
ItemHandler = Callable[[dict[str, Any]], Mapping[str, Any] | None]

#: A handler of many: a table of items; a table with ``_seq`` and the columns of ``returns``.
BatchHandler = Callable[[TableT], TableT | None]

#: Either of them, where ``per`` says which.
AnyHandler = ItemHandler | BatchHandler[Any]

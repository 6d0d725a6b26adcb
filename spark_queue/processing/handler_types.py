"""Types of handlers, and of what they get."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar


class Table(Protocol):
    """The part of ``pyarrow.Table`` that a type checker needs; it may have no types."""

    @property
    def num_rows(self) -> int:
        """How many items it has."""


TableT = TypeVar("TableT", bound=Table)

_Row: TypeAlias = Mapping[str, Any] | None

#: A handler of one item: the item as a dict; a dict with the columns of ``returns``, or nothing.
#: One that is ``async def`` is awaited, where it runs in this process.
ItemHandler = Callable[[dict[str, Any]], _Row | Awaitable[_Row]]

#: A handler of many: a table of items; a table with ``_seq`` and the columns of ``returns``.
BatchHandler = Callable[[TableT], TableT | Awaitable[TableT | None] | None]

#: Either of them, where ``per`` says which.
AnyHandler = ItemHandler | BatchHandler[Any]


#: Handlers run apart. It says of items which of them one call may get at most so many: each was
#: among twice as many when a worker died.
Apart = Mapping[int, int]

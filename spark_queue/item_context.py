"""Item that a handler is at: whether it is still wanted, and how far its work is."""

from __future__ import annotations

from contextvars import ContextVar


class CurrentItem:
    """The item that a handler is at; :func:`current_item` returns it.

    Attributes
    ----------
    seq : int or None
        The number of the item (``_seq``).
    """

    def __init__(self, seq: int | None) -> None:
        self.seq = seq
        self._is_lost = False

    @property
    def cancelled(self) -> bool:
        """Whether the item is no longer this worker's, and its outcome will not be written.

        An operator has cancelled it, or its lease was lost. The worker sees that when it renews the
        lease, at each third of it.
        """
        return self._is_lost

    def __repr__(self) -> str:
        return f"CurrentItem(seq={self.seq}, cancelled={self.cancelled})"


#: Set around each call of a handler; tasks that it starts inherit it.
CURRENT: ContextVar[CurrentItem | None] = ContextVar("spark_queue_current_item", default=None)


def current_item() -> CurrentItem:
    """Return the item that the calling handler is at.

    Outside a handler, and in a handler of batches, it returns an item without a ``seq``, which is
    never cancelled: so a test can call a handler without a queue. On executors of Spark, and in
    children (``using="processes"``), an item has its ``seq``, and is never cancelled either.

    Returns
    -------
    CurrentItem
        In a thread that the handler starts: the item without a ``seq``. In a task that it starts,
        and in ``asyncio.to_thread``: its item.
    """
    return CURRENT.get() or CurrentItem(None)

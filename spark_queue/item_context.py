"""Item that a handler is at: whether it is still wanted, and how far its work is."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TypeAlias, cast

from spark_queue.checks import require_kind, require_seq, require_string
from spark_queue.errors import InvalidArgumentError
from spark_queue.wording import shorten, utf8

#: How many characters of a note are kept.
_LONGEST_NOTE = 200

#: How far the work on an item is, from 0 to 1, and a note.
Said: TypeAlias = tuple[float, str | None]


class CurrentItem:
    """The item that a handler is at; :func:`current_item` returns it.

    Attributes
    ----------
    seq : int or None
        The number of the item (``_seq``).
    """

    __slots__ = ("_is_lost", "_said", "seq")

    def __init__(self, seq: int | None) -> None:
        self.seq = seq
        self._is_lost = False
        self._said: Said | None = None

    @property
    def cancelled(self) -> bool:
        """Whether the item is no longer this worker's, and its outcome will not be written.

        An operator has cancelled it, or its lease was lost. The worker sees that when it renews the
        lease, at each third of it.
        """
        return self._is_lost

    def progress(self, fraction: float, note: str | None = None) -> None:
        """Say how far the work is; ``explain`` and reports show it while the item is leased.

        It is kept in memory, and the newest is written with the next renewal of the lease, in the
        same step: call it as often as you like.

        Parameters
        ----------
        fraction : float
            From 0 to 1.
        note : str, optional
            What there is to say of it, such as ``"page 12 of 30"``: one line, of which the first
            200 characters are kept.

        Raises
        ------
        InvalidArgumentError
            When the fraction is no number from 0 to 1, or the note no text.
        """
        self._said = read_said(fraction, note)

    def __repr__(self) -> str:
        return f"CurrentItem(seq={self.seq}, cancelled={self.cancelled})"


#: Set around each call of a handler; tasks that it starts inherit it.
CURRENT: ContextVar[CurrentItem | None] = ContextVar("spark_queue_current_item", default=None)


def current_item() -> CurrentItem:
    """Return the item that the calling handler is at.

    Outside a handler, and in a handler of batches, it returns an item without a ``seq``, which is
    never cancelled: so a test can call a handler without a queue. On executors of Spark an item has
    its ``seq``; it is never cancelled, and its progress is not shown. Of a cancelled item a child
    (``using="processes"``) sees nothing: it is killed.

    Returns
    -------
    CurrentItem
        In a thread that the handler starts: the item without a ``seq``. In a task that it starts,
        and in ``asyncio.to_thread``: its item.
    """
    return CURRENT.get() or CurrentItem(None)


def read_said(fraction: object, note: object, of: str = "") -> Said:
    """Return a progress in the form that is kept.

    Raises
    ------
    InvalidArgumentError
        When the fraction is no number from 0 to 1, or the note no text.
    """
    is_number = isinstance(fraction, int | float) and not isinstance(fraction, bool)
    if not is_number or not 0 <= (found := float(cast("float", fraction))) <= 1:
        raise InvalidArgumentError(
            f"fraction{of} is {shorten(fraction)}: it must be a number from 0 to 1"
        )
    require_string(f"note{of}", note)
    if not isinstance(note, str):
        return found, None
    line = " ".join(note[: 2 * _LONGEST_NOTE].split())
    return found, utf8(line[:_LONGEST_NOTE]) or None


def read_progress(progress: Mapping[int, float | Said] | None) -> dict[int, Said]:
    """Return the progress of items, each a fraction, or one with a note.

    Raises
    ------
    InvalidArgumentError
        When one is none.
    """
    if progress is None:
        return {}
    require_kind("progress", progress, Mapping)
    found = {}
    for seq, said in progress.items():
        require_seq("_seq in progress", seq)
        pair = said if isinstance(said, tuple) and len(said) == 2 else (said, None)  # noqa: PLR2004
        found[seq] = read_said(*pair, of=f" of seq {seq}")
    return found

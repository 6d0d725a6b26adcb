"""Items in the hands of handlers: what cancels them, and how far they are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Token

from spark_queue.item_context import CURRENT, CurrentItem, Said
from spark_queue.overriding import override


class ItemAtWork(CurrentItem):
    """The item of one call of a handler."""

    __slots__ = ("_before", "_end", "_tell", "_written")

    def __init__(self, seq: int, tell: Callable[[Said], object] | None = None) -> None:
        super().__init__(seq)
        self._tell = tell
        self._end: Callable[[], object] | None = None
        self._written: Said | None = None
        self._before: Token[CurrentItem | None] | None = None

    def begin(self) -> None:
        """Be the current item, up to :meth:`leave`."""
        self._before = CURRENT.set(self)

    def leave(self) -> None:
        """Be the current item no longer."""
        if self._before is not None:
            CURRENT.reset(self._before)

    @override
    def progress(self, fraction: float, note: str | None = None) -> None:
        super().progress(fraction, note)
        if self._tell is not None and self._said is not None:
            self._tell(self._said)

    @property
    def news(self) -> Said | None:
        """How far the work is, if that is not written yet."""
        return None if self._said is self._written else self._said

    def note_written(self, said: Said) -> None:
        """Note that a progress is written."""
        self._written = said

    def lose(self) -> None:
        """Note that the item is another's; end its task."""
        self._is_lost = True
        self.end()

    def end(self) -> bool:
        """End the task of the item; False where a plain function works on it."""
        end = self._end
        if end is None:
            return False
        # A task that has just ended takes no harm from it.
        end()
        return True

    @contextmanager
    def ended_by(self, end: Callable[[], object]) -> Iterator[None]:
        """Let a call end the work of the block; at once for an item that is lost already."""
        self._end = end
        if self.cancelled:
            self.end()
        try:
            yield
        finally:
            self._end = None


class AtWork:
    """The items that handlers are at, and those of their claim that were lost.

    Any thread may ask and tell.
    """

    def __init__(
        self, lost: Iterable[int] = (), tell: Callable[[Said], object] | None = None
    ) -> None:
        self._lock = threading.Lock()
        self._items: dict[int, ItemAtWork] = {}
        self._lost = set(lost)
        self._tell = tell

    def of_a_child(self, tell: Callable[[Said], object]) -> AtWork:
        """Return the items at work in a child, without the locks of this process.

        Parameters
        ----------
        tell : callable
            Gets how far the item of the child is.
        """
        return AtWork(self._lost, tell)

    def begin(self, seq: int) -> ItemAtWork:
        """Make an item the current one, up to :meth:`leave`."""
        work = ItemAtWork(seq, self._tell)
        with self._lock:
            self._items[seq] = work
            if seq in self._lost:
                work.lose()
        work.begin()
        return work

    def leave(self, seq: int, work: ItemAtWork) -> None:
        """Make an item the current one no longer."""
        work.leave()
        with self._lock:
            # A thread that was given up may still be at the last attempt of the item.
            if self._items.get(seq) is work:
                del self._items[seq]

    def is_lost(self, seq: int) -> bool:
        """Whether an item of the claim was lost."""
        return seq in self._lost

    def lose(self, seqs: Iterable[int]) -> None:
        """Note items that are lost: their handlers see it, and their tasks are cancelled."""
        with self._lock:
            new = set(seqs) - self._lost
            self._lost |= new
            works = [self._items[seq] for seq in new if seq in self._items]
        for work in works:
            work.lose()

    def note_progress(self, seq: int, said: Said) -> None:
        """Note how far an item is that a child is at."""
        with self._lock:
            work = self._items.setdefault(seq, ItemAtWork(seq))
        work.progress(*said)

    def drop(self, seq: int) -> None:
        """Forget an item that a child is no longer at."""
        with self._lock:
            self._items.pop(seq, None)

    def news(self) -> dict[int, Said]:
        """Return how far items are, where that is not written yet."""
        with self._lock:
            found = {seq: work.news for seq, work in self._items.items()}
        return {seq: said for seq, said in found.items() if said is not None}

    def note_written(self, news: Mapping[int, Said]) -> None:
        """Note that news are written."""
        with self._lock:
            for seq, said in news.items():
                if seq in self._items:
                    self._items[seq].note_written(said)

    def end(self, seq: int) -> bool:
        """End the task of an item; False where a plain function works on it."""
        with self._lock:
            work = self._items.get(seq)
        return work is not None and work.end()

    def forget(self) -> None:
        """Forget the lost items of the last claim."""
        with self._lock:
            self._lost.clear()


class PausedHere:
    """Paused keys of a claim that is at work: their items go back.

    What is claimed later obeys the settings; items that are claimed know it by this.

    Parameters
    ----------
    keys_by : callable, optional
        Returns the key of each item of the claim by its seq, given what a key is paused by.
    """

    def __init__(self, keys_by: Callable[[str], Mapping[int, str | None]] = lambda _: {}) -> None:
        self._keys_by = keys_by
        self._seqs: set[int] = set()

    def note(self, seq: int, pause: str | None) -> None:
        """Note the key of an item that its handler asks to pause, if it does."""
        keys = {} if pause is None else self._keys_by(pause)
        if keys.get(seq) is not None:
            self._seqs |= {one for one, key in keys.items() if key == keys[seq]}

    def has(self, seq: int) -> bool:
        """Whether an item is of a paused key."""
        return seq in self._seqs

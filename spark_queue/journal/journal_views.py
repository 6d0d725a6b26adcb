"""Two plainer views of a reader: without acks, and in scopes that ack by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from spark_queue.errors import InvalidArgumentError
from spark_queue.journal.deliveries import Read
from spark_queue.journal.engine.puts import Puts
from spark_queue.waiting.timer import Timeout, seconds
from spark_queue.wording import shorten

if TYPE_CHECKING:
    from spark_queue.journal.journal_reader import JournalReader

T = TypeVar("T")


class AutoCommitReader(Generic[T]):
    """A reader as a plain queue: what is got is done, and what is put is durable.

    An item that was got and not yet worked on when the process ends is lost.
    """

    def __init__(self, reader: JournalReader[T], puts: Puts[T]) -> None:
        self._reader = reader
        self._puts = puts

    def put(self, item: T, timeout: Timeout = None) -> int:
        """Put an item for all readers of the queue, and wait until it is durable; return its id."""
        offer = self._puts.make_offer(item, durability="commit")
        receipt = self._puts.offer(offer)
        if receipt is None:
            receipt = self._puts.wait_for_room(offer, seconds("timeout", timeout))
        return receipt.result()

    def get(self, timeout: Timeout = None) -> T:
        """Get the next item and ack it; see :meth:`JournalReader.get`."""
        read = self._reader.get(timeout)
        self._reader.ack(read)
        return read.item

    def poll(self) -> T:
        """Get the next item if there is one, and ack it; see :meth:`JournalReader.get`."""
        return self.get(timeout=0)

    def put_head(self, item: T) -> NoReturn:
        """Refuse: a journal has no place in front of what it has.

        Raises
        ------
        InvalidArgumentError
            Always.
        """
        raise InvalidArgumentError(
            f"{shorten(item)} cannot be put at the head: a journal only grows"
        )

    def poll_if(self, predicate: Callable[[T], object]) -> NoReturn:
        """Refuse: who wants to look before taking peeks, or releases.

        Raises
        ------
        InvalidArgumentError
            Always.
        """
        raise InvalidArgumentError(
            f"{shorten(predicate)} is not asked: a journaled queue has no poll_if"
        )


class Transaction(Generic[T]):
    """The scope of one open item: its normal end acks, an error nacks.

    Either, or a release, may be said earlier, by hand; the end of the scope changes nothing then.
    It can be used without the scope, by :meth:`begin`. ``commit`` and ``rollback`` are other names
    of :meth:`ack` and :meth:`nack`.
    """

    def __init__(self, reader: JournalReader[T], timeout: Timeout) -> None:
        seconds("timeout", timeout)
        self._reader = reader
        self._timeout = timeout
        self._read: Read[T] | None = None

    def __enter__(self) -> T:
        return self.begin()

    def __exit__(self, kind: object, *_: object) -> None:
        if self._read is None:
            return
        if kind is None:
            self.ack()
        else:
            self.nack()

    def begin(self) -> T:
        """Open the next item and return it; see :meth:`JournalReader.get`.

        Raises
        ------
        InvalidArgumentError
            When it was begun before.
        """
        if self._read is not None:
            raise InvalidArgumentError(f"{self._read!r} is open in this transaction already")
        self._read = self._reader.get(self._timeout)
        return self._read.item

    def ack(self) -> bool:
        """Settle the item as done; see :meth:`JournalReader.ack`."""
        return self._reader.ack(self._end())

    def nack(self) -> bool:
        """Return the item to its place as failed; see :meth:`JournalReader.nack`."""
        return self._reader.nack(self._end())

    def release(self) -> bool:
        """Give the item back to its place, uncharged; see :meth:`JournalReader.release`."""
        return self._reader.release(self._end())

    commit = ack
    rollback = nack

    def _end(self) -> Read[T]:
        read, self._read = self._read, None
        if read is None:
            raise InvalidArgumentError("this transaction has ended, or was not begun")
        return read

"""Items on their way out that code outside of the lock decides upon: hooks, and other queues."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from spark_queue.journal.deliveries import Read
from spark_queue.journal.records import Entry

if TYPE_CHECKING:
    from spark_queue.journal.settling import Exits

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Expired(Generic[T]):
    """An item that has expired, and that a hook or another queue is to hear of first."""

    __slots__ = ("_entry", "_exits")

    def __init__(self, exits: Exits[T], entry: Entry[T]) -> None:
        self._exits = exits
        self._entry = entry

    def see_off(self) -> None:
        """Tell the hook, then the other queue; what fails keeps the item, stuck."""
        exits, entry = self._exits, self._entry
        hook, target = exits.hooks.on_expired, exits.line.config.expire_to
        try:
            if hook is not None:
                hook(entry)
        except Exception:  # noqa: BLE001 - the hook's own
            _log.exception("reader %s: expired item %d: its hook failed", exits.fullname, entry.id)
            exits.stick(entry)
            return
        if target is None:
            exits.finish(entry, "expired")
            return
        _send(exits, target, entry, exits.line.errors_of(entry), self._settle)

    def _settle(self, *, arrived: bool) -> None:
        if arrived:
            self._exits.finish(self._entry, "expired")
        else:
            self._exits.stick(self._entry)


class Failed(Generic[T]):
    """A read that has failed, and that a hook or another queue may take."""

    __slots__ = ("_exits", "_read")

    def __init__(self, exits: Exits[T], read: Read[T]) -> None:
        self._exits = exits
        self._read = read

    def see_off(self) -> None:
        """Ask the hook, then the other queue; what neither takes comes back, to its place."""
        exits, read = self._exits, self._read
        if self._is_handled():
            exits.finish(read.entry, "punted")
            return
        target = exits.punts_to(read.errors)
        if target is None:
            exits.put_back(read)
            return
        _send(exits, target, read.entry, read.errors, self._settle)

    def _is_handled(self) -> bool:
        hook = self._exits.hooks.on_error
        try:
            return hook is not None and bool(hook(self._read))
        except Exception:  # noqa: BLE001 - the hook's own
            _log.exception("reader %s: the error hook failed", self._exits.fullname)
            return False

    def _settle(self, *, arrived: bool) -> None:
        if arrived:
            self._exits.finish(self._read.entry, "punted")
        else:
            self._exits.put_back(self._read)


class _Settle(Protocol):
    def __call__(self, *, arrived: bool) -> None: ...


def _send(exits: Exits[T], target: str, entry: Entry[T], errors: int, settle: _Settle) -> None:
    try:
        sent = exits.send(target, entry, errors)
    except Exception:  # noqa: BLE001 - full, closed, or not to be found: the item stays
        _log.exception("reader %s: item %d cannot go to %r", exits.fullname, entry.id, target)
        settle(arrived=False)
        return

    def settled(future: Future[int]) -> None:
        error = future.exception()
        if error is not None:
            _log.error(
                "reader %s: item %d did not reach %r: %r", exits.fullname, entry.id, target, error
            )
        settle(arrived=error is None)

    sent.add_done_callback(settled)

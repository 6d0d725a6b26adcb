"""Hand-off of items to hooks and other queues, which decide upon them outside of the lock."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from spark_queue.journal.deliveries import Read
from spark_queue.journal.records import Entry

if TYPE_CHECKING:
    from spark_queue.journal.engine.settling import Settling

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Expired(Generic[T]):
    """An item that has expired, and that a hook or another queue is to hear of first."""

    __slots__ = ("_entry", "_settling")

    def __init__(self, settling: Settling[T], entry: Entry[T]) -> None:
        self._settling = settling
        self._entry = entry

    def run(self) -> None:
        """Tell the hook, then the other queue; what fails keeps the item, stuck."""
        settling, entry = self._settling, self._entry
        hook, target = settling.hooks.on_expired, settling.line.config.expire_to
        try:
            if hook is not None:
                hook(entry)
        except Exception:  # noqa: BLE001 - the hook's own
            _log.exception(
                "reader %s: expired item %d: its hook failed", settling.fullname, entry.id
            )
            settling.stick(entry)
            return
        if target is None:
            settling.finish(entry, "expired")
            return
        _send(settling, target, entry, settling.line.errors_of(entry), self._settle)

    def _settle(self, *, arrived: bool) -> None:
        if arrived:
            self._settling.finish(self._entry, "expired")
        else:
            self._settling.stick(self._entry)


class Failed(Generic[T]):
    """A read that has failed, and that a hook or another queue may take."""

    __slots__ = ("_read", "_settling")

    def __init__(self, settling: Settling[T], read: Read[T]) -> None:
        self._settling = settling
        self._read = read

    def run(self) -> None:
        """Ask the hook, then the other queue; what neither takes comes back, to its place."""
        settling, read = self._settling, self._read
        if self._is_handled():
            settling.finish(read.entry, "punted")
            return
        target = settling.punts_to(read.errors)
        if target is None:
            settling.put_back(read)
            return
        _send(settling, target, read.entry, read.errors, self._settle)

    def _is_handled(self) -> bool:
        hook = self._settling.hooks.on_error
        try:
            return hook is not None and bool(hook(self._read))
        except Exception:  # noqa: BLE001 - the hook's own
            _log.exception("reader %s: the error hook failed", self._settling.fullname)
            return False

    def _settle(self, *, arrived: bool) -> None:
        if arrived:
            self._settling.finish(self._read.entry, "punted")
        else:
            self._settling.put_back(self._read)


class _Settle(Protocol):
    def __call__(self, *, arrived: bool) -> None: ...


def _send(
    settling: Settling[T], target: str, entry: Entry[T], errors: int, settle: _Settle
) -> None:
    try:
        sent = settling.send(target, entry, errors)
    except Exception:  # noqa: BLE001 - full, closed, or not to be found: the item stays
        _log.exception("reader %s: item %d cannot go to %r", settling.fullname, entry.id, target)
        settle(arrived=False)
        return

    def settled(future: Future[int]) -> None:
        error = future.exception()
        if error is not None:
            _log.error(
                "reader %s: item %d did not reach %r: %r",
                settling.fullname,
                entry.id,
                target,
                error,
            )
        settle(arrived=error is None)

    sent.add_done_callback(settled)

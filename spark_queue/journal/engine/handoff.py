"""Hand-off of items to hooks and other queues, which decide upon them outside of the lock."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from spark_queue.journal.deliveries import Read
from spark_queue.journal.records import Entry, origin_of

if TYPE_CHECKING:
    from spark_queue.journal.engine.journal_settling import Settling

T = TypeVar("T")

_log = logging.getLogger(__name__)


def hand_off_expired(settling: Settling[T], entry: Entry[T]) -> None:
    """Tell the hook, then the other queue, of an expired item; what fails keeps it, stuck."""
    hook, target = settling.hooks.on_expired, settling.line.config.expire_to
    try:
        if hook is not None:
            hook(entry)
    except Exception:  # noqa: BLE001 - the hook's own
        _log.exception("reader %s: expired item %d: its hook failed", settling.fullname, entry.id)
        settling.stick(entry)
        return
    leave, stay = partial(settling.finish, entry, "expired"), partial(settling.stick, entry)
    if target is None:
        leave()
    else:
        _send(settling, target, entry, settling.line.errors_of(entry), leave, stay)


def hand_off_failed(settling: Settling[T], read: Read[T]) -> None:
    """Ask the hook, then the other queue; a read that neither takes comes back, to its place."""
    leave, stay = partial(settling.finish, read.entry, "punted"), partial(settling.put_back, read)
    if _is_handled(settling, read):
        leave()
        return
    target = settling.punts_to(read.errors)
    if target is None:
        stay()
    else:
        _send(settling, target, read.entry, read.errors, leave, stay)


def _is_handled(settling: Settling[T], read: Read[T]) -> bool:
    hook = settling.hooks.on_error
    try:
        return hook is not None and bool(hook(read))
    except Exception:  # noqa: BLE001 - the hook's own
        _log.exception("reader %s: the error hook failed", settling.fullname)
        return False


def _send(
    settling: Settling[T],
    target: str,
    entry: Entry[T],
    errors: int,
    leave: Callable[[], None],
    stay: Callable[[], None],
) -> None:
    """Put an item into another queue; it leaves when it is durable there, and stays if it fails."""
    name = settling.fullname
    try:
        origin = origin_of(name, entry.id)
        queue = settling.queue_state.resolve(target)
        sent = queue.put(entry.item, errors=errors, origin=origin, durability="commit", timeout=0)
    except Exception:  # noqa: BLE001 - full, closed, or not to be found: the item stays
        _log.exception("reader %s: item %d cannot go to %r", name, entry.id, target)
        stay()
        return

    def on_settle(future: Future[int]) -> None:
        error = future.exception()
        if error is None:
            leave()
            return
        _log.error("reader %s: item %d did not reach %r: %r", name, entry.id, target, error)
        stay()

    sent.add_done_callback(on_settle)

"""Idempotency keys: a lock while something is done, a mark when it has been done."""

from __future__ import annotations

import functools
import heapq
import inspect
import logging
import threading
import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from spark_queue import checks
from spark_queue.clock import Clock, require_clock
from spark_queue.errors import InvalidArgumentError
from spark_queue.memory.waiting.aio import resolve
from spark_queue.wording import shorten

F = TypeVar("F", bound=Callable[..., Any])

_log = logging.getLogger(__name__)

#: Entries of the heap that may be out of date before it is looked through.
_TOLERATED = 64


class IdempotencyKeyStore(Protocol):
    """Remembers which keys are being worked on, and which are done.

    A key is free, locked by the token that :meth:`try_lock` gave out, or accepted. Both a lock and
    an acceptance end by their own time; until then only the token's holder changes anything.
    """

    def try_lock(self, key: Hashable, timeout: timedelta | None = None) -> str | None:
        """Lock a free key: the token that owns it now, or ``None`` when it is not free.

        Of any number of simultaneous calls for one key exactly one gets a token.
        """

    def accept(self, key: Hashable, token: str) -> bool:
        """Mark a key as done; ``False``, and no effect, when the token does not own its lock."""

    def release(self, key: Hashable, token: str) -> bool:
        """Free a key; ``False``, and no effect, when the token does not own its lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    """What a store remembers of one key."""

    token: str
    """Who locked it."""
    accepted: bool
    """Whether it is done, not only locked."""
    ends_at: datetime
    """When the lock, or the acceptance, ends."""


class InMemoryIdempotencyKeyStore:
    """An :class:`IdempotencyKeyStore` in the memory of one process.

    Parameters
    ----------
    lock_timeout : timedelta
        How long a lock lasts unless its call says otherwise. Shorter than the work: another caller
        may begin it too. Longer: the key of a dead caller stays locked so long. Default 1 minute.
    accepted_for : timedelta
        How long an accepted key is remembered. Default 1 day.
    clock : Clock
        Tells the time. Default: the machine's.

    Raises
    ------
    InvalidArgumentError
        When a time is not above zero.

    Examples
    --------
    >>> store = InMemoryIdempotencyKeyStore()
    >>> token = store.try_lock("order 7")
    >>> store.try_lock("order 7") is None
    True
    >>> store.accept("order 7", token)
    True
    >>> store.release("order 7", token)
    False
    """

    def __init__(
        self,
        lock_timeout: timedelta = timedelta(minutes=1),
        accepted_for: timedelta = timedelta(days=1),
        *,
        clock: Clock | None = None,
    ) -> None:
        self._lock_timeout = _require_time("lock_timeout", lock_timeout)
        self._accepted_for = _require_time("accepted_for", accepted_for)
        self._clock: Clock = require_clock(clock)
        self._lock = threading.Lock()
        self._keys: dict[Hashable, KeyState] = {}
        # When to look at a key again. A state that was replaced leaves its entry, to be skipped.
        self._ends: list[tuple[datetime, int, Hashable]] = []
        self._pushed = 0

    def __len__(self) -> int:
        """Return how many keys are locked or accepted."""
        with self._lock:
            self._forget_ended(self._clock.now())
            return len(self._keys)

    def try_lock(self, key: Hashable, timeout: timedelta | None = None) -> str | None:
        """Lock a free key: the token that owns it now, or ``None`` when it is not free.

        Raises
        ------
        InvalidArgumentError
            When the key cannot be hashed, or the time is not above zero.
        """
        checks.require_key("key", key)
        lasts = self._lock_timeout if timeout is None else _require_time("timeout", timeout)
        token = uuid.uuid4().hex
        with self._lock:
            now = self._clock.now()
            self._forget_ended(now)
            if key in self._keys:
                return None
            self._set(key, KeyState(token=token, accepted=False, ends_at=now + lasts))
        return token

    def accept(self, key: Hashable, token: str) -> bool:
        """Mark a key as done; ``False``, and no effect, when the token does not own its lock."""
        with self._lock:
            now = self._clock.now()
            if not self._owns(key, token, now):
                return False
            ends_at = now + self._accepted_for
            self._set(key, KeyState(token=token, accepted=True, ends_at=ends_at))
        return True

    def release(self, key: Hashable, token: str) -> bool:
        """Free a key; ``False``, and no effect, when the token does not own its lock."""
        with self._lock:
            if not self._owns(key, token, self._clock.now()):
                return False
            del self._keys[key]
            self._drop_old_ends()
        return True

    def snapshot(self) -> dict[Hashable, KeyState]:
        """Return the remembered keys, to be stored where they survive the process."""
        with self._lock:
            self._forget_ended(self._clock.now())
            return dict(self._keys)

    def restore(self, keys: Mapping[Hashable, KeyState]) -> None:
        """Remember what an earlier :meth:`snapshot` gave, and nothing else."""
        checks.require_kind("keys", keys, Mapping)
        for state in keys.values():
            checks.require_kind("a state in keys", state, KeyState)
        with self._lock:
            self._keys.clear()
            self._ends.clear()
            for key, state in keys.items():
                self._set(key, state)

    def _owns(self, key: Hashable, token: str, now: datetime) -> bool:
        checks.require_key("key", key)
        self._forget_ended(now)
        state = self._keys.get(key)
        return state is not None and not state.accepted and state.token == token

    def _set(self, key: Hashable, state: KeyState) -> None:
        self._keys[key] = state
        self._pushed += 1
        heapq.heappush(self._ends, (state.ends_at, self._pushed, key))
        self._drop_old_ends()

    def _forget_ended(self, now: datetime) -> None:
        while self._ends and self._ends[0][0] <= now:
            key = heapq.heappop(self._ends)[2]
            state = self._keys.get(key)
            if state is not None and state.ends_at <= now:
                del self._keys[key]

    def _drop_old_ends(self) -> None:
        if len(self._ends) > 2 * len(self._keys) + _TOLERATED:
            states = enumerate(self._keys.items())
            self._ends = [(state.ends_at, number, key) for number, (key, state) in states]
            self._pushed = len(self._ends)
            heapq.heapify(self._ends)


def idempotent(
    *,
    store: IdempotencyKeyStore,
    key: Callable[..., Hashable],
    default_result: Callable[..., Any],
    timeout: timedelta | None = None,
) -> Callable[[F], F]:
    """Make a function, or a coroutine function, that does its work once for each key.

    The first call for a key does the work. While it runs, and after it went well, other calls get
    the default result at once. When it fails, its error is raised and the key is free again.

    Parameters
    ----------
    store : IdempotencyKeyStore
        Remembers the keys. It is called on the thread of the caller, also by coroutines.
    key : callable
        Called with the arguments of a call, returns its key.
    default_result : callable
        Called with the arguments of a call that is not to do the work; returns its result, for a
        coroutine function also as an awaitable. What it raises is raised.
    timeout : timedelta, optional
        How long the work may take before another caller may begin it too. Default: the store's.

    Notes
    -----
    When the work takes longer than that, its result is returned all the same, the key stays with
    its holder by then, and a warning is logged. When accepting fails after the work went well,
    that error is raised and the key stays locked, as the work must not be done again at once.

    Examples
    --------
    >>> @idempotent(
    ...     store=InMemoryIdempotencyKeyStore(),
    ...     key=lambda order: order,
    ...     default_result=lambda order: "done before",
    ... )
    ... def ship(order):
    ...     return f"shipped {order}"
    >>> ship(7), ship(7), ship(8)
    ('shipped 7', 'done before', 'shipped 8')
    """

    def wrap(handler: F) -> F:
        runs = _suspending if inspect.iscoroutinefunction(handler) else _blocking
        scope = functools.partial(_lock, store, timeout)
        wrapped: Any = functools.wraps(handler)(runs(handler, key, default_result, scope))
        return wrapped  # type: ignore[no-any-return]

    return wrap


@contextmanager
def _lock(store: IdempotencyKeyStore, timeout: timedelta | None, key: Hashable) -> Iterator[bool]:
    """Give whether the key was free; then accept it after the scope, or release it on an error."""
    token = store.try_lock(key, timeout)
    if token is None:
        yield False
        return
    try:
        yield True
    except BaseException:
        store.release(key, token)
        raise
    # Outside of the try: an error here must not free a key whose work was done.
    if not store.accept(key, token):
        _log.warning("the lock of %r ended before its work did; it may be done twice", key)


def _blocking(
    handler: Callable[..., Any],
    key: Callable[..., Hashable],
    default_result: Callable[..., Any],
    scope: Callable[..., Any],
) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with scope(key(*args, **kwargs)) as acquired:
            if acquired:
                return handler(*args, **kwargs)
        return default_result(*args, **kwargs)

    return run


def _suspending(
    handler: Callable[..., Any],
    key: Callable[..., Hashable],
    default_result: Callable[..., Any],
    scope: Callable[..., Any],
) -> Callable[..., Any]:
    async def run(*args: Any, **kwargs: Any) -> Any:
        with scope(key(*args, **kwargs)) as acquired:
            if acquired:
                return await handler(*args, **kwargs)
        return await resolve(default_result(*args, **kwargs))

    return run


def _require_time(name: str, value: object) -> timedelta:
    if not isinstance(value, timedelta) or not timedelta(0) < value <= checks.LONGEST:
        raise InvalidArgumentError(
            f"{name} is {shorten(value)}: it must be a timedelta above zero, of a thousand "
            "years at "
            "most"
        )
    return value

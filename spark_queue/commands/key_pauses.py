"""Pause of a key: no item of it starts until an instant."""

from __future__ import annotations

from datetime import timedelta

from spark_queue import acting, checks
from spark_queue.acting import operator
from spark_queue.commands import admin
from spark_queue.errors import InvalidArgumentError
from spark_queue.flow import Keyed, Pause, key_texts
from spark_queue.log.heads import StatusHead
from spark_queue.log.settings import Settings
from spark_queue.state.store import Store
from spark_queue.wording import shorten


def pause(store: Store, key: str, by: str | None, for_: timedelta | float | None) -> int:
    """Pause a key for a time, or until it is resumed; return the step it is in force from."""
    length = checks.length_of("for_", for_)
    if length == timedelta(0):
        return resume(store, key, by)
    text = require_key(store, key, by)

    def change(old: Settings, _: StatusHead) -> Settings:
        now = store.clock.now()
        until = None if length is None else now + length
        known = old.pause_of(text, key, now)
        if known is not None and known.lasts(until):
            return old
        who = operator() or acting.whoami()
        return old.with_pause(Pause(by=text, key=key, until=until, at=now, who=who))

    return _configure(store, change, "pause")


def resume(store: Store, key: str, by: str | None) -> int:
    """Resume a key; return the step it is in force from."""
    text = require_key(store, key, by)

    def change(old: Settings, _: StatusHead) -> Settings:
        now = store.clock.now()
        is_paused = old.pause_of(text, key, now) is not None
        return old.without_pause(text, key, now) if is_paused else old

    return _configure(store, change, "resume")


def _configure(store: Store, change: admin.Change, action: str) -> int:
    step = admin.configure(store, change, action, only_changes=True)
    return step or store.status_head().config_step


def require_key(store: Store, key: object, by: str | None) -> str:
    """Return the expression by which a key is paused; raise where a queue has none of it."""
    checks.require_utf8("key", key)
    config = store.settings(store.status_head()).config
    return expression_of(config, by)


def expression_of(config: Keyed, by: str | None) -> str:
    """Return the expression of a key: the fair key's, or the only one, unless it is said.

    Raises
    ------
    InvalidArgumentError
        When a queue has no key of the expression, or several and no fair key.
    """
    known = list(dict.fromkeys(text for text in key_texts(config) if text is not None))
    named = ", ".join(map(shorten, known)) or "none"
    if by is None:
        if config.fair_key is not None or len(known) == 1:
            return known[0]
        raise InvalidArgumentError(
            f"by is None, and there is no fair_key: say by which key; the queue has {named}"
        )
    if by not in known:
        raise InvalidArgumentError(
            f"by is {shorten(by)}: only a key that is stored can be paused, that of fair_key, of "
            f"group_key or of a limit or rate; the queue has {named}"
        )
    return by

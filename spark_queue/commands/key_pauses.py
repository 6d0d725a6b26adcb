"""Pause of a key: no item of it starts until an instant."""

from __future__ import annotations

from datetime import timedelta

from spark_queue import acting, checks
from spark_queue.acting import operator
from spark_queue.commands import admin
from spark_queue.flow import Pause
from spark_queue.log.heads import StatusHead
from spark_queue.log.settings import Settings
from spark_queue.pause_texts import expression_of
from spark_queue.state.store import Store


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

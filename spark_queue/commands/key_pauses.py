"""Pause of a key, by an operator or a holder: no item of it starts until an instant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from spark_queue import acting, checks
from spark_queue.acting import operator
from spark_queue.commands import admin
from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError, InvalidConfigError, pause_of
from spark_queue.flow import Pause, key_texts
from spark_queue.flow_forms import expression_of
from spark_queue.log.heads import StatusHead
from spark_queue.log.settings import Settings
from spark_queue.log.step_events import logger
from spark_queue.rules.limiting import ITEM_KEYS, keys_of
from spark_queue.saying import Said
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


def pause_by_items(
    settings: Settings,
    rows: Iterable[Mapping[str, Any]],
    said: Mapping[int, Said] | Said,
    now: datetime,
) -> Settings:
    """Return the settings with the keys paused that a holder asks for; the same without any.

    Parameters
    ----------
    rows : iterable of mapping
        The keys of the items that a settle has rows of: a late holder has none, and pauses nothing.
    said : mapping of Said, or Said
        What is said of items by seq, where that pauses a key; or of all.
    """
    for pause in _asked_by_items(settings, rows, said, now):
        known = settings.pause_of(pause.by, pause.key, now)
        if known is None or not known.lasts(pause.until):
            settings = settings.with_pause(pause)
    return settings


def _asked_by_items(
    settings: Settings,
    rows: Iterable[Mapping[str, Any]],
    said: Mapping[int, Said] | Said,
    now: datetime,
) -> Iterator[Pause]:
    """Return the pauses that are asked for, of each key once."""
    found: dict[tuple[str, str], Pause] = {}
    who = operator() or acting.whoami()
    for row in rows:
        seq = row["_seq"]
        one = said if isinstance(said, Said) else said[seq]
        try:
            by = _expression(settings, one.pause)
        except (InvalidArgumentError, InvalidConfigError) as exc:
            # Its item waits all the same: the settle is no place to fail.
            logger.warning("item %d pauses no key: %s", seq, exc)
            continue
        key = _key_by(settings.config, by, row)
        if key is None or not one.after:
            continue
        pause = Pause(by=by, key=key, until=now + one.after, at=now, who=who)
        found[by, key] = max(found.get((by, key), pause), pause, key=lambda one: one.until or now)
    yield from found.values()


def _key_by(config: QueueConfig, by: str, row: Mapping[str, Any]) -> str | None:
    # An item may have entered before there was the limit.
    return dict(zip(key_texts(config), keys_of(row), strict=False)).get(by)


def keys_by(config: QueueConfig, rows: pa.Table, pause: str) -> dict[int, str | None]:
    """Return the key of each item of some rows by its seq; none where items have no such key."""
    try:
        by = expression_of(config, pause or None)
    except InvalidArgumentError:
        # The settle says so.
        return {}
    return {row["_seq"]: _key_by(config, by, row) for row in rows.select(ITEM_KEYS).to_pylist()}


def by_of(store: Store, pause: object, *, has_end: bool) -> str | None:
    """Return by which key a holder pauses; raise where the items of a queue have no such key."""
    by = pause_of(pause, has_end=has_end)
    if by is not None:
        _expression(store.settings(store.status_head()), by)
    return by


def _expression(settings: Settings, by: str | None) -> str:
    """Return by which key of its items a queue pauses; raise where it has none, or no pauses."""
    settings.require_pauses()
    return expression_of(settings.config, by or None)


#: How the name begins that an undo has for the pause of a key.
_OF_KEY = "pause of "


def is_pause(name: str) -> bool:
    """Whether the name of a setting is the pause of a key."""
    return name.startswith(_OF_KEY)


def named_pauses(settings: Settings, at: datetime) -> dict[str, Pause | None]:
    """Return the pauses of keys in force by their names."""
    return _by_name(settings.paused_at(at))


def put_back(settings: Settings, named: Mapping[str, Pause | None]) -> Settings:
    """Return the settings with some pauses of keys as they were; ``None`` for resumed ones."""
    found = {**_by_name(settings.pauses), **named}
    return replace(settings, pauses=tuple(one for one in found.values() if one is not None))


def _by_name(pauses: Iterable[Pause]) -> dict[str, Pause | None]:
    return {f"{_OF_KEY}{one.key!r} by {one.by}": one for one in pauses}

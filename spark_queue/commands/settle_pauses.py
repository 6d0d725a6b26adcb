"""Pauses of keys that holders ask for, in the step that settles their items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.acting import operator, whoami
from spark_queue.commands.admin import config_row
from spark_queue.commands.key_pauses import expression_of
from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError, pause_of
from spark_queue.flow import Pause, key_texts
from spark_queue.log.settings import Settings
from spark_queue.log.step_events import logger
from spark_queue.rules.limiting import keys_of
from spark_queue.saying import Said
from spark_queue.sql import log_rows
from spark_queue.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Where an item has its keys.
KEYS = ("_seq", "_fair_key", "_group_key", "_flow_keys")


def with_pauses(
    settings: Settings,
    rows: DataFrame | pa.Table,
    said: Mapping[int, Said] | Said,
    now: datetime,
) -> DataFrame | pa.Table | None:
    """Return the rows of a settle that pauses keys, too; ``None`` where no key is to be.

    Only of items that have rows: a late holder has none, and pauses nothing.

    Parameters
    ----------
    said : mapping of Said, or Said
        What is said of items by seq, where that pauses a key; or of all.
    """
    after = settings
    for pause in _pauses(settings.config, rows, said, now):
        known = after.pause_of(pause.by, pause.key, now)
        if known is None or not known.lasts(pause.until):
            after = after.with_pause(pause)
    if after == settings:
        return None
    return join_rows(rows, config_row(after, now))


def join_rows(rows: DataFrame | pa.Table, others: pa.Table) -> DataFrame | pa.Table:
    """Return the rows of a settle and others; a missing column is null."""
    if isinstance(rows, pa.Table):
        return log_rows.joined(rows, others)
    return import_module("spark_queue.spark.spark_engines").FrameRows().joined(rows, others)


def _pauses(
    config: QueueConfig,
    rows: DataFrame | pa.Table,
    said: Mapping[int, Said] | Said,
    now: datetime,
) -> Iterator[Pause]:
    """Return the pauses that are asked for, of each key once."""
    found: dict[tuple[str, str], Pause] = {}
    who = operator() or whoami()
    for row in columns_of(rows, KEYS, None if isinstance(said, Said) else list(said)):
        seq = row["_seq"]
        one = said if isinstance(said, Said) else said[seq]
        try:
            by = expression_of(config, one.pause or None)
        except InvalidArgumentError as exc:
            # Its item waits all the same: the settle is no place to fail.
            logger.warning("item %d pauses no key: %s", seq, exc)
            continue
        key = _key_by(config, by, row)
        if key is None or not one.after:
            continue
        pause = Pause(by=by, key=key, until=now + one.after, at=now, who=who)
        found[by, key] = max(found.get((by, key), pause), pause, key=lambda one: one.until or now)
    yield from found.values()


def columns_of(
    rows: DataFrame | pa.Table, names: Sequence[str], seqs: list[int] | None
) -> list[dict[str, Any]]:
    """Return some columns of some items of a settle, or of all."""
    if isinstance(rows, pa.Table):
        few = rows if seqs is None else rows.filter(pc.is_in(rows["_seq"], pa.array(seqs)))
        few = few.select(names)
    else:
        frame = rows if seqs is None else rows.where(rows["_seq"].isin(seqs))
        few = frame.select(*names).toArrow()
    found: list[dict[str, Any]] = few.to_pylist()
    return found


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
    return {row["_seq"]: _key_by(config, by, row) for row in columns_of(rows, KEYS, None)}


def by_of(store: Store, pause: object) -> str | None:
    """Return by which key a holder pauses; raise where the items of a queue have no such key."""
    by = pause_of(pause)
    if by is not None:
        expression_of(store.settings(store.status_head()).config, by or None)
    return by

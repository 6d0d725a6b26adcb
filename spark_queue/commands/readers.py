"""Readers: each sees every item, and has a status log of its own.

Who they are, from where on each sees items, and what they allow is in the head of the item log, so
that an enqueue, a registration and the drop of old items are ordered by their steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from spark_queue import sql, state
from spark_queue.errors import InvalidArgumentError, OldCheckpointError, ReaderNotFoundError
from spark_queue.log.heads import Checkpoint, Pointer, QueueHead, Registered, following, names_of
from spark_queue.log.schema import CANCELLED, STATUS_COLUMNS
from spark_queue.log.settings import Settings
from spark_queue.log.step_events import logger
from spark_queue.reader_config import ReaderConfig
from spark_queue.state import existence
from spark_queue.state.store import Store
from spark_queue.wording import shorten

if TYPE_CHECKING:
    from spark_queue.state.snapshot import Snapshot
    from spark_queue.state.steps import Answer, Step

#: Where a new reader starts: at the end, at the beginning, behind a step of the item log, or with
#: what was enqueued after an instant.
Start = Literal["tail", "beginning"] | int | datetime


def find(store: Store, name: str) -> Store:
    """Return a registered reader, creating its status log if needed.

    Raises
    ------
    ReaderNotFoundError
        When there is none of the name.
    """
    return prepare(look_up(store, name))


def look_up(store: Store, name: str) -> Store:
    """Return a registered reader, creating nothing; raises as :func:`find`."""
    readers = store.queue_head().readers
    number = _number_of(readers, name)
    if number is None:
        raise ReaderNotFoundError(store.name, name, names_of(readers))
    return store.of_reader(number)


def default(store: Store) -> Store:
    """Return the default reader's view of the queue; register it if there is none.

    It is the reader without a name, or the only one that claims.

    Raises
    ------
    ReaderNotFoundError
        When the queue has several, and all have names.
    """
    readers = store.queue_head().readers
    if not readers:
        return register(store, "", ReaderConfig(), "tail")
    claiming = [facts.name for facts in readers.values() if not facts.streams]
    return find(store, claiming[0] if len(claiming) == 1 else "")


def register(
    store: Store,
    name: str,
    config: ReaderConfig | None,
    start: Start | None = None,
    *,
    streams: bool = False,
    takes_over: bool = True,
) -> Store:
    """Return the reader, creating it at the tail by default.

    The first that gets a name takes over from the default reader, with its position and its items.

    Raises
    ------
    InvalidArgumentError
        When it takes over, and ``start`` is elsewhere.
    """

    def decide(at: Snapshot) -> Answer[tuple[int, bool]]:
        before = at.queue
        number, readers = _with(at, name, config, start, streams=streams, takes_over=takes_over)
        if readers == before.readers:
            return state.steps.Answer(answer=(number, False))
        last = max(before.last_reader, number)
        head = following(before, readers=readers, last_reader=last)
        return state.steps.Step(head=head, counts={}, answer=(number, True))

    existence.require_known_format(store)
    number, is_new = state.steps.on_items(store, f"reader {name!r}", decide)
    return prepare(store.of_reader(number), is_new=is_new)


def change(store: Store, number: int, name: str, config: ReaderConfig) -> None:
    """Give a reader another name or configuration."""

    def decide(at: Snapshot) -> Step[QueueHead, None]:
        before = at.queue
        facts = replace(before.readers[number], name=name, config=config.to_dict())
        head = following(before, readers={**before.readers, number: facts})
        return state.steps.Step(head=head, counts={}, answer=None)

    state.steps.on_items(store, f"reader {name!r}", decide)


def drop(store: Store, name: str) -> None:
    """Forget a reader, and remove its status log; the queue's configuration stays."""
    existence.require_known_format(store)
    number = find(store, name).reader

    def decide(at: Snapshot) -> Answer[None]:
        before = at.queue
        readers = {n: facts for n, facts in before.readers.items() if n != number}
        if len(readers) == len(before.readers):
            return state.steps.Answer(answer=None)
        return state.steps.Step(head=following(before, readers=readers), counts={}, answer=None)

    state.steps.on_items(store, f"drop reader {name!r}", decide)
    if number:
        remove(store.of_reader(number))


def remove(store: Store) -> None:
    """Remove the status log of a reader, if it is there."""
    if not store.status.exists():
        return
    try:
        store.status.drop()
    except InvalidArgumentError as exc:
        logger.warning("%s: the log of reader %d is left: %s", store.name, store.reader, exc)


def every(store: Store) -> Iterator[Store]:
    """Yield each reader that claims, creating its status log if needed."""
    return map(prepare, claiming(store))


def claiming(store: Store) -> Iterator[Store]:
    """Yield each reader that claims, creating no log."""
    for number, facts in store.queue_head().readers.items():
        if not facts.streams:
            yield store.of_reader(number)


def all_of(at: Snapshot) -> list[Snapshot]:
    """Return the same as :func:`every` as of one snapshot of the queue."""
    claim = (number for number, facts in at.queue.readers.items() if not facts.streams)
    return [at.of_reader(prepare(at.store.of_reader(number))) for number in claim]


def with_logs(store: Store) -> Iterator[Store]:
    """Yield the readers of :func:`claiming` that have a log."""
    return filter(existence.is_prepared, claiming(store))


def advance(store: Store, step: int) -> None:
    """Log that a stream's reader is done with the items up to a step.

    Raises
    ------
    InvalidArgumentError
        When the item log has no such step.
    OldCheckpointError
        When the reader is done with a later step.
    """
    at = store.queue.head_at(step)
    if at is None:
        raise InvalidArgumentError(f"step is {step}: the item log has no such step")

    def decide(seen: Snapshot) -> Answer[None]:
        before = seen.queue
        facts = before.readers[store.reader]
        if facts.since_step > step:
            raise OldCheckpointError(store.name, facts.name, step, facts.since_step, "step")
        if facts.since_step == step:
            return state.steps.Answer(answer=None)
        moved = replace(facts, since_step=step, since_items=at.items)
        head = following(before, readers={**before.readers, store.reader: moved})
        return state.steps.Step(head=head, counts={}, answer=None)

    state.steps.on_items(store, f"reader {store.registered().name!r}", decide)


def slowest(at: Snapshot, those: Sequence[Snapshot]) -> Mapping[int, Pointer]:
    """Return, per priority, how far the reader has come that is furthest behind.

    New items are tagged from there, so that they are ahead of every reader; to one that is further
    they are overdue, and it serves them as such.

    Parameters
    ----------
    at : Snapshot
        The queue.
    those : sequence of Snapshot
        The queue as each of its readers sees it, as :func:`all_of` gives it.
    """
    positions = [reader.status.pointers for reader in those]
    if not positions:
        return at.status.pointers
    common = set.intersection(*(set(pointers) for pointers in positions))
    return {priority: min(pointers[priority] for pointers in positions) for priority in common}


def prepare(store: Store, *, is_new: bool = False) -> Store:
    """Return a registered reader's store, creating its status log at first use.

    A position that was lost is made again, too: better all again than something never.
    """
    if store.reader == 0 or store.registered().streams or existence.is_prepared(store):
        return store
    if not is_new:
        logger.warning(
            "%s: the position of reader %d is gone; it starts again where it once started",
            store.name,
            store.reader,
        )
    from spark_queue.commands import create_drop  # noqa: PLC0415 - few make a log

    with create_drop.making(store):
        store.status.create(STATUS_COLUMNS.json, replaces=False)
    # Whoever loses this step was about to write the same.
    state.steps.once_on_status(store, "beginning", _beginning)
    return store


def _beginning(at: Snapshot) -> Answer[None]:
    """Return the first step of a reader: the queue's settings, at the reader's start."""
    from spark_queue.commands import admin  # noqa: PLC0415 - few make a log

    store, before = at.store, at.status
    if before.step:
        return state.steps.Answer(answer=None)
    first = store.of_reader(0)
    facts = store.registered()
    begins = Checkpoint(queue_step=facts.since_step, pointers=facts.pointers)
    head = following(before, config_step=1, pointers=facts.pointers, checkpoint=begins)
    settings: Settings = replace(first.settings(first.status_head()), paused=False)
    row = admin.config_row(settings, store.clock.now())
    return state.steps.Step(head=head, rows=row, answer=None)


def _with(
    at: Snapshot,
    name: str,
    config: ReaderConfig | None,
    start: Start | None,
    *,
    streams: bool,
    takes_over: bool,
) -> tuple[int, Mapping[int, Registered]]:
    """Return a reader's number, and the readers with it."""
    before = at.queue
    number = _number_of(before.readers, name)
    if number is None and name and takes_over and not streams:
        number = _number_of(before.readers, "")
        if number is not None and start is not None:
            _require_same_place(at.store.of_reader(number), before, name, start)
    if number is not None:
        old = before.readers[number]
        plain = old.config if config is None else config.to_dict()
        return number, {**before.readers, number: replace(old, name=name, config=plain)}
    number = before.last_reader + 1
    new = replace(
        _resolve_start(at, "tail" if start is None else start),
        name=name,
        config={} if config is None else config.to_dict(),
        at=at.store.clock.now().isoformat(),
        streams=streams,
    )
    return number, {**before.readers, number: new}


def _require_same_place(default: Store, before: QueueHead, name: str, start: Start) -> None:
    """Raise where a reader that takes over from the default one would start elsewhere."""
    nothing_there = before.items == 0
    untouched = not default.status_head().pointers and default.registered().since_step == 0
    if nothing_there or (start == "beginning" and untouched):
        return
    raise InvalidArgumentError(
        f"start is {shorten(start)}: reader {name!r} is the first with a name, so it takes over "
        "from the "
        "default reader, and goes on where that is; leave start out, or add it as a second one"
    )


def _resolve_start(seen: Snapshot, start: Start) -> Registered:
    """Return the step a reader starts at: never before items that may be gone."""
    before = seen.queue
    if start == "tail":
        return Registered(
            since_step=before.step,
            since_items=before.items,
            pointers=slowest(seen, all_of(seen)),
        )
    at = _start_of(seen.store, start)
    if at is not None and at.step > before.floor_step:
        return Registered(since_step=at.step, since_items=at.items)
    wanted = 0 if at is None else at.items
    return Registered(
        since_step=before.floor_step,
        since_items=before.floor_items,
        lost=before.floor_items - wanted,
    )


def _start_of(store: Store, start: Start) -> QueueHead | None:
    """Return the step behind which a reader starts; ``None`` for the beginning."""
    if isinstance(start, datetime):
        return store.queue.head_by(start)
    if isinstance(start, str):
        if start != "beginning":
            raise InvalidArgumentError(
                f"start is {shorten(start)}: use 'tail', 'beginning', a step or a time"
            )
        return None
    if start == 0:
        return None
    at = store.queue.head_at(start)
    if at is None:
        raise InvalidArgumentError(f"start is {start}: the item log has no such step")
    return at


def _number_of(readers: Mapping[int, Registered], name: str) -> int | None:
    return next((number for number, facts in readers.items() if facts.name == name), None)


#: Why an item was dropped.
FULL = "dropped: the reader is full"
LAGS = "dropped: the reader is too far behind"


def full(at: Snapshot) -> int:
    """Drop the oldest items of readers that hold too many, and log it; return how many.

    Items in flight stay, and count. The readers are those of the newest step that was seen.
    """
    dropped, newest = 0, at.cache.queue.head or at.queue
    for number, facts in newest.readers.items():
        if facts.streams or facts.config.get("full_policy") != "drop_oldest":
            continue
        reader = prepare(at.store.of_reader(number))
        reader_config = ReaderConfig.from_dict(facts.config)
        dropped += _items(reader, reader_config.max_items, FULL)
        dropped += _bytes(reader, reader_config.max_bytes)
    return dropped


def behind(store: Store) -> int:
    """Drop unread items of readers that lag more than they may."""
    return sum(_items(reader, reader.reader_config().max_lag, LAGS) for reader in every(store))


def _items(reader: Store, most: int | None, why: str) -> int:
    if most is None or reader.outstanding(reader.status_head()) <= most:
        return 0

    planner = sql.planner_choice.planner_of(reader)
    return _drop(reader, lambda at: planner.oldest(at, most), why)


def _bytes(reader: Store, most: int | None) -> int:
    if most is None:
        return 0
    planner = sql.planner_choice.planner_of(reader)
    if planner.outstanding_bytes(state.snapshot.Snapshot(reader)) <= most:
        return 0
    return _drop(reader, lambda at: planner.oldest_by_bytes(at, most), FULL)


def _drop(reader: Store, choose: Callable[[Snapshot], Any], why: str) -> int:
    from spark_queue.commands import admin  # noqa: PLC0415 - few readers have bounds

    return admin.end(reader, "drop", choose, CANCELLED, why)[1]

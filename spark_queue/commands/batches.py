"""Batches of a source, each of which enters a queue once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

import pyarrow as pa

from spark_queue.checks import require_seq, require_text
from spark_queue.errors import (
    BatchForgottenError,
    BatchMismatchError,
    InvalidArgumentError,
    OldCheckpointError,
)
from spark_queue.log.heads import Mark, following
from spark_queue.log.schema import MARKED, SOURCE, SOURCE_LANE
from spark_queue.log.step_events import logger
from spark_queue.results import RepeatedBatch
from spark_queue.state.request import EnqueueFacts, OnMismatch
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.steps import Answer, Step, on_items
from spark_queue.state.store import Store
from spark_queue.wording import shorten

#: The longest name of a source: each head of the item log has it.
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """One of the batches of a source, whose numbers grow."""

    source: str
    """A name that stays the same: the id of a streaming query, or the caller's own."""
    number: int
    follows: int | None = None
    """The batch that is the last one in the head, -1 for none; ``None`` where that is all one."""
    replaces: str | None = None
    """A source whose batches this one goes on with, and whose mark it takes away."""
    of_stream: bool = False
    """Whether it is a micro-batch of a query: none comes before the last one again."""


class OvertakenError(Exception):
    """Another batch of a source entered first, and may have some of the same rows."""


def read_batch(batch: object) -> SourceBatch | None:
    """Return the batch that a caller names as source and number.

    Raises
    ------
    InvalidArgumentError
        When it is something else.
    """
    if batch is None or isinstance(batch, SourceBatch):
        return batch
    if not isinstance(batch, tuple | list) or len(batch) != 2:  # noqa: PLR2004 - a pair
        raise InvalidArgumentError(
            f"batch is {shorten(batch)}: name a source and a number, as in ('nightly', 17)"
        )
    source, number = batch
    require_text("the source of batch", source)
    require_seq("the number of batch", number)
    if number < 0:
        raise InvalidArgumentError(f"the number of batch is {number}: it must be at least 0")
    if len(source) > _LONGEST:
        raise InvalidArgumentError(
            f"the source of batch is {shorten(source)}: its name has at most {_LONGEST} characters"
        )
    return SourceBatch(source, number)


def last_of(at: Snapshot, source: str) -> Mark | None:
    """Return the mark of a source, also where it has left the head; ``None`` of a new one."""
    mark = at.queue.streams.get(source)
    return _forgotten(at, source) if mark is None else mark


def find_done(at: Snapshot, batch: SourceBatch) -> Mark | None:
    """Return a source's last batch if the given one is not newer.

    Raises
    ------
    BatchForgottenError
        When the mark of its source has left the head, and says that it is not new.
    OvertakenError
        When it follows another one.
    """
    last = at.queue.streams.get(batch.source)
    if batch.follows is not None:
        # Who says what it follows has looked, and may go back to an earlier number.
        if batch.follows != number_of(last):
            raise OvertakenError
        return None
    if last is None:
        _require_new(at, batch)
        return None
    return last if batch.number <= last.number else None


def require_same(
    name: str,
    batch: SourceBatch | None,
    repeated: RepeatedBatch | None,
    count: Callable[[], int],
    on_mismatch: OnMismatch,
) -> None:
    """Warn or raise where a repeated batch has another number of rows.

    Parameters
    ----------
    name : str
        The queue.
    batch : SourceBatch, optional
        What came; one that follows another is not looked at.
    repeated : RepeatedBatch, optional
        Its earlier result, where it is not new.
    count : callable
        Returns how many rows it has.

    Raises
    ------
    BatchMismatchError
        When it is asked for, and there are more rows than the first time, or fewer.
    OldCheckpointError
        When it is a micro-batch that comes before the last one.
    """
    if batch is None or repeated is None or batch.follows is not None:
        return
    if repeated.number < repeated.last and batch.of_stream:
        raise OldCheckpointError(name, batch.source, batch.number, repeated.last, "batch")
    if repeated.number < repeated.last:
        said = "%s: batch %d of source %r comes after batch %d, and nothing of it was written"
        logger.warning(said, name, batch.number, batch.source, repeated.last)
    elif repeated.rows is not None and repeated.rows != (rows := count()):
        error = BatchMismatchError(name, batch.source, batch.number, repeated.rows, rows)
        if on_mismatch == "raise":
            raise error
        logger.warning("%s", error)


def number_of(mark: Mark | None) -> int:
    """Return the number of the last batch of a source; -1 where the head has none."""
    return -1 if mark is None else mark.number


def add_mark(
    at: Snapshot, batch: SourceBatch, now: datetime, facts: EnqueueFacts | None = None
) -> dict[str, Mark]:
    """Return the marks after a batch; one without facts has no rows, and is no step."""
    streams = {name: mark for name, mark in at.queue.streams.items() if name != batch.replaces}
    if at.settings.format < MARKED:
        return {**streams, batch.source: Mark(batch.number)}
    seconds = int(now.timestamp())
    # Those of an older format begin to age.
    aging = {source: mark.since(seconds) for source, mark in streams.items()}
    mark = Mark(batch.number, seconds, step=0)
    if facts is not None:
        told = (facts.count_inserted(), facts.duplicates, facts.full)
        mark = Mark(batch.number, seconds, at.queue.step + 1, *told)
    return {**aging, batch.source: mark}


def forget_silent(store: Store, now: datetime) -> None:
    """Move the marks of silent sources out of the head; if that fails, the next one does it."""
    try:
        if _silent(Snapshot(store), now):
            on_items(store, "forget", lambda at: _forget(at, now))
    except Exception:  # noqa: BLE001 - the step it follows stands
        logger.exception("%s: silent sources are kept until the next new one", store.name)


def _forget(at: Snapshot, now: datetime) -> Answer[int]:
    silent = _silent(at, now)
    if not silent:
        return Answer(answer=0)
    kept = {source: mark for source, mark in at.queue.streams.items() if source not in silent}
    texts = [json.dumps([source, mark.plain()]) for source, mark in silent.items()]
    count = len(texts)
    rows = pa.table(
        {
            "_gen": pa.array([SOURCE_LANE] * count, pa.int32()),
            "_kind": [SOURCE] * count,
            "_body": texts,
        }
    )
    return Step(head=following(at.queue, streams=kept), rows=rows, answer=count)


def _silent(at: Snapshot, now: datetime) -> Mapping[str, Mark]:
    """Return the sources that brought nothing for longer than the queue remembers."""
    after = at.settings.config.forget_sources_after
    if after is None or at.settings.format < MARKED:
        return {}
    before = (now - after).timestamp()
    return {s: mark for s, mark in at.queue.streams.items() if mark.at and mark.at < before}


def _forgotten(at: Snapshot, source: str) -> Mark | None:
    """Return the mark of a source that has left the head; ``None`` where there is none."""
    if at.settings.format < MARKED:
        return None
    rows = map(json.loads, at.store.queue.texts(SOURCE, SOURCE_LANE))
    marks = [Mark.of(plain) for name, plain in rows if name == source]
    return max(marks, key=lambda mark: mark.number, default=None)


def _require_new(at: Snapshot, batch: SourceBatch) -> None:
    last = _forgotten(at, batch.source)
    if last is None or batch.number > last.number:
        return
    since = datetime.fromtimestamp(last.at, timezone.utc)
    raise BatchForgottenError(at.store.name, batch.source, batch.number, last.number, since)

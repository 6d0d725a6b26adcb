"""Forwarding of a reader's expired and failed items to other queues.

The target knows, by the head of its own log, how far it has the reader's log, as it knows the
batches of a stream: so each arrives exactly once, through any crash. It knows the log by the id of
its table: one that is made again in the same place is another log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.commands import batches, enqueue, rows as input_rows
from spark_queue.commands.batches import OvertakenError, SourceBatch
from spark_queue.commands.rows import Enqueued
from spark_queue.errors import ReaderFullError, SparkNeededError, SparkQueueError
from spark_queue.log.addresses import placed
from spark_queue.log.heads import Mark
from spark_queue.log.schema import DEAD, EXPIRED, moves_of, user_names
from spark_queue.log.step_events import logger
from spark_queue.overriding import override
from spark_queue.reader_config import ReaderConfig
from spark_queue.sql import file_rows
from spark_queue.sql.decisions import Leaving, LogPosition
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state import existence
from spark_queue.state.catch_up import Sent
from spark_queue.state.request import SKIPPING, OnFull
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Seconds by which the clock of a step's writer may be ahead of the sender's.
_SKEW = 60


def forward(store: Store) -> int:
    """Send newly ended items on to their next queues; return how many.

    A target that cannot take them is logged, and gets them the next time: what was claimed or
    settled in the same breath is its holder's all the same.
    """
    try:
        reader_config = store.reader_config()
    except Exception:  # noqa: BLE001 - the reader may be gone, and what it has claimed stands
        logger.exception("%s: what ended here waits for the next time", store.name)
        return 0
    return sum(_try_to_send(store, reader_config, target) for target in _targets(reader_config))


def with_targets(store: Store, reader_config: ReaderConfig) -> ReaderConfig:
    """Return the configuration with targets that exist, and mean the same in any process.

    Raises
    ------
    QueueNotFoundError
        It names the queue that is missing.
    """
    placed = replace(
        reader_config,
        expire_to=_find_target(reader_config.expire_to),
        punt_to=_find_target(reader_config.punt_to),
        punt_many_to=_find_target(reader_config.punt_many_to),
    )
    for target in _targets(placed):
        existence.require_exists(_place(store, target))
    return placed


def _find_target(target: str | None) -> str | None:
    return None if target is None else placed(target)


def _targets(reader_config: ReaderConfig) -> list[str]:
    named = {reader_config.expire_to, reader_config.punt_to, reader_config.punt_many_to}
    return sorted(target for target in named if target is not None)


def _place(store: Store, target: str) -> Store:
    return existence.beside(store, target, store.listener)


def waiting(store: Store) -> Iterator[tuple[str, int, str]]:
    """Yield each queue that takes no items, how many wait for it, and why.

    Nothing is sent. A missing queue counts as 0: how many items it lacks is unknown.
    """
    at, reader_config = Snapshot(store), store.reader_config()
    for target in _targets(reader_config):
        count = 0
        try:
            place = _place(store, target)
            existence.require_exists(place)
            going = _going(
                at, place, reader_config, target, _sent_of(at, place, reader_config, target)
            )
            if going is None:
                continue
            count = going.leaving.count()
            _put(place, going.leaving.first(), dry_run=True)
        except SparkNeededError:
            continue
        except SparkQueueError as exc:
            yield target, count, str(exc)


def _try_to_send(store: Store, reader_config: ReaderConfig, target: str) -> int:
    try:
        return _send(store, reader_config, target)
    except SparkNeededError as exc:
        logger.info("%s: its items for %s wait for Spark: %s", store.name, target, exc)
    except SparkQueueError as exc:
        _say_once(store, target, exc)
    except Exception:  # noqa: BLE001 - whatever it is, the next time may go well
        logger.exception("%s: its items for %s wait for the next time", store.name, target)
    return 0


def _say_once(store: Store, target: str, why: SparkQueueError) -> None:
    """Log why items wait, once per kind of reason."""
    sent = Snapshot(store).position.sent
    known, kind = sent.get(target), type(why).__name__
    if known is None or known.refused != kind:
        logger.warning("%s: its items for %s wait: %s", store.name, target, why)
    if known is not None:
        sent[target] = replace(known, refused=kind)


def _send(store: Store, reader_config: ReaderConfig, target: str) -> int:
    at, place = Snapshot(store), _place(store, target)
    known = _sent_of(at, place, reader_config, target)
    at.position.sent[target] = known
    if known.token == at.status.token:
        return 0
    while True:
        with suppress(OvertakenError):
            going = _going(at, place, reader_config, target, known)
            count, refused = (0, None) if going is None else _enter(at, place, going)
            break
    if refused is not None:
        # The rest is looked for again.
        _say_once(store, target, refused)
        return count
    # Else each claim would read the whole log, while nothing goes there.
    at.position.sent[target] = replace(
        known, step=at.status.step, token=at.status.token, refused=""
    )
    return count


def _sent_of(at: Snapshot, place: Store, reader_config: ReaderConfig, target: str) -> Sent:
    """Return how much this process has sent to a target; empty if unseen."""
    # A queue created again in the place of another has sent, or got, nothing yet.
    whose = reader_config, place.handle.place.identity(), at.store.handle.place.identity()
    known = at.position.sent.get(target)
    if known is not None and known.whose == whose and known.step <= at.status.step:
        return known
    return Sent(whose, at.store.status.detail()[1])


@dataclass(frozen=True, slots=True)
class _Going:
    """Items on their way to another queue, and how its mark of their log goes on."""

    leaving: Leaving
    source: str
    follows: int
    replaces: str | None
    said: str
    """A note about the log, if its steps are not those of the mark."""

    def batch(self, through: LogPosition) -> SourceBatch:
        """Return the batch that says how far the log was sent with it."""
        return SourceBatch(self.source, through.number, self.follows, self.replaces)


def _going(
    at: Snapshot, place: Store, reader_config: ReaderConfig, target: str, known: Sent
) -> _Going | None:
    """Return the items that a target lacks; ``None`` for none."""
    source, old = f"log {known.log}", f"{at.store.handle.place.location()}+{at.store.reader}"
    streams = place.queue_head().streams
    mark, replaced = streams.get(source), streams.get(old)
    since, said = _since(at, known, mark, replaced)
    leaving = _leaving(at, reader_config, target, since)
    if leaving is not None and mark is None:
        # Its mark may have left the head of the target.
        seen = Snapshot(place)
        replaced = batches.last_of(seen, old)
        since, said = _since(at, known, batches.last_of(seen, source), replaced)
        leaving = _leaving(at, reader_config, target, since)
    if leaving is None:
        return None
    return _Going(leaving, source, batches.number_of(mark), old if replaced else None, said)


def _since(
    at: Snapshot, known: Sent, mark: Mark | None, old: Mark | None
) -> tuple[LogPosition, str]:
    """Return the first position of a log that was not sent yet, and a note about it.

    Parameters
    ----------
    at : Snapshot
        The queue whose items ended.
    known : Sent
        What this process has sent of it.
    mark : Mark, optional
        The position in this log that the target has.
    old : Mark, optional
        What an earlier release has noted of the place of this log: the last step that was sent.
    """
    seen = LogPosition(known.step + 1)
    if mark is not None:
        since, said = LogPosition.read(mark.number), ""
    elif old is not None:
        mark, said = old, "the mark of an earlier release is taken over"
        since = LogPosition(old.number + 1)
    else:
        return seen, ""
    sent = since.step if since.done else since.step - 1
    if sent <= known.step:
        return max(since, seen), said
    if _has_sent(at, sent, mark):
        return since, said
    return _since_instant_of(at, mark), f"it was put back or made again after step {sent} was sent"


def _has_sent(at: Snapshot, step: int, mark: Mark) -> bool:
    """Whether a step is still the step that was sent."""
    if step > at.status.step:
        return False
    head = at.store.status.head_at(step)
    if head is None or not mark.at:
        return True
    return datetime.fromisoformat(head.at).timestamp() <= mark.at + _SKEW


def _since_instant_of(at: Snapshot, mark: Mark) -> LogPosition:
    """Return where the steps begin that were made after a mark."""
    if not mark.at:
        # An older format does not say when that was: the last step is new for sure.
        return LogPosition(at.status.step)
    head = at.store.status.head_by(datetime.fromtimestamp(mark.at + 1, timezone.utc))
    return LogPosition(0 if head is None else head.step + 1)


def _enter(at: Snapshot, place: Store, going: _Going) -> tuple[int, ReaderFullError | None]:
    """Enqueue the items that fit; return how many, and the reader that is full."""
    leaving, refused = going.leaving, None
    rows, through = leaving.first(), LogPosition(at.status.step + 1)
    try:
        done = _put(place, rows, going.batch(through))
    except ReaderFullError as exc:
        count, refused = _fitting(place, leaving), exc
        if not count:
            raise
        rows, through = leaving.first(count), leaving.position_behind(count)
        done = _put(place, rows, going.batch(through))
    if going.said:
        logger.warning("%s: %s; %s has the new items", at.store.name, going.said, place.name)
    return done.inserted, refused


def _fitting(place: Store, leaving: Leaving) -> int:
    """Return how many of the items fit."""
    count = leaving.count()
    while count:
        foreseen = _put(place, leaving.first(count), on_full="partial", dry_run=True)
        if not foreseen.refused:
            break
        # Behind the first that does not fit stand duplicates as well, which need no room.
        count -= foreseen.refused
    return count


def _put(
    place: Store,
    rows: DataFrame | pa.Table,
    batch: SourceBatch | None = None,
    *,
    on_full: OnFull = "raise",
    dry_run: bool = False,
) -> Enqueued:
    """Enqueue items that have been in a queue, with their errors and where they were."""
    rules, extra = replace(SKIPPING, on_full=on_full), ("_errors", "_body")
    return enqueue.enqueue(place, rows, rules=rules, extra=extra, batch=batch, dry_run=dry_run)


@dataclass(frozen=True, slots=True)
class _LeavingTable(Leaving):
    """Items that leave, in tables of this process."""

    ended: pa.Table
    """All that ended, also what goes nowhere."""
    ends: pa.Table
    """What goes there, in the order of the rows."""
    rows: pa.Table

    @override
    def count(self) -> int:
        count: int = self.rows.num_rows
        return count

    @override
    def first(self, count: int | None = None) -> pa.Table:
        return self.rows.slice(0, count)

    @override
    def position_behind(self, count: int) -> LogPosition:
        step, seq = (self.ends[name][count - 1] for name in ("_step", "_seq"))
        is_done = pc.and_(
            pc.equal(self.ended["_step"], step), pc.less_equal(self.ended["_seq"], seq)
        )
        done: int = pc.sum(is_done).as_py()
        return LogPosition(step.as_py(), done)


def _leaving(
    at: Snapshot, reader_config: ReaderConfig, target: str, since: LogPosition
) -> Leaving | None:
    """Return the items that ended since and go to a target; ``None`` for none."""

    def by_planner() -> Leaving | None:
        found: Leaving | None = planner_of(at.store).leaving(at, reader_config, target, since)
        return found

    if not at.are_files_read:
        return by_planner()
    ended = _ends_since(at, since.step)
    fresh = ended.slice(since.done)
    meant = fresh.filter(_goes_to(reader_config, target, fresh))
    if at.has_spark and meant.num_rows > input_rows.FEW:
        return by_planner()
    return _LeavingTable(ended, meant, _rows(at.store, meant)) if meant.num_rows else None


def _ends_since(at: Snapshot, first: int) -> pa.Table:
    """Return the items that ended in a step or later, in the order of their ends."""
    last = at.status.step
    found = file_rows.rows_of(
        at.store,
        "status",
        ("_step", "_seq", "_state", "_attempts"),
        lambda file: file.may_have("_step", first, last),
    )
    is_new = pc.and_(pc.greater_equal(found["_step"], first), pc.less_equal(found["_step"], last))
    has_ended = pc.is_in(found["_state"], pa.array([EXPIRED, DEAD]))
    order = [("_step", "ascending"), ("_seq", "ascending")]
    return found.filter(pc.and_(is_new, has_ended)).sort_by(order)


def _goes_to(reader_config: ReaderConfig, target: str, ended: pa.Table) -> pa.ChunkedArray:
    """Tell of each whether it goes to a target."""
    failed = pc.fill_null(ended["_attempts"], 0)
    has_many = pc.and_(
        pa.scalar(reader_config.punt_many_to is not None),
        pc.greater_equal(failed, reader_config.punt_many_at),
    )
    is_dead, is_expired = (pc.equal(ended["_state"], state) for state in (DEAD, EXPIRED))
    ways = (
        (reader_config.expire_to, is_expired),
        (reader_config.punt_many_to, pc.and_(is_dead, has_many)),
        (reader_config.punt_to, pc.and_(is_dead, pc.invert(has_many))),
    )
    return reduce(pc.or_, [which for where, which in ways if where == target])


def _rows(store: Store, meant: pa.Table) -> pa.Table:
    """Return items as rows to enqueue, with their errors and origins."""
    names = user_names(store.columns())
    kept = moves_of(names)
    seqs = meant["_seq"].combine_chunks()
    least, most = pc.min(seqs).as_py(), pc.max(seqs).as_py()
    found = file_rows.rows_of(
        store, "queue", ("_seq", *names, *kept), lambda file: file.may_have("_seq", least, most)
    )
    items = found.take(pc.index_in(seqs, found["_seq"].combine_chunks()))
    place = f"{store.name}+{store.registered().name}"
    columns = {name: items[name] for name in names}
    columns |= {name: items[column] for column, name in kept.items()}
    columns["_errors"] = meant["_attempts"]
    columns["_body"] = pa.array(
        [f"{place}/{seq}" for seq in items["_seq"].to_pylist()], pa.string()
    )
    return pa.table(columns)

"""Views of a queue, now or in the past, by the views of SQL shared with Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.columns.arrow.arrow_types import schema_of
from spark_queue.commands.rows import Enqueued, columns_of
from spark_queue.errors import OutcomesGoneError
from spark_queue.log.schema import ITEM, OUTCOME, QUEUE_COLUMNS, READY, REFUSED, STATES, user_names
from spark_queue.results import Lag, QueueStats
from spark_queue.sql import log_rows
from spark_queue.sql.arrow_look import ArrowLook
from spark_queue.sql.file_rows import item_files, log_of, once_more, refused_of
from spark_queue.sql.look import HISTORY, STATUS, FrameT, QueueLook, instant_of
from spark_queue.sql.sql_engines import asked_at
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from spark_queue.views.answers import Ends

_SchemaT_co = TypeVar("_SchemaT_co", covariant=True)

#: Columns of listed items, and facts about some of them.
_NOTED = (
    *("_seq", "_state", "_attempts", "_losses", "_deferrals"),
    *("_lease_expires_at", "_available_at"),
)
_NOTES = ("lapsed", "retrying", "delayed")


@dataclass(frozen=True, slots=True)
class QueueViews(Generic[FrameT, _SchemaT_co]):
    """Answers to questions about many items.

    Attributes
    ----------
    look : type of QueueLook
        The engine.
    schema : callable
        Returns the user's columns of a queue.
    outcomes : callable
        Returns what became of each row of an enqueue.
    """

    look: type[QueueLook[FrameT]]
    schema: Callable[[Store], _SchemaT_co]
    outcomes: Callable[[Store, Enqueued], FrameT]
    in_order: Callable[[FrameT], FrameT] = lambda rows: rows

    def status(
        self, store: Store, ends: Ends | None = None, columns: Sequence[str] = STATUS
    ) -> FrameT:
        """Return one row an item, in the order in which they were enqueued."""
        with self.at(store, ends) as at:
            parts = (part.view("status", columns) for part in at.in_parts())
            return self.in_order(at.join(parts))

    def dead(self, store: Store, ends: Ends | None = None) -> FrameT:
        """Return the dead letters, each with its successor."""
        with self.at(store, ends) as at:
            return self.in_order(at.view("dead_letters", (*STATUS, "_successor")))

    def history(self, store: Store, seq: int | None) -> FrameT:
        """Return every transition of an item, oldest first; or of all that the reader sees."""
        which = ("_seq",) if seq is None else ()
        columns = ("log", *which, *HISTORY)
        with self.look(store, seq=seq, has_values=False) as at:
            return at.join(part.view("history", columns) for part in at.in_parts())

    def stats(self, store: Store, ends: Ends, most: float = inf) -> QueueStats:
        """Count a queue as of a step of each log.

        Raises
        ------
        SparkNeededError
            When only Spark reads the logs, or one has more rows than ``most``.
        """
        now = store.clock.now() if ends.at is None else ends.at
        asked = {"now": log_rows.micros(now)}
        with self.at(store, ends, asked=asked, most=most, has_values=False) as at:
            at.share("counted_rows")
            found = {row["state"]: row for row in at.rows("state_counts")}
            counts = {s: found[s]["items"] if s in found else 0 for s in (*STATES, REFUSED)}
            return QueueStats(
                step=ends.head.step,
                at=now,
                paused=store.settings(ends.head).paused,
                **counts,
                redriven=sum(row["redriven"] for row in found.values()),
                oldest_age=_age(found[READY]["oldest"], now) if READY in found else None,
                per_key=at.table("key_stats"),
            )

    def read_outcomes(self, store: Store, done: Enqueued) -> FrameT:
        """Return the outcome of each row of an enqueue.

        Raises
        ------
        OutcomesGoneError
            When what it refused was dropped since.
        """
        refused = done.rows is None and done.duplicates + done.refused > 0
        if refused and refused_of(store, done.step) == 0:
            raise OutcomesGoneError(store.name, done.step)
        return self.outcomes(store, done)

    def lag(self, store: Store) -> Lag:
        """Count the open items of a reader.

        Raises
        ------
        SparkNeededError
            When only Spark counts the bytes of a column, or reads the logs.
        """
        facts, newest = store.registered(), store.queue_head()
        if facts.streams:
            with self.look(store) as at:
                (left,) = at.rows("backlog_bytes")
            return Lag(
                reader=facts.name,
                items=newest.items - facts.since_items,
                bytes=int(left["bytes"]),
                open_items=0,
                age=None,
                steps=newest.step - facts.since_step,
                lost=facts.lost,
                dropped=0,
            )
        with self.look(store) as at:
            (gone,) = at.rows("dropped_count")
        with self.look(store) as at:
            at.fold(Snapshot(store))
            at.share("with_turn")
            (left,) = at.rows("backlog")
        first = left["first_step"]
        return Lag(
            reader=facts.name,
            items=left["items"],
            bytes=int(left["bytes"]),
            open_items=left["claimed"],
            age=_age(left["oldest"], store.clock.now()),
            steps=0 if first is None else newest.step - first + 1,
            lost=facts.lost,
            dropped=gone["items"],
        )

    def listing(
        self,
        store: Store,
        ends: Ends,
        names: Sequence[str],
        limit: int,
        *,
        where: Any = None,
        dead: bool = False,
        most: float = inf,
    ) -> tuple[dict[str, Any], list[Mapping[str, Any]]]:
        """Return counts per state, counts of noted items, and the first items.

        Parameters
        ----------
        names : sequence of str
            Columns shown of an item besides the user's.
        limit : int
            How many are shown: what went wrong comes first.
        where : optional
            Which are meant, as ``cancel`` takes it; all by default.
        dead : bool
            Whether only dead letters are, each with its successor.
        most : float
            Rows up to which each log is read, where that is not left to Spark.
        """
        now = store.clock.now() if ends.at is None else ends.at
        has_values = where is not None or self.look.is_lazy
        columns = (*STATUS, "_successor") if dead else STATUS
        asked = asked_at(now, store.settings(ends.head).config)
        with self.at(store, ends, asked=asked, most=most, has_values=has_values) as at:
            found = at.view("dead_letters" if dead else "status", columns)
            found = found if where is None else at.choose(found, where)
            at.give("found", at.facts_of(found, _NOTED))
            counted = at.rows("state_notes")
            first = [row["seq"] for row in at.rows("first_in_list", limit)]
            shown = [*user_names(store.columns()), *names]
            rows = at.sample(at.choose(found, {"_seq": first}), shown, limit)
        states = {row["state"]: row["items"] for row in counted}
        notes: dict[str, Any] = {name: sum(row[name] for row in counted) for name in _NOTES}
        notes["redriven"] = {row["state"]: row["redriven"] for row in counted if row["redriven"]}
        return {"states": states, **notes}, sorted(rows, key=lambda row: first.index(row["_seq"]))

    def worst_keys(self, store: Store, keys: FrameT, limit: int) -> list[dict[str, Any]]:
        """Return keys with dead letters, then the keys that wait longest."""
        with self.look(store) as at:
            at.give("keys", keys)
            return at.rows("worst_keys", limit)

    def at(self, store: Store, ends: Ends | None, **options: Any) -> QueueLook[FrameT]:
        """Look at both logs up to some step of each."""
        if ends is not None and ends.queue_step is not None:
            options["steps"] = (ends.queue_step, ends.head.step)
        return self.look(store, **options)


def _age(since: int | None, now: datetime) -> timedelta | None:
    """Return how long ago an instant was, in microseconds since 1970; ``None`` if in future."""
    at = now if since is None else instant_of(since)
    return None if since is None or at > now else now - at


def schema(store: Store) -> pa.Schema:
    """Return the user's columns.

    Raises
    ------
    SparkNeededError
        When only Spark reads the tables.
    """
    return schema_of(columns_of(store))


def outcomes(store: Store, done: Enqueued) -> pa.Table:
    """Return the outcome of each row of an enqueue."""
    users = schema(store)
    rows = _step_rows(store, done.step, users) if done.rows is None else done.rows
    rows = rows.filter(pc.is_in(rows["_kind"], pa.array([ITEM, REFUSED]))).sort_by("_seq")
    kept = rows.select([*users.names, "_seq"])
    holder, replaced = rows["_duplicate_of"], pa.nulls(rows.num_rows, pa.int64())
    replaced = rows["_replaces"] if "_replaces" in rows.column_names else replaced
    kept = kept.append_column("outcome", _became(rows, holder, replaced))
    kept = kept.append_column("duplicate_of", pc.coalesce(holder, replaced))
    nothing = pa.nulls(rows.num_rows, pa.string())
    return kept.append_column(
        "holder", rows["_holder"] if "_holder" in rows.column_names else nothing
    )


# rule again: outcome of a row
def _became(rows: pa.Table, holder: pa.ChunkedArray, replaced: Any) -> pa.ChunkedArray:
    """Return what became of each row."""
    is_later = pc.fill_null(pc.greater(holder, rows["_seq"]), False)
    left_out = pc.if_else(is_later, "replaced", "duplicate")
    left_out = pc.if_else(pc.is_null(holder), "refused", left_out)
    entered = pc.if_else(pc.is_null(holder), "replaces", "follows")
    entered = pc.if_else(pc.is_null(replaced), "inserted", entered)
    return pc.if_else(pc.equal(rows["_kind"], ITEM), entered, left_out)


def _step_rows(store: Store, step: int, users: pa.Schema) -> pa.Table:
    """Return the rows of a step of the item log, and of the users' columns all."""
    log = log_of(store, "queue")
    ours = log.columns() if step else QUEUE_COLUMNS.names
    names = [name for name in ("_step", *OUTCOME) if name in ours]
    if not step:
        ours = QUEUE_COLUMNS.arrow
        return pa.unify_schemas([users, pa.schema([ours.field(n) for n in names])]).empty_table()

    def read() -> pa.Table:
        files = [file for file in item_files(log) if file.may_have("_step", step, step)]
        return log.rows_of(files, [*users.names, *names])

    rows = once_more(read)
    return rows.filter(pc.equal(rows["_step"], step))


ARROW_VIEWS = QueueViews(ArrowLook, schema, outcomes)

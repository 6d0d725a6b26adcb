"""A queue on Delta as the durable half of a journaled queue.

Puts are steps of the item log, what the readers did are steps of their status logs, written by the
one front that holds the queue. What a front has written any reader of the queue can go on with,
and the other way round.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import chain
from typing import Any

import pyarrow as pa

from spark_queue.commands import admin, asking, create_drop, readers
from spark_queue.errors import InvalidArgumentError, UnsafeSessionError
from spark_queue.flow import RULES
from spark_queue.log.delta.log import Log
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.heads import QueueHead, StatusHead, following
from spark_queue.log.schema import (
    ACKED,
    CANCELLED,
    DEAD,
    EXPIRED,
    ITEM,
    QUEUE_COLUMNS,
    READY,
    STATUS_COLUMNS,
)
from spark_queue.log.session_options import STALENESS, PlainSession, is_fresh, kept_by
from spark_queue.memory.journal.records import Entry, Group, ReaderOffset, Recovered, Settlements
from spark_queue.reader_config import ReaderConfig
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.steps import Step, is_small, on_items, on_status
from spark_queue.state.store import Store
from spark_queue.stores import journal_tables
from spark_queue.stores.journal_tables import tables_of
from spark_queue.stores.ownership import Ownership


def table(count: int, columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """Return columns of values as a table.

    Parameters
    ----------
    count : int
        How many rows.
    columns : mapping
        For each column a list of as many values, their array, or the one value of all rows.
    schema : pyarrow.Schema
        What the columns are, by name; it may have more, and need not have those that are arrays.
    """
    return pa.table(
        {name: _column(count, values, name, schema) for name, values in columns.items()}
    )


def _column(count: int, values: Any, name: str, schema: pa.Schema) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    kind = schema.field(name).type
    if isinstance(values, list):
        return pa.array(values, kind)
    return pa.repeat(pa.scalar(values, kind), count)


#: Rows of a reader's log from which its position is written again.
_LONG = 200_000

#: Groups after which small files are merged.
_MANY = 200


class DeltaJournal:
    """The durable half of a journaled queue, on the tables of a plain first-in, first-out queue.

    Parameters
    ----------
    store : Store
        The queue, as any reader sees it.
    retention : timedelta, optional
        How long items are kept that all readers are done with; for ever by default.
    archive_to : str, optional
        The table that gets them then.
    native : bool
        Whether steps are written without Spark (:mod:`spark_queue.log.delta_log`).

    Raises
    ------
    InvalidArgumentError
        When the queue is distinct, fair, grouped or has priorities: its order is not that of ids.
        When steps cannot be written without Spark.
    SparkNeededError
        When only Spark reads the tables, or writes the archive, and there is none.
    """

    def __init__(
        self,
        store: Store,
        *,
        retention: timedelta | None = None,
        archive_to: str | None = None,
        native: bool = False,
    ) -> None:
        _require_plain(store)
        if archive_to is not None and isinstance(store.session, PlainSession):
            asking.output(store, archive_to, "archive", "the queue")
        self._store = store.of_reader(0) if store.reader else store
        self._tables = tables_of(self._store)
        #: Returns how many bytes an item counts, as a queue on Delta counts them; it must fit.
        self.size_of = self._tables.measure
        self._ownership = Ownership(self._store, self._tables.release_claimed)
        self._retention = retention
        self._archive_to = archive_to
        self._gens: list[tuple[int, int]] = []
        self._commits = 0
        self._tidied = 0
        if native:
            _write_natively(self._store)

    @property
    def survives(self) -> str:
        """What a step of the queue survives."""
        return kept_by(self._store.session)

    def recover(self) -> Recovered:
        """Take the queue over, release all claims, and return its content."""
        self._ownership.begin(lambda: list(readers.every(self._store)))
        self._gens = self._tables.generations()
        head = self._store.queue_head()
        offsets = [
            journal_tables.offset(self._tables, place) for place in readers.every(self._store)
        ]
        return Recovered(
            last_id=head.last_seq,
            first_id=self._gens[0][0] if self._gens else head.last_seq + 1,
            readers=offsets,
            origins=self._tables.origins(
                min((offset.head for offset in offsets), default=head.last_seq)
            ),
        )

    def commit(self, group: Group[Any]) -> None:
        """Append the puts as one step, then what each reader did as a step of its log.

        Raises
        ------
        FencedError
            When another front has taken the queue over. Nothing of the group was written, or its
            puts alone.
        """
        if group.puts:
            self._put(group.puts)
        for reader, settlements in group.settlements.items():
            if not settlements.is_empty():
                self._settle(self._store.of_reader(reader), settlements, group.heads.get(reader, 0))
        self._commits += 1

    def load(self, first: int, limit: int) -> Sequence[Entry[Any]]:
        """Return the next entries from an id on, in order; an empty answer is the end."""
        last = self._store.queue_head().last_seq
        while first <= last:
            entries = self._tables.entries(first, first + limit - 1)
            if entries:
                return sorted(entries, key=lambda entry: entry.id)
            # Ids are missing here.
            beyond = self._tables.next_id(first + limit)
            first = last + 1 if beyond is None else beyond
        return []

    def add_reader(self, name: str, config: ReaderConfig, *, head: int) -> ReaderOffset:
        """Register a reader that starts behind an id."""
        newest = self._store.queue_head()
        step = newest.step if head >= newest.last_seq else self._tables.last_step(head)
        try:
            place = readers.register(self._store, name, config, step, takes_over=False)
            self._ownership.take_position(place)
            passed = self._tables.ids_after(step, head)
            if passed:
                self._settle(place, Settlements(discarded=passed), head)
            return journal_tables.offset(self._tables, place)
        except BaseException:
            # Registered and never read, it would keep every item for ever.
            with suppress(Exception):
                readers.drop(self._store, name)
            raise

    def change_reader(self, reader: int, name: str, config: ReaderConfig) -> None:
        """Give a reader another name or configuration."""
        readers.change(self._store, reader, name, config)

    def drop_reader(self, reader: int) -> None:
        """Forget a reader."""
        readers.drop(self._store, self._store.queue_head().readers[reader].name)

    # rule again: checkpoint that is due
    def checkpoint(self, passed: int) -> None:
        """Write long positions compactly, merge small files, and drop old generations."""
        del passed  # Whole generations are dropped, by the positions that the tables hold.
        for place in readers.every(self._store):
            if place.status_head().log_rows >= _LONG:
                admin.checkpoint(place)
        if self._commits - self._tidied >= _MANY:
            self._tidied = self._commits
            self._tables.tidy(self._retention, self._archive_to)

    def erase(self) -> None:
        """Remove the queue and everything in it."""
        self._ownership.end_with_the_queue()
        self._store.handle.is_native = False
        create_drop.drop(self._store)

    def close(self) -> None:
        """Give the queue up, so that other processes may write to it."""
        try:
            self._ownership.end()
        finally:
            self._store.handle.is_native = False
            self._store.forget()

    def is_held(self) -> bool:
        """Tell whether no other front can have taken the queue over."""
        return self._ownership.is_held()

    # What is written

    def _put(self, puts: Sequence[Entry[Any]]) -> None:
        def decide(seen: Snapshot) -> Step[QueueHead, tuple[int, float]]:
            before = seen.queue
            self._ownership.require_held(before)
            head = self._after(before, puts)
            return Step(
                head=head,
                rows=self._put_rows(puts, before.gen),
                small=is_small(len(puts)),
                counts={"inserted": len(puts)},
                answer=(before.gen, time.monotonic()),
            )

        gen, at = on_items(self._store, "put", decide)
        self._ownership.was_renewed(at)
        self._note_generation(gen, puts[0].id)

    def _after(self, before: QueueHead, puts: Sequence[Entry[Any]]) -> QueueHead:
        now = self._store.clock.now()
        last = puts[-1].id
        head = following(
            before,
            last_seq=last,
            items=before.items + len(puts),
            tops={0: float(last)},
            gen_since=before.gen_since or now.isoformat(),
        )
        return self._ownership.renew_hold(head)

    def _note_generation(self, gen: int, seq: int) -> None:
        if not self._gens or self._gens[-1][1] != gen:
            self._gens.append((seq, gen))

    def _put_rows(self, puts: Sequence[Entry[Any]], gen: int) -> pa.Table:
        ids = pa.array([put.id for put in puts], pa.int64())
        columns = {
            "_gen": gen,
            "_kind": ITEM,
            "_priority": 0,
            "_cost": 1.0,
            "_seq": ids,
            "_round": ids.cast(pa.float64()),
            "_enqueued_at": [put.added_at for put in puts],
            "_expires_at": [put.expires_at for put in puts],
            "_errors": [put.errors or None for put in puts],
            "_body": [put.origin for put in puts],
            **self._tables.values(puts),
        }
        return table(len(puts), columns, QUEUE_COLUMNS.arrow)

    def _settle(self, place: Store, settlements: Settlements, done_to: int) -> None:
        ended = {
            ACKED: settlements.acked,
            EXPIRED: settlements.expired,
            CANCELLED: settlements.discarded,
            DEAD: settlements.punted,
        }
        total = sum(map(len, ended.values())) + len(settlements.returned)
        counts = {state: len(seqs) for state, seqs in ended.items() if seqs}

        def decide(seen: Snapshot) -> Step[StatusHead, None]:
            before = seen.status
            self._ownership.require_held(before)
            head = following(
                before,
                finished=before.finishing(counts),
                log_rows=before.log_rows + total,
                pointers=before.advanced({0: (float(done_to), done_to)}),
            )
            rows = self._settled_rows(ended, settlements.returned)
            return Step(head=head, rows=rows, small=is_small(total), counts=counts, answer=None)

        on_status(place, "settle", decide)

    def _settled_rows(
        self, ended: Mapping[str, Sequence[int]], returned: Mapping[int, int]
    ) -> pa.Table:
        seqs = [*chain.from_iterable(ended.values()), *returned]
        states = [state for state, of_state in ended.items() for _ in of_state]
        columns = {
            "_kind": ITEM,
            "_losses": 0,
            "_at": self._store.clock.now(),
            "_priority": 0,
            "_cost": 1.0,
            "_seq": seqs,
            "_round": [float(seq) for seq in seqs],
            "_state": states + [READY] * len(returned),
            "_attempts": [0] * len(states) + list(returned.values()),
            "_gen": [self._gen_of(seq) for seq in seqs],
        }
        return table(len(seqs), columns, STATUS_COLUMNS.arrow)

    def _gen_of(self, seq: int) -> int:
        after = bisect_right(self._gens, seq, key=lambda since: since[0])
        return self._gens[after - 1][1] if after else 0


def _require_plain(store: Store) -> None:
    config = store.of_reader(0).settings(store.of_reader(0).status_head()).config
    for name in ("dedup_key", "fair_key", "group_key", "priority", *RULES):
        if getattr(config, name):
            raise InvalidArgumentError(
                f"queue {store.name!r} has {name}: a journaled queue is first in, first out; "
                "use DurableQueue"
            )


def _write_natively(store: Store) -> None:
    """Commit steps without Spark from now on, unless Spark has their rows.

    Raises
    ------
    InvalidArgumentError
        When the queue is not on this machine's disk, or ``deltalake`` is not installed.
    UnsafeSessionError
        When the session may read a table as it was some time ago.
    """
    if not is_fresh(store.session):
        raise UnsafeSessionError(STALENESS, "native commits would be read late; unset it")
    with store.writing("queue"):
        _require_appends(store.queue)
    store.handle.is_native = True


def _require_appends(log: Log[Any]) -> None:
    directory = log.find_directory()
    if directory is None or not isinstance(log, DeltaLog):
        raise InvalidArgumentError(
            f"native is True, and {log.address.target!r} is not on this machine's disk: on a "
            "shared store steps are committed by Spark"
        )
    if "%" in str(directory):
        raise InvalidArgumentError(
            f"native is True, and deltalake takes the % in {str(directory)!r} for an escape: use "
            "another path, or let Spark commit"
        )
    log.require_appends()

"""Enqueue: stage the frame once, decide its duplicates and tags, append it as one step.

The frame is evaluated once, into a stage; everything after that reads the stage. What depends on
other steps (who holds a key, how far a key's tags have come) is looked up in small frames, again
for each try.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_queue.commands import batches, pending_enqueue, readers, rows
from spark_queue.commands.batches import SourceBatch
from spark_queue.commands.rows import Enqueued, MarkedRows
from spark_queue.errors import InvalidArgumentError, SparkNeededError
from spark_queue.log.heads import QueueHead, following
from spark_queue.log.schema import CHAINED, REFUSED, carries_traces
from spark_queue.log.step_events import logger
from spark_queue.sql import admission
from spark_queue.sql.decisions import TAKEN, Frame, GivenRows
from spark_queue.sql.entry_rows import EnqueueState
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state import enqueue_decision, replica_choice
from spark_queue.state.enqueue_decision import Entered
from spark_queue.state.request import EnqueueFacts, EnqueueRules, duplicates_error
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.steps import (
    KNOWN_FOR,
    Answer,
    Decide,
    Step,
    is_small,
    known_first,
    on_items,
)
from spark_queue.state.store import Store
from spark_queue.state.window import TooManyItemsError
from spark_queue.tracing import Traces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_queue.columns.columns import OrderBy


#: What rows may have beside the user's columns, and be decided here: what they were, before.
DECIDABLE = frozenset({"_origin", "_round", "_errors", "_enqueued_at", "_body"})

_NOTHING = Enqueued(step=0, inserted=0, duplicates=0)


def enqueue(
    store: Store,
    df: object,
    *,
    rules: EnqueueRules,
    order_by: OrderBy = None,
    extra: Sequence[str] = (),
    batch: SourceBatch | None = None,
    trace: Traces = None,
    action: str = "enqueue",
    dry_run: bool = False,
) -> Enqueued:
    """Append the rows of a frame to the item log as one step.

    With ``batch``, the step says which batch of which source it is. A batch that comes again is
    found there: nothing is written, and the answer says so. With ``extra``, the frame has
    these columns of the log as well. With ``trace``, the rows belong to it, or each to its own.
    With ``dry_run`` the step is decided, and not written.
    """
    started = time.monotonic()
    at, frame = known_first(store, lambda: _check(store, df, order_by, extra, trace))
    return commit(at, frame, rules, batch=batch, started=started, action=action, dry_run=dry_run)


def _check(
    store: Store, df: object, order_by: OrderBy, extra: Sequence[str], trace: Traces
) -> tuple[Snapshot, Frame]:
    """Return rows that were checked, and the queue as of then."""
    at = Snapshot(store)
    is_decidable = set(extra) <= DECIDABLE and at.is_decidable
    if is_decidable and extra and isinstance(df, pa.Table):
        try:
            return at, rows.checked_again(store, df, extra)
        except SparkNeededError:
            if not at.has_spark:
                raise
    if is_decidable and not extra:
        here = rows.checked_here(at, df, order_by)
        if here is not None:
            return at, here.with_trace(trace)
    given = GivenRows(df, at.settings, order_by, extra, _trace_for(store, trace), is_decidable)
    return at, planner_of(store).frame(given)


def _renew_far(at: Snapshot) -> Snapshot:
    """Return a new snapshot of a far queue: rows are checked over heads known some time before."""
    return Snapshot(at.store) if at.store.queue.is_remote else at


def commit(
    at: Snapshot,
    frame: Frame,
    rules: EnqueueRules,
    *,
    batch: SourceBatch | None = None,
    started: float | None = None,
    action: str = "enqueue",
    dry_run: bool = False,
) -> Enqueued:
    """Append checked rows to the item log as one step; as :func:`enqueue`."""
    store, at = at.store, _renew_far(at)
    now = store.clock.now()
    # Before other writers have to wait for this step: a large frame takes long.
    if not frame.count():
        done = _NOTHING if batch is None else _note(store, batch, now)
        batches.require_same(store.name, batch, done.repeated, frame.count, rules.on_mismatch)
        return done
    # Heads grow by new sources alone.
    grows = batch is not None and batch.source not in at.queue.streams
    command = _Enqueue(frame, now, rules, batch)
    if dry_run:
        return _foresee(command.decide(Snapshot(store)))

    def make(
        decide: Decide[Enqueued],
        tell: Callable[[Enqueued], None] | None = None,
        rest: Callable[[], bool] = lambda: False,
    ) -> Enqueued:
        old = _older_than(store)
        tries = partial(on_items, store, action, decide, at=at, started=started, older_than=old)
        return tries(tell=tell, rest=rest)

    def decide_all(marked: MarkedRows, at: Snapshot) -> Answer[Enqueued]:
        return _Enqueue(marked, store.clock.now(), rules, None).decide(at)

    shared = None
    if batch is None and pending_enqueue.may_share(frame, store, rules):
        shared = pending_enqueue.share_step(store, frame, rules, decide_all, make)
    done = make(command.decide) if shared is None else shared
    if done.step:
        _trim(at)
    if grows:
        batches.forget_silent(store, now)
    batches.require_same(store.name, batch, done.repeated, frame.count, rules.on_mismatch)
    return done


def _older_than(store: Store) -> float:
    """Return how many seconds old the status log's head may be."""
    if not store.queue.is_remote:
        return 0.0
    with store.queue.still(KNOWN_FOR), store.status.still(KNOWN_FOR):
        at = Snapshot(store)
        is_free = at.settings.config.dedup_key is None and not pending_enqueue.has_bounded_room(at)
        return KNOWN_FOR if is_free else 0.0


def _foresee(decided: Answer[Enqueued]) -> Enqueued:
    """Return a step's answer with its rows; from Spark only the refused ones."""
    rows = decided.rows if isinstance(decided, Step) else None
    if rows is not None and not isinstance(rows, pa.Table):
        refused = rows.where(f"_kind = '{REFUSED}'").select("_kind", "_origin", "_duplicate_of")
        rows = refused.orderBy("_origin").limit(TAKEN).toArrow()
    return replace(decided.answer, rows=rows)


def _note(store: Store, batch: SourceBatch, now: datetime) -> Enqueued:
    """Note the source of an empty batch, so that its checkpoint is known as this queue's."""

    def decide(at: Snapshot) -> Answer[Enqueued]:
        done = batches.find_done(at, batch)
        if done is not None:
            return Answer(answer=Enqueued.again(batch, done))
        if batch.source in at.queue.streams:
            return Answer(answer=_NOTHING)
        streams = batches.add_mark(at, batch, now)
        return Step(head=following(at.queue, streams=streams), answer=_NOTHING)

    return on_items(store, "enqueue", decide)


def _trace_for(store: Store, trace: Traces) -> Traces:
    """Return the trace, or ``None`` in a queue without a column for it."""
    return trace if trace is not None and carries_traces(store.columns()) else None


def _trim(at: Snapshot) -> None:
    """Drop the oldest items of readers that hold too many; errors are only logged."""
    try:
        readers.full(at)
    except Exception:  # noqa: BLE001 - the step it follows stands
        name = at.store.name
        logger.exception("%s: a reader keeps more than it may until the next enqueue", name)


@dataclass(frozen=True, slots=True)
class _Enqueue:
    """A frame on its way into the item log."""

    frame: Frame
    now: datetime
    rules: EnqueueRules
    batch: SourceBatch | None

    def decide(self, at: Snapshot) -> Answer[Enqueued]:
        """Decide the step: in this process, or by a planner."""
        last = None if self.batch is None else batches.find_done(at, self.batch)
        if self.batch is not None and last is not None:
            return Answer(answer=Enqueued.again(self.batch, last))
        rules = self.rules.within(at.settings.config)
        if rules.replacing is not None and at.settings.format < CHAINED:
            raise InvalidArgumentError(
                f"on_duplicate is 'replace', which came with format {CHAINED}, and "
                f"{at.store.name!r} is of format {at.settings.format}; upgrade it"
            )
        # Before the cache's lock: it may create a reader's log, and wait for that.
        every = readers.all_of(at)
        found = self._in_python(at, every, rules)
        if found is None:
            return self._by_planner(at, every, rules)
        return self._step_of(at, found, rules)

    def _in_python(
        self, at: Snapshot, every: Sequence[Snapshot], rules: EnqueueRules
    ) -> Entered | None:
        """Decide a small step in this process; ``None`` where a planner has to."""
        since = rules.redriven_since
        if since is not None and at.queue.step > since:
            return None
        rows = self.frame.rows
        if rows is None or not at.is_decidable:
            return None
        if rows.num_rows > replica_choice.LARGE and at.are_files_read:
            # They are more than are decided well one by one.
            return None
        pointers = readers.slowest(at, every)
        with at.cache.lock:
            replica = replica_choice.of_all(at, every)
            if replica is None:
                return None
            with suppress(TooManyItemsError):
                return enqueue_decision.decide_entry(
                    replica, at.settings, rows, at.queue, pointers, self.now, rules.replacing
                )
        return None

    def _step_of(
        self, at: Snapshot, found: Entered, rules: EnqueueRules
    ) -> Step[QueueHead, Enqueued]:
        if found.duplicates and rules.raises_duplicates:
            raise duplicates_error(len(found.duplicates), *found.first_duplicate())
        facts = found.facts()
        head = self._following(at, facts, self.batch)
        answer = Enqueued.of(facts, head.step, found.rows)
        return Step(head=head, rows=found.rows, counts=facts.counts(), answer=answer)

    def _by_planner(
        self, at: Snapshot, every: Sequence[Snapshot], rules: EnqueueRules
    ) -> Step[QueueHead, Enqueued]:
        rows, facts = self._plan_by_tables(at, every, rules)
        head = self._following(at, facts, self.batch)
        logged = rows if isinstance(rows, pa.Table) else None
        return Step(
            head=head,
            rows=rows,
            small=is_small(facts.rows),
            counts=facts.counts(),
            answer=Enqueued.of(facts, head.step, logged),
            engine=facts.engine,
        )

    def _plan_by_tables(
        self, at: Snapshot, every: Sequence[Snapshot], rules: EnqueueRules
    ) -> tuple[DataFrame | pa.Table, EnqueueFacts]:
        """Return the rows of the step as SQL decides them, and the facts of them."""
        entry = EnqueueState(
            store=at.store,
            before=at.queue,
            pointers=readers.slowest(at, every),
            settings=at.settings,
            rules=rules,
            readers=[reader.store for reader in every],
            now=self.now,
        )
        admit = partial(admission.admit, self.frame, entry)
        return planner_of(at.store).decide("to enqueue into", admit)

    def _following(self, at: Snapshot, facts: EnqueueFacts, batch: SourceBatch | None) -> QueueHead:
        before, streams = at.queue, at.queue.streams
        if batch is not None:
            streams = batches.add_mark(at, batch, self.now, facts)
        return following(
            before,
            last_seq=before.last_seq + facts.rows,
            items=before.items + facts.count_inserted(),
            refused=before.refused + facts.duplicates + facts.full,
            tops=_higher(before.tops, facts.tops),
            status_step=at.status.step,
            gen_since=before.gen_since or self.now.isoformat(),
            streams=streams,
            chain_step=before.step + 1 if facts.replacing else before.chain_step,
        )


def _higher(a: Mapping[int, float], b: Mapping[int, float]) -> dict[int, float]:
    return {p: max(a.get(p, 0.0), b.get(p, 0.0)) for p in {*a, *b}}


def outcomes(store: Store, done: Enqueued) -> DataFrame:
    """Return the outcome of each row of an enqueue, as it was logged.

    Returns
    -------
    DataFrame
        The user's columns, then ``_seq``, ``outcome`` (``inserted``, ``duplicate``, or ``refused``
        where a reader was full), ``duplicate_of`` (the seq that holds the key, or null) and
        ``holder``.
    """
    return planner_of(store).outcomes(done.step, done.rows)

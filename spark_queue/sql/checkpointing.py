"""Rows that a checkpoint of the status log keeps."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from spark_queue.config import QueueConfig
from spark_queue.flow import is_paced
from spark_queue.log.heads import Checkpoint, following
from spark_queue.log.schema import OPEN_LANE
from spark_queue.log.settings import SLACK, Settings
from spark_queue.rules.pacing import Debt, Paces, instant_of
from spark_queue.sql import log_rows
from spark_queue.sql.decisions import StagedCheckpoint
from spark_queue.sql.limit_pass import KeysInFlight
from spark_queue.sql.sql_engines import HERE, SqlEngine, give_order, give_states
from spark_queue.state.claim_decision import debt_rows
from spark_queue.state.replica_rows import status_table
from spark_queue.state.snapshot import Snapshot

#: How far ahead of the pointer an item may be that another weight puts behind it: a last
#: digit. At least; where turns have few digits behind the point, it is more.
_NEAR = 1e-3

ASKED = pa.schema(
    [
        ("since_step", pa.int64()),
        ("queue_step", pa.int64()),
        ("checkpoint_step", pa.int64()),
        ("reach", pa.float64()),
    ]
)

_LINES = pa.schema(
    [
        ("priority", pa.int32()),
        ("fair_key", pa.string()),
        ("regular", pa.float64()),
        ("late", pa.float64()),
    ]
)


def stage(
    at: Snapshot,
    changed: Settings | None,
    beside: pa.Table | None,
    by: SqlEngine = HERE,
) -> StagedCheckpoint:
    """Return the rows of a checkpoint as of a step; see :meth:`SqlPlanner.checkpoint`.

    Raises
    ------
    TooManyRowsError
        When more rows would be read than the engine takes.
    """
    store, head, settings = at.store, at.status, at.settings
    queue_step = _queue_step(at)
    priorities = sorted(at.queue.tops)
    with closing(by.start({})) as database:
        has_lines = settings.config.fair_key is not None
        lines = ("line_turns",) if has_lines else ()
        give_states(database, by.logs.states_of(store, head), "last_steps", "newest_rows", *lines)
        made = head.checkpoint
        near = max([_NEAR, *(SLACK * turn for turn, _ in head.pointers.values())])
        asked = (at.facts.since_step, queue_step, made.queue_step, near)
        database.give("asked", pa.table([[one] for one in asked], schema=ASKED))
        database.give("weights_after", log_rows.weights_of(changed or settings, priorities))
        give_order(database.give, head, settings, priorities)
        # What was touched keeps the times that its newest row has.
        database.give("times", log_rows.NO_TIMES)
        database.give("entered", by.logs.entered_of(store, log_rows.Within(head, settings, near)))
        if not has_lines:
            database.give("line_turns", _LINES.empty_table())
        rows = by.logs.status_rows(database.find("checkpoint_rows"), {"gen": OPEN_LANE})
    debts = _debts(at, (changed or settings).config, by) if is_paced(settings.config) else None
    for others in (debts, beside):
        rows = rows if others is None else by.logs.joined(others, rows)
    step = head.step + 1
    checkpoint = Checkpoint(step=step, queue_step=queue_step, pointers=head.pointers)
    return StagedCheckpoint(rows=rows, head=following(head, log_rows=0, checkpoint=checkpoint))


# rule again: debt under a changed rate
def _debts(at: Snapshot, config: QueueConfig, by: SqlEngine) -> pa.Table | None:
    """Return rows of what keys owe that still counts, in units as before."""
    owed = KeysInFlight(at.settings.config)
    owed.owe(by.logs.debts_of(at.store, at.status))
    instant, after = instant_of(at.store.clock.now().timestamp()), Paces(config)
    after.keep(owed.bounds.paces, instant)
    # What no longer counts by these settings is said once more: processes that go on know it.
    kept = {
        (by, key): replace(debt, tat=0)
        for by, key, debt in _counting(owed.bounds.paces, at, instant)
    }
    kept |= {(by, key): debt for by, key, debt in _counting(after, at, instant)}
    rows = [
        {**row, "_gen": OPEN_LANE} for row in debt_rows((*of, debt) for of, debt in kept.items())
    ]
    return status_table(rows) if rows else None


def _counting(paces: Paces, at: Snapshot, now: int) -> tuple[tuple[str, Hashable, Debt], ...]:
    """Return the debts that still count."""
    in_flight = at.status.claimed > 0
    return paces.name_debts(
        {
            key: debt
            for key, debt in paces.debts.items()
            if paces.counts(key, debt, now, in_flight=in_flight)
        }
    )


def _queue_step(at: Snapshot) -> int:
    """Return the newest step of the item log."""
    if at.are_files_read:
        return at.queue.step
    newest = at.store.queue.head()
    return 0 if newest is None else newest.step

"""The columns of the two logs, beside the user's own.

Every row carries its ``_step``; rows of one step were committed together, and steps are numbered
without a gap. ``_gen`` is the partition: items in generations from 0 up, and lanes below zero for
what a scan of the items should never touch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import lru_cache

from spark_queue.errors import SchemaMismatchError
from spark_queue.log.log_columns import Columns, Input, LogColumn, column_names, fields_of, json_of

#: The version of this layout. A queue stores it; an older library refuses a newer queue.
#: 1: keys as Spark casts them to a string. 2: keys with one text (:mod:`delta.input.columns`).
#: 3: a column of the item log for the trace that an item belongs to.
#: 4: a column of both logs for the failures after which an item is dead; one row for a renewal.
#: 5: a mark of a source says what its last batch did, and may leave the head.
#: 6: columns of both logs for bounded keys, their units and the chains of items that
#: replace each other; of the status log for deferrals and debts; the grace of leases; how far the
#: work is.
FORMAT_VERSION = 6

#: The formats from which on keys have one text, items a trace, and a limit of their own.
ONE_TEXT, TRACED, LIMITED = 2, 3, 4

#: The format from which on a renewal is one row, for all that its lease still holds.
RENEWED = 4

#: The format from which on the mark of a source says when its batch came, and what it did.
MARKED = 5

#: The format from which on items replace each other.
CHAINED = 6

#: The column that came with format 3: a queue of an older one has it when it was upgraded.
TRACE = "_trace"

#: Lanes: heads of steps, configuration, last tags of keys and groups; refused rows; checkpoints;
#: renewals, and debts of keys; sources that have left the head.
META_LANE = -1
REFUSED_LANE = -2
OPEN_LANE = -3
RENEWAL_LANE = -4
SOURCE_LANE = -5

#: What a row is.
HEAD = "head"
CONFIG = "config"
ITEM = "item"
REFUSED = "refused"
KEY = "key"
GROUP = "group"
OPEN = "open"
SERVED = "served"
RENEWAL = "renewal"
PROGRESS = "progress"
RATE = "rate"
SOURCE = "source"

#: States of an item. *Delayed* and *blocked* are not states: they are reasons not to run.
READY = "ready"
CLAIMED = "claimed"
ACKED = "acked"
DEAD = "dead"
EXPIRED = "expired"
CANCELLED = "cancelled"
TERMINAL = (ACKED, DEAD, EXPIRED, CANCELLED)
STATES = (READY, CLAIMED, *TERMINAL)

#: Marks, in a schema, a column that the queue does not know: somebody has added it to its table.
FOREIGN = "spark_queue.foreign"


def mark_foreign(schema: str, users: Collection[str]) -> str:
    """Return the schema of an item log whose columns of others than these users are marked."""
    fields = fields_of(schema)
    for field in fields:
        if field["name"] not in users and field["name"] not in QUEUE_COLUMNS.names:
            field["metadata"] = {**(field.get("metadata") or {}), FOREIGN: True}
    return json_of(fields)


def foreign_names(schema: str) -> list[str]:
    """Return the columns of a schema that are marked so."""
    return [field["name"] for field in fields_of(schema) if FOREIGN in field["metadata"]]


def is_item_log(schema: str) -> bool:
    """Tell whether a schema is one of an item log."""
    return "_dedup_key" in column_names(schema)


@lru_cache
def user_names(schema: str) -> tuple[str, ...]:
    """Return the user's columns of an item log, in their order."""
    others = {*QUEUE_COLUMNS.names, *foreign_names(schema)}
    return tuple(name for name in column_names(schema) if name not in others)


#: What says of every row what it is.
_LOG = [
    LogColumn("_gen", "int", "the generation of the item, or below zero the lane of the row"),
    LogColumn("_step", "bigint", "the step that wrote the row"),
    LogColumn(
        "_kind",
        "string",
        "item, refused, key, group, head, config, open, served, renewal, progress, rate or source",
    ),
    LogColumn("_seq", "bigint", "the number of the item"),
]

#: What an item is served by, in both logs: a claim reads one table for all that was touched.
_SCHEDULE = [
    LogColumn("_priority", "int", "its priority; the highest is served first"),
    LogColumn("_round", "double", "its turn among the items of its priority"),
    LogColumn(
        "_cost",
        "double",
        "the share of a turn that it takes",
        Input(name="cost", default=1.0, above=0, moves=True),
    ),
    LogColumn(
        "_max_attempts",
        "bigint",
        "the failures after which it is dead, instead of the queue's",
        Input(name="max_attempts", least=1, moves=True),
        since=LIMITED,
        stays=True,
    ),
    LogColumn("_fair_key", "string", "the key that turns are shared by"),
    LogColumn("_group_key", "string", "the key whose items run in order"),
    LogColumn("_flow_keys", "string", "its other bounded keys, in JSON", since=6, stays=True),
    LogColumn(
        "_units", "string", "the units that it takes of each rate, in JSON", since=6, stays=True
    ),
    LogColumn(
        *("_chain", "bigint", "the first of the items that replace each other, with it"),
        since=6,
        stays=True,
    ),
    LogColumn(
        "_available_at",
        "timestamp",
        "the time before which it is not claimed",
        Input(name="available_at"),
    ),
    LogColumn(
        *("_expires_at", "timestamp", "the time from which it is not worth doing"),
        Input(name="expires_at"),
        stays=True,
    ),
    LogColumn("_enqueued_at", "timestamp", "when it was enqueued", stays=True),
]

#: Columns of the ``queue`` log before the user's.
QUEUE_COLUMNS = Columns(
    [
        *_LOG,
        *_SCHEDULE,
        LogColumn("_dedup_key", "string", "the key that may be in the queue once"),
        LogColumn("_dedup_hash", "bigint", "a hash of it, by which files are skipped"),
        LogColumn("_duplicate_of", "bigint", "the item that has the key of a refused row"),
        LogColumn("_origin", "bigint", "the item that it was before a redrive or an undo"),
        LogColumn("_errors", "int", "failures that it came with"),
        LogColumn("_body", "string", "the head or the origin of the row, as text"),
        LogColumn(TRACE, "string", "the trace that it belongs to", since=TRACED),
        LogColumn("_replaces", "bigint", "the item that its put replaced or follows", since=6),
        LogColumn(
            "_holder",
            "string",
            "of a refused row, whether the item that has its key waits, is busy or over",
            since=6,
        ),
        LogColumn("_chain_at", "timestamp", "when the first of its chain was put", since=6),
    ]
)

#: Columns of the ``status`` log. What places an item in the order is copied from its item row, so
#: that a claim reads one table for everything that was touched, and files can be skipped.
STATUS_COLUMNS = Columns(
    [
        *_LOG,
        LogColumn("_state", "string", "the state that it came to"),
        LogColumn("_lease", "bigint", "the claim that holds it, or that settled it"),
        LogColumn("_attempts", "int", "how often it failed"),
        LogColumn("_losses", "int", "how often its lease was lost"),
        LogColumn("_deferrals", "int", "how often its handler deferred it", since=6),
        LogColumn("_turn", "double", "the turn at which it was claimed"),
        LogColumn("_overdue", "boolean", "whether the order had passed it then"),
        LogColumn("_claim_id", "string", "the id of that claim"),
        LogColumn("_worker_id", "string", "the worker that claimed it"),
        LogColumn("_at", "timestamp", "when the step was made"),
        LogColumn("_lease_expires_at", "timestamp", "when its lease ends"),
        LogColumn("_error", "string", "why it failed or ended"),
        *_SCHEDULE,
        LogColumn("_item_gen", "int", "the generation of the item, in a checkpoint"),
        LogColumn("_body", "string", "a head, settings, an output or a progress, as text"),
        LogColumn("_by", "string", "the key by which a rate goes", since=6),
        LogColumn("_key", "string", "the text of a key of it", since=6),
        LogColumn("_tat", "bigint", "when the key owes no units, in nanoseconds", since=6),
        LogColumn(
            "_refunds", "bigint", "what came back to the key in all, in nanoseconds", since=6
        ),
    ]
)

#: What places an item in the order of service, in both logs.
SCHEDULE = tuple(column.name for column in _SCHEDULE)

#: Those of each log that are of a later format than the first, and that rows without them are read
#: with.
_LATER = {
    which: Columns([c for c in columns.columns if c.since > 1 and c.name != TRACE])
    for which, columns in (("queue", QUEUE_COLUMNS), ("status", STATUS_COLUMNS))
}


def later_of(there: Collection[str]) -> Columns:
    """Return the later columns of the log that has some: to an older one they are null."""
    if "_round" not in there:
        return Columns([])
    return _LATER["queue" if "_dedup_key" in there else "status"]


#: What of it is shown of an item; its keys are shown beside.
SHOWN = tuple(name for name in SCHEDULE if name not in ("_fair_key", "_group_key"))

#: What a fold keeps of an item.
STATE = (
    "_seq",
    "_gen",
    "_step",
    "_state",
    "_lease",
    "_attempts",
    "_losses",
    "_deferrals",
    "_claim_id",
    "_worker_id",
    "_lease_expires_at",
    "_error",
    *SCHEDULE,
)

#: What a fold reads of a row of the status log.
RECENT = ("_kind", *STATE, "_turn", "_overdue")

#: What says what became of a row.
OUTCOME = ("_kind", "_seq", "_duplicate_of", "_replaces", "_holder")

#: Columns that rows may have beside the queue's own, by their names there.
INPUTS = {column.input.name: column for column in _SCHEDULE if column.input is not None}

#: What an item entered with and keeps: rows that a front writes of it leave that out.
ENTERED_WITH = tuple(column.name for column in _SCHEDULE if column.stays)

#: Those whose values have a bound, by the names that they have in the log.
BOUNDED = {
    column.name: column.input
    for column in INPUTS.values()
    if column.input is not None and column.input.is_bounded
}

#: What those columns hold.
OPTIONAL_COLUMNS = Columns([replace(column, name=name) for name, column in INPUTS.items()])


def inputs_of(users: Collection[str]) -> dict[str, LogColumn]:
    """Return the inputs of a queue; a user's column that is older than one hides it."""
    return {name: column for name, column in INPUTS.items() if name not in users}


def moves_of(users: Collection[str]) -> dict[str, str]:
    """Return those that a redriven or forwarded item keeps, by the names that the log has."""
    inputs = inputs_of(users).items()
    return {c.name: name for name, c in inputs if c.input is not None and c.input.moves}


def later_than(version: int, columns: Columns) -> list[LogColumn]:
    """Return those of some columns that a format after one has brought."""
    return [column for column in columns.columns if column.since > version]


def format_of(names: Collection[str]) -> int:
    """Return the newest format of whose columns an item log has all."""
    missing = [column.since for column in QUEUE_COLUMNS.columns if column.name not in names]
    return min(missing, default=FORMAT_VERSION + 1) - 1


#: Columns whose minimum and maximum are kept per file, so that scans skip files.
SKIPPING_COLUMNS = "_step,_kind,_seq,_priority,_round,_available_at"


def carries_traces(columns: str) -> bool:
    """Tell whether items of a log can name their trace; its columns are a schema in JSON."""
    return TRACE in column_names(columns)


def require_inputs(columns: str, given: Iterable[str]) -> None:
    """Check that rows with some columns have no input that came after their log.

    Raises
    ------
    SchemaMismatchError
        When they have one that the log has no column for; it names that.
    """
    later = [name for name in given if name in INPUTS and INPUTS[name].since > 1]
    there = column_names(columns) if later else ()
    for name in later:
        # A user's column may be older than the input of its name.
        if name not in there and INPUTS[name].name not in there:
            why = f"came with format {INPUTS[name].since}, the queue is of an older one: upgrade it"
            raise SchemaMismatchError(name, why)

"""The columns of the two logs, beside the user's own.

Every row carries its ``_step``; rows of one step were committed together, and steps are numbered
without a gap. ``_gen`` is the partition: items in generations from 0 up, and lanes below zero for
what a scan of the items should never touch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

#: The version of this layout. A queue stores it; an older library refuses a newer queue.
#: 1: keys as Spark casts them to a string. 2: keys with one text (:mod:`delta.input.key_text`).
#: 3: a column of the item log for the trace that an item belongs to.
FORMAT_VERSION = 3

#: The format from which on keys have one text, and the one that brought traces.
ONE_TEXT, TRACED = 2, 3

#: The column that came with format 3: a queue of an older one has it when it was upgraded.
TRACE = "_trace"

#: Lanes: heads of steps, configuration, last tags of keys and groups; refused rows; checkpoints.
META_LANE = -1
REFUSED_LANE = -2
OPEN_LANE = -3

#: What a row is.
HEAD = "head"
CONFIG = "config"
ITEM = "item"
REFUSED = "refused"
KEY = "key"
GROUP = "group"
OPEN = "open"
SERVED = "served"

#: States of an item. *Delayed* and *blocked* are not states: they are reasons not to run.
READY = "ready"
CLAIMED = "claimed"
ACKED = "acked"
DEAD = "dead"
EXPIRED = "expired"
CANCELLED = "cancelled"
TERMINAL = (ACKED, DEAD, EXPIRED, CANCELLED)
STATES = (READY, CLAIMED, *TERMINAL)

#: What a column of ours is to Arrow, by its type in DDL.
_ARROW = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}

#: Types that Spark writes otherwise in a schema.
_WRITTEN = {"int": "integer", "bigint": "long"}


@dataclass(frozen=True)
class Columns:
    """Columns that belong to the queue, each with its type as DDL names it."""

    kinds: Sequence[tuple[str, str]]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(name for name, _ in self.kinds)

    @cached_property
    def arrow(self) -> pa.Schema:
        """What they are to Arrow."""
        return pa.schema([(name, _ARROW[kind]) for name, kind in self.kinds])

    @cached_property
    def json(self) -> str:
        """What they are to Spark, as it writes a schema."""
        return json_of([_field(name, kind) for name, kind in self.kinds])


def json_of(fields: Sequence[Mapping[str, Any]]) -> str:
    """Return columns as Spark writes a schema."""
    return json.dumps({"type": "struct", "fields": list(fields)})


def fields_of(schema: str) -> list[dict[str, Any]]:
    """Return the columns of a schema that Spark has written."""
    fields: list[dict[str, Any]] = json.loads(schema)["fields"]
    return fields


@lru_cache
def column_names(schema: str) -> tuple[str, ...]:
    """Return the names of the columns of such a schema."""
    return tuple(field["name"] for field in fields_of(schema))


def _field(name: str, kind: str) -> dict[str, Any]:
    written = _WRITTEN.get(kind, kind)
    return {"name": name, "type": written, "nullable": True, "metadata": {}}


_SCHEDULE = [
    ("_priority", "int"),
    ("_round", "double"),
    ("_cost", "double"),
    ("_fair_key", "string"),
    ("_group_key", "string"),
    ("_available_at", "timestamp"),
    ("_expires_at", "timestamp"),
    ("_enqueued_at", "timestamp"),
]

_LOG = [
    ("_gen", "int"),
    ("_step", "bigint"),
    ("_kind", "string"),
    ("_seq", "bigint"),
]

#: Columns of the ``queue`` log before the user's.
QUEUE_COLUMNS = Columns(
    [
        *_LOG,
        *_SCHEDULE,
        ("_dedup_key", "string"),
        ("_dedup_hash", "bigint"),
        ("_duplicate_of", "bigint"),
        ("_origin", "bigint"),
        ("_errors", "int"),
        ("_body", "string"),
        (TRACE, "string"),
    ]
)

#: Columns of the ``status`` log. What places an item in the order is copied from its item row, so
#: that a claim reads one table for everything that was touched, and files can be skipped.
STATUS_COLUMNS = Columns(
    [
        *_LOG,
        ("_state", "string"),
        ("_lease", "bigint"),
        ("_attempts", "int"),
        ("_losses", "int"),
        ("_turn", "double"),
        ("_overdue", "boolean"),
        ("_claim_id", "string"),
        ("_worker_id", "string"),
        ("_at", "timestamp"),
        ("_lease_expires_at", "timestamp"),
        ("_error", "string"),
        *_SCHEDULE,
        ("_item_gen", "int"),
        ("_body", "string"),
    ]
)

#: What places an item in the order of service, in both logs.
SCHEDULE = tuple(name for name, _ in _SCHEDULE)

#: What a fold keeps of an item.
STATE = (
    "_seq",
    "_gen",
    "_step",
    "_state",
    "_lease",
    "_attempts",
    "_losses",
    "_claim_id",
    "_worker_id",
    "_lease_expires_at",
    "_error",
    *SCHEDULE,
)

#: What a fold reads of a row of the status log.
RECENT = ("_kind", *STATE, "_turn", "_overdue")

#: Columns that a user's frame may add to the queue's schema, and where they go.
OPTIONAL_INPUTS = {"available_at": "_available_at", "expires_at": "_expires_at", "cost": "_cost"}

#: What those columns hold.
OPTIONAL_COLUMNS = Columns(
    [(name, dict(_SCHEDULE)[column]) for name, column in OPTIONAL_INPUTS.items()]
)

#: Columns whose minimum and maximum are kept per file, so that scans skip files.
SKIPPING_COLUMNS = "_step,_kind,_seq,_priority,_round,_available_at"

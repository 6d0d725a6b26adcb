"""The columns of the two logs, beside the user's own.

Every row carries its ``_step``; rows of one step were committed together, and steps are numbered
without a gap. ``_gen`` is the partition: items in generations from 0 up, and lanes below zero for
what a scan of the items should never touch.
"""

from __future__ import annotations

from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

#: The version of this layout. A queue stores it; an older library refuses a newer queue.
#: 1: keys as Spark casts them to a string. 2: keys with one text (:mod:`delta.input.key_text`).
FORMAT_VERSION = 2

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

_SCHEDULE = [
    ("_priority", IntegerType()),
    ("_round", DoubleType()),
    ("_cost", DoubleType()),
    ("_fair_key", StringType()),
    ("_group_key", StringType()),
    ("_available_at", TimestampType()),
    ("_expires_at", TimestampType()),
    ("_enqueued_at", TimestampType()),
]

_LOG = [
    ("_gen", IntegerType()),
    ("_step", LongType()),
    ("_kind", StringType()),
    ("_seq", LongType()),
]

#: Columns of the ``queue`` log before the user's.
QUEUE_COLUMNS = StructType(
    [
        StructField(name, kind)
        for name, kind in [
            *_LOG,
            *_SCHEDULE,
            ("_dedup_key", StringType()),
            ("_dedup_hash", LongType()),
            ("_duplicate_of", LongType()),
            ("_origin", LongType()),
            ("_errors", IntegerType()),
            ("_body", StringType()),
        ]
    ]
)

#: Columns of the ``status`` log. What places an item in the order is copied from its item row, so
#: that a claim reads one table for everything that was touched, and files can be skipped.
STATUS_COLUMNS = StructType(
    [
        StructField(name, kind)
        for name, kind in [
            *_LOG,
            ("_state", StringType()),
            ("_lease", LongType()),
            ("_attempts", IntegerType()),
            ("_losses", IntegerType()),
            ("_turn", DoubleType()),
            ("_overdue", BooleanType()),
            ("_claim_id", StringType()),
            ("_worker_id", StringType()),
            ("_at", TimestampType()),
            ("_lease_expires_at", TimestampType()),
            ("_error", StringType()),
            *_SCHEDULE,
            ("_item_gen", IntegerType()),
            ("_body", StringType()),
        ]
    ]
)

#: What places an item in the order of service, in both logs.
SCHEDULE = tuple(name for name, _ in _SCHEDULE)

#: Columns that a user's frame may add to the queue's schema, and where they go.
OPTIONAL_INPUTS = {"available_at": "_available_at", "expires_at": "_expires_at", "cost": "_cost"}

#: What those columns hold.
OPTIONAL_COLUMNS = StructType(
    [StructField(name, dict(_SCHEDULE)[column]) for name, column in OPTIONAL_INPUTS.items()]
)

#: Columns whose minimum and maximum are kept per file, so that scans skip files.
SKIPPING_COLUMNS = "_step,_kind,_seq,_priority,_round,_available_at"

"""The stateful processor with Spark's own test kit: no JVM, real state calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError
from spark_queue.streaming.processor import (
    PACKED,
    PAGES,
    ROW,
    STATE,
    BucketProcessor,
    from_bytes,
    pack,
    to_bytes,
)
from spark_queue.streaming.stream_groups import SerialRules
from spark_queue.streaming.stream_rules import (
    ARRIVAL,
    CLOCK,
    COMPLETION,
    BucketRules,
    DistinctRules,
    FairRules,
)

EVENTS = pa.schema(
    [
        ("bucket", pa.int32()),
        ("at", pa.int64()),
        ("kind", pa.int32()),
        ("seq", pa.int64()),
        ("key", pa.string()),
        ("number", pa.float64()),
        ("outcome", pa.string()),
        ("row", pa.struct([("at", pa.int64()), ("body", pa.string())])),
    ]
)

#: Rules, events of three micro-batches, and the rows that each lets out.
PLAYS: dict[
    str, tuple[Callable[[], BucketRules], list[list[tuple[int, int, str]]], list[list[int]]]
] = {
    "distinct": (
        DistinctRules,
        [
            [(ARRIVAL, 1, "a"), (ARRIVAL, 2, "a"), (ARRIVAL, 3, "b")],
            [(ARRIVAL, 4, "a"), (COMPLETION, 0, "b")],
            [(ARRIVAL, 5, "b"), (COMPLETION, 0, "a"), (ARRIVAL, 6, "a")],
        ],
        [[1, 3], [], [5, 6]],
    ),
    "fair": (
        partial(FairRules, {}, at_once=True),
        [[(ARRIVAL, 2, "a"), (ARRIVAL, 1, "a")], [(CLOCK, 0, "")], [(ARRIVAL, 3, "b")]],
        [[1, 2], [], [3]],
    ),
    "serial": (
        partial(SerialRules, QueueConfig(group_key="g")),
        [
            [(ARRIVAL, 2, "g"), (ARRIVAL, 1, "g"), (ARRIVAL, 3, "h")],
            [(COMPLETION, 1, "g")],
            [(COMPLETION, 1, "g"), (COMPLETION, 2, "g"), (COMPLETION, 3, "h")],
        ],
        [[1, 3], [2], []],
    ),
}


def rows(events: list[tuple[int, int, str]]) -> list[Row]:
    """Make the rows in which Spark brings events: packed, as they were before the shuffle."""
    plain = [
        {
            "bucket": 3,
            "at": 0,
            "kind": kind,
            "seq": seq,
            "key": key,
            "number": 1.0 if kind == ARRIVAL else 0.0,
            "outcome": None,
            "row": {"at": seq, "body": key} if kind == ARRIVAL else None,
        }
        for kind, seq, key in events
    ]
    batches = [pa.RecordBatch.from_pylist([row], schema=EVENTS) for row in plain]
    return [
        Row(packed=found[PACKED])
        for batch in pack(batches)
        for found in batch.select([PACKED]).to_pylist()
    ]


def seqs(out: list[Row]) -> list[int]:
    """Return the sequence of each row that went out."""
    return [row["at"] for found in out for row in from_bytes(found[PACKED]).to_pylist()]


@pytest.mark.parametrize("name", PLAYS)
def test_events_go_through_the_state(name: str) -> None:
    """A bucket answers a micro-batch by what the ones before left in its state."""
    make, batches, expected = PLAYS[name]
    tester = TwsTester(BucketProcessor(make, 4))
    assert [seqs(tester.test(3, rows(events))) for events in batches] == expected
    stored = tester.peekValueState(STATE, 3)
    assert stored is not None
    assert stored[:2] == (3, 4)
    assert json.loads(stored[3]) == make_again(name)


def make_again(name: str) -> dict[str, int]:
    """Return the counts after a play."""
    return {
        "distinct": {"passed": 4, "refused": 2, "completed": 2},
        "fair": {"tagged": 3, "served": 2},
        "serial": {"started": 3, "ack": 3, "unknown": 1},
    }[name]


def test_a_clock_starts_no_state() -> None:
    """A bucket that never had a row stays empty when time passes."""
    tester = TwsTester(BucketProcessor(DistinctRules, 4))
    tester.test(1, rows([(CLOCK, 0, "")]))
    assert tester.peekValueState(STATE, 1) is None


@pytest.mark.parametrize(
    ("written_as", "buckets", "why"),
    [
        (1, 64, r"64 buckets, the operator 8: name its ch"),
        (4, 8, "format 4, this release reads up to 3"),
    ],
)
def test_a_state_of_others_is_refused(written_as: int, buckets: int, why: str) -> None:
    """Neither other buckets, where keys are elsewhere, nor a later release: nothing is read."""
    tester = TwsTester(BucketProcessor(DistinctRules, 8))
    tester.updateValueState(STATE, 1, (written_as, buckets, "{}", "{}", None))
    with pytest.raises(InvalidArgumentError, match=why):
        tester.test(1, rows([(ARRIVAL, 1, "a")]))


def test_a_state_whose_keys_had_other_texts_is_refused_while_it_has_keys() -> None:
    """A key in flight that would not be found stops the query; an empty state goes on."""
    tester = TwsTester(BucketProcessor(DistinctRules, 8, oldest=2))
    body = {"rules": {"live": ["a"]}, "rows": [[], 5]}
    tester.updateValueState(STATE, 1, (1, 8, json.dumps(body), "{}", None))
    with pytest.raises(InvalidArgumentError, match=r"format 1.*start with a new checkpoint"):
        tester.test(1, rows([(ARRIVAL, 1, "a")]))
    body["rules"] = {"live": []}
    tester.updateValueState(STATE, 1, (1, 8, json.dumps(body), "{}", None))
    assert seqs(tester.test(1, rows([(ARRIVAL, 1, "a")]))) == [1]


#: What a bucket of format 2 was, with g2 and h3 running, and g4 behind; its rows are packed beside.
OLDER: dict[str, Any] = {
    "scheduler": {
        "format": 2,
        "step": 6,
        "last_seq": 3,
        "paused": False,
        "keep_finished": False,
        "clock": 0.0,
        "tally": {"enqueued": 3, "ready": 0, "claimed": 2, "acked": 1},
        "levels": [
            {
                "priority": 0,
                "turn": 3.0,
                "seq": 3,
                "accounts": [[None, 1.0, 0.0, 0.0, 3.0, 3.0, None]],
            }
        ],
        "items": [
            {
                "seq": seq,
                "raw_tag": float(seq),
                "enqueued_at": 0.0,
                "state": "claimed",
                "lease": lease,
                "lease_expires_at": 300.0,
                "new": {"payload": order, "group_key": group},
            }
            for seq, lease, order, group in [(2, 3, 3, "h"), (3, 6, 2, "g")]
        ],
        "refused": [],
        "holders": [],
        "grants": [],
    },
    "groups": [["g", [[2, 3, 1, 6, 1]], [[4, 3]]], ["h", [[3, 2, 2, 3, 1]], []]],
}


def test_a_bucket_that_was_one_value_goes_on_in_pages() -> None:
    """What ran in a state of format 2 still runs, and what waited comes with its own row."""
    tester = TwsTester(BucketProcessor(partial(SerialRules, QueueConfig(group_key="g")), 4))
    stored = [{"at": at, "body": body} for at, body in [(2, "g"), (4, "g"), (3, "h")]]
    packed = to_bytes(
        pa.RecordBatch.from_arrays([pa.array(stored, EVENTS.field("row").type)], [ROW])
    )
    body = json.dumps({"rules": OLDER, "rows": [[1, 3, 2], 5]})
    tester.updateValueState(STATE, 3, (2, 4, body, '{"started": 3, "ack": 1}', packed))
    assert seqs(tester.test(3, rows([(ARRIVAL, 4, "g"), (ARRIVAL, 5, "h")]))) == []
    assert seqs(tester.test(3, rows([(COMPLETION, 2, "g"), (COMPLETION, 3, "h")]))) == [4, 5]
    written = tester.peekValueState(STATE, 3)
    assert written is not None
    assert written[0] == 3
    assert json.loads(written[3]) == {"started": 5, "ack": 3, "duplicate": 1}


def test_state_does_not_grow_with_keys_that_are_gone() -> None:
    """After 100 micro-batches of ever new keys the state is as large as after ten."""
    makes: dict[str, Callable[[], BucketRules]] = {
        "distinct": DistinctRules,
        "fair": partial(FairRules, {}, at_once=True),
        "serial": partial(SerialRules, QueueConfig(group_key="g")),
    }
    for name, make in makes.items():
        tester = TwsTester(BucketProcessor(make, 1))
        sizes = []
        for number in range(100):
            done = (COMPLETION, number - 1, f"k{number - 1}")
            tester.test(0, rows([(ARRIVAL, number, f"k{number}"), *([done] * (name != "fair"))]))
            stored = tester.peekValueState(STATE, 0)
            assert stored is not None
            pages = tester.peekMapState(PAGES, 0).values()
            parts = [*stored[2:], *(part for page in pages for part in page)]
            sizes.append(sum(len(part) for part in parts if part is not None))
        assert sizes[99] < sizes[9] + 100, name

"""Bad input of every public call: it is named by an error of the library, and nothing is touched.

The queue under test has a store that fails the test when anything is asked of it: what is refused
here is refused before a row is read, let alone written. What only Spark can tell is in
``tests/delta/test_bad_input.py``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import CharType, DataType, IntegerType, StructField, StructType

from spark_queue import checks
from spark_queue.claim import Claim
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import (
    InvalidArgumentError,
    InvalidConfigError,
    RetryAfter,
    SchemaMismatchError,
)
from spark_queue.reader import Reader, SparkVerbs
from spark_queue.reader_config import ReaderConfig
from spark_queue.retry_policy import RetryPolicy
from spark_queue.state.request import GrantedClaim

DAY = timedelta(days=1)
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
NAIVE = NOON.replace(tzinfo=None)
NAN, INF = math.nan, math.inf


class _Untouchable:
    """Stands for a session or a store that nothing may be asked of."""

    def sql(self, query: str) -> Any:
        raise AssertionError(f"{query} was asked for before the input was checked")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AssertionError(f"{name} was asked for before the input was checked")


NOBODY: Any = _Untouchable()
QUEUE = DeltaQueue(NOBODY)
READERS = SparkVerbs(NOBODY)
READER = Reader(NOBODY)
CLAIM = Claim(
    NOBODY,
    GrantedClaim(step=3, count=2, claim_id="c", claimed_at=NOON, lease_expires_at=NOON + DAY),
)

#: No text; no text with something in it; no number of things; no step or item; no duration.
NO_STRING: tuple[Any, ...] = (5, b"w", 1.5, ["w"], True)
NO_WAIT: tuple[Any, ...] = (None, "30", -1, NAN, INF, True, -DAY)
NO_TEXT: tuple[Any, ...] = (None, "", "  ", 5, True, ["id = 1"], b"id = 1")
TOO_DEEP = ("(" * 41, "not " * 41 + "true", "case when true then " * 41, "(not " * 21, "a[" * 41)
NO_COUNT: tuple[Any, ...] = (0, -1, 1.5, "5", True, NAN, INF, 2**63, None, [1])
NO_NUMBER: tuple[Any, ...] = (None, "1", 1.5, True, NAN, 2**63)
NO_DURATION: tuple[Any, ...] = (5, 0.5, "5m", NAN, timedelta(0), -DAY, timedelta.max, True)
NO_MOMENT: tuple[Any, ...] = (NAIVE, "2026-01-01", 1.5, -1, True, 2**63, NOON.date())
NO_FUNCTION: tuple[Any, ...] = (5, "module:function", [len])
NO_FLAG: tuple[Any, ...] = (1, "yes")
NO_MAPPING: tuple[Any, ...] = (None, [], "a", 5)

#: The method, the argument, what it is given.
Case = tuple[Callable[..., Any], str, Any, dict[str, Any]]


def _all(call: Callable[..., Any], what: str, values: tuple[Any, ...], **others: Any) -> list[Case]:
    return [(call, what, value, others) for value in values]


def _handler(_item: dict[str, Any]) -> None: ...


_WORK = {"handler": _handler}
_STREAM = {**_WORK, "checkpoint": "/tmp/c"}  # noqa: S108 - never made

ARGUMENTS: list[Case] = [
    *_all(QUEUE.claim, "limit", NO_COUNT),
    *_all(QUEUE.claim, "limit", (2**31,)),
    *_all(QUEUE.claim, "run", (0, 1.5, "1", True, None), limit=1),
    *_all(QUEUE.claim, "lease", NO_DURATION, limit=1),
    *_all(QUEUE.claim, "worker_id", NO_STRING, limit=1),
    *_all(QUEUE.claim, "claim_id", ("", " ", *NO_STRING), limit=1),
    *_all(READERS.claim, "limit", (0, "5")),
    *_all(QUEUE.process, "handler", NO_FUNCTION),
    *_all(QUEUE.process, "per", ("items", None, 1), **_WORK),
    *_all(QUEUE.process, "limit", NO_COUNT, **_WORK),
    *_all(QUEUE.process, "max_per_group", (0, 1.5, "1", True), **_WORK),
    *_all(QUEUE.process, "lease", NO_DURATION, **_WORK),
    *_all(QUEUE.process, "worker_id", NO_STRING, **_WORK),
    *_all(QUEUE.process, "output", ("", " ", 5), **_WORK),
    *_all(QUEUE.process, "time_limit", (5, "5m", -DAY, timedelta.max), **_WORK),
    *_all(QUEUE.process, "stop", (True, _handler), **_WORK),
    *_all(QUEUE.process, "on_claim", NO_FUNCTION, **_WORK),
    *_all(QUEUE.process_stream, "handler", NO_FUNCTION, checkpoint="/c"),
    *_all(QUEUE.process_stream, "checkpoint", (None, "", " ", 5), **_WORK),
    *_all(QUEUE.process_stream, "trigger", NO_DURATION, **_STREAM),
    *_all(QUEUE.process_stream, "name", NO_STRING, **_STREAM),
    *_all(QUEUE.process_stream, "limit", (0, 1.5), **_STREAM),
    *_all(QUEUE.cancel, "where", (*NO_TEXT, *TOO_DEEP)),
    *_all(QUEUE.cancel, "dry_run", NO_FLAG, where="id = 1"),
    *_all(QUEUE.redrive, "where", NO_TEXT),
    *_all(QUEUE.redrive, "again", NO_FLAG, where="id = 1"),
    *_all(QUEUE.purge, "where", (*NO_TEXT, *TOO_DEEP)),
    *_all(READER.redrive, "where", NO_TEXT),
    *_all(READER.advance, "step", NO_NUMBER),
    *_all(QUEUE.status, "as_of", NO_MOMENT),
    *_all(QUEUE.stats, "as_of", NO_MOMENT),
    *_all(QUEUE.wait, "timeout", ("5", -1), where="true"),
    *_all(QUEUE.wait, "as_of", NO_MOMENT, where="true"),
    *_all(QUEUE.explain, "seq", NO_NUMBER),
    *_all(QUEUE.history, "seq", NO_NUMBER[1:]),
    *_all(QUEUE.reader, "start", ("head", NAIVE, 1.5, -1, True), name="r"),
    *_all(QUEUE.reader, "name", ("", None, 5)),
    *_all(QUEUE.read_stream, "reader", ("", None, 5)),
    *_all(QUEUE.read_stream, "start", ("head", NAIVE, -1), reader="r"),
    *_all(QUEUE.open_reader, "name", NO_STRING),
    *_all(QUEUE.drop_reader, "name", NO_STRING),
    *_all(QUEUE.maintain, "retention", NO_DURATION),
    *_all(QUEUE.maintain, "archive_to", ("", 5)),
    *_all(QUEUE.enqueue, "rows", (None, [], [("a",)], {"id": 1}, "files", 5)),
    *_all(QUEUE.enqueue, "order_by", ([], "", 5, ["id", 5], ("id",), [None]), rows=NOBODY),
    *_all(QUEUE.enqueue, "on_duplicate", ("ignore", "", True), rows=NOBODY),
    *_all(QUEUE.enqueue, "debounce", (5, "5s", timedelta(-1)), rows=NOBODY, on_duplicate="replace"),
    *_all(QUEUE.enqueue, "at_most", (5, "5s", timedelta(-1)), rows=NOBODY, on_duplicate="replace"),
    *_all(QUEUE.enqueue, "on_full", ("drop", None, 1), rows=NOBODY),
    *_all(QUEUE.enqueue_stream, "checkpoint", (None, "", " ", 5), df=NOBODY),
    *_all(QUEUE.enqueue_stream, "trigger", NO_DURATION, df=NOBODY, checkpoint="/c"),
    *_all(QUEUE.enqueue_stream, "name", NO_STRING, df=NOBODY, checkpoint="/c"),
    *_all(QUEUE.enqueue_stream, "order_by", ([], 5), df=NOBODY, checkpoint="/c"),
    *_all(CLAIM.renew, "by", NO_DURATION),
    *_all(CLAIM.nack, "error", NO_STRING),
    *_all(CLAIM.nack, "after", NO_WAIT[1:], error="no"),
    *_all(CLAIM.defer, "after", NO_WAIT),
    *_all(CLAIM.defer, "error", NO_STRING, after=1),
    *_all(CLAIM.defer, "pause", (None, 1, ""), after=1),
    *_all(RetryAfter, "after", NO_WAIT),
    *_all(RetryAfter, "pause", (None, 1, ""), after=1),
    *_all(RetryAfter, "charge", (None, 1, "yes"), after=1),
    *_all(CLAIM.dead, "error", NO_STRING),
    *_all(CLAIM.settle, "outcomes", (None, [], {"_seq": 1}, "ack")),
]


def _columns(*names: str, kind: DataType = IntegerType()) -> StructType:  # noqa: B008 - it is frozen
    return StructType([StructField(name, kind) for name in names])


def _create(**given: Any) -> DeltaQueue:
    return DeltaQueue.create(NOBODY, **{"path": "q", "schema": _columns("id"), **given})


NAMES: tuple[Any, ...] = (None, "", " ", 5, Path("/q"), b"q", "a.b.c.d", "a b", "q`/x")

PLACES: list[Case] = [
    *_all(_create, "path", NAMES),
    *_all(DeltaQueue.open, "path", NAMES, spark=NOBODY),
    *_all(DeltaQueue.exists, "path", NAMES, spark=NOBODY),
    *_all(DeltaQueue.drop, "path", NAMES, spark=NOBODY),
    *_all(_create, "schema", ("", " ", None, 5, ["id int"], StructType())),
]

SCHEMAS = (
    (_columns("_id"), "_id"),
    (_columns("id", "cost"), "cost"),
    (_columns("available_at", "id"), "available_at"),
    (_columns("a", "b", "a"), "a"),
    (_columns("a", "A"), "A"),
    (_columns("c", kind=CharType(3)), "c"),
)

CONFIGS: list[tuple[type[QueueConfig | RetryPolicy | ReaderConfig], str, Any]] = [
    *[(QueueConfig, key, value) for key in ("dedup_key", "fair_key", "group_key", "priority")
      for value in ("", " ", 5, ["a"], *TOO_DEEP)],
    *[(QueueConfig, "weights", value) for value in (None, [2], "a", 2, {"a": "2"}, {"a": 0},
      {"a": -1}, {"a": NAN}, {"a": INF}, {"a": True}, {"a": None}, {1: 2.0}, {None: 1.0})],
    *[(QueueConfig, name, value) for name in ("max_in_flight", "max_attempts", "max_losses")
      for value in (0, -1, 1.5, "5", True, NAN)],
    *[(QueueConfig, "group_limit", value) for value in (0, 1.5, None, "2", True)],
    *[(QueueConfig, "lease", value) for value in (None, *NO_DURATION)],
    *[(QueueConfig, "dedup_scope", value) for value in (None, "once", 5, timedelta(0), -DAY)],
    *[(QueueConfig, "on_failure", value) for value in ("wait", None, True, ["block"])],
    *[(QueueConfig, "retry", value) for value in ({}, {"delay": 5}, None, 5, "fixed")],
    *[(RetryPolicy, "backoff", value) for value in ("none", None, 2)],
    *[(RetryPolicy, name, value) for name in ("delay", "cap") for value in (5, None, -DAY,
      timedelta.max)],
    *[(RetryPolicy, "jitter", value) for value in (-0.1, 1.1, NAN, "0.5", None, True)],
    *[(ReaderConfig, name, value) for name in ("max_items", "max_bytes", "max_lag",
      "max_expire_sweep", "punt_many_at") for value in (0, 1.5, "5", True)],
    *[(ReaderConfig, name, value) for name in ("max_age", "max_idle") for value in (5, -DAY,
      timedelta.max)],
    *[(ReaderConfig, name, value) for name in ("expire_to", "punt_to", "punt_many_to")
      for value in ("", 5)],
    *[(ReaderConfig, "full_policy", value) for value in ("drop", None, 1)],
]  # fmt: skip

PLAIN: list[tuple[type[QueueConfig | ReaderConfig], Any, str]] = [
    *[(kind, value, repr(value)) for kind in (QueueConfig, ReaderConfig)
      for value in NO_MAPPING],
    *[(kind, {"laese": 5}, "laese") for kind in (QueueConfig, ReaderConfig)],
    (QueueConfig, {5: 5}, "5"),
    (QueueConfig, {"lease": INF}, "lease"),
    (QueueConfig, {"lease": NAN}, "lease"),
    (QueueConfig, {"lease": 1e300}, "lease"),
    (QueueConfig, {"retry": {"delay": INF}}, "retry.delay"),
    (QueueConfig, {"retry": {"wait": 1}}, "wait"),
    (QueueConfig, {"dedup_key": "a", "dedup_scope": 1e300}, "dedup_scope"),
    (ReaderConfig, {"max_age": 1e300}, "max_age"),
]  # fmt: skip


def test_the_tables_are_long() -> None:
    """There are two hundred cases and more, none of them twice."""
    cases = [(call, what, repr(value)) for call, what, value, _ in (*ARGUMENTS, *PLACES)]
    cases += [(kind, what, repr(value)) for kind, what, value in CONFIGS]
    assert len(cases) >= 400
    assert len(set(cases)) == len(cases)


@pytest.mark.parametrize(("call", "what", "value", "others"), ARGUMENTS)
def test_an_argument_is_named_before_anything_is_touched(
    call: Callable[..., Any], what: str, value: Any, others: dict[str, Any]
) -> None:
    """The error is of the call, and says which argument it is about or shows what it is given."""
    with pytest.raises(InvalidArgumentError) as refused:
        call(**{what: value}, **others)
    assert re.search(rf"\b{what}\b", str(refused.value)) or repr(value) in str(refused.value)


def test_expression_that_is_too_long_is_shown_by_its_beginning() -> None:
    """The error says how long it is and how long it may be, and does not repeat it."""
    with pytest.raises(InvalidArgumentError, match="100,003 signs") as refused:
        QUEUE.cancel("a" * 100_003)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    "where",
    [
        *("(" * 40, "not a and " * 60, "'" + "(" * 60 + "'", "(a) or " * 60, "(a.end) and " * 60),
        "case " + "when a is not null then not b " * 60 + "else not c end",
        "case " + "when a != 1 then 1 " * 60 + "end",
    ],
)
def test_expression_that_is_long_and_flat_is_no_deeper(where: str) -> None:
    """Only what is in each other counts: no operands side by side, and nothing in a text."""
    checks.require_expression("where", where)


@pytest.mark.parametrize("hidden", ["r'\\' || {}", "(a.end = {}", "(a . end = {}"])
def test_depth_hides_behind_no_text_and_no_field(hidden: str) -> None:
    """A raw text ends at its mark, and a field may be called as what ends a CASE."""
    deep = "".join(hidden.format("(") for _ in range(41))
    with pytest.raises(InvalidArgumentError, match="too deep"):
        checks.require_expression("where", deep)


@pytest.mark.parametrize(("call", "what", "value", "others"), PLACES)
def test_a_place_or_schema_is_shown_before_anything_is_touched(
    call: Callable[..., Any], what: str, value: Any, others: dict[str, Any]
) -> None:
    """The error shows the name or the schema that is none."""
    with pytest.raises(InvalidArgumentError) as refused:
        call(**{what: value}, **others)
    assert repr(value) in str(refused.value) or "no columns" in str(refused.value)


@pytest.mark.parametrize(("schema", "column"), SCHEMAS)
def test_a_column_that_cannot_be_is_named(schema: StructType, column: str) -> None:
    """A schema with a column of the queue's own, or one twice, is refused by that column."""
    with pytest.raises(SchemaMismatchError) as refused:
        _create(schema=schema)
    assert refused.value.column == column


@pytest.mark.parametrize("config", [{}, {"dedup_key": "id"}, "fair", 5, False])
def test_a_queue_is_created_with_a_configuration(config: Any) -> None:
    """Plain data is no configuration, and the error says what reads it."""
    with pytest.raises(InvalidConfigError, match=r"config is .*QueueConfig\.from_dict"):
        _create(config=config)


@pytest.mark.parametrize("config", [{}, {"max_items": 5}, QueueConfig()])
def test_a_reader_is_made_with_limits(config: Any) -> None:
    """A reader's limits are a ReaderConfig."""
    with pytest.raises(InvalidConfigError, match=r"config is .* must be a ReaderConfig"):
        QUEUE.reader("r", config=config)


@pytest.mark.parametrize(("kind", "name", "value"), CONFIGS)
def test_a_setting_is_named(
    kind: type[QueueConfig | RetryPolicy | ReaderConfig], name: str, value: Any
) -> None:
    """A setting that is out of its range, or of the wrong kind, is named, whatever it is."""
    keys = {"fair_key": "a"} if name == "weights" else {}
    if kind is QueueConfig and name in ("group_limit", "dedup_scope"):
        keys = {"group_key": "a", "dedup_key": "a"}
    with pytest.raises(InvalidConfigError, match=rf"\b{name}\b"):
        kind(**{**keys, name: value})


@pytest.mark.parametrize(("kind", "plain", "named"), PLAIN)
def test_plain_data_that_is_no_configuration_is_named(
    kind: type[QueueConfig | ReaderConfig], plain: Any, named: str
) -> None:
    """What a file holds is refused like what a program says."""
    with pytest.raises(InvalidConfigError, match=re.escape(named)):
        kind.from_dict(plain)

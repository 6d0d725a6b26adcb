"""Idempotency keys in a Delta table: locks and acceptances that outlive the process.

The rules are those of :class:`InMemoryIdempotencyKeyStore`, which is asked in memory; what they
change is one step of a log. Calls that come while a step is written share the next one.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import timedelta, timezone
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.types import (
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_queue.checks import require_methods
from spark_queue.clock import Clock, require_clock
from spark_queue.errors import InvalidArgumentError
from spark_queue.extras import require_delta
from spark_queue.log import addresses, maintenance
from spark_queue.log.addresses import TableAddress, require_path
from spark_queue.log.delta.commits import newest_version
from spark_queue.log.delta.integrity import birth
from spark_queue.log.delta.log import Log
from spark_queue.log.delta.table_properties import keeps_rows
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk import write_lock
from spark_queue.log.heads import new_token
from spark_queue.log.log_kinds import log_of
from spark_queue.log.spark.spark_types import arrow_schema_of
from spark_queue.memory.idempotency import InMemoryIdempotencyKeyStore, KeyState
from spark_queue.state.steps import until_done
from spark_queue.wording import shorten

T = TypeVar("T")

#: What a call gets: a result, or an error.
_Answer = tuple[Any, BaseException | None]

_KEY = "key"

_ROW = StructType(
    [
        StructField("_gen", IntegerType()),
        StructField("_kind", StringType()),
        StructField("key", StringType()),
        StructField("token", StringType()),
        StructField("accepted", BooleanType()),
        StructField("ends_at", TimestampType()),
    ]
)

_SCHEMA = StructType(
    [*_ROW.fields, StructField("_step", LongType()), StructField("_body", StringType())]
)

#: Rows since the last checkpoint from which the next one is due, if they are most of the rows.
_LONG = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysHead:
    """The state of the log of keys after a step."""

    step: int = 0
    token: str = ""
    at: str = ""
    gen: int = 0
    """The generation that holds all that matters; rows of older ones are forgotten."""
    rows: int = 0
    """Rows of that generation."""


@dataclass(frozen=True, slots=True)
class _Call:
    """One call that waits for its step."""

    asks: Callable[[InMemoryIdempotencyKeyStore], Any]
    key: str
    answer: Future[Any]


class DeltaIdempotencyKeyStore:
    """An :class:`IdempotencyKeyStore` in a Delta table, for all who can write to it.

    Parameters
    ----------
    spark : SparkSession
        The caller's session, with Delta.
    path : str
        The table, made where it is missing; a text with a ``/`` is a path.
    lock_timeout : timedelta
        How long a lock lasts unless its call says otherwise. Default 1 minute.
    accepted_for : timedelta
        How long an accepted key is remembered. Default 1 day.
    clock : Clock, optional
        Tells the time; the machine's by default. All who share a table need clocks that agree.

    Notes
    -----
    Keys are texts, numbers, booleans, ``None``, and tuples of those; numbers that are equal are one
    key. A call that changes something returns when that is durable: after about a second, or some
    milliseconds on a local disk. Calls of several threads share it, and several processes on one
    machine may use a table on its disk.

    Raises
    ------
    InvalidArgumentError
        When a time is not above zero.
    SetupError
        When the library does not run on the session's version of Spark, or Delta does not.
    WriterLockedError
        By any call, when another process keeps a table on this machine's disk too long.

    Examples
    --------
    >>> store = DeltaIdempotencyKeyStore(spark, "/data/keys")      # doctest: +SKIP
    >>> token = store.try_lock("order 7")                          # doctest: +SKIP
    >>> store.accept("order 7", token)                             # doctest: +SKIP
    True
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        lock_timeout: timedelta = timedelta(minutes=1),
        accepted_for: timedelta = timedelta(days=1),
        *,
        clock: Clock | None = None,
    ) -> None:
        self._clock: Clock = require_clock(clock)
        # What the rules know: all keys where nobody else writes, else those of the step at hand.
        self._rules = InMemoryIdempotencyKeyStore(lock_timeout, accepted_for, clock=self._clock)
        require_methods("spark", spark, "sql")
        require_delta(spark.version)
        self._spark = spark
        self._address = TableAddress.of(path)
        require_path("a table of keys", path)
        self._log: Log[KeysHead] = log_of(spark, self._address, _parse)
        if not self._log.exists():
            self._log.create(_SCHEMA.json(), replaces=False, skipping="_step,_kind,key")
        self._directory = addresses.local_directory(self._log.location())
        self._head: KeysHead | None = None
        self._state: tuple[object, int | None] = (None, None)
        self._gathering = threading.Lock()
        self._writing = threading.Lock()
        self._calls: list[_Call] = []

    def try_lock(self, key: Hashable, timeout: timedelta | None = None) -> str | None:
        """Lock a free key: the token that owns it now, or ``None`` when it is not free.

        Raises
        ------
        InvalidArgumentError
            When the key is of no kind that a table can hold, or the time is not above zero.
        """
        text = _text_of(key)
        return self._answer(text, lambda rules: rules.try_lock(text, timeout))

    def accept(self, key: Hashable, token: str) -> bool:
        """Mark a key as done; ``False``, and no effect, when the token does not own its lock."""
        text = _text_of(key)
        return self._answer(text, lambda rules: rules.accept(text, token))

    def release(self, key: Hashable, token: str) -> bool:
        """Free a key; ``False``, and no effect, when the token does not own its lock."""
        text = _text_of(key)
        return self._answer(text, lambda rules: rules.release(text, token))

    def close(self) -> None:
        """Forget the cached head; the table is read again where it is needed."""
        self._head = None

    def _answer(self, key: str, asks: Callable[[InMemoryIdempotencyKeyStore], T]) -> T:
        """Put a call, and return its answer once its step is durable."""
        call = _Call(asks, key, Future())
        with self._gathering:
            self._calls.append(call)
        with self._writing:
            # The writer before may have taken this call along.
            if not call.answer.done():
                self._answer_all()
        answer: T = call.answer.result()
        return answer

    def _answer_all(self) -> None:
        with self._gathering:
            calls, self._calls = self._calls, []
        try:
            answers = self._make_step(calls)
        except BaseException as exc:  # noqa: BLE001 - all waiters are told of any error
            # What the rules know may not be what the table has.
            self._head = None
            answers = [(None, exc)] * len(calls)
        for call, (answer, error) in zip(calls, answers, strict=True):
            if error is None:
                call.answer.set_result(answer)
            else:
                call.answer.set_exception(error)

    def _make_step(self, calls: list[_Call]) -> list[_Answer]:
        """Ask the rules, and write what changed as one step."""
        keys = {call.key for call in calls}
        return until_done("idempotency keys", lambda: self._try_step(calls, keys))

    def _try_step(self, calls: list[_Call], keys: set[str]) -> list[_Answer] | None:
        """Ask the rules as of the newest step; ``None`` where the next one was lost."""
        with write_lock.holding(self._address.target, self._directory):
            head = self._newest(keys)
            before = self._rules.snapshot()
            answers = [_ask(call, self._rules) for call in calls]
            changes = self._changes(before, keys)
            if not changes or self._write(head, changes):
                self._state = self._state_now()
                return answers
            self._head = None
            return None

    def _newest(self, keys: Iterable[str]) -> KeysHead:
        """Return the newest head; the rules then know the keys as of its step."""
        seen = self._state_now()
        if self._head is not None and self._directory and seen == self._state:
            return self._head
        head = self._log.head() or KeysHead()
        rows = self._log.read().where((F.col("_kind") == _KEY) & (F.col("_gen") == head.gen))
        rows = rows.where(F.col("_step") <= head.step)
        if self._directory is None:
            rows = rows.where(F.col("key").isin(*keys))
        state = F.struct("token", "accepted", "ends_at")
        newest = rows.groupBy("key").agg(F.max_by(state, "_step").alias("state")).collect()
        self._rules.restore({row[0]: _state(row[1]) for row in newest if row[1][0] is not None})
        self._head, self._state = head, seen
        return head

    def _changes(
        self, before: dict[Hashable, KeyState], keys: Iterable[str]
    ) -> dict[str, KeyState | None]:
        after = self._rules.snapshot()
        return {key: after.get(key) for key in keys if before.get(key) != after.get(key)}

    # rule again: checkpoint that is due
    def _write(self, head: KeysHead, changes: dict[str, KeyState | None]) -> bool:
        """Append a step; False where another writer has it."""
        known = self._rules.snapshot()
        is_long = head.rows > _LONG + 2 * len(known) and self._directory is not None
        following = replace(
            head, step=head.step + 1, token=new_token(), at=self._clock.now().isoformat()
        )
        if is_long:
            # What is locked or accepted moves into a new generation, and the rest is forgotten.
            changes = {str(key): state for key, state in known.items()}
            following = replace(following, gen=head.gen + 1, rows=0)
        following = replace(following, rows=following.rows + len(changes))
        rows = [_row(following.gen, key, state) for key, state in changes.items()]
        if not self._commit(following, rows):
            return False
        self._head = following
        if is_long and not keeps_rows(self._log.properties()):
            self._log.delete(f"_gen = {head.gen}")
        return True

    def _commit(self, head: KeysHead, rows: list[tuple[Any, ...]]) -> bool:
        """Append a step, without Spark where the table is on this machine's disk."""
        if not self._log.is_readable():
            return self._log.commit(head, self._spark.createDataFrame(rows, _ROW), is_synced=False)
        columns = {
            field.name: pa.array([row[at] for row in rows], field.type)
            for at, field in enumerate(arrow_schema_of(_ROW))
        }
        ours = self._log.commit(head, pa.table(columns))
        if isinstance(self._log, DeltaLog):
            maintenance.look_after(self._log)
        return ours

    def _state_now(self) -> tuple[object, int | None]:
        """Return which table there is, and its version, where this process sees its files."""
        if self._directory is None:
            return None, None
        return birth(self._directory), newest_version(self._directory, self._state[1])


def _row(gen: int, key: str, state: KeyState | None) -> tuple[Any, ...]:
    if state is None:
        return (gen, _KEY, key, None, None, None)
    return (gen, _KEY, key, state.token, state.accepted, state.ends_at)


def _state(row: Any) -> KeyState:
    # A collected timestamp is naive, and in this process's zone.
    ends_at = row["ends_at"].astimezone(timezone.utc)
    return KeyState(token=row["token"], accepted=row["accepted"], ends_at=ends_at)


def _ask(call: _Call, rules: InMemoryIdempotencyKeyStore) -> _Answer:
    try:
        return call.asks(rules), None
    except InvalidArgumentError as exc:
        return None, exc


def _parse(text: str) -> KeysHead:
    return KeysHead(**json.loads(text))


def _text_of(key: Hashable) -> str:
    """Write a key as text: equal keys as equal texts.

    Raises
    ------
    InvalidArgumentError
        When it is of no kind that a table can hold.
    """
    return json.dumps(_plain(key), ensure_ascii=False, separators=(",", ":"))


def _plain(key: object) -> Any:
    if key is None or isinstance(key, str):
        return key
    if isinstance(key, int | float) and math.isfinite(key):
        return int(key) if key == int(key) else key
    if isinstance(key, tuple):
        return [_plain(part) for part in key]
    raise InvalidArgumentError(
        f"key is {shorten(key)}: use a text, a number, a boolean, None, or a tuple of those"
    )

"""A handler called for items, and what that makes of them: outcomes, errors, results.

It is the same on an executor and in a process without Spark.
"""

from __future__ import annotations

import inspect
import json
import math
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from spark_queue.errors import InvalidArgumentError, ResultMismatchError
from spark_queue.processing.apart import Cut, Died, Late, answers, tell_parent
from spark_queue.processing.at_work import AtWork, PausedHere
from spark_queue.processing.fitting import require_columns, require_fitting
from spark_queue.processing.handler_types import Apart, BatchHandler, ItemHandler
from spark_queue.processing.outcome_rows import Item, back, batch_of, loss, overtime, release
from spark_queue.saying import Said, said_of
from spark_queue.wording import text_of

#: Raised in a handler, but not by it.
_NOT_OURS = (KeyboardInterrupt, GeneratorExit)

_TABLES = (pa.Table, pa.RecordBatch)

#: Seconds within which a signal for several processes has come to all of them.
_TOGETHER = 1.0


class _Unreadable(dict[str, Any]):
    """An item with a value that Python cannot hold: its seq, and the error."""

    def __init__(self, seq: int, error: Exception) -> None:
        super().__init__(_seq=seq)
        self.error = error


def warn_of_rows() -> None:
    """Warn that a handler returns rows without ``returns`` or ``output``."""
    warnings.warn(
        "the handler returns rows, which are dropped: say what they are with returns "
        "and where they go with output, or return None",
        stacklevel=2,
    )


def items_of(batch: pa.RecordBatch) -> list[Item]:
    """Return the items of a batch, each with its group."""
    groups = batch.column("_group_key").to_pylist()
    rest = batch.drop_columns(["_group_key"])
    try:
        items = rest.to_pylist()
    except Exception:  # noqa: BLE001 - one of them; the others can be read
        items = [_item(rest.slice(place, 1)) for place in range(rest.num_rows)]
    return list(zip(groups, items, strict=True))


def _item(row: pa.RecordBatch) -> dict[str, Any]:
    try:
        return dict(row.to_pylist()[0])
    except Exception as exc:  # noqa: BLE001 - such as a time after the year 9999
        return _Unreadable(row.column("_seq")[0].as_py(), exc)


class HandlerCalls:
    """Calls a handler for items, those of a group one after another, until the group has stopped.

    Parameters
    ----------
    handler : callable
        Gets one item.
    schema : pyarrow.Schema
        The columns of outcomes.
    blocks : bool
        Whether a group stops at its first failure.
    is_over : callable, optional
        Tells whether no further item is to begin: the rest goes back.
    limit : float
        Seconds that an item may take in a child: then that is killed, and the item has failed.
    at_work : AtWork, optional
        Told of the items that the handler is at; says which of them are lost.
    paused : PausedHere, optional
        Told of the keys to pause: items of them that have not begun go back.
    """

    def __init__(
        self,
        handler: ItemHandler,
        schema: pa.Schema,
        *,
        blocks: bool,
        is_over: Callable[[], bool] = lambda: False,
        limit: float = math.inf,
        at_work: AtWork | None = None,
        paused: PausedHere | None = None,
    ) -> None:
        self._handler = handler
        self._schema = schema
        self._blocks = blocks
        self._is_over = is_over
        self._limit = limit
        self._at_work = AtWork() if at_work is None else at_work
        self._paused = PausedHere() if paused is None else paused
        self._stopped: str | None = None

    # rule: work of a group
    def run(self, item: Item) -> dict[str, Any]:
        """Return the outcome of an item."""
        group, columns = item
        if self._is_held_up(item):
            return back(item)
        current = self._at_work.begin(columns["_seq"])
        try:
            row = _call(self._handler, columns, self._schema)
        finally:
            self._at_work.leave(columns["_seq"], current)
        if current.cancelled:
            # Its outcome counts no more, and its group goes on.
            return back(item, None)
        self.saw(group, row["outcome"])
        self._paused.note(columns["_seq"], row.get("pause"))
        return row

    def _is_held_up(self, item: Item) -> bool:
        """Whether an item goes back before the handler gets it."""
        group, _ = item
        is_stopped = group is not None and group == self._stopped
        return is_stopped or self._is_over() or self._is_to_go_back(item)

    def each_apart(self, items: Sequence[Item], cut: Cut | None = None) -> Iterator[pa.RecordBatch]:
        """Work items off in a child; where it dies of one, go on behind that in another.

        When it is cut, the child is killed, and what it has not done goes back. So it is when the
        item that it is at is lost; then another goes on behind that.
        """
        left, first = deque(items), None
        ending = (
            None if cut is None else _ChildEnd(cut, lambda: bool(left) and self._is_lost(left[0]))
        )
        while left:
            if cut is not None and cut.is_set():
                # The child may have begun the first.
                told = [back(item, None if item is first else 0) for item in left]
                yield batch_of(told, self._schema)
                return
            if self._is_to_go_back(left[0]):
                yield batch_of([back(left.popleft())], self._schema)
                continue
            rows, hear = partial(self._rows, list(left)), partial(self._hear, left)
            for answer in answers(rows, ending, self._limit, hear):
                if not left:
                    break  # It died of nothing that we gave it.
                if _is_cut(answer, cut):
                    break
                found = self._outcome(left[0], answer)
                group, item = left.popleft()
                self._at_work.drop(item["_seq"])
                self.saw(group, found.column("outcome")[0].as_py())
                self._paused.note(item["_seq"], found.column("pause")[0].as_py())
                yield found
            first = left[0] if left else None

    def _outcome(self, item: Item, answer: bytes | Died | Late) -> pa.RecordBatch:
        """Return the outcome of an item, from what became of its child."""
        seq = item[1]["_seq"]
        if self._is_lost(item):
            return batch_of([back(item, None)], self._schema)
        if isinstance(answer, Died):
            return batch_of([loss(seq, answer)], self._schema)
        if isinstance(answer, Late):
            return batch_of([overtime(seq, self._limit)], self._schema)
        return _from_bytes(answer)

    def _hear(self, left: Sequence[Item], message: bytes) -> None:
        """Note how far the item is that the child is at."""
        if left:
            self._at_work.note_progress(left[0][1]["_seq"], tuple(json.loads(message)))

    def _is_lost(self, item: Item) -> bool:
        return self._at_work.is_lost(item[1]["_seq"])

    def _is_to_go_back(self, item: Item) -> bool:
        return self._is_lost(item) or self._paused.has(item[1]["_seq"])

    def _rows(self, items: Sequence[Item]) -> Iterator[bytes]:
        self._at_work = self._at_work.of_a_child(
            lambda said: tell_parent(json.dumps(said).encode())
        )
        return (to_bytes(batch_of([self.run(item)], self._schema)) for item in items)

    def saw(self, group: str | None, outcome: str) -> None:
        """Note what became of an item of a group."""
        if self._blocks and outcome in ("nack", "defer", "lose"):
            self._stopped = group


@dataclass(frozen=True, slots=True)
class _ChildEnd:
    """Tells that a child is to end: all is, or the item that it is at was lost."""

    cut: Cut
    is_lost: Callable[[], bool]

    def is_set(self) -> bool:
        return self.cut.is_set() or self.is_lost()


def parts_of(table: pa.Table, apart: Apart) -> Iterator[pa.Table]:
    """Divide a table, so that no call gets more of its items than it may."""
    most = [apart.get(seq, table.num_rows) for seq in table.column("_seq").to_pylist()]
    for size in sorted(set(most)):
        rows = [place for place, allowed in enumerate(most) if allowed == size]
        for first in range(0, len(rows), size):
            yield table.take(rows[first : first + size])


def table_apart(
    handler: BatchHandler[pa.Table], table: pa.Table, schema: pa.Schema, cut: Cut | None = None
) -> pa.RecordBatch:
    """Call a handler in a child. Where it dies, a single item is charged, and many are released."""
    told = list(answers(lambda: [to_bytes(called_with_table(handler, table, schema))], cut))
    seqs = table.column("_seq").to_pylist()
    if not told or _is_cut(told[0], cut):
        return release(seqs, schema, None)
    answer = told[0]
    if isinstance(answer, bytes):
        return _from_bytes(answer)
    if len(seqs) == 1 and isinstance(answer, Died):
        return batch_of([loss(seqs[0], answer)], schema)
    return release(seqs, schema, len(seqs))


def _is_cut(answer: bytes | Died | Late, cut: Cut | None) -> bool:
    """Whether a child died because all of it is to end."""
    if cut is None or not isinstance(answer, Died):
        return False
    # Who ends a service sends the same signal to all of its processes.
    return cut.wait(_TOGETHER if answer.signal == signal.SIGTERM else 0)


def _call(handler: ItemHandler, item: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    seq = item["_seq"]
    if isinstance(item, _Unreadable):
        return {"_seq": seq, "outcome": "nack", "error": text_of(item.error)}
    try:
        result = _plain(handler(item))
        if "result" not in schema.names:
            return {"_seq": seq, "outcome": "ack", "unasked": isinstance(result, Mapping)}
        return _fitting(seq, result, schema)
    except _NOT_OURS:
        raise
    # Anything it raises is the item's failure: sys.exit(), and what native code panics with, too.
    except BaseException as exc:  # noqa: BLE001
        return {"_seq": seq, **said_of(exc).row}


def called_with_table(
    handler: BatchHandler[pa.Table], table: pa.Table, schema: pa.Schema
) -> pa.RecordBatch:
    """Call a handler for a table of items; where it raises, all of them failed."""
    seqs = table.column("_seq").combine_chunks()
    asked = "result" in schema.names
    try:
        answer = _plain(handler(table.drop_columns("_group_key")))
        results = _results(answer, seqs, schema) if asked else {}
    except _NOT_OURS:
        raise
    except BaseException as exc:  # noqa: BLE001 - as above, for all of them
        return _all(said_of(exc), seqs, schema)
    if not results:
        return _all(Said("ack"), seqs, schema, unasked=not asked and isinstance(answer, _TABLES))
    return batch_of([_result_of(seq, results, schema) for seq in seqs.to_pylist()], schema)


def _plain(answer: Any) -> Any:
    """Return an answer; raise where it is a coroutine, which nothing here awaits."""
    if inspect.iscoroutine(answer):
        answer.close()
        raise InvalidArgumentError(
            "the handler returned a coroutine, which executors do not await: process the queue as "
            "a LocalQueue, or call asyncio.run in the handler"
        )
    return answer


def _result_of(seq: int, results: Mapping[int, Any], schema: pa.Schema) -> dict[str, Any]:
    try:
        return _fitting(seq, results.get(seq), schema)
    except ResultMismatchError as exc:
        return {"_seq": seq, "outcome": "nack", "error": text_of(exc)}


def _fitting(seq: int, result: Any, schema: pa.Schema) -> dict[str, Any]:
    if isinstance(result, Mapping):
        result = dict(result)
    if result is not None:
        require_fitting(seq, result, schema.field("result").type)
    return {"_seq": seq, "outcome": "ack", "result": result}


def _results(answer: Any, seqs: pa.Array, schema: pa.Schema) -> dict[int, Any]:
    """Return the row of each item in a table that a handler returned."""
    if answer is None:
        return {}
    if not isinstance(answer, _TABLES):
        raise ResultMismatchError(None, f"it is a {type(answer).__name__}: give a pyarrow.Table")
    names = answer.schema.names
    if "_seq" not in names:
        raise ResultMismatchError(None, f"it has no column _seq, only {', '.join(names)}")
    require_columns([name for name in names if name != "_seq"], schema.field("result").type)
    given = answer.column("_seq").to_pylist()
    results = dict(zip(given, answer.drop_columns(["_seq"]).to_pylist(), strict=True))
    strange = sorted(results.keys() - set(seqs.to_pylist()), key=str)
    if strange:
        raise ResultMismatchError(None, f"it has _seq {strange[0]}, which the batch has not")
    if len(results) < len(given):
        raise ResultMismatchError(None, f"it has {len(given)} rows for {len(results)} items")
    return results


def _all(said: Said, seqs: pa.Array, schema: pa.Schema, *, unasked: bool = False) -> pa.RecordBatch:
    """Give all items one outcome, a column at a time."""
    same = {**said.row, "unasked": unasked}
    columns = [
        seqs
        if field.name == "_seq"
        else pa.repeat(pa.scalar(same.get(field.name), field.type), len(seqs))
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def to_bytes(rows: pa.RecordBatch | pa.Table) -> bytes:
    """Return rows as another process reads them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write(rows)
    return bytes(sink.getvalue())


def _from_bytes(answer: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(answer) as stream:
        return stream.read_next_batch()

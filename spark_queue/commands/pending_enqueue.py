"""Enqueues of several processes in one step: rows that one puts into the store, and another takes.

Who loses a number to others leaves its rows there, and waits for a step that has them; who makes
steps takes in what it finds. See ADR 87.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeGuard, cast

import pyarrow as pa

from spark_queue.commands.rows import Enqueued, MarkedRows, join_rows
from spark_queue.errors import (
    DuplicateItemError,
    FileAccessError,
    FileGoneError,
    ReaderFullError,
    SparkQueueError,
)
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.object.pending_rows import PendingRows, Taken
from spark_queue.log.schema import OUTCOME, TRACE, user_names
from spark_queue.state.request import EnqueueRules
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.step_line import LinePlace, StepLine
from spark_queue.state.steps import KNOWN_FOR, Answer, Decide, Step
from spark_queue.state.store import Store

#: Decides a step of some rows.
DecideRows = Callable[[MarkedRows, Snapshot], Answer[Enqueued]]

#: Rows of others that a step takes in at most, and bytes of rows that are left to others.
_ROWS, _BYTES = 2_000, 256 * 1024

#: Limits of a reader that may refuse rows: each is told so by its own step.
_OF_ROOM = frozenset({"max_items", "max_bytes"})

_SETTINGS = b"settings"


def pending_rows_of(store: Store, rules: EnqueueRules) -> PendingRows | None:
    """Return the pending rows of a queue; ``None`` for rules that rows may be refused by."""
    log = store.queue
    return log.pending if isinstance(log, DeltaLog) and rules == EnqueueRules() else None


def has_bounded_room(at: Snapshot) -> bool:
    """Whether a reader may refuse rows, or has room for some again as its items end."""
    return any(not _OF_ROOM.isdisjoint(facts.config) for facts in at.queue.readers.values())


def _is_open(at: Snapshot) -> bool:
    """Return whether processes may make steps for each other.

    They may not where a row may be refused by an error, which is for its own process, or where a
    front keeps others out.
    """
    is_held = bool(at.queue.hold.by or at.handle.holder)
    return at.settings.config.on_duplicate == "skip" and not has_bounded_room(at) and not is_held


class PendingEnqueue:
    """The step of one group of threads, which may be part of another process's, or have theirs.

    Attributes
    ----------
    name : str, optional
        The object that has the rows, once they are left to others.

    Parameters
    ----------
    store : Store
        The queue.
    pending : PendingRows
        Those of its item log.
    gather : callable
        Returns the rows. They are the same from the moment on in which they are left to others.
    """

    def __init__(
        self, store: Store, pending: PendingRows, gather: Callable[[], MarkedRows]
    ) -> None:
        self.name: str | None = None
        self._store, self._pending, self._gather = store, pending, gather
        self._rows: MarkedRows | None = None
        self._lost = 0

    def follow(self) -> Enqueued | None:
        """Leave the rows to the process that made the last step, if it still makes some."""
        if not self._pending.is_behind or not self._pending.is_recent():
            return None
        return self._find() if self._leave() else None

    def rest(self) -> bool:
        """Wait after a lost try, until others have taken the rows in or may not be there.

        Returns False where another pause is to be made.
        """
        self._lost += 1
        # One step of others need not be followed by another.
        return self._lost > 1 and self._leave()

    def decide(self, at: Snapshot, decide: DecideRows) -> Answer[Enqueued]:
        """Decide a step of these rows and of pending ones."""
        done = self._find()
        if done is not None:
            return Answer(answer=done)
        own = self._rows or self._gather()
        names = {} if self.name is None else {self.name: own}
        others = _read(self._pending, self.name, own, at)
        if others:
            with suppress(SparkQueueError):
                return self._decide(at, decide, own, names | others)
        return self._decide(at, decide, own, names)

    def _decide(
        self, at: Snapshot, decide: DecideRows, own: MarkedRows, pending: dict[str, MarkedRows]
    ) -> Answer[Enqueued]:
        parts = [own, *(rows for name, rows in pending.items() if name != self.name)]
        whole = replace(own, rows=pa.concat_tables([part.rows for part in parts]))
        decided = decide(whole, at)
        if not isinstance(decided, Step):
            return decided
        places, first = dict[str, tuple[int, int]](), own.count()
        for name, rows in pending.items():
            places[name] = (0 if name == self.name else first, rows.count())
            first += 0 if name == self.name else rows.count()
        self._pending.choose(places)
        counts = [part.count() for part in parts]
        return replace(decided, answer=next(decided.answer.parts(counts)))

    def end(self) -> None:
        """Have the next step of this thread take nothing in."""
        self._pending.choose(None)

    def unclear(self, why: Exception) -> FileAccessError:
        """Return the error of a step that has failed here, and that others may still make."""
        said = f"others may enqueue the rows for some minutes yet, look for the items ({why})"
        return FileAccessError(self._store.name, errno.EINTR, said)

    def _leave(self) -> bool:
        """Leave the rows to others if possible, and wait until these had time for them."""
        if self.name is None:
            rows = self._gather()
            content = None if rows.count() > _ROWS else _content_of(rows, self._store)
            name = self._pending.name()
            if name is None or content is None or len(content) > _BYTES:
                return False
            # From here on others may have them, also where the store does not say so.
            self._rows, self.name = rows, name
            try:
                self._pending.put(name, content)
            except FileAccessError:
                return False
        self._pending.wait(self.name, self._store.queue.look)
        if self._pending.is_in_none(self.name):
            self.name = self._rows = None
        return True

    def _find(self) -> Enqueued | None:
        """Return what became of the rows by a step of another process."""
        if self.name is None:
            return None
        taken = self._pending.find(self.name)
        if taken is not None:
            self._pending.is_behind = True
            return _result_of(self._store, taken)
        if not self._pending.is_known(self.name):
            raise FileGoneError(f"{self._store.queue.location()}, the commits since {self.name}")
        return None


def _content_of(rows: MarkedRows, store: Store) -> bytes | None:
    """Return rows as an object has them; ``None`` where they are not for others."""
    with store.queue.still(KNOWN_FOR), store.status.still(KNOWN_FOR):
        at = Snapshot(store)
        if not _is_open(at):
            return None
        mark = _mark_of(at)
    table, sink = rows.rows.replace_schema_metadata({_SETTINGS: mark}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _mark_of(at: Snapshot) -> bytes:
    """Return what rows depend on that were checked before their step."""
    return hashlib.sha256(f"{at.settings.config!r} {at.columns}".encode()).hexdigest().encode()


def _read(
    pending: PendingRows, but: str | None, own: MarkedRows, at: Snapshot
) -> dict[str, MarkedRows]:
    """Return rows of others that enter by the same rules as one's own, the oldest first."""
    is_open = _is_open(at)
    pending.choose({} if is_open else None)
    waiting = pending.others(but) if is_open else {}
    mark, room, found = _mark_of(at) if waiting else b"", _ROWS, dict[str, MarkedRows]()
    for name, content in waiting.items():
        with suppress(pa.ArrowException, OSError):
            rows = pa.ipc.open_stream(content).read_all()
            is_same = rows.schema.equals(own.rows.schema)
            if (rows.schema.metadata or {}).get(_SETTINGS) == mark and is_same:
                rows.validate(full=True)
                room -= rows.num_rows
                if room < 0:
                    break
                traces = rows[TRACE].to_pylist() if TRACE in rows.column_names else None
                found[name] = replace(own, rows=rows.replace_schema_metadata(), trace=traces)
    return found


def _result_of(store: Store, taken: Taken) -> Enqueued:
    """Return what became of rows that another process has taken in."""
    log = store.queue
    with log.still(KNOWN_FOR):
        commit = log.follow(taken.version - 1, taken.version)[0]
        names = dict.fromkeys((*OUTCOME, *user_names(store.columns())))
        rows = log.rows_of(commit.files, [*names])
    whole = Enqueued(step=commit.step or 0, inserted=0, duplicates=0, rows=rows)
    return [*whole.parts([taken.first, taken.rows])][1]


#: Rows of one caller up to which others wait for them.
_FEW = 100

#: Makes a step of the item log, hands on its result before listeners hear of it, and waits by the
#: last one after a lost try.
MakeStep = Callable[[Decide[Enqueued], Callable[[Enqueued], None], Callable[[], bool]], Enqueued]

_Line = StepLine[MarkedRows, Enqueued]
_Place = LinePlace[MarkedRows, Enqueued]


def may_share(frame: object, store: Store, rules: EnqueueRules) -> TypeGuard[MarkedRows]:
    """Return whether rows enter in one step with those of other threads, if these wait.

    Each of them is told what it would be by itself; of rows that replace others that is not so.
    """
    if not store.queue.is_remote or not isinstance(frame, MarkedRows) or Snapshot(store).has_spark:
        return False
    if frame.extra or frame.count() > _FEW or (rules.debounce, rules.at_most) != (None, None):
        return False
    with store.queue.still(KNOWN_FOR), store.status.still(KNOWN_FOR):
        config = Snapshot(store).settings.config
    return rules.within(config).replacing is None


def share_step(
    store: Store, rows: MarkedRows, rules: EnqueueRules, decide: DecideRows, make: MakeStep
) -> Enqueued | None:
    """Enqueue rows in one step with those of other threads; ``None`` if they need their own.

    Raises
    ------
    FileAccessError
        What became of the step is unclear, perhaps as the thread that made it was interrupted.
    """
    line = cast("_Line", store.handle.line)
    with line.entering(rows, (rules, rows.rows.schema, rows.given.schema)) as place:
        if line.is_first(place):
            _SharedStep(line, place, store).make(rules, decide, make)
    if place.error is not None:
        raise place.error
    return place.done


class _SharedStep:
    """The step that the first thread of a line makes for a group of it."""

    def __init__(self, line: _Line, first: _Place, store: Store) -> None:
        self._line, self._first, self._store = line, first, store
        self._group = [first]
        self._others: PendingEnqueue | None = None

    def make(self, rules: EnqueueRules, decide: DecideRows, make: MakeStep) -> None:
        """Make the step, or have another process make it, and tell each of the group."""
        try:
            self._make(rules, decide, make)
        except Exception as exc:  # noqa: BLE001 - each of them is told
            self._fail(exc)
        except BaseException:
            why = "the thread that made the step was interrupted: look whether the items are there"
            self._line.fail(self._group, FileAccessError(self._store.name, errno.EINTR, why))
            raise
        finally:
            self._end()

    def _make(self, rules: EnqueueRules, decide: DecideRows, make: MakeStep) -> None:
        pending = pending_rows_of(self._store, rules)
        if pending is None:
            make(lambda at: decide(self._gather(), at), self._tell, lambda: False)
            return
        self._others = others = PendingEnqueue(self._store, pending, self._gather)
        done = others.follow()
        if done is None:
            make(partial(others.decide, decide=decide), self._tell, others.rest)
        else:
            self._tell(done)

    def _gather(self) -> MarkedRows:
        # Who has come since a try that was lost is in the next one.
        self._group[:] = self._line.group(self._first)
        return join_rows([place.work for place in self._group])

    def _end(self) -> None:
        if self._others is not None:
            self._others.end()

    def _tell(self, done: Enqueued) -> None:
        # A listener may make steps, too.
        self._end()
        self._line.tell(self._group, done.parts([place.work.count() for place in self._group]))

    def _fail(self, exc: Exception) -> None:
        error: Exception | None = exc
        if self._others is not None and self._others.name is not None:
            error = self._others.unclear(exc)
        elif len(self._group) > 1 and isinstance(exc, DuplicateItemError | ReaderFullError):
            # Nothing was written, and it is the error of one of them.
            error = None
        self._line.fail(self._group, error)

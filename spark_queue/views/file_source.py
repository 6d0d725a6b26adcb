"""Views of a queue whose files this process reads, each file once."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.log.delta.commits import LogFile
from spark_queue.log.delta.log import Log
from spark_queue.log.heads import StatusHead
from spark_queue.log.schema import CONFIG, ITEM, PROGRESS, REFUSED, RENEWAL
from spark_queue.log.step_events import LogName
from spark_queue.memory.waiting.processes import Owner
from spark_queue.overriding import override
from spark_queue.results import ItemProgress
from spark_queue.sql.arrow_look import ArrowLook
from spark_queue.sql.database import Database
from spark_queue.sql.file_rows import files_of, having, log_of, once_more, rows_of
from spark_queue.sql.limit_pass import BOUND_TABLES
from spark_queue.sql.log_rows import debts_of, plain
from spark_queue.sql.look import CONFIGURED, ENTERED, MOVES
from spark_queue.state.store import Store
from spark_queue.views import answers
from spark_queue.views.answers import Answer, Answers, Ends, Question, ViewSource, by_seq

#: Rows of a log in the form of views, by the path of the file that they are in.
_Rows = dict[str, pa.Table]

#: Which of the shared views depend on the instant that is asked about.
_OF_NOW = ("with_place_of_status", "eligible_items_of_status", "reasons", "runnable")

#: Tables that are no views, and differ at the next look.
_LEAVES = (
    *("asked", "items", "states", "configs", "rejected", "weights", "pointers"),
    *BOUND_TABLES,
)

#: The others, by the column that says which rows are in the place of former ones when items have
#: more rows in the logs: what they say of an item goes by its own rows alone.
_BY_ITEMS = {"status": "seq", "transitions": "seq", "failures": "seq", "wordings": "said"}


class KeptRows:
    """Rows of a kind in a log; files never change, so each is read once.

    Parameters
    ----------
    which : "queue" or "status"
        The log.
    kind : str
        The kind of the rows.
    columns : sequence of str
        The columns that are read.
    """

    def __init__(self, which: LogName, kind: str, columns: Sequence[str]) -> None:
        self._which: LogName = which
        self._kind = kind
        self._columns = list(dict.fromkeys(["_kind", *columns]))
        self._kept: _Rows = {}

    def read(self, store: Store) -> _Rows:
        """Return the present rows; an empty table is among them.

        Raises
        ------
        SparkNeededError
            When only Spark reads the log.
        """
        log = log_of(store, self._which)
        return once_more(lambda: self._look(log))

    def _look(self, log: Log[Any]) -> _Rows:
        files = {file.path: file for file in files_of(log, self._kind)}
        kept = {path: rows for path, rows in self._kept.items() if path in files}
        for path, file in files.items():
            if path not in kept:
                kept[path] = self._choose(log.rows_of([file], self._columns))
        self._kept = kept
        return {"": self._choose(log.rows_of([], self._columns)), **kept}

    def _choose(self, rows: pa.Table) -> pa.Table:
        wanted = pc.equal(rows["_kind"], self._kind)
        # To leave rows out costs a copy of the rest: most files leave out none.
        return plain(rows if pc.all(wanted).as_py() else rows.filter(wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """Both logs of a reader, as they were read last."""

    items: _Rows
    moves: _Rows
    renewals: _Rows
    configs: _Rows
    rejected: Callable[[], _Rows]
    """Reads the rows that were refused: there may be many, and few questions are about them."""

    def goes_on_from(self, before: Logs) -> bool:
        """Whether no earlier file is gone."""
        return all(
            was.keys() <= now.keys()
            for was, now in (
                (before.items, self.items),
                (before.moves, self.moves),
                (before.renewals, self.renewals),
                (before.configs, self.configs),
            )
        )

    def about(self, seqs: pa.Array) -> Logs:
        """Return the rows of some items."""
        items, moves = (
            {"": rows.filter(pc.is_in(rows["seq"], seqs))}
            for rows in map(_whole, (self.items, self.moves))
        )
        return replace(self, items=items, moves=moves)


class KeptLook(ArrowLook):
    """Both logs of a reader; its tables last from one question to the next.

    Parameters
    ----------
    store : Store
        The queue, as the reader sees it.
    asked : Question
        The question.
    logs : Logs
        The rows of the logs.
    """

    database: Database

    def __init__(self, store: Store, asked: Question, logs: Logs) -> None:
        self._logs, self._question = logs, asked
        self._left = sum(rows.num_rows for rows in logs.items.values()) // 2
        """Items that may be renewed before it takes less to begin afresh."""
        super().__init__(store, asked=asked.as_row(), has_values=False)
        self._closing = weakref.finalize(self, _close, self.database, Owner("a report"))

    @override
    def close(self) -> None:
        self._closing()

    def goes_on(self, logs: Logs, asked: Question) -> bool:
        """Answer over more rows, or of another instant; False where it takes another look."""
        was, self._question = self._question, asked
        if replace(asked, now=was.now, since=was.since, play=was.play) != was:
            return False
        before, self._logs = self._logs, logs
        if not logs.goes_on_from(before):
            return False
        seqs = _find_changed(before, logs)
        self._left -= sum(map(len, seqs))
        if self._left < 0:
            return False
        self._asked |= asked.as_row()
        self._forget(_OF_NOW)
        # Which bounds items meet is known once all of them are there.
        self._played = None
        self._there -= {"debts", "taken"}
        self.load(*self._there.intersection(_LEAVES))
        if seqs:
            self._renew(pa.chunked_array(seqs).unique())
        return True

    def _forget(self, names: Sequence[str]) -> None:
        for name in self._there.intersection(names):
            self.database.forget(name)
            self._there.remove(name)

    def _renew(self, seqs: pa.Array) -> None:
        """Compute the kept rows of some items again."""
        with KeptLook(self.store, self._question, self._logs.about(seqs)) as new:
            for name, key in _BY_ITEMS.items():
                if name in self._there:
                    self.database.replace(name, key, new.table(name))

    @override
    def entries(self, kind: str) -> pa.Table:
        rows = _whole(self._logs.items if kind == ITEM else self._logs.rejected())
        if self.since:
            rows = rows.filter(pc.greater(rows["step"], self.since))
        return rows.append_column("own", rows["seq"])

    @override
    def moves(self) -> pa.Table:
        return pa.concat_tables([*self._logs.moves.values(), *self._logs.renewals.values()])

    @override
    def configs(self) -> pa.Table:
        return _whole(self._logs.configs)


def _close(database: Database, owner: Owner) -> None:
    if not owner.is_here():
        # In a child of a fork, where the end of a connection waits for threads of the parent, it
        # never ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(database))
        return
    database.close()


class FileSource(ViewSource):
    """Views over files on this machine's disk or an object store, for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._items = KeptRows("queue", ITEM, ENTERED)
        self._rejected = KeptRows("queue", REFUSED, ENTERED)
        self._looks: dict[int, KeptLook] = {}
        self._status: dict[int, tuple[KeptRows, KeptRows, KeptRows]] = {}

    @contextmanager
    @override
    def over(self, store: Store, ends: Ends, asked: Question) -> Iterator[Answers]:
        # Others wait until the present user of the logs is done.
        if ends.queue_step is not None:
            steps = (ends.queue_step, ends.head.step)
            with ArrowLook(store, steps=steps, asked=asked.as_row(), has_values=False) as look:
                yield Answers(look)
            return
        with self._lock:
            self._keep_only(store.queue_head().readers)
            yield Answers(self._look(store, asked))

    def _look(self, store: Store, asked: Question) -> KeptLook:
        logs, known = self._read(store), self._looks.pop(store.reader, None)
        if known is None or not known.goes_on(logs, asked):
            known = KeptLook(store, asked, logs)
        # Not before it has gone on: a look that failed half way is no longer asked.
        self._looks[store.reader] = known
        return known

    def _read(self, store: Store) -> Logs:
        if store.reader not in self._status:
            self._status[store.reader] = (
                KeptRows("status", ITEM, MOVES),
                KeptRows("status", RENEWAL, MOVES),
                KeptRows("status", CONFIG, CONFIGURED),
            )
        moves, renewals, configs = (rows.read(store) for rows in self._status[store.reader])
        return Logs(
            moves=moves,
            renewals=renewals,
            configs=configs,
            # Read last: all items that a transition names have entered by then.
            items=self._items.read(store),
            rejected=lambda: self._rejected.read(store),
        )

    def _keep_only(self, readers: Collection[int]) -> None:
        """Drop the tables of readers that are gone."""
        for kept in (self._status, self._looks):
            for gone in kept.keys() - readers:
                del kept[gone]

    @override
    def find_entries(
        self, store: Store, seqs: Sequence[int], columns: Sequence[str]
    ) -> dict[int, Answer]:
        found: dict[int, Answer] = {}
        for kind in (ITEM, REFUSED):
            left = pa.chunked_array([pa.array(set(seqs) - found.keys(), pa.int64())])
            rows = rows_of(store, "queue", ["_seq", *columns], having(left), kind=kind)
            wanted = rows.filter(pc.is_in(rows["_seq"], left.combine_chunks()))
            found |= by_seq(wanted.select(["_seq", *columns]))
        return found

    @override
    def find_debts(self, store: Store, head: StatusHead) -> pa.Table:
        return debts_of(store, head)

    @override
    def find_progress(
        self, store: Store, leases: Mapping[int, int], last: int
    ) -> dict[int, ItemProgress]:
        may_have = having(pa.chunked_array([pa.array(leases, pa.int64())]))
        first = min(leases.values(), default=0)

        def may_matter(file: LogFile) -> bool:
            return file.may_have("_step", first, last) and may_have(file)

        rows = rows_of(store, "status", answers.PROGRESS_COLUMNS, may_matter, kind=PROGRESS)
        return answers.newest_progress(rows, leases, last)


def _whole(rows: _Rows) -> pa.Table:
    return pa.concat_tables(rows.values())


def _find_changed(before: Logs, now: Logs) -> list[pa.Array]:
    """Return the items that have more rows."""
    items, moves, renewals = (
        [rows[path] for path in rows.keys() - known.keys()]
        for rows, known in (
            (now.items, before.items),
            (now.moves, before.moves),
            (now.renewals, before.renewals),
        )
    )
    leases = [lease for rows in renewals for lease in rows["lease"].to_pylist()]
    held = _whole(now.moves) if leases else None
    if held is not None:
        moves.append(held.filter(pc.is_in(held["lease"], pa.array(leases, pa.int64()))))
    return [chunk for rows in (*items, *moves) for chunk in rows["seq"].chunks]


def source() -> ViewSource:
    """Return the views of a queue over files that this process reads."""
    return FileSource()

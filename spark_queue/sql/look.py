"""Questions about the items of a queue: both its logs, and views over them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import pyarrow as pa

from spark_queue.flow import has_pass
from spark_queue.log.heads import StatusHead
from spark_queue.log.log_columns import Columns, LogColumn
from spark_queue.log.schema import ITEM, QUEUE_COLUMNS, REFUSED, SCHEDULE, SHOWN, STATUS_COLUMNS
from spark_queue.rules.bounds import Played
from spark_queue.sql import limit_pass, log_rows
from spark_queue.sql.catalogue import NAME, SETTING_COLUMNS, leaves_of
from spark_queue.sql.sql_engines import LogRows, Tables, debts_of, give_order, taken_table
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store

if TYPE_CHECKING:
    from typing_extensions import Self

#: A table to the caller: a frame of Spark, or a table of Arrow.
FrameT = TypeVar("FrameT")

#: What views read of the row by which an item entered, and of a transition.
ENTERED = (
    *("_seq", "_gen", "_step", "_errors", "_dedup_key", "_duplicate_of", "_origin"),
    *SCHEDULE,
)
MOVES = (
    *("_kind", "_seq", "_gen", "_step", "_state", "_lease", "_attempts", "_losses", "_deferrals"),
    *("_claim_id", "_worker_id", "_at", "_lease_expires_at", "_error"),
    *("_available_at", "_expires_at", "_enqueued_at"),
)

#: What they read of a row of settings.
CONFIGURED = ("_step", "_at", "_worker_id", "_error", "_body")

#: What is shown of an item without the user's columns, in this order.
STATUS = (
    *("_seq", "_state", "_attempts", "_losses", "_deferrals", "_dedup_key", "_fair_key"),
    "_group_key",
    *SHOWN,
    *("_first_claimed_at", "_claimed_at", "_finished_at", "_lease", "_worker_id"),
    *("_lease_expires_at", "_error", "_origin", "_step", "_gen"),
)
#: The same in short: where an item is, how often it was tried, who has it, and what failed.
SHORT_STATUS = ("_seq", "_state", "_attempts", "_worker_id", "_error")

#: What is shown of a transition.
HISTORY = (
    *("_step", "_at", "_state", "_duplicate_of", "_origin", "_attempts", "_losses"),
    *("_deferrals", "_lease", "_claim_id", "_worker_id", "_lease_expires_at", "_available_at"),
    "_error",
)

#: What a row says of an item that comes to another state.
MOVED = ("_seq", "_gen", "_state", "_attempts", "_losses", "_deferrals", *SCHEDULE)

#: What columns of views are that no log has.
_MADE = [
    LogColumn("_successor", "bigint", "the newest item that it was redriven as"),
    LogColumn("_first_claimed_at", "timestamp", "when it was claimed first"),
    LogColumn("_claimed_at", "timestamp", "when it was claimed last"),
    LogColumn("_finished_at", "timestamp", "when it ended"),
]

#: What all columns of views are.
VIEWED = Columns(
    [*{c.name: c for c in (*QUEUE_COLUMNS.columns, *STATUS_COLUMNS.columns, *_MADE)}.values()]
)

#: The row of ``sq_asked``: what a question is about.
ASKED = pa.schema(
    [
        ("claim_id", pa.string()),
        ("now", pa.int64()),
        ("spared", pa.list_(pa.int64())),
        ("run", pa.int64()),
        ("max_age", pa.int64()),
        ("step", pa.int64()),
        ("since_step", pa.int64()),
        ("queue_step", pa.int64()),
        ("checkpoint_step", pa.int64()),
        ("reach", pa.float64()),
        ("since", pa.int64()),
        ("paused", pa.bool_()),
        *SETTING_COLUMNS,
    ]
)

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class QueueLook(ABC, Generic[FrameT]):
    """Both logs of a reader as tables of an engine, each read when a view needs it.

    Parameters
    ----------
    store : Store
        The queue, as the reader sees it.
    steps : tuple of int, optional
        The last steps of the item log and of the status log that are looked at.
    since, moved_since : int, optional
        The steps of the same after which they are; by default all that the reader sees.
    seq : int, optional
        The one item that is looked at, also if the reader does not see it.
    asked : mapping
        The row of ``sq_asked``.
    most : float
        Rows up to which each log is read.
    has_values : bool
        Whether the user's columns are shown.
    """

    #: Rows of the logs since a checkpoint.
    logs: LogRows[Any]

    #: Whether what is shown is read when it is used, and costs nothing before.
    is_lazy: ClassVar[bool] = False

    def __init__(
        self,
        store: Store,
        *,
        steps: tuple[int | None, int | None] = (None, None),
        since: int | None = None,
        moved_since: int = 0,
        seq: int | None = None,
        asked: Mapping[str, object] | None = None,
        most: float = float("inf"),
        has_values: bool = True,
    ) -> None:
        self.store = store
        self.queue_step, self.status_step = steps
        if since is None:
            since = store.registered().since_step if seq is None else 0
        self.since = since
        self.moved_since = moved_since
        self.seq = seq
        self.most = most
        self.has_values = has_values
        self._asked = dict(asked or {})
        self._there: set[str] = set()
        self._played: Played | None = None
        self.database = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget all tables."""
        self.database.close()

    def give(self, name: str, rows: Any) -> None:
        """Give a table a name."""
        self._there.add(name)
        self.database.give(name, rows)

    def share(self, name: str) -> None:
        """Give the rows of a view to several others."""
        self.give(name, self.table(name))

    def table(self, name: str, **variants: str) -> Any:
        """Return the rows of a view, in the engine's form; see :class:`Database`."""
        self._prepare(name, variants)
        return self.database.table(name)

    def rows(self, name: str, limit: int = 0, **variants: str) -> list[dict[str, Any]]:
        """Return the few rows of a view."""
        self._prepare(name, variants)
        found: list[dict[str, Any]] = self.database.rows(name, limit).to_pylist()
        return found

    def keep(self, name: str) -> None:
        """Compute a view once, as a table for later questions."""
        if name not in self._there:
            self._prepare(name, {})
            self.database.keep(name)
            self._there.add(name)

    def load(self, *leaves: str) -> None:
        """Read some tables that are no views."""
        for leaf in leaves:
            self.give(leaf, self._read(leaf))

    def query(self, text: str) -> list[dict[str, Any]]:
        """Return the few rows of a query over views."""
        self._load_for(NAME.findall(text))
        return self.database.query(text)

    def query_each(self, texts: Sequence[str]) -> list[list[dict[str, Any]]]:
        """Return the rows of several queries."""
        self._load_for(NAME.findall("\n".join(texts)))
        return self.database.query_each(texts)

    def find(
        self, name: str, limit: int = 0, columns: Sequence[str] = MOVED, **variants: str
    ) -> FrameT:
        """Return a view's items in order, computed, in the form of the status log."""
        self._prepare(name, variants)
        return self.show(self.database.find(name, limit), columns)

    def view(self, name: str, columns: Sequence[str] = STATUS, **variants: str) -> FrameT:
        """Return rows of a view as :meth:`show` does."""
        return self.show(self.table(name, **variants), columns)

    def in_parts(self) -> Iterator[Self]:
        """Return looks at some of the items each, in the order of ``seq``, as of the same steps."""
        yield self

    def join(self, parts: Iterable[FrameT], names: Sequence[str] = ()) -> FrameT:
        """Return rows of the parts together: with some columns, where the others are read again."""
        del names
        (whole,) = parts
        return whole

    def fold(self, at: Snapshot) -> None:
        """Give the open items as of a step: of the checkpoint, and later ones."""
        head, settings, priorities = at.status, at.settings, sorted(at.queue.tops)
        self.give("states", self.logs.states_of(self.store, head))
        for view in ("last_steps", "newest_rows"):
            self.database.keep(view)
            self._there.add(view)
        self._asked |= {
            "since_step": at.facts.since_step,
            "queue_step": at.queue.step,
            "checkpoint_step": head.checkpoint.queue_step,
        }
        give_order(self.give, head, settings, priorities)
        # What was touched keeps the times that its newest row has.
        self.give("times", log_rows.NO_TIMES)
        within = log_rows.Within(head, settings, None)
        self.give("entered", self.logs.entered_of(self.store, within))

    def _prepare(self, name: str, variants: Mapping[str, str]) -> None:
        self.database.variants |= variants
        self._load_for([name])

    def _load_for(self, tables: Sequence[str]) -> None:
        leaves = leaves_of(tables, self._there, self.database.variants)
        # The items last: all that a transition names have entered by then.
        self.load(*sorted(leaves, key=lambda leaf: leaf == "items"))

    def _read(self, leaf: str) -> Any:
        """Return a table that is no view."""
        read: Mapping[str, Callable[[], Any]] = {
            "asked": lambda: pa.Table.from_pylist([self._asked], ASKED),
            "states": self.moves,
            "written": lambda: self.step_rows(int(str(self._asked["step"]))),
            "sized": self.item_sizes,
            "configs": self.configs,
            "weights": lambda: self._order_of_service("weights"),
            "pointers": lambda: self._order_of_service("pointers"),
            **{name: partial(self._of_keys, name) for name in limit_pass.KEY_TABLES},
            "debts": lambda: debts_of(self.store, self._head(), self.logs, self._play),
            "taken": lambda: taken_table(self._play()),
            "items": lambda: self.entries(ITEM),
            "rejected": lambda: self.entries(REFUSED),
        }
        return read[leaf]()

    def _head(self) -> StatusHead:
        """Return the head of the last step that is looked at."""
        at = None if self.status_step is None else self.store.status.head_at(self.status_step)
        return at or self.store.status_head()

    def _play(self) -> Played:
        """Play a claim of any length, once, where bounds would make a difference to it.

        None is played as of a past instant, or where it is not asked.
        """
        if self._played is None:
            is_past = (self.queue_step, self.status_step) != (None, None)
            play = cast("Callable[[], Played]", self._asked.get("play", Played))
            meets = self._meets_bounds()
            self._played = play() if meets and not is_past else Played(judges_each=meets)
        return self._played

    def judges_each(self) -> bool:
        """Tell whether it was judged of each item by itself if it may start."""
        return self._played is not None and self._played.judges_each

    def _meets_bounds(self) -> bool:
        """Tell whether keys lack room for all that may start."""
        config = self.store.settings(self._head()).config
        if not has_pass(config) and config.max_in_flight is None:
            return False
        self.give("owed", debts_of(self.store, self._head(), self.logs, Played))
        return bool(self.rows("met_bounds", 1))

    def _of_keys(self, leaf: str) -> pa.Table:
        """Return what keeps keys back as of the last step that is looked at."""
        settings = self.store.settings(self._head())
        now = instant_of(int(str(self._asked["now"])))
        self.database.variants |= limit_pass.question_variants(
            settings, now, is_chained=self.store.queue_head().has_chains
        )
        return limit_pass.key_tables(settings, now)[leaf]

    def _order_of_service(self, leaf: str) -> pa.Table:
        """Return how tags map to turns, or which turn the order has come to."""
        head, priorities = self.store.status_head(), sorted(self.store.queue_head().tops)
        settings = self.store.settings(head)
        if leaf == "weights":
            return log_rows.weights_of(settings, priorities)
        if settings.config.fair_key is None:
            # In one line, in the order of seq, nothing is overdue.
            return log_rows.pointers_of({}, {}, [])
        return log_rows.pointers_of(head.pointers, head.checkpoint.pointers, priorities)

    def select(self, where: Any) -> None:
        """Give the items that an operator selects as ``sq_selected``; errors as for ``choose``."""
        self.give("selected", self.find_selected(where))

    @abstractmethod
    def find_selected(self, where: Any) -> Any:
        """Return the ``seq`` of each selected item, by all columns of the status."""

    @abstractmethod
    def _start(self) -> Tables:
        """Return the engine."""

    @abstractmethod
    def entries(self, kind: str) -> Any:
        """Return rows of the item log, with what leads to the user's columns as ``own``."""

    @abstractmethod
    def moves(self) -> Any:
        """Return the transitions of items, and the renewals of leases."""

    @abstractmethod
    def step_rows(self, step: int) -> Any:
        """Return all rows of a step of the status log."""

    @abstractmethod
    def configs(self) -> Any:
        """Return the rows by which the reader was configured."""

    @abstractmethod
    def item_sizes(self) -> Any:
        """Return the bytes of the items of ``turned``, or of all."""

    @abstractmethod
    def show(self, found: Any, columns: Sequence[str]) -> FrameT:
        """Return rows of a view under the log's names and types; items with the user's columns."""

    @abstractmethod
    def choose(self, found: FrameT, where: Any) -> FrameT:
        """Return the selected items."""

    @abstractmethod
    def facts_of(self, found: FrameT, names: Sequence[str] = MOVED) -> Any:
        """Return columns of shown rows in the form of views, computed once."""

    @abstractmethod
    def evaluate(self, found: FrameT) -> FrameT:
        """Return shown rows, computed once."""

    @abstractmethod
    def sample(self, found: FrameT, names: Sequence[str], count: int) -> list[Mapping[str, Any]]:
        """Return the first shown rows, with more of their columns."""

    @abstractmethod
    def rename(self, found: FrameT, names: Mapping[str, str], nothing: str | None) -> FrameT:
        """Return items as rows to enqueue: user's columns, and others under new names.

        Parameters
        ----------
        names : mapping
            The names of the log by those that the rows have.
        nothing : str, optional
            The one of the latter that is null.
        """


def newest_rows(
    look: Callable[..., QueueLook[FrameT]],
    store: Store,
    head: StatusHead,
    view: str,
    names: Sequence[str],
) -> FrameT:
    """Return columns of a view over the newest rows of items, as of a step."""
    with look(store) as at:
        at.give("states", at.logs.states_of(store, head))
        return at.show(at.table(view), names)


def instant_of(micros: int) -> datetime:
    """Return the instant of microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=micros)

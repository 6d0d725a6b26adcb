"""Assertions on a queue that read as sentences, and say what there is where they fail.

Each returns the items that it found, so that a test can look at them further. They read the queue
and change nothing; those of a reader see what the reader sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue import checks
from spark_queue.errors import InvalidArgumentError
from spark_queue.local_queue import LocalVerbs
from spark_queue.log.schema import (
    ACKED,
    CANCELLED,
    CLAIMED,
    DEAD,
    EXPIRED,
    READY,
    REFUSED,
    user_names,
)
from spark_queue.queue_views import store_of
from spark_queue.sql.file_rows import beside, rows_of
from spark_queue.sql.where import Where, choose, require_where
from spark_queue.state.store import Store
from spark_queue.views import views
from spark_queue.wording import shorten

#: What pytest shows of a failure ends at the line of the test, and not in here.
__tracebackhide__ = True

#: An item: the user's columns, its keys, its state and its times.
Item = dict[str, Any]

#: Items that a message shows at most.
_SHOWN = 20

#: Columns that are shown where some row has a value.
_SAID = ("_duplicate_of", "_attempts", "_losses", "_deferrals", "_error")

#: Characters of a value that a message shows at most.
_WIDE = 40

#: What a claim is by, and the order in which it gives its items.
_GRANT = ("_seq", "_step", "_state", "_lease", "_priority", "_turn")
_SERVICE = [("_step", "ascending"), ("_rank", "ascending"), ("_turn", "ascending")]


def assert_enqueued(
    queue: LocalVerbs, where: Where | None = None, /, *, count: int | None = None, **columns: object
) -> list[Item]:
    """Assert that items were enqueued, in any state.

    Parameters
    ----------
    queue : LocalQueue or LocalReader
        The queue.
    where : dict, pyarrow.compute.Expression or str, optional
        Which items, as :meth:`LocalQueue.cancel` takes them.
    count : int, optional
        How many; by default at least one.
    **columns
        Which items, by the values of columns: ``path="a"``, or ``path=["a", "b"]`` for either.

    Returns
    -------
    list of dict
        The items, in the order in which they were enqueued.

    Raises
    ------
    AssertionError
        When there are more or fewer. It shows the items that there are.
    InvalidArgumentError
        When a column is unknown, or cannot have the value.
    """
    return _Seen(queue).require("enqueued", (), where, columns, count)


def assert_ready(
    queue: LocalVerbs, where: Where | None = None, /, *, count: int | None = None, **columns: object
) -> list[Item]:
    """Assert that items wait, whether they may run now or not; as :func:`assert_enqueued`."""
    return _Seen(queue).require("ready", (READY,), where, columns, count)


def assert_claimed(
    queue: LocalVerbs, where: Where | None = None, /, *, count: int | None = None, **columns: object
) -> list[Item]:
    """Assert that items are claimed; as :func:`assert_enqueued`."""
    return _Seen(queue).require("claimed", (CLAIMED,), where, columns, count)


def assert_done(
    queue: LocalVerbs, where: Where | None = None, /, *, count: int | None = None, **columns: object
) -> list[Item]:
    """Assert that items were acked; as :func:`assert_enqueued`."""
    return _Seen(queue).require("done", (ACKED,), where, columns, count)


def assert_dead(
    queue: LocalVerbs,
    where: Where | None = None,
    /,
    *,
    count: int | None = None,
    error: str | None = None,
    **columns: object,
) -> list[Item]:
    """Assert that items are dead letters; as :func:`assert_enqueued`.

    Parameters
    ----------
    queue, where, count, **columns
        As for :func:`assert_enqueued`.
    error : str, optional
        A part of the text of their error.
    """
    return _Seen(queue).require("dead", (DEAD,), where, columns, count, error)


def assert_cancelled(
    queue: LocalVerbs, where: Where | None = None, /, *, count: int | None = None, **columns: object
) -> list[Item]:
    """Assert that items were cancelled; as :func:`assert_enqueued`."""
    return _Seen(queue).require("cancelled", (CANCELLED,), where, columns, count)


def assert_expired(
    queue: LocalVerbs, where: Where | None = None, /, *, count: int | None = None, **columns: object
) -> list[Item]:
    """Assert that items expired, and that it was logged, as ``maintain`` does.

    Parameters and errors are those of :func:`assert_enqueued`.
    """
    return _Seen(queue).require("expired", (EXPIRED,), where, columns, count)


def assert_refused(
    queue: LocalVerbs, where: Where | None = None, /, *, count: int | None = None, **columns: object
) -> list[Item]:
    """Assert that rows were refused, as their key was taken; as :func:`assert_enqueued`.

    Returns
    -------
    list of dict
        The rows: the user's columns, ``_seq``, ``_dedup_key`` and ``_duplicate_of``.
    """
    seen = _Seen(queue)
    kept = [*seen.users, "_seq", "_dedup_key", "_duplicate_of"]
    rows = rows_of(seen.store, "queue", ["_step", *kept], kind=REFUSED)
    rows = rows.filter(pc.greater(rows["_step"], seen.store.registered().since_step))
    rows = rows.select(kept).sort_by("_seq")
    found = _select(seen.store, rows, where, columns)
    told = _describe("refused", where, columns, None)
    _require(found, count, told, lambda: seen.show(rows, found, "refused"))
    return _items(found)


def assert_empty(queue: LocalVerbs) -> None:
    """Assert that no item is ready or claimed.

    Raises
    ------
    AssertionError
        When there are items left. It shows them.
    """
    seen = _Seen(queue)
    left = seen.rows.filter(pc.is_in(seen.rows["_state"], pa.array([READY, CLAIMED])))
    if left.num_rows:
        head = f"{queue.name!r} is not empty: {_of(left.num_rows, 'item')} left"
        raise AssertionError(f"{head}. {seen.show(seen.rows, left)}")


def assert_order(
    queue: LocalVerbs, where: Where | None = None, /, **column: Sequence[object]
) -> list[Item]:
    """Assert in which order items were claimed: ``assert_order(queue, path=["a", "b"])``.

    An item that was claimed again, because it failed or was lost, is there as often.

    Parameters
    ----------
    queue : LocalQueue or LocalReader
        The queue.
    where : dict, pyarrow.compute.Expression or str, optional
        Only these items, as :meth:`LocalQueue.cancel` takes them.
    **column
        One column, and its values in the order of the claims.

    Returns
    -------
    list of dict
        The items, in that order.

    Raises
    ------
    AssertionError
        When the order is another. It shows the order that there was.
    InvalidArgumentError
        When not one column is named, or it is unknown, or what it is to be is no list.
    """
    name, wanted = _one_column(column)
    seen = _Seen(queue)
    if name not in seen.rows.column_names:
        # What names it says which columns there are.
        choose(seen.store, seen.rows, {name: None})
    served = seen.claim_order()
    kept = served.filter(
        pc.is_in(served["_seq"], _select(seen.store, seen.rows, where, {})["_seq"])
    )
    found = kept[name].to_pylist()
    if found != list(wanted):
        raise AssertionError(
            f"{queue.name!r} gave its items out in another order by {name}{_only(where)}:\n"
            f"    wanted: {_list(wanted)}\n    was:    {_list(found)}\n"
            f"    {_first_difference(wanted, found)}"
        )
    return _items(kept)


class _Seen:
    """A queue as an assertion sees it."""

    def __init__(self, queue: LocalVerbs) -> None:
        if not isinstance(queue, LocalVerbs):
            raise InvalidArgumentError(
                f"queue is a {type(queue).__name__}: give a LocalQueue, as memory_queue makes it, "
                "or spark_queue.open(path) of a queue on this machine's disk"
            )
        self.name = queue.name
        self.store: Store = store_of(queue)
        self.rows: pa.Table = views.ARROW_VIEWS.status(self.store)
        self.users: list[str] = [*user_names(self.store.columns())]

    def require(
        self,
        what: str,
        states: Sequence[str],
        where: Where | None,
        columns: Mapping[str, object],
        count: int | None,
        error: str | None = None,
    ) -> list[Item]:
        """Return the matching items in some states, if they are as many as wanted."""
        found = _select(self.store, self.rows, where, columns)
        if states:
            found = found.filter(pc.is_in(found["_state"], pa.array(states)))
        if error is not None:
            checks.require_text("error", error)
            checks.require_utf8("error", error)
            found = found.filter(pc.fill_null(pc.match_substring(found["_error"], error), False))
        told = _describe(what, where, columns, error)
        _require(found, count, told, lambda: self.show(self.rows, found))
        return _items(found)

    def claim_order(self) -> pa.Table:
        """Return the items in the order in which they were claimed."""
        moves = rows_of(self.store, "status", _GRANT)
        granted = pc.and_(
            pc.equal(moves["_state"], CLAIMED), pc.equal(moves["_lease"], moves["_step"])
        )
        moves = moves.filter(pc.fill_null(granted, False))
        moves = moves.append_column("_rank", pc.negate(moves["_priority"]))
        moves = moves.sort_by([*_SERVICE, ("_seq", "ascending")])
        return beside(self.rows, moves["_seq"])

    def show(self, rows: pa.Table, found: pa.Table, what: str = "enqueued") -> str:
        """Return rows as text: a line each, with a mark at the rows found."""
        if not rows.num_rows:
            return f"Nothing was {what} in {self.name!r}."
        names = [name for name in ("_seq", "_state", *self.users) if name in rows.column_names]
        names += [name for name in _SAID if _says(rows, name)]
        marked = set(found["_seq"].to_pylist())
        lines = [["", *names]]
        for row in rows.slice(0, _SHOWN).select(names).to_pylist():
            mark = "*" if row["_seq"] in marked else ""
            lines.append([mark, *(_short(value) for value in row.values())])
        left = rows.num_rows - _SHOWN
        tail = f"\n    and {_of(left, 'more row')}" if left > 0 else ""
        return f"{self.name!r} has:\n{_align(lines)}{tail}"


def _select(
    store: Store, rows: pa.Table, where: Where | None, columns: Mapping[str, object]
) -> pa.Table:
    if where is not None:
        require_where(where)
    named = rows if where is None else choose(store, rows, where)
    return choose(store, named, columns)


def _require(found: pa.Table, count: int | None, told: str, shown: Callable[[], str]) -> None:
    """Raise where the number of items found is not the wanted one."""
    if not (isinstance(count, int) and count == 0):
        checks.optional(checks.require_count, "count", count)
    if found.num_rows == count or (count is None and found.num_rows):
        return
    wanted = "at least 1 item" if count is None else _of(count, "item")
    raise AssertionError(f"wanted {wanted} {told}, found {found.num_rows or 'none'}. {shown()}")


def _describe(
    what: str, where: Where | None, columns: Mapping[str, object], error: str | None
) -> str:
    named = [f"{name}={value!r}" for name, value in columns.items()]
    if error is not None:
        named.append(f"an error that has {shorten(error)} in it")
    with_them = f" with {' and '.join(named)}" if named else ""
    return f"{what}{with_them}{_only(where)}"


def _only(where: Where | None) -> str:
    return "" if where is None else f" of those where {where}"


def _one_column(column: Mapping[str, Sequence[object]]) -> tuple[str, Sequence[object]]:
    if len(column) != 1:
        raise InvalidArgumentError(
            f"{_of(len(column), 'column')} named: an order is that of one, as path=['a', 'b']"
        )
    ((name, wanted),) = column.items()
    if isinstance(wanted, str | bytes) or not isinstance(wanted, Sequence):
        raise InvalidArgumentError(
            f"{name} is {shorten(wanted)}: give its values in order, as a list"
        )
    return name, wanted


def _items(rows: pa.Table) -> list[Item]:
    items: list[Item] = rows.to_pylist()
    return items


def _says(rows: pa.Table, name: str) -> bool:
    """Whether a column says anything of any row."""
    if name not in rows.column_names:
        return False
    return any(value not in (None, 0) for value in rows[name].to_pylist())


def _first_difference(wanted: Sequence[object], found: Sequence[object]) -> str:
    for at, (one, other) in enumerate(zip(wanted, found, strict=False)):
        if one != other:
            return f"number {at + 1} was {other!r}, not {one!r}"
    less = len(wanted) - len(found)
    return f"{less} never came" if less > 0 else f"{-less} came beyond them"


def _list(values: Sequence[object]) -> str:
    shown = ", ".join(repr(value) for value in values[:_SHOWN])
    left = len(values) - _SHOWN
    return f"{shown or 'nothing'}{f', and {left} more' if left > 0 else ''}"


def _short(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= _WIDE else f"{text[: _WIDE - 1]}…"


def _align(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    rows = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )
    return "\n".join(f"  {row}".rstrip() for row in rows)


def _of(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"

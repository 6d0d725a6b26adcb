"""One queue, looked at again and again: only new rows are read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from spark_queue import checks
from spark_queue.errors import InvalidArgumentError
from spark_queue.flow import is_paced
from spark_queue.log.schema import user_names
from spark_queue.report import holders, reading
from spark_queue.report.lines import (
    ErrorGroup,
    FlowPoint,
    HeldGroup,
    Tenant,
    WorkerLine,
)
from spark_queue.report.model import HOUR, ItemReport, Report, SharedReport
from spark_queue.report.paced import read_tenants
from spark_queue.results import ItemProgress
from spark_queue.sql.where import require_where
from spark_queue.state.store import Store
from spark_queue.views.answers import Answer, Answers, Question, ViewSource, ends_at
from spark_queue.wording import shorten, without_unsafe

#: By what items are listed: what they share, by its digest (:func:`id_of`).
Shared = Literal["tenant", "group", "error", "worker"]

#: The panel that has a line of it, and the line's column that says what it is.
_PANELS: Mapping[Shared, tuple[str, str]] = {
    "tenant": ("tenants", "fair_key"),
    "group": ("groups", "group_key"),
    "error": ("errors", "wording"),
    "worker": ("workers", "worker_id"),
}

_Line = Tenant | HeldGroup | ErrorGroup | WorkerLine

#: The states of the items that are listed: finished ones need no more attention.
_LISTED = "state IN ('ready', 'claimed', 'dead')"

#: Column of a listed item with the digest of its worker or key.
_DIGEST: Mapping[Shared, str] = {
    "tenant": "tenant_id",
    "group": "group_id",
    "error": "error_id",
    "worker": "md5(concat('=', worker_id))",
}

#: The states by which items are found.
STATES = ("ready", "claimed", "dead", "acked", "expired", "cancelled")

_ID = re.compile(r"[0-9a-f]{32}")

#: Columns searched for a text.
_TEXTS = ("error", "worker_id", "dedup_key", "fair_key", "group_key")

#: What no text of SQL has to quote: any one character is in the place of what it has.
_ANY_ONE = str.maketrans(dict.fromkeys("'\"\\`$!", "_"))

#: What a text has that no literal of SQL may have, as sessions differ in what it means.
_QUOTED = frozenset("'\\$")

#: The user's columns that a list shows at most.
_SHOWN = 6


def id_of(text: str | None) -> str:
    """Return the digest of a fair key, a group or a wording, as the view ``listed`` has it."""
    whole = "" if text is None else f"={text}"
    return hashlib.md5(whole.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The items looked for: all of its conditions hold for them."""

    state: str = ""
    """One of :data:`STATES`; empty for any."""
    key: str = ""
    """The key by which it is distinct."""
    tenant: str = ""
    group: str = ""
    text: str = ""
    """A part of the error, the worker or a key; ``%`` is any text."""
    where: str = ""
    """A condition over the columns of the status, as ``cancel`` takes it."""
    after: int = 0
    """Only items that come later than this one."""

    def predicate(self) -> str:
        """Return it as a predicate over the view ``listed``, and ``selected`` for ``where``.

        Raises
        ------
        InvalidArgumentError
            When there is no such state.
        """
        if self.state and self.state not in STATES:
            raise InvalidArgumentError(
                f"state is {shorten(self.state)}: it must be one of {', '.join(STATES)}"
            )
        told = [f"seq > {self.after}"]
        told += [f"state = '{self.state}'"] if self.state else []
        told += [f"md5('=' || dedup_key) = '{id_of(self.key)}'"] if self.key else []
        told += [f"tenant_id = '{id_of(self.tenant)}'"] if self.tenant else []
        told += [f"group_id = '{id_of(self.group)}'"] if self.group else []
        told += ["seq IN (SELECT seq FROM sq_selected)"] if self.where else []
        if self.text:
            part = without_unsafe(self.text.lower().translate(_ANY_ONE), "_")
            likes = (f"lower({name}) LIKE '%{part}%'" for name in _TEXTS)
            told.append(f"({' OR '.join(likes)})")
        return " AND ".join(told)

    def command(self) -> str:
        """Return it as a condition that ``cancel`` takes; empty where none says the same.

        No condition means every item alike in all sessions that a text is part of, or that is
        equal to what has quotes.
        """
        keys = {"_dedup_key": self.key, "_fair_key": self.tenant, "_group_key": self.group}
        if self.text or any(_QUOTED & {*value} for value in keys.values()):
            return ""
        values = {"_state": self.state, **keys}.items()
        told = [f"{name} = '{value}'" for name, value in values if value]
        told += [f"({self.where})" if told else self.where] if self.where else []
        return " AND ".join(told)


class Followed:
    """A queue under repeated looks, each of which reads only new rows of the logs.

    Parameters and errors of its calls are those of :func:`~spark_queue.report.reading.read`. One
    thread at a time may use it.
    """

    def __init__(
        self, store: Store, window: timedelta = HOUR, source: ViewSource | None = None
    ) -> None:
        checks.require_duration("window", window)
        self._store, self._window = store, window
        self._source = source or reading.source_of(store)

    @property
    def store(self) -> Store:
        """The queue, as the reader sees it."""
        return self._store

    @property
    def source(self) -> ViewSource:
        """The source, for others that look at the same queue as another of its readers."""
        return self._source

    def __call__(self) -> Report:
        """Read a report."""
        return reading.read(self._store, window=self._window, source=self._source)

    def item(self, seq: int) -> ItemReport:
        """Read what happened to an item, as :func:`~spark_queue.report.reading.read_item` does."""
        return reading.read_item(self._store, seq, source=self._source)

    def items(self, by: Shared, digest: str, most: int) -> SharedReport:
        """Read the first open and dead items that share something, and what a report says of it.

        Raises
        ------
        InvalidArgumentError
            When it is no digest.
        """
        if not _ID.fullmatch(digest):
            raise InvalidArgumentError(f"{by} is {digest!r}: it must be 32 hexadecimal digits")
        with self._over(self._window) as (answers, asked):
            about = tuple(self._about(answers, asked, by, digest))
            where = f"{_LISTED} AND {_DIGEST[by]} = '{digest}'"
            return self._share(answers, asked, where, most, about)

    def find(self, wanted: Wanted, most: int) -> SharedReport:
        """Read the first items that are like that.

        Raises
        ------
        InvalidArgumentError, SparkNeededError
            When the condition is none, as for ``cancel``.
        """
        where = wanted.predicate()
        with self._over(self._window) as (answers, asked):
            if wanted.where:
                require_where(wanted.where)
                answers.select(wanted.where)
            return self._share(answers, asked, where, most)

    def flow(self, lasting: timedelta) -> tuple[FlowPoint, ...]:
        """Return items enqueued, ended and open, in sixty parts up to now."""
        with self._over(lasting) as (answers, _):
            return tuple(FlowPoint(**row) for row in answers.rows("flow"))

    @contextmanager
    def _over(self, window: timedelta) -> Iterator[tuple[Answers, Question]]:
        ends = ends_at(self._store, None)
        asked = reading.asked_of(self._store, ends, window)
        with self._source.over(self._store, ends, asked) as answers:
            yield answers, asked

    def _share(
        self,
        answers: Answers,
        asked: Question,
        where: str,
        most: int,
        about: tuple[_Line, ...] = (),
    ) -> SharedReport:
        rows = answers.rows("listed", where, most)
        directory = self._store.handle.place.directory()
        own = self._columns_of([row["seq"] for row in rows])
        progress = self._progress_of(answers, rows)
        return SharedReport(
            queue=self._store.name,
            reader=self._store.registered().name,
            as_of=asked.now,
            about=about,
            items=tuple(
                holders.item_line(
                    row, own.get(row["seq"], {}), progress.get(row["seq"]), directory, asked.now
                )
                for row in rows
            ),
        )

    def _progress_of(self, answers: Answers, rows: Sequence[Answer]) -> Mapping[int, ItemProgress]:
        """Return how far the work on items is, by ``seq``."""
        held = ", ".join(str(row["seq"]) for row in rows if row["why"] == "leased")
        if not held:
            return {}
        leases = {row["seq"]: row["lease"] for row in answers.rows("status", f"seq IN ({held})")}
        step = self._store.status_head().step
        return self._source.find_progress(self._store, leases, step)

    def _about(self, answers: Answers, asked: Question, by: Shared, digest: str) -> Iterator[_Line]:
        """Return the lines that the panel has; of a group there may be several."""
        panel, key = _PANELS[by]
        rows = answers.rows(panel)
        if by != "tenant":
            wanted = (row for row in rows if id_of(row[key]) == digest)
            yield from (_line_of(by, self._store, row, asked.now) for row in wanted)
            return
        paced = answers.rows("paced_keys") if is_paced(asked.config) else ()
        found = read_tenants(rows, asked, paced)
        yield from (one for one in found if id_of(one.fair_key) == digest)

    def _columns_of(self, seqs: Sequence[int]) -> Mapping[int, Mapping[str, Any]]:
        """Return the first of the user's columns, of some items; of keys a list has its own."""
        config = self._store.settings(self._store.status_head()).config
        keys = (config.fair_key, config.group_key)
        names = [name for name in user_names(self._store.columns()) if name not in keys]
        return self._source.find_entries(self._store, seqs, names[:_SHOWN]) if seqs else {}


def _line_of(
    by: Shared, store: Store, row: dict[str, Any], now: datetime
) -> HeldGroup | ErrorGroup | WorkerLine:
    if by == "error":
        return reading.error_group(store.name, store.registered().name, row)
    directory = store.handle.place.directory()
    if by == "worker":
        return holders.worker(row, directory, now)
    return holders.held_group(row, directory, now)


def follow(store: Store, window: timedelta = HOUR, source: ViewSource | None = None) -> Followed:
    """Return a reader of reports and pages."""
    return Followed(store, window, source)

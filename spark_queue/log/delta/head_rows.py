"""Rows of a log that are found by the statistics of its files: heads, settings, the last item."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Generic, NoReturn, TypeVar

from spark_queue.errors import QueueNotFoundError
from spark_queue.log.addresses import TableAddress
from spark_queue.log.delta.commits import LogFile
from spark_queue.log.delta.log_files import LogFiles
from spark_queue.log.heads import Head, UnknownHeadError
from spark_queue.log.schema import HEAD, META_LANE
from spark_queue.log.session_options import Session

_Head = TypeVar("_Head", bound=Head)
_Found = TypeVar("_Found")


class _StatisticsMissingError(LookupError):
    """Raised when the statistics of files do not say where a row is."""


def newest_text(log: LogFiles) -> str | None:
    """Return the text of the newest head; ``None`` where there is none."""
    files = _files(log)
    if not files:
        return None
    last = max(file.ranges["_step"][1] for file in files)
    heads = _rows(log, [file for file in files if file.ranges["_step"][1] == last], HEAD)
    if not heads:
        raise _StatisticsMissingError
    body: str = max(heads, key=lambda row: int(row["_step"]))["_body"]
    return body


def text_of(log: LogFiles, kind: str, step: int) -> str | None:
    """Return the text of the row of a kind and a step."""
    files = [file for file in _files(log) if file.may_have("_step", step, step)]
    rows = [row for row in _rows(log, files, kind) if row["_step"] == step]
    return rows[0]["_body"] if rows else None


def texts_of(log: LogFiles, kind: str, lane: int) -> list[str]:
    """Return the texts of all rows of a kind, in a lane."""
    return [row["_body"] for row in _rows(log, _files(log, lane), kind)]


def last_seq_of(log: LogFiles) -> int | None:
    """Return the highest seq of an item's row."""
    items = [file for file in log.files() if file.gen >= 0]
    if not all("_seq" in file.ranges for file in items):
        raise _StatisticsMissingError
    return max((file.ranges["_seq"][1] for file in items), default=0)


def _files(log: LogFiles, lane: int = META_LANE) -> list[LogFile]:
    """Return the files of a lane, by default the lane of heads."""
    files = [file for file in log.files() if file.gen == lane]
    if not all("_step" in file.ranges for file in files):
        raise _StatisticsMissingError
    return files


def _rows(log: LogFiles, files: Sequence[LogFile], kind: str) -> list[dict[str, Any]]:
    rows = log.rows_of(files, ("_kind", "_step", "_body")).to_pylist()
    return [row for row in rows if row["_kind"] == kind]


class HeadRows(LogFiles, Generic[_Head]):
    """Heads of a log, and rows of settings; a query finds those without statistics.

    Parameters
    ----------
    parse : callable
        Reads a head from the text of its row.
    """

    def __init__(
        self, session: Session, address: TableAddress, parse: Callable[[str], _Head]
    ) -> None:
        super().__init__(session, address)
        self.parse: Callable[[str], _Head] = parse

    @abstractmethod
    def exists(self) -> bool:
        """Tell whether there is a table at the address."""

    @abstractmethod
    def may_look(self) -> bool:
        """Tell whether its files are read here, so that statistics show where rows are."""

    @abstractmethod
    def why_spark(self) -> str:
        """Say why only Spark reads or writes its files."""

    def head(self, since: int = 0) -> _Head | None:
        """Return the newest head whose step is at least ``since``."""
        newest = self._find(
            lambda: self._parsed(newest_text(self)), lambda: self._query_head(since)
        )
        return newest if newest is not None and newest.step >= since else None

    def _parsed(self, text: str | None) -> _Head | None:
        """Read a head from the text of its row."""
        return None if text is None else self.parse(text)

    def head_at(self, step: int) -> _Head | None:
        """Return the head of one step."""
        return self._parsed(self.text(HEAD, step))

    def head_by(self, at: datetime) -> _Head | None:
        """Return the newest head that was committed at an instant or before."""
        heads = map(self.parse, self.texts(HEAD))
        before = [head for head in heads if datetime.fromisoformat(head.at) <= at]
        return max(before, key=lambda head: head.step, default=None)

    def is_empty(self) -> bool:
        """Tell whether the table has no row."""
        try:
            return self.head() is None
        except UnknownHeadError:
            return False

    def text(self, kind: str, step: int) -> str | None:
        """Return the text of the row of a kind and a step, in the lane of heads."""
        return self._find(lambda: text_of(self, kind, step), lambda: self._query_text(kind, step))

    def texts(self, kind: str, lane: int = META_LANE) -> list[str]:
        """Return the texts of all rows of a kind, in the lane of heads or another one."""
        at = kind, lane
        return self._find(lambda: texts_of(self, *at), lambda: self._query_texts(*at))

    def last_seq(self, step: int) -> int | None:
        """Return the highest seq of the items that steps up to one have named, or later ones."""
        return self._find(lambda: last_seq_of(self), lambda: self._query_last_seq(step))

    def _find(self, look: Callable[[], _Found], query: Callable[[], _Found]) -> _Found:
        return _find(look, query) if self.may_look() else query()

    def _query_head(self, since: int) -> _Head | None:
        self._refuse_query(since)

    def _query_text(self, kind: str, step: int) -> str | None:
        self._refuse_query(kind, step)

    def _query_texts(self, kind: str, lane: int) -> list[str]:
        self._refuse_query(kind, lane)

    def _query_last_seq(self, step: int) -> int | None:
        self._refuse_query(step)

    def _refuse_query(self, *_: object) -> NoReturn:
        if not self.exists():
            raise QueueNotFoundError(self.address.target)
        self._needs_spark("to read its tables", self.why_spark())


def _find(look: Callable[[], _Found], query: Callable[[], _Found]) -> _Found:
    """Return what files say, or else what a query says."""
    with suppress(_StatisticsMissingError):
        try:
            return look()
        except FileNotFoundError:
            # Merged meanwhile: the rows are in another file.
            return look()
    return query()

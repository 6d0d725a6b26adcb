"""Views of a queue as tables, for the data source."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa

from spark_queue.commands.rows import Enqueued
from spark_queue.data_source.options import flag, instant, number, open_queue, open_reader
from spark_queue.errors import InvalidArgumentError, did_you_mean
from spark_queue.queue_views import main_store_of
from spark_queue.report.model import Report
from spark_queue.sql.file_rows import parts_of
from spark_queue.views import views

#: Tables of a view, part by part; the first has its columns, and may have no rows.
_Parts = Iterator[pa.Table]

_Options = Mapping[str, str]

_TIME = pa.timestamp("us", "UTC")

#: What a field of a report is in a column, by its annotation; all others are texts.
_KINDS: Mapping[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "datetime": _TIME,
    "timedelta": pa.float64(),
    "tuple[int, ...]": pa.list_(pa.int64()),
}


def read(options: _Options) -> _Parts:
    """Read the view that options name.

    Raises
    ------
    InvalidArgumentError
        When there is none of the name.
    """
    return _view(options)(options)


def schema(options: _Options) -> pa.Schema:
    """Return the columns of a view, read as of step 1 where possible."""
    as_of = "1" if _name(options) in ("status", "dead") else options.get("asOf")
    # Spark writes all names of options small.
    given = {**options} if as_of is None else {**options, "asOf": as_of}
    return next(read(given)).schema


def claim_schema(options: _Options) -> pa.Schema:
    """Return the columns of a stream of claims."""
    marks = [("_seq", pa.int64()), ("_lease", pa.int64()), ("_attempts", pa.int32())]
    return pa.schema([*open_queue(options).schema, *(pa.field(*mark) for mark in marks)])


def _name(options: _Options) -> str:
    return options.get("view") or ""


def _view(options: _Options) -> Callable[[_Options], _Parts]:
    name = _name(options)
    if name in PANELS:
        return lambda given: _panel(given, name)
    if name not in VIEWS:
        known = (*VIEWS, *PANELS)
        raise InvalidArgumentError(f"option view is {name!r}{did_you_mean(name, known)}")
    return VIEWS[name]


def _status(options: _Options) -> _Parts:
    yield open_reader(options).status(instant(options), short=flag(options, "short"))


def _dead(options: _Options) -> _Parts:
    yield open_reader(options).dead(instant(options))


def _history(options: _Options) -> _Parts:
    yield open_reader(options).history(number(options, "seq", int) if "seq" in options else None)


def _items(options: _Options) -> _Parts:
    queue = open_queue(options)
    names = [*queue.schema.names, "_seq", "_step"]
    for part in parts_of(main_store_of(queue), "queue", names):
        yield part.select(names)


def _outcomes(options: _Options) -> _Parts:
    queue, step = open_queue(options), number(options, "step", int)
    done = Enqueued(step=step, inserted=0, duplicates=0)
    yield views.outcomes(main_store_of(queue), done)


VIEWS: Mapping[str, Callable[[_Options], _Parts]] = {
    "status": _status,
    "dead": _dead,
    "history": _history,
    "items": _items,
    "outcomes": _outcomes,
}


def _lines() -> dict[str, type[Any]]:
    """Return the panels of a report, each with what one line of it is."""
    found: dict[str, type[Any]] = {}
    for name, hint in typing.get_type_hints(Report).items():
        line = next(iter(typing.get_args(hint)), hint)
        if isinstance(line, type) and is_dataclass(line):
            found[name] = line
    return found


PANELS = _lines()


def _panel(options: _Options, name: str) -> _Parts:
    found = getattr(open_reader(options).report(instant(options)), name)
    lines, line = found if isinstance(found, tuple) else (found,), PANELS[name]
    kinds = {one.name: _kind(one) for one in fields(line)}
    columns = [
        pa.array([_plain(getattr(one, column), kind) for one in lines], kind)
        for column, kind in kinds.items()
    ]
    yield pa.table(columns, schema=pa.schema(list(kinds.items())))


def _kind(field: Field[Any]) -> pa.DataType:
    # Classes of annotations may not be loaded: the text says enough.
    return _KINDS.get(str(field.type).removesuffix(" | None"), pa.string())


def _plain(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, tuple):
        return list(value)
    return str(value) if value is not None and pa.types.is_string(kind) else value

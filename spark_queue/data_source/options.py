"""Options of the data source."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from spark_queue.errors import InvalidArgumentError
from spark_queue.log.addresses import is_on_object_store
from spark_queue.wording import shorten

if TYPE_CHECKING:
    from spark_queue.local_queue import LocalQueue, LocalReader
    from spark_queue.views.answers import AsOf

_T = TypeVar("_T", int, float)

#: The name under which the source is known to Spark.
FORMAT = "spark_queue"

#: How options of an object store begin.
_STORAGE = "storage."


def open_queue(options: Mapping[str, str]) -> LocalQueue:
    """Open the queue that options name, without a session: the processes of a source have none.

    Raises
    ------
    InvalidArgumentError
        When they name none, or one that only a session reaches.
    """
    from spark_queue.local_queue import LocalQueue  # noqa: PLC0415 - a class that is pickled

    path = options.get("path")
    if not path:
        raise InvalidArgumentError(
            f"format({FORMAT!r}) has no path: name the queue, as in load('/data/files')"
        )
    storage = _storage_of(options)
    is_far = bool(storage) or is_on_object_store(path)
    if not is_far and ("/" not in path or "://" in path):
        raise InvalidArgumentError(
            f"format({FORMAT!r}) has the path {path!r}, which only a session of Spark reaches: use "
            "DeltaQueue.open(spark, ...), whose verbs give frames, and for a stream foreachBatch "
            "with enqueue(batch=(source, number)), see docs/streams.md"
        )
    return LocalQueue.open(path, storage=storage if is_far else None)


def _storage_of(options: Mapping[str, str]) -> dict[str, Any]:
    """Return what options say of an object store; a dot leads into a mapping of the mapping."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name.startswith(_STORAGE):
            *within, last = name.removeprefix(_STORAGE).split(".")
            into = found
            for part in within:
                into = into.setdefault(part, {})
            into[last] = value
    return found


def open_reader(options: Mapping[str, str]) -> LocalQueue | LocalReader:
    """Open the queue as the reader sees it that options name, the default one by default."""
    queue, name = open_queue(options), options.get("reader")
    return queue.open_reader(name) if name else queue


def number(options: Mapping[str, str], name: str, kind: type[_T], default: _T | None = None) -> _T:
    """Return the number of an option.

    Raises
    ------
    InvalidArgumentError
        When it is none, or there is no option and no default.
    """
    text = options.get(name)
    if text is None and default is not None:
        return default
    try:
        return kind(str(text))
    except ValueError:
        asked = "is not given" if text is None else f"is {shorten(text)}"
        raise InvalidArgumentError(f"option {name} {asked}: it must be a number") from None


def flag(options: Mapping[str, str], name: str) -> bool:
    """Return whether an option is true; it is false where it is not given.

    Raises
    ------
    InvalidArgumentError
        When it is neither.
    """
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise InvalidArgumentError(f"option {name} is {shorten(text)}: it must be true or false")
    return text == "true"


def instant(options: Mapping[str, str]) -> AsOf:
    """Return the step, or the instant, that a view looks back at; ``None`` for now.

    Raises
    ------
    InvalidArgumentError
        When it is neither.
    """
    text = options.get("asOf")
    if text is None:
        return None
    try:
        return int(text) if text.isdecimal() else datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgumentError(
            f"option asOf is {shorten(text)}: give a step of the status log, or an instant with "
            "its offset, as in 2026-03-01T09:00:00+00:00"
        ) from None

"""The logs of a queue that are written without Spark, as far as a process has opened them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spark_queue.delta.tables import made
from spark_queue.delta.tables.local_log import LocalLog
from spark_queue.delta.tables.local_place import local_directory
from spark_queue.delta.tables.log import Log
from spark_queue.errors import InvalidArgumentError, SparkNeededError


class Natives:
    """The logs of one queue that are written natively, each opened when it is first written."""

    def __init__(self) -> None:
        self._logs: dict[str, LocalLog] = {}
        self._plain: dict[Path, LocalLog] = {}

    def plain(self, directory: Path) -> LocalLog | None:
        """Return the log in a directory, or ``None`` where Spark has to write it."""
        known = self._plain.get(directory)
        if known is None and (known := _plain(directory)) is not None:
            self._plain[directory] = known
        try:
            return known if known is not None and known.is_plain() else None
        except SparkNeededError:
            return None

    def is_stuck(self) -> bool:
        """Tell whether a thread that is gone holds one of the logs."""
        return any(log.is_stuck() for log in (*self._logs.values(), *self._plain.values()))

    def of(self, log: Log[Any]) -> LocalLog:
        """Return the same log, written natively."""
        name = log.address.target
        if name not in self._logs:
            self._logs[name] = LocalLog(_directory(log))
        self._logs[name].require_appends()
        return self._logs[name]


def _plain(directory: Path) -> LocalLog | None:
    if not made.is_installed() or "%" in str(directory):
        return None
    try:
        log = LocalLog(directory)
    except SparkNeededError:
        return None
    return log if log.is_plain() else None


def _directory(log: Log[Any]) -> Path:
    directory = local_directory(log.location())
    if directory is None:
        raise InvalidArgumentError(
            f"native is True, and {log.address.target!r} is not on this machine's disk: on a "
            "shared store steps are committed by Spark"
        )
    if "%" in str(directory):
        raise InvalidArgumentError(
            f"native is True, and deltalake takes the % in {str(directory)!r} for an escape: use "
            "another path, or let Spark commit"
        )
    return directory

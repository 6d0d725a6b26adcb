"""Names of the objects of a table, and which of them may go."""

from __future__ import annotations

from collections.abc import Collection

from spark_queue.log.delta.commits import OURS, name_of
from spark_queue.log.disk.leftover_files import Ages
from spark_queue.log.storage import Storage

LOG = "_delta_log"
LAST = f"{LOG}/_last_checkpoint"

#: Seconds for which a commit is kept that is summed up, as Delta's own default has it.
_LOG_KEPT = 30 * 86_400.0


def commit_name(version: int) -> str:
    """Return the object that a version of a table is, or will be."""
    return f"{LOG}/{name_of(version)}"


def summary_name(version: int) -> str:
    """Return the object of a checkpoint."""
    return f"{LOG}/{version:020}.checkpoint.parquet"


def names_of(version: int, summed: int, files: Collection[str]) -> set[str]:
    """Return the objects of a table that are known by its versions and files."""
    summaries = [LAST, summary_name(summed)] if summed else []
    return {*map(commit_name, range(max(version, 0) + 1)), *summaries, *files}


def may_go(name: str, age: float, summed: int, ages: Ages) -> bool:
    """Return whether an object without a commit is old enough to go.

    Parameters
    ----------
    summed : int
        The version of the newest checkpoint.
    """
    if not name.startswith(f"{LOG}/"):
        return age >= ages.others
    version = name.rpartition("/")[2][:20]
    return version.isdecimal() and int(version) < summed and age >= _LOG_KEPT


def leftovers(
    storage: Storage, named: Collection[str], summed: int, ages: Ages, *, is_log: bool
) -> list[str]:
    """Return the objects that no commit names, and the commits that are summed up, if they may go.

    Parameters
    ----------
    named : collection of str
        The files that commits name.
    summed : int
        The version of the newest checkpoint.
    is_log : bool
        Whether all objects of the storage are the table's own.
    """
    begins = ("",) if is_log else (f"{LOG}/", OURS)
    kept, now = {commit_name(0), *named}, storage.now()
    return [
        name
        for name, at in storage.list().items()
        if name not in kept
        and name.startswith(begins)
        and may_go(name, (now - at).total_seconds(), summed, ages)
    ]

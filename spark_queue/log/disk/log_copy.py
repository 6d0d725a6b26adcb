"""A log on this machine's disk made twice: another table, with an id of its own, of the same files.

The files of rows never change, so both may have them under two names; where that cannot be, on
another file system, they are copied. What one of them removes later is gone for that one alone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from spark_queue.errors import InvalidArgumentError
from spark_queue.log.delta.commits import PARTITION
from spark_queue.log.delta.integrity import naming
from spark_queue.log.delta.log import APP_ID
from spark_queue.log.delta.table_properties import Protocol
from spark_queue.log.disk.append_files import Appending, written_statistics
from spark_queue.log.disk.delta_rs import added_files, opened, telling
from spark_queue.log.disk.disk_storage import DiskStorage
from spark_queue.log.disk.fsync import sync_commits, sync_directory, sync_file
from spark_queue.log.heads import QueueHead, StatusHead


def copy(directory: Path, to: Path, head: QueueHead | StatusHead, *, is_synced: bool) -> None:
    """Make a table that shares the current files of another.

    The caller has the right to write to the one that is there.

    Parameters
    ----------
    directory : Path
        Where that is.
    to : Path
        Where the new one is to be.
    head : QueueHead or StatusHead
        The newest head of the log, whose step is the new table's, too.
    is_synced : bool
        Whether it survives a power cut when this returns.

    Raises
    ------
    InvalidArgumentError
        When the table has features of Delta's that a second one would not have.
    """
    from deltalake import DeltaTable  # noqa: PLC0415 - takes a while

    table = opened(directory)
    protocol = Protocol.of(table.protocol())
    settings = table.metadata().configuration
    if not (protocol.is_read() and protocol.is_written(settings)) or protocol.list_asking(settings):
        raise InvalidArgumentError(
            f"the table at {str(directory)!r} has features of Delta's, and cannot be cloned here: "
            "copy its rows into a new queue"
        )
    with telling(to):
        DeltaTable.create(
            str(to),
            table.schema(),
            mode="error",
            partition_by=[PARTITION],
            configuration=dict(table.metadata().configuration),
            raise_if_key_not_exists=False,
        )
    with telling(directory):
        adds = [_add(fact) for fact in added_files(table, is_flat=False).to_pylist()]
    for add in adds:
        _share(directory / unquote(add["path"]), to / unquote(add["path"]), is_synced=is_synced)
    appending = Appending(place=DiskStorage(to), partition=PARTITION, ranged=())
    step = (APP_ID, head.step)
    appending.adopt(1, adds, transaction=step, metadata=head.token, is_synced=is_synced)
    if is_synced:
        sync_commits(to)


def _add(fact: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a commit says of a file, as the table that has it knows it."""
    count = fact["num_records"]
    stats = written_statistics(count, *(fact.get(name) for name in ("min", "max", "null_count")))
    return {
        "path": fact["path"],
        "partitionValues": {PARTITION: str(fact["partition"][PARTITION])},
        "size": fact["size_bytes"],
        "modificationTime": fact["modification_time"],
        "dataChange": True,
        **({} if count is None else {"stats": stats}),
    }


def _share(file: Path, to: Path, *, is_synced: bool) -> None:
    """Give a file a second name, or else make a second file."""
    to.parent.mkdir(exist_ok=True)
    try:
        os.link(file, to)
    except OSError:
        with naming(file):
            source = file.open("rb")
        with source, to.open("wb") as copied:
            shutil.copyfileobj(source, copied)
        if is_synced:
            sync_file(to)
            sync_directory(to.parent)

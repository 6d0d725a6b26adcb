"""Checkpoints of a table's log on this machine's disk."""

from __future__ import annotations

import re
import shutil
import tempfile
import uuid
from pathlib import Path

from spark_queue.delta.tables.commits import name_of, newest_version
from spark_queue.delta.tables.forcing import sync_directory, sync_file
from spark_queue.delta.tables.rust import opened

_LAST = "_last_checkpoint"
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\..*parquet")


def write_checkpoint(directory: Path) -> None:
    """Sum up the log of a table; the file is on the disk before it can be seen, and its name after.

    The library of Rust forces nothing, and a reader trusts the newest checkpoint that it finds. So
    it works on a copy of the commits since the checkpoint before, elsewhere.

    Raises
    ------
    FileDamagedError
        When a file of the log is not what was written.
    """
    log, newest = directory / "_delta_log", newest_version(directory, None) or 0
    parts = [path for path in log.glob("*.checkpoint*.parquet") if _CHECKPOINT.fullmatch(path.name)]
    last = max((path.name[:20] for path in parts), default="")
    # Of what a checkpoint sums up the commits may be gone.
    first = int(last) + 1 if last else 0
    if first > newest:
        # Another process has summed up all of it meanwhile.
        return
    wanted = [log / name_of(version) for version in range(first, newest + 1)]
    wanted += [path for path in parts if path.name.startswith(last)]
    with tempfile.TemporaryDirectory(prefix="spark-queue-") as place:
        draft = Path(place, "_delta_log")
        draft.mkdir()
        for path in wanted:
            shutil.copyfile(path, draft / path.name)
        table = opened(Path(place))
        table.create_checkpoint()
        for path in draft.glob(f"{table.version():020}.checkpoint*.parquet"):
            _put(path, log / path.name)
        _put(draft / _LAST, log / _LAST)


def _put(draft: Path, file: Path) -> None:
    """Put a file in its place, whole and at once."""
    new = file.with_name(f".{uuid.uuid4().hex}.tmp")
    try:
        new.write_bytes(draft.read_bytes())
        sync_file(new)
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)
    sync_directory(file.parent)

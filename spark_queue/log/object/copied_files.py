"""Files of the copy of a table."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from spark_queue.log.delta.integrity import naming, require_whole
from spark_queue.log.object.conditional_commits import files_of
from spark_queue.log.object.table_objects import commit_name

#: Seconds for which files stay that are not read any more.
_KEPT = 600.0


def keep(directory: Path, name: str, content: bytes) -> None:
    """Write an object into the copy, whole and at once."""
    file = directory / name
    file.parent.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".tmp", delete=False) as draft:
        draft.write(content)
    Path(draft.name).replace(file)


def keep_commit(directory: Path, url: str, version: int, text: bytes) -> None:
    """Write a commit into the copy, and the files that it has copies of.

    Raises
    ------
    FileDamagedError
        It is not whole.
    """
    with naming(f"{url}/{commit_name(version)}"):
        require_whole(text.decode())
    for name, content in files_of(text):
        if not (directory / name).exists():
            keep(directory, name, content)
    keep(directory, commit_name(version), text)


def shorten(directory: Path, version: int, live: Collection[str]) -> None:
    """Remove from the copy the commits before a checkpoint, and files that are not live."""
    kept = {directory / name for name in live}
    gone = [directory / commit_name(at) for at in range(1, version)]
    for path in [*gone, *(path for path in directory.glob("*.parquet") if path not in kept)]:
        # One that is younger may be about to be committed.
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _KEPT:
                path.unlink()

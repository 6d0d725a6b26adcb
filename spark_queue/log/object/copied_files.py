"""Files of the copy of a table."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

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


def shorten(directory: Path, version: int, live: Collection[str]) -> None:
    """Remove from the copy the commits before a checkpoint, and files that are not live."""
    kept = {directory / name for name in live}
    gone = [directory / commit_name(at) for at in range(1, version)]
    for path in [*gone, *(path for path in directory.glob("*.parquet") if path not in kept)]:
        # One that is younger may be about to be committed.
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _KEPT:
                path.unlink()

"""Objects of a table on a store: names, commits as conditional PUTs, and its copy here."""

from __future__ import annotations

import json
import tempfile
import time
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from spark_queue.errors import InvalidArgumentError
from spark_queue.log.delta import table_creation
from spark_queue.log.delta.commits import OURS, name_of
from spark_queue.log.delta.integrity import naming, read_actions, require_whole, seal
from spark_queue.log.disk import scratch
from spark_queue.log.disk.leftover_files import Ages
from spark_queue.log.object.pending_rows import TAKEN
from spark_queue.log.storage import Storage, require_exclusive_create

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


#: What a writer of such a table has to know. Others refuse a table with a feature that they do not
#: know; readers need not know it.
FEATURE = "sparkQueueConditionalCommits"

_NOTHING = nullcontext()

#: What to do where it is not the queue, but a table of its results.
LEAVE_IT = "Leave it to processes without Spark, or name another table"


@contextmanager
def writes(
    target: str,
    block: AbstractContextManager[None] = _NOTHING,
    way_out: str = "Open the queue with storage=",
) -> Iterator[None]:
    """Say in a block why Spark does not write to a table, where that is such a one.

    Raises
    ------
    InvalidArgumentError
        When it is; then nothing was written.
    """
    try:
        with block:
            yield
    except Exception as exc:
        if FEATURE in str(exc):
            raise InvalidArgumentError(
                f"{target!r} is on an object store, and its commits are conditional PUTs: Delta on "
                f"Spark would write over what was told. {way_out}"
            ) from exc
        raise


_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [FEATURE]}

#: Bytes of files up to which a commit has a copy of them: who follows it asks for no second object.
_SMALL = 65_536

_COPIES = "sparkQueueFiles"

_NONE: Mapping[str, tuple[int, int]] = MappingProxyType({})


def create_table(storage: Storage, schema: str, properties: Mapping[str, str]) -> None:
    """Make an empty table, unless one is there by now.

    Raises
    ------
    SetupError
        The storage writes over an object.
    """
    text, name = _first_text(schema, properties), f"_delta_log/{name_of(0)}"
    if storage.put_if_absent(name, text) == text:
        require_exclusive_create(storage, name)


def _first_text(schema: str, properties: Mapping[str, str]) -> bytes:
    """Return the commit that makes an empty table, which only this library writes."""
    with scratch.directory() as place:
        table_creation.make_table(place, schema, properties, ())
        text = (place / "_delta_log" / name_of(0)).read_text(encoding="utf-8")
    actions = [
        {"protocol": _PROTOCOL} if "protocol" in action else action for action in read_actions(text)
    ]
    return seal(actions).encode()


def text_of(
    actions: Sequence[Mapping[str, Any]],
    files: Mapping[str, bytes],
    taken: Mapping[str, tuple[int, int]] = _NONE,
) -> bytes:
    """Return a commit, with the pending rows in it, and a copy of its files, if they are small."""
    first, *others = actions
    if "commitInfo" in first and files and sum(map(len, files.values())) <= _SMALL:
        copies = {name: b64encode(content).decode() for name, content in files.items()}
        first = {"commitInfo": {**first["commitInfo"], _COPIES: copies}}
    if taken:
        first = {"commitInfo": {**first["commitInfo"], TAKEN: taken}}
    return seal([first, *others]).encode()


def files_of(text: bytes) -> Iterator[tuple[str, bytes]]:
    """Return the names and contents of files of which a commit has a copy."""
    first = text.partition(b"\n")[0]
    if _COPIES.encode() not in first:
        return
    copies = json.loads(first).get("commitInfo", {}).get(_COPIES, {})
    for name, content in copies.items():
        yield name, b64decode(content)


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

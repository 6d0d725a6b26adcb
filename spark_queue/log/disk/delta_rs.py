"""Delta tables on this machine's disk, opened by the library deltalake, and their checkpoints."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_queue.errors import (
    FileAccessError,
    FileDamagedError,
    FileGoneError,
    SetupError,
    SparkNeededError,
    SparkQueueError,
)
from spark_queue.log.delta.commits import name_of, newest_version, read_whole
from spark_queue.log.delta.integrity import COMMIT, naming, require_seal
from spark_queue.log.disk import scratch
from spark_queue.log.disk.forks import fork_error, require_unforked
from spark_queue.log.disk.fsync import put_file

if TYPE_CHECKING:
    from deltalake import DeltaTable


#: The last version of Delta's protocol for readers that have no features to know.
PLAIN_READER = 1

#: How often a table is opened, to which others commit meanwhile: a listing may miss one of two.
_TRIES = 3

#: What Rust raises for a defect of its own; it is a ``BaseException``, and has no module to import.
_PANIC = "PanicException"

#: How it says that a parent has used it, which may be by other code than ours.
_FORKED = "Forked process detected"

#: How Rust writes the number of an error of the system.
_NUMBER = re.compile(r"(?:os error |code: )(\d+)")

#: What the system says where it has no more of something.
_NO_MORE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC)

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*parquet")

#: Letters of an error that are worth a look.
_LONGEST = 300


def opened(directory: Path) -> DeltaTable:
    """Open the current version of a table.

    Raises
    ------
    SparkNeededError
        When its protocol asks more of a reader than deltalake knows.
    FileDamagedError
        When a file of its log is not what was written; it names the file.
    FileAccessError
        When the system refuses a file.
    SetupError
        When ``deltalake`` is not installed, or does not work in this process.
    """
    try:
        from deltalake import DeltaTable  # noqa: PLC0415 - takes a while
        from deltalake.exceptions import DeltaError  # noqa: PLC0415
    except ModuleNotFoundError as exc:
        raise SetupError(
            "deltalake, which spark-queue requires, is not installed: pip install deltalake"
        ) from exc
    with telling(directory):
        for left in range(_TRIES, 0, -1):
            try:
                table = DeltaTable(str(directory))
                break
            except DeltaError:
                if left == 1:
                    raise
    _require_seals(directory)
    return table


def added_files(table: DeltaTable, *, is_flat: bool = True) -> pa.Table:
    """Return what the log says of each file of a table."""
    # ``pa.table`` would ask whether they are a frame of pandas, and load it.
    return pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=is_flat)).read_all()


@contextmanager
def telling(directory: Path) -> Iterator[None]:
    """Turn errors of deltalake about a table into errors of this library; as :func:`opened`.

    It raises errors of its own, of Python and of Arrow, most of which do not name the file.
    """
    require_unforked()
    try:
        yield
    except SparkQueueError:
        raise
    except BaseException as exc:
        if isinstance(exc, Exception) or type(exc).__name__ == _PANIC:
            raise _cause(directory, exc) from exc
        raise


def _cause(directory: Path, exc: BaseException) -> SparkQueueError:
    # Behind the first line is where in Rust that was.
    said = str(exc).strip().partition("\n")[0][:_LONGEST]
    if said.startswith(_FORKED):
        return fork_error()
    found = _NUMBER.search(str(exc))
    number = int(found[1]) if found else 0
    if number not in _NO_MORE and (directory / "_delta_log").exists():
        try:
            _require_plain(directory)
        except SparkQueueError as cause:
            return cause
    if number:
        return FileAccessError(directory, number)
    if not directory.exists():
        return FileGoneError(directory)
    if type(exc).__name__ == _PANIC:
        return SetupError(
            f"deltalake, which reads the table at {str(directory)!r}, broke off: {said}; start "
            "the process again"
        )
    return FileDamagedError(directory, f"is a table that deltalake cannot read ({said})")


def _require_plain(directory: Path) -> None:
    """Read the log of a table, and name the first file that is damaged; as :func:`opened`."""
    names, summed, commits = _list_log(directory)
    log = directory / "_delta_log"
    _require_pointer(log, names)
    parts = [name for name in names if summed and name.startswith(f"{summed}.checkpoint")]
    found = [one for name in parts for one in _checkpoint(log / name)]
    found += [one for commit in commits for one in _commit(commit)]
    asked = [one for one in found if one["minReaderVersion"] > PLAIN_READER]
    if asked:
        features = ", ".join(asked[-1].get("readerFeatures") or ())
        why = (
            f"it asks its readers for {features}"
            if features
            else "it asks for more than plain reads"
        )
        raise SparkNeededError(f"the table at {str(directory)!r}", why)


def _require_seals(directory: Path) -> None:
    """Check the commits that no checkpoint has summed up, of which deltalake believes each bit."""
    for commit in _list_log(directory)[2]:
        # One that is gone was summed up meanwhile.
        with suppress(FileNotFoundError), naming(commit):
            require_seal(commit.read_text(encoding="utf-8"))


def _list_log(directory: Path) -> tuple[list[str], str, list[Path]]:
    """Return the names in a log, the version that is summed up, and the commits since."""
    log = directory / "_delta_log"
    with naming(log):
        names = sorted(os.listdir(log))  # noqa: PTH208 - thousands of names, of which few are wanted
    summed = max((match[1] for name in names if (match := _CHECKPOINT.fullmatch(name))), default="")
    commits = [log / name for name in names if COMMIT.fullmatch(name) and name[:20] > summed]
    return names, summed, commits


def _require_pointer(log: Path, names: list[str]) -> None:
    if "_last_checkpoint" in names:
        with naming(log / "_last_checkpoint"):
            text = (log / "_last_checkpoint").read_text(encoding="utf-8")
            summed = f"{int(json.loads(text)['version']):020}.checkpoint"
        if not any(name.startswith(summed) for name in names):
            raise FileGoneError(log / f"{summed}.parquet")


def _checkpoint(part: Path) -> list[Mapping[str, Any]]:
    """Return the protocols in a part of a checkpoint."""
    with naming(part):
        table = pq.ParquetFile(part).read()
        table.validate(full=True)
        known = table["protocol"].to_pylist() if "protocol" in table.column_names else []
        return [one for one in known if one]


def _commit(commit: Path) -> list[Mapping[str, Any]]:
    """Return the protocols in a commit."""
    with naming(commit):
        actions = read_whole(commit.read_text(encoding="utf-8"))
        return [act["protocol"] for act in actions if "protocol" in act]


_LAST = "_last_checkpoint"


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
    with scratch.directory() as place:
        draft = place / "_delta_log"
        draft.mkdir()
        for path in wanted:
            shutil.copyfile(path, draft / path.name)
        table = opened(place)
        table.create_checkpoint()
        for path in draft.glob(f"{table.version():020}.checkpoint*.parquet"):
            put_file(log / path.name, path.read_bytes())
        put_file(log / _LAST, (draft / _LAST).read_bytes())
